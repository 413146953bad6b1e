"""Measures how many rows per second each table ingests while it catches up on a backlog.

The tables are compared with JSON files, and the course's Hudi options with Hudi's defaults. Only
one query runs, to verify the tables' content.
"""

from dataclasses import replace

from lab_env.lessons.recorded import SINKS
from lab_env.pipeline import options, session
from lab_env.platform.install.cache import Progress
from lab_env.workbench.bench.config import BEFORE_TABLE_SERVICES, RunConfig
from lab_env.workbench.bench.machine import Comparison
from lab_env.workbench.bench.results import Figures
from lab_env.workbench.bench.rounds import Bench, rotated
from lab_env.workbench.bench.stream import UNIFORM, Scenario

TABLES = ("cow", "mor")
GOALS = {"cow": 0.3, "mor": 0.5}  # of the files' rows/s
QUICK_START = 2.0  # times the rows/s of Hudi's defaults
RATE = "ingest rows/s"
FILE_GROUPS = f"file groups, {BEFORE_TABLE_SERVICES}"

PIPELINE, QUICK, PARQUET = "the pipeline's options", "quick-start options", "Parquet logs"
# Options added to the pipeline's, and the sinks that are measured with them.
WAYS = {
    PIPELINE: ({}, SINKS),
    QUICK: (options.QUICK_START, TABLES),
    PARQUET: (options.PARQUET_LOGS, ("mor",)),
}


def backlog_config(full: bool) -> RunConfig:
    """Return the parameters of a smoke test or, with `full`, of a run with reliable figures."""
    config = RunConfig(
        (
            Scenario(20, UNIFORM, load=20_000, batch=250_000, batches=2),
            # An index with look-ups must read each file group that a batch touches.
            Scenario(20, UNIFORM, load=320_000, batch=40_000, batches=2, days=32),
        ),
        rounds=3,  # a multiple of the ways, so that each takes each place equally often
        warm=0,
        queries={BEFORE_TABLE_SERVICES: ("aggregate",)},
    )
    if full:
        return config
    return replace(
        config,
        scenarios=(Scenario(20, UNIFORM, load=1_000, batch=2_500, batches=1),),
        rounds=1,
        java_options=session.LESSON_JAVA_OPTIONS,
        warm_up=False,
    )


def catch_up(
    bench: Bench, config: RunConfig, report_progress: Progress = print
) -> tuple[list[Comparison], list[str]]:
    """Measure all sinks with the course's options, and the tables also with other options.

    Returns:
        The comparisons, and the problems that invalidate them: query results that contradict the
        stream.
    """
    if config.warm_up:
        # With batches of this size a JVM keeps speeding up for a minute.
        report_progress("warm-up with a quarter of it, not counted ...")
        first = config.scenarios[0]
        quarter = replace(first, batch=first.batch // 4)
        bench.measure(replace(config, rounds=1, scenarios=(quarter,)), lambda line: None)
    compared: list[Comparison] = []
    problems: list[str] = []
    for scenario in config.scenarios:
        found = _measure(bench, replace(config, scenarios=(scenario,)), report_progress)
        compared += _comparisons(scenario, found)
        problems += [
            problem for ways in found for figures in ways.values() for problem in figures.problems
        ]
    return compared, problems


def _measure(
    bench: Bench, config: RunConfig, report_progress: Progress
) -> list[dict[str, Figures]]:
    """Return one scenario's figures: one dictionary per round, keyed by option set."""
    found: list[dict[str, Figures]] = [{} for _ in range(config.rounds)]
    title = _title(*config.scenarios)
    for number, ways in enumerate(found):
        for way, (extra_options, sinks) in rotated(number, tuple(WAYS.items())):
            report_progress(f"round {number + 1} of {config.rounds}: {title}, {way}")
            once = replace(config, rounds=1, extra_options=extra_options)
            ways[way] = bench.measure(once, lambda line: None, rotated(number, sinks))
    return found


def _title(scenario: Scenario) -> str:
    return f"{scenario.batches} x {scenario.batch:,} events"


def _comparisons(scenario: Scenario, found: list[dict[str, Figures]]) -> list[Comparison]:
    def of(sink: str, way: str, metric: str) -> list[float]:
        return [figures[way].of(scenario.name, sink, metric)[0] for figures in found]

    def title(sink: str, way: str) -> str:
        if sink == "json":
            return "JSON files"
        groups = sorted(set(of(sink, way, FILE_GROUPS)))
        return f"{sink}, {way} ({' or '.join(f'{number:.0f}' for number in groups)} file groups)"

    def compare(
        this: tuple[str, str], other: tuple[str, str], goal: float | None = None
    ) -> Comparison:
        return Comparison.of(
            f"backlog of {_title(scenario)}",
            title(*this),
            title(*other),
            "rows/s",
            list(zip(of(*this, RATE), of(*other, RATE), strict=True)),
            (f"{goal} or more", lambda ratio: ratio >= goal) if goal else None,
        )

    return [
        *(compare((sink, PIPELINE), ("json", PIPELINE), GOALS[sink]) for sink in TABLES),
        *(compare((sink, PIPELINE), (sink, QUICK), QUICK_START) for sink in TABLES),
        compare(("mor", PARQUET), ("mor", PIPELINE)),
    ]
