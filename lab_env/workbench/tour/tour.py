"""The tour: runs the whole pipeline on live load, queries the tables, and reconciles every event.

It shows that this machine can run a real streaming lakehouse: it sends one minute of load into all
sinks, runs every query type, and compares each sink with the producer's ledger.
"""

import json
import os
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
from rich.console import Console
from rich.table import Table

from lab_env.lab.handle import Lab, reset_lesson
from lab_env.pipeline import landing, options, parsing
from lab_env.pipeline.handle import Writer
from lab_env.pipeline.revenue import minutes_in_a_batch
from lab_env.pipeline.sinks import FOLDERS, SINKS, start_query
from lab_env.platform import services
from lab_env.platform.brokers import broker
from lab_env.platform.errors import LabError
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.locks import exclusive
from lab_env.platform.processes.state import folder
from lab_env.platform.processes.tree import process_tree
from lab_env.platform.settings import settings
from lab_env.shop.events import EVENT_DDL
from lab_env.shop.ledger.reconcile import Reconciliation
from lab_env.tables.hudi.timeline import from_seconds
from lab_env.tables.probes.freshness import event_freshness
from lab_env.workbench.sampling import MemorySamples, Sampler, StoreSamples, is_compaction
from lab_env.workbench.tour import report

NAMESPACE = "tour"
SECONDS, RATE = 60, 500  # of load: s, events/s
TABLES = ("cow", "mor")
MINUTES_BATCH = 20_000  # messages: a second batch must continue from the first one's state
MINUTES_TITLE = "Revenue per minute, streamed and in a batch"
SHORT_SECONDS = 120  # of load: for shorter runs the quick compiler alone is faster
KEPT_COMMITS = 10  # by Hudi's cleaner (its default), compactions included


@dataclass
class Tour:
    """Results of a tour: the content of `report.json` and the data of the page."""

    rate: int  # requested, in events/s
    load_seconds: int
    events_acked: int = 0
    events_dead: int = 0
    events_resent: int = 0
    events_unknown: int = 0
    events_with_unknown_fields: int = 0
    unknown_fields: list[str] = field(default_factory=list)
    sinks: dict[str, dict] = field(default_factory=dict)
    accounting: dict[str, dict] = field(default_factory=dict)
    queries: list[dict] = field(default_factory=list)
    minutes: list[dict] = field(default_factory=list)
    memory_peak_mb: dict[str, float] = field(default_factory=dict)
    writer_memory: dict[str, dict] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # of each phase
    series: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if the tour found no problem, such as a sink that differs from the ledger."""
        return not self.problems

    def judge(self, sink: str, verdict: Reconciliation) -> None:
        """Record a sink's comparison with the ledger; a difference counts as a problem."""
        self.sinks[sink] = verdict.as_dict()
        if not verdict.ok:
            self.problems.append(str(verdict))

    def judge_minutes(self, streamed: pd.DataFrame, computed: pd.DataFrame) -> None:
        """Compare revenue per minute from the stream with that from a batch query.

        Both have the columns minute, orders and revenue.
        """
        both = computed.merge(streamed, how="outer", on="minute", suffixes=("_batch", ""))
        both = both.sort_values("minute").fillna(0)
        self.minutes = [
            {
                "minute": row.minute.strftime("%Y-%m-%d %H:%M"),
                "orders": int(row.orders),
                "revenue": str(row.revenue),
                "batch_orders": int(row.orders_batch),
                "batch_revenue": str(row.revenue_batch),
            }
            for row in both.itertuples()
        ]
        for row in both.itertuples():
            if (row.orders, row.revenue) != (row.orders_batch, row.revenue_batch):
                self.problems.append(
                    f"Revenue of {row.minute:%H:%M} is {row.revenue} in the table and"
                    f" {row.revenue_batch} in a batch over the JSON files."
                )
        if not self.minutes:
            self.problems.append("No minute has revenue.")


