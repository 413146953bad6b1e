"""How cost grows with the table: the same change while a table becomes 4 and 16 times as large.

Both table types under two kinds of index, in turn: each gets so many orders, then a change of fixed size
several times, and is asked. Only the size of the table differs from one step to the next.
"""

import os
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from lab_env import services
from lab_env.bench.growth_worker import INDEXES, TYPES
from lab_env.bench.machine import Comparison
from lab_env.bench.rounds import Progress, WorkerClient, rotated
from lab_env.display.chart import COLOURS, NAMES, new_panels, svg
from lab_env.pipeline import session
from lab_env.probes.bucket_usage import MeteredBucket
from lab_env.probes.verdict import Spread

FACTORS = (1, 4, 16)
COMMIT_GOAL = 1.5  # seconds for a commit of 1,000 rows, when all is warm
WARM_UP = 6  # changes of each table until the JVM has compiled what counts
VARIANTS = tuple((kind, index) for index in INDEXES for kind in TYPES)
# Metric, title of its panel, and what a figure is divided by to get the title's unit.
PANELS = (
    ("commit s", "commit, s", 1),
    ("bytes written", "written by a commit, MB", 1e6),
    ("aggregate s", "sum over all orders, s", 1),
)


@dataclass(frozen=True)
class GrowthSize:
    """How much is measured.

    Args:
        orders: in a table at the beginning.
        changes: orders that a commit updates, at each size.
        rounds: how many such commits each table takes at each size.
        java_options: of the JVM.
    """

    orders: int
    changes: int
    rounds: int
    java_options: str = session.JAVA_OPTIONS


def growth_size(full: bool) -> GrowthSize:
    """The two sizes: a small one that shows that all works, and one to draw conclusions from."""
    if full:
        return GrowthSize(20_000, 1_000, rounds=4)
    return GrowthSize(1_000, 100, rounds=1, java_options=session.LESSON_JAVA_OPTIONS)


def grow(chosen: GrowthSize, report_progress: Progress = print) -> dict:
    """Grow the tables and measure them at each size.

    Args:
        chosen: how much.
        say: told what is going on.

    Returns:
        `made`, `cores`, `size`, `problems` (wrong answers), and `rows`: table type, index, factor, metric
        and its spread over the rounds.

    Raises:
        LabError: a write or a query failed, or the store tells no metrics.
    """
    services.up(progress=lambda line: None)
    bucket = MeteredBucket(services.endpoints(), "growth")
    with ExitStack() as left:
        left.callback(bucket.remove)
        bucket.make()
        agent = WorkerClient("growth", bucket, chosen.java_options)
        left.callback(agent.end)
        agent.wait()
        return _Run(agent, bucket, chosen).all(report_progress)


