"""Measures what the same change costs when the table is 4 and 16 times as large.

Both table types are measured in turn, each with two kinds of index. At each size a table receives
several commits of fixed size and is queried after each.
"""

from dataclasses import asdict, dataclass, field

from lab_env.lessons.recorded.growth import VARIANTS
from lab_env.pipeline import session
from lab_env.platform import services
from lab_env.platform.install.cache import Progress
from lab_env.tables.probes.bucket_usage import MeteredBucket
from lab_env.tables.probes.verdict import Spread
from lab_env.workbench.bench.growth_worker import INDEXES, TYPES
from lab_env.workbench.bench.machine import Comparison, stamp
from lab_env.workbench.bench.rounds import rotated
from lab_env.workbench.bench.worker_client import WorkerClient, running_workers

FACTORS = (1, 4, 16)
COMMIT_GOAL = 1.5  # seconds for a commit of 1,000 rows, once warm
WARM_UP = 6  # changes of each table until the JVM has compiled the hot code
BUCKETS = tuple((kind, "bucket") for kind in TYPES)  # the index of the pipeline's tables


@dataclass(frozen=True)
class GrowthConfig:
    """Parameters of the growth measurement."""

    orders: int  # number of orders in a table at its first size
    changes: int  # number of orders that a commit updates
    rounds: int  # number of such commits per table and size
    commits: int  # number of consecutive commits to a small table, for the time per commit
    factors: tuple[int, ...] = FACTORS  # the sizes of a table, as multiples of the first
    java_options: str = session.JAVA_OPTIONS
    spark: dict[str, str] = field(default_factory=dict)


def growth_config(full: bool) -> GrowthConfig:
    """Return the parameters of a smoke test or, with `full`, of a run with reliable figures."""
    if full:
        return GrowthConfig(20_000, 1_000, rounds=4, commits=12)
    return GrowthConfig(
        1_000,
        100,
        rounds=1,
        commits=2,
        factors=(FACTORS[0], FACTORS[-1]),
        java_options=session.LESSON_JAVA_OPTIONS,
        spark=session.SHORT_LIFE,
    )


def grow(config: GrowthConfig, report_progress: Progress = print) -> dict:
    """Grow the tables and measure them at each size.

    Returns:
        `made`, `cores`, `size` and `problems` (wrong answers); `commits`, the seconds of each
        commit to a small table, by table type; `rows`, each with table type, index, factor, metric
        and its spread over the rounds.
    """
    services.up(progress=lambda line: None)
    buckets = {"growth": MeteredBucket(services.endpoints(), "growth")}
    with running_workers(buckets, config.java_options, {"growth": config.spark}) as workers:
        return _Run(workers["growth"], config).all(report_progress)


class _Run:
    def __init__(self, worker: WorkerClient, config: GrowthConfig):
        self._worker, self._bucket, self._config = worker, worker.bucket, config
        self._found: dict[tuple, list[float]] = {}
        self._problems: list[str] = []
        self._version = 0

    def all(self, report_progress: Progress) -> dict:
        if self._config.rounds > 1:
            report_progress("warm-up round, not counted ...")
            for variant in VARIANTS:
                self._begin(variant, "warm")
                self._worker.call("grow", first=0, end=100)
                for version in range(1, WARM_UP + 1):
                    self._worker.call("change", rows=50, size=100, version=version)
                    self._worker.call("run_query")
        commits = self._commits(report_progress)
        size = 0
        for factor in self._config.factors:
            grown = factor * self._config.orders
            report_progress(f"{grown:,} orders: both table types, {' and '.join(INDEXES)} index")
            for variant in VARIANTS:
                self._begin(variant)
                self._worker.call("grow", first=size, end=grown)
                # With the bucket index new orders go to logs: the changes must not pay for theirs.
                self._worker.call("compact")
            size = grown
            for number in range(self._config.rounds):
                self._version += 1
                for variant in rotated(number, VARIANTS):
                    self._change(variant, factor, size)
            for variant in VARIANTS:
                self._begin(variant)
                before = self._bucket.usage()
                self._worker.call("compact")
                written = (self._bucket.usage() - before).bytes_written
                self._note(variant, factor, {"compaction bytes": written})
        return stamp() | {
            "size": {
                name: getattr(self._config, name)
                for name in ("orders", "changes", "rounds", "commits")
            },
            "problems": self._problems,
            "commits": commits,
            "rows": [
                {"type": kind, "index": index, "factor": factor, "metric": metric}
                | asdict(Spread.of(values))
                for (kind, index, factor, metric), values in self._found.items()
            ],
        }

    def _commits(self, report_progress: Progress) -> dict[str, list[float]]:
        """Time consecutive commits, each with a clean; return the seconds by table type."""
        rows, size = self._config.changes, self._config.orders
        report_progress(f"{size:,} orders: {self._config.commits} commits of {rows:,} rows")
        found: dict[str, list[float]] = {kind: [] for kind in TYPES}
        for variant in BUCKETS:
            self._begin(variant, "small")
            self._worker.call("grow", first=0, end=size)
        for number in range(1, self._config.commits + 1):
            for variant in rotated(number, BUCKETS):
                self._begin(variant, "small")
                done = self._worker.call("change", rows=rows, size=size, version=number)
                found[variant[0]].append(done["seconds"])
        for variant in BUCKETS:
            self._begin(variant, "small")
            self._ask(variant, size, self._config.commits)
        return found

    def _begin(self, variant: tuple[str, str], name: str = "orders") -> None:
        kind, index = variant
        path = f"s3a://{self._bucket.name}/bench/{name}_{kind}_{index}"
        self._worker.call("begin", path=path, kind=kind, index=index)

    def _change(self, variant: tuple[str, str], factor: int, size: int) -> None:
        self._begin(variant)
        before = self._bucket.usage()
        reply = self._worker.call(
            "change", rows=self._config.changes, size=size, version=self._version
        )
        spent = self._bucket.usage() - before
        everything, one = self._ask(variant, size, self._version)
        metrics = {
            "commit s": reply["seconds"],
            "bytes written": spent.bytes_written,
            "requests": spent.puts + spent.lists + spent.gets,
            "aggregate s": everything,
            "point s": one,
        }
        self._note(variant, factor, metrics)

    def _ask(self, variant: tuple[str, str], size: int, version: int) -> tuple[float, float]:
        """Return the seconds it takes to sum all orders and to find one; record wrong answers."""
        everything, one = self._worker.call("run_query"), self._worker.call("run_query", order=0)
        answer = (everything["answer"][0], one["answer"][1])
        if answer != (size, version):  # each commit changes order 0
            self._problems.append(f"{variant} with {size:,} orders gives a wrong answer: {answer}")
        return everything["seconds"], one["seconds"]

    def _note(self, variant: tuple[str, str], factor: int, metrics: dict[str, float]) -> None:
        for metric, value in metrics.items():
            self._found.setdefault((*variant, factor, metric), []).append(value)


def commit_times(run: dict) -> list[Comparison]:
    """For each table type, compare the time of a small commit to a small table with the goal."""
    changes, orders = run["size"]["changes"], run["size"]["orders"]
    return [
        Comparison.with_goal(
            "commit",
            f"{changes:,} rows into a {kind.upper()} table of {orders:,}",
            run["commits"][kind],
            COMMIT_GOAL,
        )
        for kind in TYPES
    ]
