"""A streaming writer in its own process: `python -m lab_env.pipeline.writer JOB.json`.

The Hudi sink can end its JVM or hang silently, so it never runs in a learner's kernel. The writer
records each committed batch in `progress.jsonl` and its own state in `state.json`. When a query
makes no progress, a watchdog records the reason and ends the process.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path

import psutil

from lab_env.pipeline import changes, guard, landing, options, parsing, session, sinks
from lab_env.pipeline.checkpoint import Batch, open_batch, still_open
from lab_env.pipeline.tasks import Tasks, heartbeat, look_seconds
from lab_env.pipeline.topic import StartAgain, Topic, TopicWatch
from lab_env.platform.brokers.kafka_client import spark_options
from lab_env.platform.errors import LabError
from lab_env.platform.jvm import explained, memory_use
from lab_env.platform.settings import Endpoints, settings

STALLED_EXIT = 75  # sysexits.h: temporary failure
ENDED = ("stopped", "failed", "stalled")
POLL_SECONDS = 1.0
STARTING = "the start"
# Messages per batch and query. With the four queries and a backlog of 500,000 it took 252 processor
# seconds; half as many messages took 319, with the same memory (one run each, on a busy machine).
MAX_OFFSETS = 100_000
MOST_BYTES = 8_000_000  # of progress.jsonl: some 10,000 batches
START_SECONDS = 180.0  # session, first tables and first batches, on a busy machine
LOOK_SECONDS = 0.5  # between two looks of the watchdog
MOST_BETWEEN_LOOKS = 4 * LOOK_SECONDS  # a longer time is a pause of this process


@dataclass(frozen=True)
class Job:
    """Settings of one writer.

    Args:
        topic: Kafka topic to read, or Kinesis stream.
        base: folder of the tables and checkpoints, for example `s3a://lakehouse/tour`.
        folder: local folder for its progress and state files.
        log: file for the output of its JVM.
        jars: folder of the connector jars.
        java_home: Java installation to run on.
        sinks: queries to run, names from `sinks.WRITERS`; all read the same topic.
        trigger_seconds: time between the starts of two batches; 0 reads everything available, then
        stops.
        max_offsets: maximum messages per batch, over all topic partitions; 0 for no limit. A batch
        that an earlier run began keeps its messages. Kafka only: a batch of Kinesis takes all files
        landed since the previous one.
        stall_seconds: how long a running query may go without progress (no task ends, reads or
        writes, and no report arrives) before the watchdog ends the writer; a batch may last longer.
        spark: additional Spark properties.
        replay: let a query whose checkpoint does not belong to its table read everything again; see
        `lab_env.pipeline.guard`.
        hudi: additional options of its Hudi sinks.
        lock: ZooKeeper's `host:port`, if other jobs write the same tables.
        source: `kafka`, or `kinesis`, which is landed as files first: see
        `lab_env.pipeline.landing`.
    """

    name: str
    topic: str
    base: str
    folder: str
    log: str
    jars: str
    java_home: str
    sinks: tuple[str, ...] = field(default_factory=sinks.chosen_sinks)
    trigger_seconds: float = 3.0
    max_offsets: int = MAX_OFFSETS
    stall_seconds: float = 180.0
    java_options: str = session.JAVA_OPTIONS
    spark: dict[str, str] = field(default_factory=dict)
    replay: bool = field(default_factory=lambda: settings().replay_stream)
    hudi: dict[str, str] = field(default_factory=dict)
    lock: str = ""
    source: str = "kafka"

    def save(self) -> Path:
        """Write the job to a file, which a restart reads again; return its path."""
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "state.json").unlink(missing_ok=True)
        path = folder / "job.json"
        path.write_text(json.dumps(asdict(self), indent=1))
        return path

    @staticmethod
    def load(path: Path) -> "Job":
        """Read a job written by `save`."""
        raw = json.loads(path.read_text())
        return Job(**raw | {"sinks": tuple(raw["sinks"])})


def command(job_file: Path) -> list[str]:
    """Command line of a writer, for the supervisor."""
    return [sys.executable, "-m", "lab_env.pipeline.writer", str(job_file)]


class AwakeClock:
    """Monotonic clock that skips the pauses of this process; the watchdog keeps asking it.

    While a laptop sleeps or a container is paused, no query can make progress, so that time must
    not count as a hang.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock, self._lock = clock, threading.Lock()
        self._last, self._awake = clock(), 0.0

    def __call__(self) -> float:
        with self._lock:
            now = self._clock()
            self._awake += min(now - self._last, MOST_BETWEEN_LOOKS)
            self._last = now
            return self._awake


