"""Compares Hudi, Delta Lake and Iceberg on one generated stream of upserts and deletes.

Each format has its own process and bucket. The tables take turns: while one is measured, the others
are idle, and each round begins with another format. Figures are reported only if every table ends
with exactly the rows that a plain-Python oracle computes.
"""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab_env.lessons.recorded.contenders import (
    CONTENDERS,
    FORMATS,
    JARS,
    MOR,
    Contender,
    options_of_all,
    session_properties,
)
from lab_env.pipeline import session
from lab_env.platform import services
from lab_env.platform.install.cache import Progress
from lab_env.platform.install.jars import fetch_jars, jar_folder
from lab_env.platform.install.versions import versions
from lab_env.tables.probes.bucket_usage import MeteredBucket
from lab_env.tables.probes.verdict import Spread
from lab_env.workbench.bench.machine import stamp
from lab_env.workbench.bench.metering import Meter, ResourceUsage
from lab_env.workbench.bench.order_stream import Batch, OrderStream, as_lines, difference
from lab_env.workbench.bench.rounds import rotated
from lab_env.workbench.bench.summary import machine_facts
from lab_env.workbench.bench.worker_client import in_parallel, running_workers

BEFORE, AFTER = "before compaction", "after compaction"
QUERIES = ("point", "aggregate")  # queried before and after compaction


@dataclass(frozen=True)
class FormatsConfig:
    """Parameters of the format comparison.

    Args:
        commits: number of small commits per round. In five commits, tuned Hudi cleans once. With
            ten, every round instead of every second one would include a Delta checkpoint and a
            compaction of Hudi's metadata table, but the run would take ten minutes longer.
    """

    orders: int  # number of orders in a table at its first size
    factors: tuple[int, ...]  # the sizes of a table, as multiples of the first
    small: int  # number of events in a small commit
    commits: int
    large: int  # number of events in a large commit
    rounds: int  # number of measurements of each table at each size
    minutes: float = 24  # time after which no new round begins
    contenders: tuple[str, ...] = tuple(CONTENDERS)  # keys of `CONTENDERS`
    warm_up: bool = True  # whether each process first writes small tables, without measuring them
    # The quick compiler has little left to compile after the warm-up, so rounds are alike.
    java_options: str = session.LESSON_JAVA_OPTIONS
    spark: dict[str, str] = field(default_factory=dict)


# Each format, both kinds, by default and tuned, all ways to read changes. Only one Delta table: its
# commits take the most processor time in so short a run.
SMALL_CONTENDERS = (
    "hudi-cow", "hudi-mor-tuned", "delta-dv-tuned", "iceberg-cow", "iceberg-mor-tuned"
)  # fmt: skip


def formats_config(full: bool) -> FormatsConfig:
    """Return the parameters of a smoke test or, with `full`, of a run with reliable figures."""
    if full:
        return FormatsConfig(20_000, (1, 16), small=1_000, commits=5, large=10_000, rounds=3)
    return FormatsConfig(
        400,
        (1,),
        small=60,
        commits=2,
        large=120,
        rounds=1,
        contenders=SMALL_CONTENDERS,
        warm_up=False,
        spark=session.SHORT_LIFE,
    )