class _Run:
    def __init__(self, agent: WorkerClient, bucket: MeteredBucket, chosen: GrowthSize):
        self._agent, self._bucket, self._chosen = agent, bucket, chosen
        self._found: dict[tuple, list[float]] = {}
        self._problems: list[str] = []
        self._version = 0

    def all(self, report_progress: Progress) -> dict:
        if self._chosen.rounds > 1:
            report_progress("a first round that does not count ...")
            for variant in VARIANTS:
                self._begin(variant, "warm")
                self._agent.do("grow", first=0, end=100)
                for version in range(1, WARM_UP + 1):
                    self._agent.do("change", rows=50, size=100, version=version)
                    self._agent.do("ask")
        size = 0
        for factor in FACTORS:
            grown = factor * self._chosen.orders
            report_progress(f"{grown:,} orders: both table types, {' and '.join(INDEXES)} index")
            for variant in VARIANTS:
                self._begin(variant)
                self._agent.do("grow", first=size, end=grown)
            size = grown
            for number in range(self._chosen.rounds):
                self._version += 1
                for variant in rotated(number, VARIANTS):
                    self._change(variant, factor, size)
            for variant in VARIANTS:
                self._begin(variant)
                self._compact(variant, factor)
        return {
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "cores": os.cpu_count(),
            "size": {k: v for k, v in asdict(self._chosen).items() if k != "java_options"},
            "problems": self._problems,
            "rows": [
                {"type": kind, "index": index, "factor": factor, "metric": metric}
                | asdict(Spread.of(values))
                for (kind, index, factor, metric), values in self._found.items()
            ],
        }

    def _begin(self, variant: tuple[str, str], name: str = "orders") -> None:
        kind, index = variant
        path = f"s3a://{self._bucket.name}/bench/{name}_{kind}_{index}"
        self._agent.do("begin", path=path, kind=kind, index=index)

    def _change(self, variant: tuple[str, str], factor: int, size: int) -> None:
        self._begin(variant)
        before = self._bucket.usage()
        rows = self._chosen.changes
        seconds = self._agent.do("change", rows=rows, size=size, version=self._version)["seconds"]
        spent = self._bucket.usage() - before
        everything, one = self._agent.do("ask"), self._agent.do("ask", order=0)
        self._note(
            variant, factor, **{
                "commit s": seconds,
                "bytes written": spent.bytes_written,
                "requests": spent.puts + spent.lists + spent.gets,
                "aggregate s": everything["seconds"],
                "point s": one["seconds"],
            }
        )  # fmt: skip
        said = (everything["answer"][0], one["answer"][1])
        if said != (size, self._version):  # order 0 is changed by each commit
            self._problems.append(f"{variant} at {size:,} orders says {said}")

    def _compact(self, variant: tuple[str, str], factor: int) -> None:
        before = self._bucket.usage()
        self._agent.do("compact")
        self._note(
            variant, factor, **{
                "compaction bytes": (self._bucket.usage() - before).bytes_written
            }
        )  # fmt: skip

    def _note(self, variant: tuple[str, str], factor: int, **metrics: float) -> None:
        for metric, value in metrics.items():
            self._found.setdefault((*variant, factor, metric), []).append(value)


def commit_time(run: dict) -> Comparison:
    """The commit of a small change, on the table at its first size, against its goal in seconds."""
    times = of(run, "mor", "bucket", "commit s")[0]
    return Comparison.with_goal(
        "commit",
        f"{run['size']['changes']:,} rows into a MOR table of {run['size']['orders']:,}",
        [times[end] for end in ("low", "median", "high")],
        COMMIT_GOAL,
    )


def of(run: dict, kind: str, index: str, metric: str) -> list[dict]:
    """A metric's spreads by the size of the table, smallest first.

    Args:
        run: what `grow` or `recorded.shown` returned.
        kind: `cow` or `mor`.
        index: `bucket` or `bloom`.
        metric: for example `bytes written`.
    """
    wanted = {"type": kind, "index": index, "metric": metric}
    rows = [row for row in run["rows"] if wanted.items() <= row.items()]
    return sorted(rows, key=lambda row: row["factor"])


def growth_chart(run: dict) -> str:
    """A panel each for commit time, bytes written and query time over the size of the table.

    Args:
        run: what `grow` or `recorded.shown` returned.

    Returns:
        SVG text: a line a table type and index; thin lines go from the lowest to the highest round.
    """
    figure, panels = new_panels(
        [title for _, title, _ in PANELS], width=9.6, height=3.4, one_unit=False
    )
    sizes = [factor * run["size"]["orders"] for factor in FACTORS]
    for panel, (metric, _, scale) in zip(panels, PANELS, strict=True):
        for kind, index in VARIANTS:
            rows = of(run, kind, index, metric)
            style = "-" if index == "bucket" else "--"
            panel.plot(
                sizes, [row["median"] / scale for row in rows], f"o{style}", color=COLOURS[kind],
                label=f"{NAMES[kind]}, {index} index",
            )  # fmt: skip
            low, high = ([row[end] / scale for row in rows] for end in ("low", "high"))
            panel.vlines(sizes, low, high, color=COLOURS[kind], linewidth=1)
        panel.set_xscale("log")
        panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
        panel.set_xticks([], minor=True)
        panel.set_ylim(bottom=0)
        panel.set_xlabel("orders in the table")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=4, frameon=False
    )
    return svg(figure)


def said_of(run: dict) -> str:
    """Where a run's figures come from, in a sentence."""
    size = run["size"]
    return (
        f"Measured {run['made'][:10]} on {run['cores']} cores: {size['changes']:,} changed orders a"
        f" commit, {size['rounds']} commits a point, medians; thin lines from the lowest to the highest."
    )
