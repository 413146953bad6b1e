"""A backlog to catch up on: how many rows a second each table takes, held against files and against defaults.

One stream, no queries but the one that proves the answer. The tables are measured twice a round: as the
course's pipeline writes them, and with the options of Hudi's quick start.
"""

from dataclasses import replace

from lab_env.measure.bench import fresh
from lab_env.measure.bench.machine import Comparison
from lab_env.measure.bench.rounds import FRESH, TIDY, Bench, Figures, Say, Size
from lab_env.measure.bench.stream import UNIFORM, Scenario
from lab_env.pipeline import options, session

TABLES = ("cow", "mor")
GOALS = {"cow": 0.3, "mor": 0.5}  # of the files' rows a second
QUICK_START = 2.0  # times its rows a second
RATE = "ingest rows/s"


def backlog_size(full: bool) -> Size:
    """The two sizes: a small one that shows that all works, and one to draw conclusions from."""
    size = Size(
        (Scenario(20, UNIFORM, load=20_000, batch=250_000, batches=2),),
        rounds=3,
        warm=0,
        pace=fresh.Pace((), seconds=0, trigger=1, rounds=0),
        queries={FRESH: ("aggregate",), TIDY: ()},
    )
    if full:
        return size
    return replace(
        size,
        scenarios=(Scenario(20, UNIFORM, load=1_000, batch=2_500, batches=1),),
        rounds=1,
        java_options=session.LESSON_JAVA_OPTIONS,
        warm_up=False,
    )


def catch_up(bench: Bench, chosen: Size, say: Say = print) -> tuple[list[Comparison], list[str]]:
    """Measure all sinks, and the tables with the quick start's options, in turn.

    Args:
        bench: the processes.
        chosen: how much.
        say: told what is going on.

    Returns:
        The comparisons, and what makes them worthless: answers that differ from the stream's.

    Raises:
        LabError: a sink failed.
    """
    once = replace(chosen, rounds=1)
    plain = replace(once, knob=options.QUICK_START)
    found: list[tuple[Figures, Figures]] = []
    for number in range(1, chosen.rounds + 1):
        say(f"round {number} of {chosen.rounds}: {_events(chosen):,} events, each table twice")
        found.append((bench.measure(once, _quiet), bench.measure(plain, _quiet, TABLES)))
    (scenario,) = chosen.scenarios

    def rates(which: int, sink: str) -> list[float]:
        return [pair[which].of(scenario.name, sink, RATE)[0] for pair in found]

    compared = [
        _comparison(f"{sink} as the pipeline writes it, {_events(chosen):,} events", "JSON files",
                    rates(0, sink), rates(0, "json"), GOALS[sink])
        for sink in TABLES
    ] + [
        _comparison(f"{sink} as the pipeline writes it", "quick-start options",
                    rates(0, sink), rates(1, sink), QUICK_START)
        for sink in TABLES
    ]  # fmt: skip
    problems = [problem for pair in found for figures in pair for problem in figures.problems]
    return compared, problems


def _events(chosen: Size) -> int:
    (scenario,) = chosen.scenarios
    return scenario.batch * scenario.batches


def _comparison(
    what: str, against: str, figures: list[float], baselines: list[float], goal: float
) -> Comparison:
    pairs = list(zip(figures, baselines, strict=True))
    return Comparison.of(
        "backlog", what, against, "rows/s", pairs, (f"{goal} or more", lambda ratio: ratio >= goal)
    )


def _quiet(line: str) -> None:
    pass