def main(seconds: int = SECONDS, rate: int = RATE, console: Console | None = None) -> int:
    """Run the tour and write its report to `LAB_HOME/tour`; return the exit status.

    The status is 0 only if every sink agrees with the ledger. A `LabError` is raised if another
    tour of this lab is running, because each resets the tour's topic and tables.
    """
    with _only_tour():
        return _tour(seconds, rate, console or Console())


@contextmanager
def _only_tour() -> Generator[None]:
    """Hold the lock of this lab's tour; it names the process that holds it."""
    lock = folder("run", 0o700) / "tour.lock"

    def refuse() -> None:
        raise LabError(
            f"A tour is already running: {lock.read_text().strip() or 'it has just begun'}.",
            "wait until it ends, or stop it with Ctrl-C in its terminal.",
        )

    with exclusive(lock, on_wait=refuse):
        lock.write_text(f"process {os.getpid()}, since {datetime.now(UTC):%H:%M:%S} UTC\n")
        yield


def _tour(seconds: int, rate: int, console: Console) -> int:
    target = folder("tour")
    for stale in target.iterdir():  # an aborted tour must not leave an older one's success
        stale.unlink()
    tour = Tour(rate, seconds)
    began = time.monotonic()
    try:
        _run(tour, console)
    except Exception as error:
        tour.problems.append(f"The tour was aborted: {error}")
        _write_json(tour, target)
        raise
    tour.seconds["total"] = round(time.monotonic() - began, 1)
    _write_json(tour, target)
    (target / "index.html").write_text(report.tour_page(tour))
    _print_report(console, tour, target)
    return 0 if tour.ok else 1


def _run(tour: Tour, console: Console) -> None:
    with _phase(tour, console, "services up"):
        wanted = dict.fromkeys((*services.DEFAULT, settings().source))
        services.up(list(wanted), progress=lambda line: console.print(f"  {line}"))
        reset_lesson(NAMESPACE)
        lab = Lab(NAMESPACE, services.endpoints())
        topic = lab.topic("orders")
        broker.ensure_topic(_broker(lab), topic)
    writer = lab.writer()
    store = StoreSamples(lab.endpoints, lab.namespace)
    memory = MemorySamples(
        {
            "services": lambda: _program_processes(exclude=writer.name),
            "spark": lambda: [*writer.processes(), psutil.Process(), *_own_children(java=True)],
            "load": lambda: _own_children(java=False),
        }
    )
    with Sampler(1.0, memory.take) as sampling:
        _stream(tour, lab, topic, writer, store, console)
        with _phase(tour, console, "queries with plain Spark"):
            tour.queries = list(_queries(lab.spark, lab, store))
        with _phase(tour, console, "revenue per minute"):
            _keep_minutes(tour, lab, topic)
        with _phase(tour, console, "reconciliation with the ledger"):
            _reconcile(lab.spark, lab, topic, tour)
            _measure_sinks(lab, topic, tour, writer, store)
        lab.spark.stop()
    if sampling.error:
        raise sampling.error
    tour.memory_peak_mb = {k: round(v) for k, v in memory.peak().items() if k != "at"}
    tour.series["memory"] = memory.rows
    tour.series["store"] = store.rows


def _broker(lab: Lab) -> str:
    """Return the address of the broker that LAB_SOURCE selects."""
    return lab.endpoints.broker(settings().source)


def _records(spark, lab: Lab, topic: str):
    """Read all records of the load again in several batches, from the topic or the landed files."""
    if settings().source == "kinesis":
        return landing.read_landing(spark, landing.landing_path(lab.base), maxFilesPerTrigger="5")
    limit = {"maxOffsetsPerTrigger": str(MINUTES_BATCH)}
    return parsing.read_topic(spark, lab.endpoints.kafka_bootstrap, topic, **limit)


def _write_json(tour: Tour, target: Path) -> None:
    facts = json.dumps(asdict(tour) | {"ok": tour.ok})
    rounded = json.loads(facts, parse_float=lambda number: round(float(number), 3))
    (target / "report.json").write_text(json.dumps(rounded, indent=1))