class ProgressLog:
    """Writes one log line per batch, and the writer's current state.

    The clock is monotonic; by default, it skips the pauses of this process.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] | None = None):
        self._clock = clock = clock or AwakeClock()
        self._path = folder / "progress.jsonl"
        self._log_order = _log_order(self._path)
        self._progress = self._path.open("a", buffering=1)
        if self._progress.tell() and not self._path.read_bytes().endswith(b"\n"):
            self._progress.write("\n")  # a crash has torn the last line
        self._state = folder / "state.json"
        self._newest: dict[str, tuple[int, str]] = {}
        self._heard = {STARTING: clock()}
        self._warned: set[str] = set()
        self._left_open: dict[str, str] = {}
        self._lock = threading.Lock()
        self._over = False
        self._moved: set[str] = set()
        self._patience = START_SECONDS

    def running(self, sinks: tuple[str, ...], patience: float, **facts) -> None:
        """Record that the queries run; from now on, `hung` expects progress from each.

        `patience` is the maximum number of seconds between two signs of progress; before the first
        it is at least START_SECONDS, because a first batch loads all classes.
        """
        self._heard = dict.fromkeys(sinks, self._clock())
        self._patience = patience
        self.state("running", **facts)

    def hung(self) -> tuple[str, float] | None:
        """Query without progress for too long, and for how many seconds; None if there is none.

        If there are several, return the one without progress for longest. Each query is watched
        separately, because a Hudi sink can hang while the others continue.
        """
        now = self._clock()
        silent = {name: now - at for name, at in self._heard.copy().items()}  # the watchdog asks
        late = [name for name, seconds in silent.items() if seconds >= self._limit(name)]
        return max(((name, silent[name]) for name in late), key=itemgetter(1), default=None)

    def _limit(self, name: str) -> float:
        return self._patience if name in self._moved else max(self._patience, START_SECONDS)

    def went_on(self, sink: str) -> None:
        """Record that a query made progress: a task ended, read or wrote, or the query reported."""
        if sink in self._heard:
            self._heard[sink] = self._clock()
            self._moved.add(sink)

    def ended(self, sink: str) -> None:
        """Stop watching a query that has ended, for example after the last message."""
        self._heard.pop(sink, None)

    def note(self, progress: dict) -> None:
        """Record a query's progress report once, and only if it ran a batch, even an empty one.

        Raises:
            LabError: the database whose changes the query writes was restored.
        """
        name, report = progress["name"], (progress["batchId"], progress["timestamp"])
        if report <= self._newest.get(name, (-1, "")):
            return
        self._newest[name] = report
        self.went_on(name)
        if "addBatch" in progress["durationMs"]:
            self._left_open.pop(name, None)  # it is the first that a query does
            batch = _short(progress)
            self._progress.write(json.dumps(batch) + "\n")
            if self._progress.tell() > MOST_BYTES:
                self._drop_older_half()
            self._warn_of(batch)
            if name == "changes":
                self._log_order.check(batch["batch"], batch.get(changes.LOG_ENDS, {}))

    def _drop_older_half(self) -> None:
        """Keep the newer lines, and the line with the furthest position in the database's log."""
        lines = self._path.read_text().splitlines(keepends=True)
        older, newer = lines[: len(lines) // 2], lines[len(lines) // 2 :]
        position = self._log_order.furthest["position"]
        furthest = [line for line in older if position and position in line][-1:]
        shorter = self._path.with_suffix(".new")
        shorter.write_text("".join([*furthest, *newer]))
        shorter.replace(self._path)
        self._progress.close()
        self._progress = self._path.open("a", buffering=1)

    def _warn_of(self, batch: dict) -> None:
        names = set(batch["unknown_fields"])
        if names - self._warned:
            events, number = f"{batch['unknown_events']:,} events", batch["batch"]
            dropped = "fields that this pipeline does not know and drops"
            named = ", ".join(name if name.isprintable() else repr(name) for name in sorted(names))
            print(f"warning: {events} of batch {number} have {dropped}: {named}", flush=True)
        self._warned |= names

    def found_open(self, sink: str, batch: Batch, topic: str) -> None:
        """Record a batch that an earlier run did not finish, and with which this run begins."""
        self._left_open[sink] = still_open(batch, sink, topic)

    def end(self, state: str, error: str, sink: str = "", **facts) -> str:
        """Record why the writer ends, with the offsets of any batch that two runs failed to finish.

        Args:
            state: one of `ENDED`.
            sink: the query that failed; empty if no single query did.

        Returns:
            The recorded text.
        """
        left_open = dict(self._left_open)  # the watchdog calls this from its own thread
        again = [text for name, text in left_open.items() if sink in ("", name)]
        text = " ".join([*again, error])[:4000]
        self.state(state, error=text, **({"sink": sink} if sink else {}), **facts)
        return text

    def state(self, state: str, **facts) -> None:
        """Replace the state file atomically, but keep the first reason why the writer ended.

        When the watchdog has killed the child processes, the main thread fails a moment later.
        """
        text = json.dumps({"state": state, "pid": os.getpid(), "at": time.time(), **facts})
        with self._lock:
            if self._over:
                return
            self._over = state in ENDED
            partial_file = self._state.with_suffix(".new")
            partial_file.write_text(text)
            partial_file.replace(self._state)


def _short(progress: dict) -> dict:
    source = progress["sources"][0]
    end = source["endOffset"]
    observed = progress.get("observedMetrics") or {}
    unknown = observed.get(parsing.UNKNOWN_FIELDS) or {}
    log_ends = {name: observed[name] for name in (changes.LOG_ENDS,) if name in observed}
    return {
        "sink": progress["name"],
        "batch": progress["batchId"],
        "started": progress["timestamp"],
        "rows": progress["numInputRows"],
        "seconds": progress["durationMs"].get("triggerExecution", 0) / 1000,
        "durations_ms": progress["durationMs"],
        "start_offsets": _of_topic(source["startOffset"] or {"": {}}),
        "end_offsets": _of_topic(end),
        "unknown_events": unknown.get("events") or 0,
        "unknown_fields": unknown.get("fields") or [],
        **log_ends,
    }


def noted_batches(progress: Path) -> list[dict]:
    """Batches in a writer's `progress.jsonl`; incomplete lines are skipped."""
    batches = []
    with contextlib.suppress(FileNotFoundError):
        for line in progress.read_text().splitlines():
            with contextlib.suppress(ValueError):
                batches.append(json.loads(line))
    return batches


def _log_order(progress: Path) -> changes.LogOrder:
    order = changes.LogOrder()
    for batch in noted_batches(progress):
        if batch["sink"] == "changes":
            order.note(batch["batch"], batch.get(changes.LOG_ENDS, {}))
    return order


def _of_topic(offsets: dict) -> dict:
    """Offsets by partition of the only topic; for landed files, Spark's single number unchanged."""
    only = next(iter(offsets.values()))
    return only if isinstance(only, dict) else offsets


def run(job: Job, progress_log: ProgressLog, stop: threading.Event) -> int:
    """Run the job's queries until they are stopped, all are done, or one fails.

    Return the exit status: 0 when stopped or done, 1 when a query failed.
    """
    endpoints = session.endpoints_of_environment()
    progress_log.state("starting")
    _watch(job, progress_log)
    claims = {sink: claim(endpoints, job, sink) for sink in job.sinks if sink in sinks.HUDI_SINKS}
    java_options = {"spark.driver.extraJavaOptions": job.java_options}
    extra = session.KEPT_REPORTS | heartbeat(job.stall_seconds) | java_options | job.spark
    spark = session.build_session(endpoints, Path(job.jars), Path(job.java_home), job.name, extra)
    for sink in job.sinks:
        if batch := open_batch(endpoints, sinks.checkpoint_path(job.base, sink)):
            progress_log.found_open(sink, batch, job.topic)
    still_starting = partial(progress_log.went_on, STARTING)
    records, source = read_source(spark, endpoints, job, still_starting)
    trigger = {"availableNow": True}
    if job.trigger_seconds:
        trigger = {"processingTime": f"{job.trigger_seconds} seconds"}
        records = sinks.share_cores(records, len(job.sinks))
    # In parallel: before a stream into a new table starts, Hudi waits five seconds for that table.
    with ThreadPoolExecutor(len(job.sinks)) as together:
        start = partial(sinks.start_query, records, base=job.base, trigger=trigger)
        queries = list(together.map(lambda s: start(s, extra=claims.get(s, {})), job.sinks))
    reading = source.says if source else ""
    ui = spark.sparkContext.uiWebUrl
    progress_log.running(job.sinks, job.stall_seconds, ui=ui, reading=reading)
    tasks, next_look = Tasks(spark), 0.0
    while not stop.is_set() and any(query.isActive for query in queries):
        _note_progress(progress_log, queries)
        if time.monotonic() >= next_look:  # some hundred calls into the JVM
            next_look = time.monotonic() + look_seconds(job.stall_seconds)
            for sink in tasks.went_on():
                progress_log.went_on(sink)
        if source and source.error:
            raise source.error
        failed = [query for query in queries if not query.isActive and query.exception()]
        if failed:
            return _failed(job, progress_log, failed[0], source)
        stop.wait(POLL_SECONDS)
    if source:
        source.stop()
    for query in queries:
        query.stop()
    _note_progress(progress_log, queries)
    failed = [query for query in queries if query.exception()]
    if failed:
        return _failed(job, progress_log, failed[0], source)
    memory = memory_use(spark.sparkContext._jvm)
    progress_log.state("stopped", memory={name: asdict(use) for name, use in memory.items()})
    spark.stop()
    return 0


def read_source(spark, endpoints: Endpoints, job: Job, went_on: Callable[[], None]):
    """The job's topic or stream as a streaming DataFrame with Kafka's columns.

    Also return the running thread that watches the topic or lands the Kinesis stream, or None if
    everything has been landed already.

    Args:
        went_on: called after each landed file if a stream is landed before the queries start.

    Raises:
        LabError: the broker does not answer, or its topic or stream cannot be continued.
    """
    if job.source == "kafka":
        watch = watch_topic(spark, endpoints, job)
        options = watch.options
        return parsing.read_topic(spark, endpoints.kafka_bootstrap, job.topic, **options), watch
    if job.trigger_seconds:
        times = job.trigger_seconds, job.stall_seconds
        return landing.read_live(spark, endpoints, job.topic, job.base, *times)
    folder = landing.landing_path(job.base)
    landing.Landing(endpoints, job.topic, folder).land_all(went_on)
    return landing.read_landing(spark, folder), None


def watch_topic(spark, endpoints: Endpoints, job: Job) -> TopicWatch:
    """Start watching the job's topic; raise `Refused` if it is missing or was recreated."""
    topic = Topic(spark, job.topic, spark_options(endpoints.kafka_bootstrap))
    checkpoints = [sinks.checkpoint_path(job.base, sink) for sink in job.sinks]
    watch = TopicWatch(spark, topic, checkpoints, job.max_offsets)
    if watch.says:
        print(watch.says, flush=True)
    watch.start()
    return watch


def claim(endpoints: Endpoints, job: Job, sink: str) -> dict[str, str]:
    """Check that a Hudi sink's checkpoint belongs to its table; delete a half-created table first.

    Returns:
        Additional options of the sink, including the stream's identifier in the table's commits.

    Raises:
        LabError: new events would be missing from the table without an error.
    """
    table, path = sinks.table_path(job.base, sink), sinks.checkpoint_path(job.base, sink)
    if not job.lock:  # with one, another job may be creating the table now
        guard.drop_unmade(endpoints, table)
    guard.check_clock(endpoints, table, job.java_options)
    # Where several jobs write a table, Hudi requires a name for each of its streams.
    claimed = guard.claim_table(endpoints, table, path, settings().cores, job.replay)
    locked = options.shared(job.lock, table) if job.lock else {}
    reachable = options.reachable(settings().spark_driver_ports)
    return claimed | reachable | job.hudi | locked


def _failed(
    job: Job, progress_log: ProgressLog, query, source: TopicWatch | landing.LandingThread | None
) -> int:
    if isinstance(source, TopicWatch):
        source.check_id()
    error = explained(query.exception(), Path(job.log))
    error = progress_log.end("failed", error, query.name)
    print(f"query {query.name} failed: {error}", flush=True)
    return 1


def _note_progress(progress_log: ProgressLog, queries: list) -> None:
    """Record every report since the last call; Spark keeps only `session.KEPT_REPORTS` of them."""
    for query in queries:
        for progress in query.recentProgress:
            progress_log.note(progress)
        if not query.isActive:
            progress_log.ended(query.name)


def _watch(job: Job, progress_log: ProgressLog) -> None:
    """End this process, with a reason and a thread dump, when a query makes no progress.

    An idle query still reports every ten seconds, and a long batch has many tasks, or one that
    reads or writes. The watchdog runs in its own thread and never calls the JVM, because the JVM
    itself may hang; then the main thread, which does call it, records no progress.
    """

    def watch() -> None:
        while not (hung := progress_log.hung()):
            time.sleep(LOOK_SECONDS)
        sink, seconds = hung
        dump = Path(job.folder) / "threads.txt"
        why = explained(_no_progress(job, sink, seconds), Path(job.log))
        why = progress_log.end("stalled", why, sink, threads=str(dump))
        _dump_threads(job, dump)
        print(f"{why}: ended; threads in {dump}", flush=True)
        _kill_children()
        os._exit(STALLED_EXIT)

    threading.Thread(target=watch, name="watchdog", daemon=True).start()


def _no_progress(job: Job, sink: str, seconds: float) -> str:
    quiet = f"no progress of {sink} for {seconds:.0f} s"
    if sink not in job.sinks:
        return quiet
    limit = f"{job.max_offsets:,} messages" if job.max_offsets else "no limit"
    return (
        f"{quiet}: no task of it ended, read or wrote anything"
        f" (stall_seconds is {job.stall_seconds:g}; max_offsets, for a batch, is {limit})"
    )


def _dump_threads(job: Job, target: Path) -> None:
    """Write the JVM's thread dump; a frozen JVM does not make one."""
    jstack = Path(job.java_home) / "bin" / "jstack"
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired, psutil.NoSuchProcess):
            if child.name() != "java":  # jstack's signal would end Spark's Python workers
                continue
            out = subprocess.run(
                [jstack, str(child.pid)], capture_output=True, text=True, timeout=5, check=False
            )
            target.write_text(out.stdout or out.stderr)


