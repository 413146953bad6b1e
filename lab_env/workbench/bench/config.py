"""Parameters of `lab bench`'s measurements: scenarios, rounds, queries, rates."""

from dataclasses import dataclass, field

from lab_env.pipeline import session
from lab_env.workbench.bench.stream import UNIFORM, ZIPF, Scenario

BEFORE_TABLE_SERVICES, AFTER_TABLE_SERVICES = "fresh", "tidy"
ALL_QUERIES = {
    BEFORE_TABLE_SERVICES: ("point", "range", "aggregate", "incremental", "time travel"),
    # Table services remove history, which readers of the newest state do not need.
    AFTER_TABLE_SERVICES: ("point", "range", "aggregate"),
}


@dataclass(frozen=True)
class Pace:
    """Settings of the freshness measurement, which is skipped if `rates` is empty."""

    rates: tuple[int, ...] = ()  # events/s
    seconds: float = 0  # of sending, at each rate
    trigger: float = 1  # seconds between the starts of two batches
    rounds: int = 0


@dataclass(frozen=True)
class RunConfig:
    """Parameters of a sink comparison.

    Args:
        queries: queries to run before (`BEFORE_TABLE_SERVICES`) and after (`AFTER_TABLE_SERVICES`)
            the table services. If there are none to run after them, the table services are skipped.
    """

    scenarios: tuple[Scenario, ...]
    rounds: int
    warm: int  # number of repetitions of each query
    pace: Pace = field(default_factory=Pace)
    queries: dict[str, tuple[str, ...]] = field(default_factory=lambda: ALL_QUERIES)
    java_options: str = session.JAVA_OPTIONS
    spark: dict[str, str] = field(default_factory=dict)
    extra_options: dict[str, str] = field(default_factory=dict)  # for both tables
    warm_up: bool = True  # whether the processes first ingest a small stream, without measuring it


def sinks_config(full: bool) -> RunConfig:
    """Return the parameters of the sink comparison: a smoke test or, with `full`, the full run."""
    kinds = [(0, UNIFORM), (20, UNIFORM), (20, ZIPF), (80, UNIFORM), (80, ZIPF)]
    if full:
        return RunConfig(
            tuple(Scenario(*kind, load=20_000, batch=10_000, batches=2) for kind in kinds),
            rounds=2,
            warm=1,
            pace=Pace((100, 1_000, 10_000), seconds=5, rounds=2),
        )
    return RunConfig(
        (Scenario(*kinds[-1], load=2_000, batch=1_000, batches=1),),
        rounds=2,
        warm=0,
        pace=Pace((200,), seconds=2, rounds=1),
        queries={
            BEFORE_TABLE_SERVICES: ALL_QUERIES[BEFORE_TABLE_SERVICES],
            AFTER_TABLE_SERVICES: ("aggregate",),
        },
        # As in a lesson: the quick compiler, because each JVM lives for a minute. There is no
        # warm-up: counts do not need it, and times of so few rows say little anyway.
        java_options=session.LESSON_JAVA_OPTIONS,
        spark=session.SHORT_LIFE,
        warm_up=False,
    )
