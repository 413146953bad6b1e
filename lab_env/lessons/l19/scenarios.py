"""Nine minutes of made-up metrics, on which exercise 19.1 tries an alert.

Each scenario lasts 90 seconds, with a sample per second of every metric of the lesson. What is
wrong begins at second 20. The alert must ring by second 40, or never.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

SECONDS, WRONG_FROM, RINGS_BY = 90, 20, 40
LABELS = 'namespace="lesson-19",pipeline="orders"'
GONE, STALE = "_", "stale"  # in promtool's notation: no sample; the series has ended
At = Callable[[int], float]


def _calm(second: int) -> float:
    """Batches of three seconds: the oldest unread message is never older."""
    return second % 3


@dataclass(frozen=True)
class Scenario:
    """One course of events.

    Args:
        name: what happens, in a few words.
        rings: whether the alert has to ring.
        unread: age of the oldest unread message at a second of the scenario.
        behind: unread messages.
        last_commit: seconds since the newest commit.
        newest: age of the newest message that was read.
        exporter_until: the second in which the exporter dies.
        missing: seconds in which one scrape of the exporter got no answer.
        spark_until: the second from which Spark's own metrics are gone.
    """

    name: str
    rings: bool
    unread: At = _calm
    behind: At = field(default=lambda second: 20 * (second % 3))
    last_commit: At = _calm
    newest: At = _calm
    exporter_until: int = SECONDS + 1
    missing: tuple[int, ...] = ()
    spark_until: int = SECONDS + 1

    def series(self) -> list[dict[str, str]]:
        """All metrics as `input_series` of promtool."""
        outside = {
            "pipeline_oldest_unread_seconds": self.unread,
            "pipeline_last_commit_seconds": self.last_commit,
            "pipeline_newest_message_seconds": self.newest,
            'pipeline_lag_messages{partition="0"}': self.behind,
            'pipeline_up{part="topic"}': lambda second: 1,
            'pipeline_up{part="checkpoint"}': lambda second: 1,
            'pipeline_up{part="table"}': lambda second: 1,
        }
        rows = [_row(_labelled(name), self._outside(values)) for name, values in outside.items()]
        scraped = self._lives(lambda second: 1, self.exporter_until, after="0")
        rows.append(_row('up{job="pipeline",instance="exporter"}', scraped))
        inside = self._lives(lambda second: 1, self.spark_until, after="0")
        rows.append(_row('up{job="spark",instance="driver"}', inside))
        # The listener's number lives in the notebook: when Spark hangs, it stays as it was.
        reported = [str(0) for _ in range(SECONDS + 1)]
        rows.append(_row('shop_messages_behind{job="notebook",instance="notebook"}', reported))
        return rows

    def _outside(self, values: At) -> list[str]:
        found = self._lives(values, self.exporter_until, after=GONE)
        if self.exporter_until <= SECONDS:
            found[self.exporter_until] = STALE
        for second in self.missing:
            found[second] = STALE
        return found

    @staticmethod
    def _lives(values: At, until: int, after: str) -> list[str]:
        return [f"{values(s):g}" if s < until else after for s in range(SECONDS + 1)]


def _row(name: str, values: Sequence[str]) -> dict[str, str]:
    return {"series": name, "values": " ".join(values)}


def _labelled(name: str) -> str:
    """A metric of the exporter with the labels of the lesson's stream."""
    metric, _, more = name.rstrip("}").partition("{")
    labels = f"{LABELS},{more}" if more else LABELS
    return f'{metric}{{{labels},job="pipeline",instance="exporter"}}'


def _since(second: int) -> int:
    return max(0, second - WRONG_FROM)


def _hang(second: int) -> float:
    """The stream hangs for 50 seconds, and then reads all there is."""
    return _calm(second) if second < WRONG_FROM or second >= 70 else min(9, _since(second))


CALM = Scenario("an ordinary minute", rings=False)
NIGHT = Scenario(
    "03:00, nobody orders",
    rings=False,
    unread=lambda second: 0,
    behind=lambda second: 0,
    last_commit=lambda second: 3600 + second,
    newest=lambda second: 3600 + second,
)
SALE = Scenario(
    "a sale: 2,000 messages wait, the oldest for 4 s",
    rings=False,
    unread=lambda second: 4,
    behind=lambda second: 2000,
)
HICCUP = Scenario(
    "a hiccup of 2 s, and one scrape without an answer",
    rings=False,
    unread=lambda second: 7 if second in (30, 31) else _calm(second),
    missing=(50,),
)
HANG = Scenario(
    "the stream hangs",
    rings=True,
    unread=_hang,
    behind=lambda second: 20 * (second % 3) if second < WRONG_FROM else 300,
    last_commit=lambda second: _calm(second) if second < WRONG_FROM else _since(second),
    newest=lambda second: _calm(second) if second < WRONG_FROM else _since(second),
    spark_until=WRONG_FROM,
)
EXPORTER = Scenario("the exporter dies", rings=True, exporter_until=WRONG_FROM)
# False alarms first, because they are what people switch off.
SCENARIOS = (NIGHT, SALE, HICCUP, CALM, HANG, EXPORTER)


def question(begin: int, end: int) -> str:
    """PromQL: 1 if any alert fired between two seconds, else 0; to be asked at the second one."""
    fired = f'max_over_time(ALERTS{{alertstate="firing"}}[{end - begin}s])'
    return f"(count({fired}) > bool 0) or vector(0)"


@dataclass(frozen=True)
class Expectation:
    """That an alert fires in a span of time of a scenario, or that it does not.

    Args:
        scenario: what happens.
        begin: first second of the span.
        end: last second.
        fired: what is expected.
    """

    scenario: Scenario
    begin: int
    end: int
    fired: bool

    @property
    def other(self) -> "Expectation":
        """The opposite."""
        return replace(self, fired=not self.fired)


def expectation(scenario: Scenario) -> Expectation:
    """The alert rings in time, or never."""
    return Expectation(scenario, 0, RINGS_BY if scenario.rings else SECONDS, scenario.rings)


# When the stream has caught up, the alert ends.
ENDS = Expectation(HANG, SECONDS - 1, SECONDS, fired=False)


def test_file(expectations: Sequence[Expectation]) -> dict:
    """A file for `promtool test rules` that holds if all expectations do."""
    return {
        "evaluation_interval": "1s",
        "tests": [
            {
                "name": expected.scenario.name,
                "interval": "1s",
                "input_series": expected.scenario.series(),
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
