"""A backlog to catch up on: how many rows a second each table takes, held against files and against defaults.

One stream, no queries but the one that proves the answer. In each round the tables are written with the
options of the course's pipeline, then with others.
"""

from dataclasses import replace

from lab_env.bench.machine import Comparison
from lab_env.bench.rounds import (
    BEFORE_TABLE_SERVICES,
    SINKS,
    Bench,
    Figures,
    Progress,
    RunConfig,
    rotated,
)
from lab_env.bench.stream import UNIFORM, Scenario
from lab_env.pipeline import options, session

TABLES = ("cow", "mor")
GOALS = {"cow": 0.3, "mor": 0.5}  # of the files' rows a second
QUICK_START = 2.0  # times its rows a second
RATE = "ingest rows/s"

PIPELINE, QUICK, PARQUET = "the pipeline's options", "quick-start options", "Parquet logs"
# Options on top of the pipeline's, and the sinks that are measured with them.
WAYS = {
    PIPELINE: ({}, SINKS),
    QUICK: (options.QUICK_START, TABLES),
    PARQUET: (options.PARQUET_LOGS, ("mor",)),
}


def backlog_size(full: bool) -> RunConfig:
    """The two sizes: a small one that shows that all works, and one to draw conclusions from."""
    size = RunConfig(
        (Scenario(20, UNIFORM, load=20_000, batch=250_000, batches=2),),
        rounds=2,
        warm=0,
        queries={BEFORE_TABLE_SERVICES: ("aggregate",)},
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


def catch_up(
    bench: Bench, chosen: RunConfig, report_progress: Progress = print
) -> tuple[list[Comparison], list[str]]:
    """Measure all sinks, and the tables with other options, in turn.

    Args:
        bench: the processes.
        chosen: how much.
        say: told what is going on.

    Returns:
        The comparisons, and what makes them worthless: answers that differ from the stream's.

    Raises:
        LabError: a sink failed.
    """
    (scenario,) = chosen.scenarios
    said = f"{scenario.batches} x {scenario.batch:,} events"
    if chosen.warm_up:
        # On batches of this kind a JVM still becomes faster for a minute.
        report_progress("a quarter of it that does not count ...")
        quarter = replace(scenario, batch=scenario.batch // 4)
        bench.measure(replace(chosen, rounds=1, scenarios=(quarter,)), _quiet)
    found: list[dict[str, Figures]] = []
    for number in range(chosen.rounds):
        report_progress(f"round {number + 1} of {chosen.rounds}: {said}, {len(WAYS)} ways")
        found.append(
            {
                way: bench.measure(
                    replace(chosen, rounds=1, extra_options=extra_options), _quiet, sinks
                )
                for way, (extra_options, sinks) in rotated(number, tuple(WAYS.items()))
            }
        )

    def compare(
        this: tuple[str, str], other: tuple[str, str], goal: float | None = None
    ) -> Comparison:
        """A sink and how it is written, against another."""
        rates = [
            [figures[way].of(scenario.name, sink, RATE)[0] for figures in found]
            for sink, way in (this, other)
        ]
        return Comparison.of(
            f"backlog of {said}",
            ", ".join(this),
            "JSON files" if other[0] == "json" else ", ".join(other),
            "rows/s",
            list(zip(*rates, strict=True)),
            (f"{goal} or more", lambda ratio: ratio >= goal) if goal else None,
        )

    compared = [
        *(compare((sink, PIPELINE), ("json", PIPELINE), GOALS[sink]) for sink in TABLES),
        *(compare((sink, PIPELINE), (sink, QUICK), QUICK_START) for sink in TABLES),
        compare(("mor", PARQUET), ("mor", PIPELINE)),
    ]
    problems = [
        problem for ways in found for figures in ways.values() for problem in figures.problems
    ]
    return compared, problems


def _quiet(line: str) -> None:
    pass