def compare_formats(
    config: FormatsConfig,
    folder: Path,
    report_progress: Progress = print,
    load: float | None = None,
) -> dict:
    """Write the stream into every table and measure.

    Args:
        folder: receives the stream's batches; its earlier content is deleted.
        load: the machine's load before the lab's services were started; by default the current one.

    Returns:
        `made`, `machine` (including its load), `versions` of the formats, `options`, `size`,
        `complete` (whether every round was measured), `problems` (wrong answers) and `rows`:
        contender, factor, metric, its `values` by round and their spread; no rows if there are
        problems.
    """
    load = os.getloadavg()[0] if load is None else load
    for jars in JARS.values():
        fetch_jars(jars, report_progress)
    services.up(progress=lambda line: None)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        return _Run(config, folder, report_progress, load).all()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Run:
    def __init__(self, config: FormatsConfig, folder: Path, report_progress: Progress, load: float):
        self._config, self._folder, self._report_progress = config, folder, report_progress
        self._began, self._load = time.monotonic(), load
        self._stream = OrderStream(folder)
        self._contenders = [CONTENDERS[key] for key in config.contenders]
        self._found: dict[tuple[str, int, str], list[float]] = {}
        self._problems: list[str] = []
        self._complete = True

    def all(self) -> dict:
        chosen = [name for name in FORMATS if any(c.format == name for c in self._contenders)]
        self._report_progress(f"a Spark session for each of {', '.join(chosen)} ...")
        buckets = {n: MeteredBucket(services.endpoints(), f"formats-{n}") for n in chosen}
        spark = {
            name: self._config.spark | quick_start(name, bucket) for name, bucket in buckets.items()
        }
        with running_workers(buckets, self._config.java_options, spark) as self._workers:
            if self._config.warm_up:
                self._report_progress("small tables, not counted ...")
                warm_up = self._folder / "warm-up"
                warm_up.mkdir()
                stream = OrderStream(warm_up)
                first, change = stream.grow(200), stream.change(200)
                self._each(lambda contender: self._warm_up(contender, first, change))
            self._meters = {name: Meter(worker) for name, worker in self._workers.items()}
            self._measure()
            return self._report()

    def _each(self, task: Callable[[Contender], None]) -> None:
        """Run a task on each table without measuring it; the formats run in parallel."""

        def one_format(name: str) -> None:
            for contender in self._contenders:
                if contender.format == name:
                    task(contender)

        in_parallel(one_format, self._workers)

    def _warm_up(self, contender: Contender, first: Batch, change: Batch) -> None:
        worker = self._workers[contender.format]

        def write() -> None:
            worker.call("append", file=str(first.file))
            worker.call("upsert", batches=2 * [(str(change.file), change.days)])

        self._begin(contender, "warm")
        write()
        for query in QUERIES:
            worker.call("run_query", query=query, order=change.point)
        if contender.tells_changes:
            if contender.changes_table:
                self._begin(contender, "warm_changes")
                write()
            worker.call("run_query", query="changes")
            self._begin(contender, "warm")
        worker.call("compact")

    def _measure(self) -> None:
        size = 0
        for factor in self._config.factors:
            grown = factor * self._config.orders
            self._report_progress(f"{grown:,} orders: {len(self._contenders)} tables")
            batch = self._stream.grow(grown - size)
            self._each(lambda contender, batch=batch: self._grow(contender, batch))
            size = grown
            for number in range(self._config.rounds):
                if time.monotonic() - self._began > 60 * self._config.minutes:
                    self._report_progress(f"{self._config.minutes:g} minutes are over")
                    self._complete = False
                    break
                self._report_progress(f"  round {number + 1} of {self._config.rounds}")
                small = [
                    self._stream.change(self._config.small) for _ in range(self._config.commits)
                ]
                large = self._stream.change(self._config.large)
                # In three rounds each table is once among the first, the middle and the last.
                first = number * len(self._contenders) // self._config.rounds
                for contender in rotated(first, tuple(self._contenders)):
                    self._round(contender, factor, small, large)
            right = as_lines(self._stream.rows)
            self._each(lambda contender, right=right: self._compare_rows(contender, right))
            if not self._complete:
                break

    def _begin(self, contender: Contender, name: str = "orders") -> None:
        """Choose a table; if its name ends in `changes`, it also stores its changes for readers."""
        worker = self._workers[contender.format]
        table = f"{name}_{contender.key.replace('-', '_')}"
        base = f"s3a://{worker.bucket.name}/tables/db"
        extra = contender.changes_table if name.endswith("changes") else {}
        worker.call("begin", contender=contender.key, base=base, name=table, extra=extra)

    def _grow(self, contender: Contender, batch: Batch) -> None:
        worker = self._workers[contender.format]
        self._begin(contender)
        worker.call("append", file=str(batch.file))
        # Inserts may be in log files: the changes must not pay for theirs.
        worker.call("compact")
        if contender.changes_table:
            self._begin(contender, "changes")
            worker.call("append", file=str(batch.file))

    def _round(self, contender: Contender, factor: int, small: list[Batch], large: Batch) -> None:
        meter = self._meters[contender.format]
        self._begin(contender)

        def note(**metrics: float) -> None:
            for metric, value in metrics.items():
                self._found.setdefault((contender.key, factor, metric), []).append(value)

        def commit(*batches: Batch) -> tuple[float, ResourceUsage]:
            reply, used = meter.call(
                "upsert", batches=[(str(batch.file), batch.days) for batch in batches]
            )
            return reply["seconds"], used

        def run_query(query: str, batch: Batch, state: str) -> None:
            reply, used = meter.call("run_query", query=query, order=batch.point)
            label = f"{query}, {state}" if state else query
            note(**{
                f"{label}: s": reply["seconds"],
                f"{label}: requests": used.bucket.gets + used.bucket.lists,
            })  # fmt: skip
            if tuple(reply["answer"]) != batch.answers[query]:
                self._problems.append(
                    f"{contender.title}, {factor}x, {label}: {reply['answer']}, but "
                    f"{list(batch.answers[query])} is right"
                )

        note(**_costs("commit", *commit(*small), len(small)))
        if contender.tells_changes:
            if contender.changes_table:
                self._begin(contender, "changes")
                seconds, _ = commit(*small)
                note(**{"commit, changes kept: s": seconds / len(small)})
            run_query("changes", small[-1], "")
            self._begin(contender)
        seconds, used = commit(large)
        note(**{"rows/s": large.events / seconds, "large commit: CPU s": used.cpu_seconds})
        for query in QUERIES:
            run_query(query, large, BEFORE)
        if contender.kind == MOR:  # tables that rewrite files on each change have nothing to merge
            reply, used = meter.call("compact")
            note(**_costs("compaction", reply["seconds"], used))
            for query in QUERIES:
                run_query(query, large, AFTER)

    def _compare_rows(self, contender: Contender, right: set[str]) -> None:
        file = self._folder / f"rows-{contender.key}"
        self._begin(contender)
        self._workers[contender.format].call("write_rows", file=str(file))
        wrong = difference(contender.title, file.read_text().split("\n"), right)
        file.unlink()
        if wrong:
            self._problems.append(wrong)

    def _report(self) -> dict:
        rows = [
            {"contender": key, "factor": factor, "metric": metric}
            | asdict(Spread.of(values))
            | {"values": [round(value, 4) for value in values]}
            for (key, factor, metric), values in self._found.items()
        ]
        sizes = ("orders", "factors", "small", "commits", "large", "rounds")
        return {
            "made": stamp()["made"],
            "minutes": round((time.monotonic() - self._began) / 60, 1),
            "machine": machine_facts() | {"load": round(self._load, 1)},
            "versions": format_versions(),
            "options": options_of_all(),
            "size": {name: getattr(self._config, name) for name in sizes}
            | {"factors": list(self._config.factors)},
            "rows_compared": len(self._stream.rows),
            "complete": self._complete,
            "problems": self._problems,
            "rows": [] if self._problems else rows,
        }


def quick_start(name: str, bucket: MeteredBucket) -> dict[str, str]:
    """Return the Spark properties of a format's quick start for tables in a bucket."""
    jars = [str(path) for path in jar_folder(JARS[name]).iterdir()] if name in JARS else []
    return session_properties(name, jars, f"s3a://{bucket.name}/tables")


def _costs(label: str, seconds: float, used: ResourceUsage, times: int = 1) -> dict[str, float]:
    """Return a task's costs per repetition, by metric."""
    bucket = used.bucket
    costs = {
        "s": seconds,
        "CPU s": used.cpu_seconds,
        "requests": bucket.requests,
        "bytes written": bucket.bytes_written,
    }
    return {f"{label}: {unit}": value / times for unit, value in costs.items()}


def format_versions() -> dict[str, str]:
    """Return the version of each format, from its pinned jars."""
    return {
        name: coordinates.split(":")[2]
        for name in FORMATS
        for coordinates in versions()["jars"][JARS.get(name, "spark")]
        if f"{name}-spark" in coordinates
    }