def _stream(tour: Tour, lab: Lab, topic: str, writer, store: StoreSamples, console) -> None:
    """Send live load into all sinks, and wait until every sink has committed everything."""
    try:
        with Sampler(3.0, store.take) as sampling:
            with _phase(tour, console, "writer started"):
                start_writer(writer, lab, topic, tour.load_seconds)
                writer.wait_first_batches()
            with _phase(tour, console, f"live load, {tour.rate} events/s"):
                _run_load(lab, topic, tour, writer, console)
            ends = broker.end_offsets(_broker(lab), topic)
            with _phase(tour, console, "every sink caught up"):
                writer.wait_caught_up(
                    lab.endpoints, ends, on_tick=_ticker(console, lab, writer, ends)
                )
    finally:
        writer.stop()
    tour.writer_memory = writer.state().get("memory", {})
    if sampling.error:
        raise sampling.error
    store.take()


def start_writer(writer: Writer, lab: Lab, topic: str, load_seconds: int) -> None:
    """Start the tour's writer, with the options that suit the seconds of load."""
    short = load_seconds <= SHORT_SECONDS
    writer.start(
        lab.endpoints,
        topic,
        lab.base,
        short=short,
        sinks=SINKS,
        source=settings().source,
        hudi=options.SHORT_LIVED if short else {},
    )


@contextmanager
def _phase(tour: Tour, console: Console, name: str) -> Generator[None]:
    began = time.monotonic()
    console.print(f"[bold]•[/bold] {name} ...")
    yield
    tour.seconds[name] = round(time.monotonic() - began, 1)
    console.print(f"  {name}: {tour.seconds[name]:.1f} s")


def _run_load(lab: Lab, topic: str, tour: Tour, writer, console: Console) -> None:
    length = {"seconds": tour.load_seconds, "rate": tour.rate}
    with lab.load(topic, settings().source, users=10, show=False, **length) as load:
        while load.running:
            time.sleep(5)
            ends = broker.end_offsets(_broker(lab), topic)
            lag = writer.lag(lab.endpoints, ends)
            behind = ", ".join(f"{sink} {lag[sink]:,}" for sink in SINKS)
            console.print(f"  {sum(ends.values()):>7,} in the topic; behind: {behind}")
    if load.failures:
        tour.problems.append(f"{load.failures} sends were not acknowledged")


def _ticker(console: Console, lab: Lab, writer, ends: dict[int, int]):
    last = [time.monotonic()]

    def tick() -> None:
        if time.monotonic() - last[0] > 5:
            last[0] = time.monotonic()
            behind = ", ".join(
                f"{sink} {n:,}" for sink, n in writer.lag(lab.endpoints, ends).items() if n
            )
            console.print(f"  still behind: {behind or 'nothing'}")

    return tick


def _queries(spark, lab: Lab, store: StoreSamples) -> Iterator[dict]:
    """Run every query type of Hudi on both tables, with plain Spark."""

    def timed(sink: str, query: str, frame) -> dict:
        began = time.monotonic()
        rows = frame.count()
        seconds = round(time.monotonic() - began, 2)
        return {"sink": sink, "query": query, "rows": rows, "seconds": seconds}

    for sink in TABLES:
        path = lab.path(FOLDERS[sink])
        middle = middle_commit(store.completions[sink])
        since = from_seconds(store.completions[sink][middle])
        kind, begin = "hoodie.datasource.query.type", "hoodie.datasource.read.begin.instanttime"
        queries = {
            "snapshot": {},
            "read-optimised": {kind: "read_optimized"},
            f"incremental since {since}": {kind: "incremental", begin: since},
            f"time travel to {middle}": {"as.of.instant": middle},
        }
        for query, asked in queries.items():
            yield timed(sink, query, spark.read.format("hudi").options(**asked).load(path))
    yield timed("json", "all files", spark.read.schema(EVENT_DDL).json(lab.path(FOLDERS["json"])))


