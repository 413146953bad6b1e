"""Collects the figures of all rounds, and checks the sinks' answers."""

from dataclasses import dataclass, field

from lab_env.lessons.recorded import SINKS
from lab_env.workbench.bench.config import RunConfig
from lab_env.workbench.bench.stream import Scenario, Stream


@dataclass
class Figures:
    """A run's figures from all rounds."""

    config: RunConfig
    sinks: tuple[str, ...] = SINKS
    rows: list[dict] = field(default_factory=list)  # one per figure, made by `add`
    freshness: list[dict] = field(default_factory=list)  # of `latency.figures`
    problems: list[str] = field(default_factory=list)  # that make the figures invalid
    cpu_seconds: dict[str, float] = field(default_factory=dict)  # including the warm-up

    def add(self, scenario: Scenario, sink: str, number: int, **metrics: float) -> None:
        """Add one sink's figures for one round."""
        for metric, value in metrics.items():
            row = {"scenario": scenario.name, "sink": sink, "round": number}
            self.rows.append(row | {"metric": metric, "value": value})

    def of(self, scenario: str, sink: str, metric: str) -> list[float]:
        """Return a metric's figures, one per round."""
        wanted = {"scenario": scenario, "sink": sink, "metric": metric}
        return [row["value"] for row in self.rows if wanted.items() <= row.items()]

    def metrics(self) -> list[str]:
        """Return the names of all metrics, in the order they were measured."""
        return list(dict.fromkeys(row["metric"] for row in self.rows))


def wrong_answers(stream: Stream, answers: dict[str, dict[str, list[int]]]) -> list[str]:
    """Compare the answers with the stream and between the sinks; describe each wrong one.

    Args:
        answers: number of rows and sum of their cents, by sink and query.
    """
    expected = stream.answers()
    problems = []
    for query in dict.fromkeys(query for of_sink in answers.values() for query in of_sink):
        by_sink = {sink: tuple(answers[sink][query]) for sink in answers}
        right = expected.get(query.partition(",")[0])
        if right is not None and set(by_sink.values()) != {right}:
            problems.append(f"{query}: the right answer is {right}, the sinks answer {by_sink}")
        elif len(set(by_sink.values())) > 1:
            problems.append(f"{query}: the sinks differ: {by_sink}")
    return problems
