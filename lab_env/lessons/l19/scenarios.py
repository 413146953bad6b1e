"""Scenarios of made-up metrics, on which exercise 19.2 tests an alert.

Each scenario has 90 seconds of every metric of the lesson, with one sample per second. A problem
begins at second 20. The alert must fire by second 32, or must never fire.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

SECONDS, WRONG_FROM, RINGS_BY, MENDED = 90, 20, 32, 70
PIPELINE, OTHER_PIPELINE = "orders", "returns"
GONE, STALE = "_", "stale"  # in promtool's notation: no sample; the series has ended
At = Callable[[int], float]
Span = tuple[int, int]  # first second, and the one after the last
NEVER: Span = (SECONDS + 1, SECONDS + 1)


def _calm(second: int) -> float:
    """Return the oldest unread message's age if a batch runs every three seconds."""
    return second % 3


def _always(value: float) -> At:
    return lambda second: value


def _within(second: int, span: Span) -> bool:
    return span[0] <= second < span[1]


@dataclass(frozen=True)
class Scenario:
    """Made-up metrics over 90 seconds, and whether the alert must fire."""

    name: str
    rings: bool
    unread: At = _calm  # age of the oldest unread message by second of the scenario
    behind: At = field(default=lambda second: 20 * (second % 3))  # number of unread messages
    last_commit: At = _calm  # seconds since the newest commit, by second
    newest: At = _calm  # age of the newest message that was read, by second
    no_exporter: Span = NEVER  # seconds in which the exporter is dead
    no_broker: Span = NEVER  # seconds in which the exporter cannot read the topic
    missing: tuple[int, ...] = ()  # seconds in which one scrape of the exporter got no answer
    no_spark: Span = NEVER  # seconds in which Spark's own pages do not answer

    def series(self, namespace: str) -> list[dict[str, str]]:
        """Return all metrics as promtool's `input_series`, labelled with a lesson's namespace."""
        one, zero = _always(1), _always(0)
        of_topic = {
            "pipeline_oldest_unread_seconds": self.unread,
            "pipeline_newest_message_seconds": self.newest,
            'pipeline_lag_messages{partition="0"}': self.behind,
            'pipeline_expired_messages{partition="0"}': zero,
            'pipeline_clock_ahead_seconds{part="topic"}': zero,
        }
        of_table = {
            "pipeline_last_commit_seconds": self.last_commit,
            'pipeline_up{part="checkpoint"}': one,
            'pipeline_up{part="table"}': one,
            'pipeline_batch{recorded_in="checkpoint"}': one,
            'pipeline_batch{recorded_in="table"}': one,
            'pipeline_bytes{part="current"}': _always(50_000),
            "pipeline_file_slices": one,
            "pipeline_log_files": one,
            "pipeline_log_files_per_slice_max": one,
            "pipeline_pending_instants": zero,
            "pipeline_oldest_pending_seconds": zero,
            "pipeline_savepoints": zero,
            'pipeline_up{part="topic"}': lambda second: not _within(second, self.no_broker),
        }

        def of_exporter(name: str, values: list[str], space: str, pipeline: str) -> dict[str, str]:
            metric, _, more = name.rstrip("}").partition("{")
            labels = f'namespace="{space}",pipeline="{pipeline}"{more and ","}{more}'
            return _row(f'{metric}{{{labels},job="pipeline",instance="exporter"}}', values)

        def of_page(metric: str, job: str, values: list[str]) -> dict[str, str]:
            """Return a metric's row for one of the pages that the lesson adds."""
            labels = f'job="{job}",instance="{job}",namespace="{namespace}"'
            return _row(f"{metric}{{{labels}}}", values)

        rows = [
            of_exporter(name, self._outside(values, gone), namespace, PIPELINE)
            for metrics, gone in ((of_topic, self.no_broker), (of_table, NEVER))
            for name, values in metrics.items()
        ]
        # Another team's pipeline, which nobody looks after.
        late, other = self._outside(lambda second: 60 + second), f"{namespace}-2"
        return [
            *rows,
            _row('pipeline_watched{job="pipeline"}', self._outside(_always(2))),
            of_exporter("pipeline_oldest_unread_seconds", late, other, OTHER_PIPELINE),
            _row('up{job="pipeline",instance="exporter"}', _up(self.no_exporter)),
            of_page("up", "spark", _up(self.no_spark)),
            # The listener's number lives in the notebook: when Spark hangs, it stays as it was.
            of_page("up", "notebook", _up(NEVER)),
            of_page("shop_messages_behind", "notebook", ["0"] * (SECONDS + 1)),
        ]

    def _outside(self, values: At, also_gone: Span = NEVER) -> list[str]:
        """Return the exporter's samples, with gaps while it is unavailable."""
        found = []
        for second in range(SECONDS + 1):
            gone = second in self.missing or any(
                _within(second, span) for span in (self.no_exporter, also_gone)
            )
            first = gone and (not found or found[-1] not in (GONE, STALE))
            found.append(STALE if first else GONE if gone else f"{values(second):g}")
        return found