def _kill_children() -> None:
    children = psutil.Process().children(recursive=True)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(children, timeout=5)


def main(job_file: Path) -> int:
    """Run a job from its file, and return the exit status."""
    job = Job.load(job_file)
    progress_log = ProgressLog(Path(job.folder))
    stop, again = threading.Event(), ""
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    try:
        return run(job, progress_log, stop)
    except StartAgain as why:
        again = str(why)
    except LabError as error:
        progress_log.state("failed", error=str(error)[:4000])
        print(error, flush=True)
        return 1
    except Exception as error:
        # Py4J reports a dead JVM in many ways, and none of them names it.
        dead = all(p.status() == psutil.STATUS_ZOMBIE for p in psutil.Process().children())
        what = "The JVM of Spark ended" if dead else "The writer failed"
        why = explained(f"{type(error).__name__}: {error}", Path(job.log))
        progress_log.end("failed", f"{what}: {why}")
        traceback.print_exc()
        return 1
    finally:
        _kill_children()
    if stop.is_set():
        progress_log.state("stopped")
        return 0
    progress_log.state("starting", again=again)
    print(f"{again} The writer starts again.", flush=True)
    # A new process ends anything that Hudi still does in the old JVM, such as a compaction.
    os.execv(sys.executable, command(job_file))


if __name__ == "__main__":
    # Not sys.exit: Py4J's threads may wait for a JVM that is gone.
    status = main(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