def middle_commit(commits: Iterable[str]) -> str:
    """Return the middle one of the newest commits, which the cleaner has certainly kept.

    On the MOR table compactions count among the kept commits, so that some of the oldest writes in
    this list may be gone, but not those of its newer half. Of two commits it is the first, so that
    one follows it.
    """
    newest = sorted(commits)[-KEPT_COMMITS:]
    return newest[(len(newest) - 1) // 2]


def _keep_minutes(tour: Tour, lab: Lab, topic: str) -> None:
    """Compute revenue per minute with a stream, and again with a batch query on the JSON files."""
    spark = lab.spark
    records = _records(spark, lab, topic)
    stream = start_query(records, "minutes", lab.base, {"availableNow": True})
    stream.awaitTermination()
    columns = ["minute", "orders", "revenue"]
    streamed = spark.read.format("hudi").load(lab.path(FOLDERS["minutes"])).select(*columns)
    events = spark.read.schema(EVENT_DDL).json(lab.path(FOLDERS["json"]))
    computed = minutes_in_a_batch(events).select(*columns)
    tour.judge_minutes(streamed.toPandas(), computed.toPandas())


def _reconcile(spark, lab: Lab, topic: str, tour: Tour) -> None:
    ledger = lab.ledger(topic)
    settled = ledger.settle(_broker(lab), topic)
    if not settled.ok:
        tour.problems.append(str(settled))
    keys = ["order_id", "event_id", "order_ts"]
    tables = {
        sink: spark.read.format("hudi").load(lab.path(FOLDERS[sink])).select(*keys).toPandas()
        for sink in TABLES
    }
    events = spark.read.schema(EVENT_DDL).json(lab.path(FOLDERS["json"]))
    letters = spark.read.parquet(lab.path(FOLDERS["dead"]))
    json_rows = events.select("event_id").toPandas()
    dead = letters.select("partition", "offset", "reason").toPandas()
    verdicts = {
        "json": ledger.reconcile_log(json_rows, "json"),
        **{sink: ledger.reconcile_table(tables[sink], sink) for sink in TABLES},
        "dead": ledger.reconcile_dead(dead, "dead"),
    }
    for sink, verdict in verdicts.items():
        tour.judge(sink, verdict)
    for sink in TABLES:
        account = ledger.account(tables[sink], dead)
        tour.accounting[sink] = account.as_dict()
        if not account.ok:
            tour.problems.append(f"{sink}: the events do not add up: {account}")
    frame = ledger.frame()
    acked = frame[frame["state"] == "acked"]
    tour.events_acked = len(acked)
    tour.events_dead = len(dead)
    tour.events_resent = int((acked["kind"] == "resend").sum())
    tour.events_unknown = int((frame["state"] == "unknown").sum())
    ledger.check_not_empty()
    began = acked["acked_at"].min() / 1e6
    per_second = (acked["acked_at"] / 1e6 - began).astype(int).value_counts()
    seconds = range(int(per_second.index.max()) + 1)
    tour.series["acked_per_second"] = per_second.reindex(seconds, fill_value=0).tolist()
    tour.series["began_at"] = began


def _measure_sinks(lab: Lab, topic: str, tour: Tour, writer, store: StoreSamples) -> None:
    frame = lab.ledger(topic).frame()
    acked = frame[frame["state"] == "acked"]
    malformed = acked["kind"].str.startswith("malformed")
    progress = writer.progress()
    tour.events_with_unknown_fields = int(progress["unknown_events"].sum())
    tour.unknown_fields = sorted(set(progress["unknown_fields"].explode().dropna()))
    curves = {}
    for sink in SINKS:
        sends = acked[malformed if sink == "dead" else ~malformed]
        batches = progress[progress["sink"] == sink].sort_values("batch")
        fresh = event_freshness(sends, batches, store.completions[sink]).dropna()
        last = [row for row in store.rows if row["sink"] == sink][-1]
        tour.sinks[sink] |= {
            "bytes": last["bytes"],
            "files": last["files"],
            "commits": len(batches),
            "freshness_p50_s": round(float(fresh.quantile(0.5)), 2) if len(fresh) else None,
            "freshness_p95_s": round(float(fresh.quantile(0.95)), 2) if len(fresh) else None,
            "freshness_measured": len(fresh),
        }
        if len(fresh):
            tour.sinks[sink]["freshness_p50_halves_s"] = _halves(fresh, sends["sent_at"])
            curves[sink] = fresh.quantile([step / 100 for step in range(0, 101, 2)]).tolist()
    tour.series["freshness_quantiles"] = curves
    files = lab.files(lab.path(FOLDERS["mor"]))
    tour.sinks["mor"]["compactions"] = sum(map(is_compaction, files))


def _halves(fresh: pd.Series, sent_at: pd.Series) -> list[float]:
    """Return the median freshness (s) of the first and of the second half of the events.

    The two are about equal unless the sink falls behind.
    """
    late = sent_at.loc[fresh.index] > sent_at.median()
    return [round(float(half.median()), 2) for half in (fresh[~late], fresh[late])]


def _print_report(console: Console, tour: Tour, target: Path) -> None:
    verdicts = ("rows", "expected", "missing", "duplicate", "stale", "ghost")
    table = _result_table("Each sink against the producer's ledger", "sink", *verdicts, "verdict")
    costs = _result_table("Cost and freshness", "sink", "commits", "files", "MB", "p50 s", "p95 s")
    for sink, facts in tour.sinks.items():
        table.add_row(
            sink,
            *(f"{facts[name]:,}" for name in verdicts),
            "[green]reconciles[/green]" if facts["ok"] else "[red]differs[/red]",
        )
        costs.add_row(
            sink,
            f"{facts['commits']:,}",
            f"{facts['files']:,}",
            f"{facts['bytes'] / 1e6:.1f}",
            _seconds(facts["freshness_p50_s"]),
            _seconds(facts["freshness_p95_s"]),
        )
    compactions = tour.sinks["mor"]["compactions"]
    console.print(table)
    console.print(costs)
    console.print(f"The MOR table was compacted {compactions} times during the stream.")
    queries = _result_table("Queries with plain Spark", "sink", "query", "rows", "seconds")
    for query in tour.queries:
        queries.add_row(
            query["sink"], query["query"], f"{query['rows']:,}", f"{query['seconds']:.2f}"
        )
    console.print(queries)
    minutes = _result_table(MINUTES_TITLE, "minute", "orders", "revenue", "in a batch")
    for minute in tour.minutes:
        minutes.add_row(
            minute["minute"], f"{minute['orders']:,}", minute["revenue"], minute["batch_revenue"]
        )
    console.print(minutes)
    for sink, account in tour.accounting.items():
        console.print(f"{sink}: {report.sentence(account)}")
    console.print(report.unknown_fields(tour))
    memory = ", ".join(f"{k} {v:,}" for k, v in tour.memory_peak_mb.items() if k != "total")
    console.print(f"Peak memory {tour.memory_peak_mb['total']:,} MB ({memory})")
    code = tour.writer_memory.get("code cache")
    if code:
        megabytes = f"{code['used'] / 1e6:.0f} of {code['limit'] / 1e6:.0f} MB"
        console.print(f"The code cache of the writer's JVM held {megabytes}.")
    for problem in tour.problems:
        console.print(f"[red]{problem}[/red]")
    console.print(f"Report: {target / 'index.html'} · {tour.seconds['total']:.0f} s in all")


def _seconds(measured: float | None) -> str:
    return "-" if measured is None else str(measured)


def _result_table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for column in columns:
        table.add_column(column, justify="left" if column in ("sink", "query") else "right")
    return table


def _program_processes(exclude: str) -> list[psutil.Process]:
    """Return the processes of all supervised programs, services included, but one."""
    return [
        process
        for program in supervisor.status()
        if program.name != exclude
        for process in process_tree(program.pid)
    ]


def _own_children(java: bool) -> list[psutil.Process]:
    return [
        process for process in process_tree(os.getpid())[1:] if ("java" in _name(process)) == java
    ]


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""