def _up(down: Span) -> list[str]:
    return [str(int(not _within(second, down))) for second in range(SECONDS + 1)]


def _row(name: str, values: Sequence[str]) -> dict[str, str]:
    return {"series": name, "values": " ".join(values)}


def _since(second: int) -> float:
    """Return the oldest unread message's age if the stream hangs for 50 s, then catches up."""
    hangs = WRONG_FROM <= second < MENDED
    return second - WRONG_FROM if hangs else _calm(second)


CALM = Scenario("an ordinary minute", rings=False)
NIGHT = Scenario(
    "03:00, nobody orders",
    rings=False,
    unread=_always(0),
    behind=_always(0),
    last_commit=lambda second: 3600 + second,
    newest=lambda second: 3600 + second,
)
MORNING = Scenario(
    "the first order after a quiet hour",
    rings=False,
    unread=lambda second: second - WRONG_FROM if WRONG_FROM <= second < WRONG_FROM + 5 else 0,
    behind=lambda second: int(WRONG_FROM <= second < WRONG_FROM + 5),
    last_commit=lambda second: second - 25 if second >= WRONG_FROM + 5 else 3600 + second,
    newest=lambda second: second - 20 if second >= WRONG_FROM + 5 else 3600 + second,
)
SALE = Scenario(
    "a sale: 2,000 messages wait, the oldest for less than 5 s",
    rings=False,
    unread=_always(4.9),
    behind=_always(2000),
)
HICCUP = Scenario(
    "a hiccup of 2 s, and one scrape without an answer",
    rings=False,
    unread=lambda second: 7 if second in (30, 31) else _calm(second),
    missing=(50,),
)
PAGES = Scenario("Spark's pages do not answer, the stream commits", rings=False, no_spark=(20, 40))
HANG = Scenario(
    "the stream hangs",
    rings=True,
    unread=_since,
    behind=lambda second: 300 if WRONG_FROM <= second < MENDED else 20 * (second % 3),
    last_commit=_since,
    newest=_since,
    no_spark=(WRONG_FROM, MENDED),
)
SLOW = Scenario(
    "a slow writer: the oldest message waits 6 s, for a minute",
    rings=True,
    unread=lambda second: 6 if WRONG_FROM <= second < MENDED else _calm(second),
)
EXPORTER = Scenario("the exporter dies", rings=True, no_exporter=(WRONG_FROM, SECONDS + 1))
BROKER = Scenario("Kafka does not answer", rings=True, no_broker=(WRONG_FROM, SECONDS + 1))

# False alarms first, because they are what people switch off.
SCENARIOS = (CALM, NIGHT, MORNING, SALE, HICCUP, PAGES, HANG, SLOW, EXPORTER, BROKER)


def question(begin: int, end: int) -> str:
    """Return PromQL to evaluate at second `end`: 1 if an alert fired since `begin`, else 0."""
    fired = f'max_over_time(ALERTS{{alertstate="firing"}}[{end - begin}s])'
    return f"(count({fired}) > bool 0) or vector(0)"


@dataclass(frozen=True)
class Expectation:
    """The expectation that an alert fires, or does not, between two seconds of a scenario."""

    scenario: Scenario
    begin: int
    end: int
    fired: bool

    @property
    def other(self) -> "Expectation":
        """The opposite expectation."""
        return replace(self, fired=not self.fired)


def expectation(scenario: Scenario) -> Expectation:
    """Return a scenario's expectation: the alert fires in time, or never."""
    return Expectation(scenario, 0, RINGS_BY if scenario.rings else SECONDS, scenario.rings)


# When the stream has caught up, the alert ends.
ENDS = Expectation(HANG, SECONDS - 1, SECONDS, fired=False)


def test_file(expectations: Sequence[Expectation], namespace: str) -> dict:
    """Return the content of a test file for `promtool test rules` that tests all expectations.

    `namespace` is the lesson's namespace, which labels its metrics.
    """
    return {
        "evaluation_interval": "1s",
        "tests": [
            {
                "name": expected.scenario.name,
                "interval": "1s",
                "input_series": expected.scenario.series(namespace),
                "promql_expr_test": [
                    {
                        "expr": question(expected.begin, expected.end),
                        "eval_time": f"{expected.end}s",
                        "exp_samples": [{"labels": "{}", "value": int(expected.fired)}],
                    }
                ],
            }
            for expected in expectations
        ],
    }
