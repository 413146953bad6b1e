"""The pipeline into which a group of faults is injected: topic, tables, gate and writer."""

import contextlib
import subprocess
import time
from collections.abc import Generator
from dataclasses import replace
from html import escape

import psutil

from lab_env.lab.faults.gate import Gate
from lab_env.lab.faults.writers import jvm_of
from lab_env.lab.handle import namespace_of
from lab_env.lessons.recorded.campaign_plan import SINKS
from lab_env.pipeline.guard import Checkpoint, read_state, table_receipt
from lab_env.pipeline.handle import Writer
from lab_env.pipeline.session import SHORT_LIFE
from lab_env.pipeline.sinks import checkpoint_path, table_path
from lab_env.platform import store
from lab_env.platform.brokers.topics import ensure_topic, topic_end_offsets
from lab_env.platform.errors import LabError
from lab_env.platform.install import java
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.tree import kill_processes
from lab_env.platform.settings import Endpoints
from lab_env.shop.ledger.book import ledger_directory
from lab_env.tables.observed.watching import Observed, observed
from lab_env.tables.xray import xray
from lab_env.tables.xray.drawing import as_html
from lab_env.workbench.campaign.feeder import Feeder
from lab_env.workbench.campaign.judge import Judgement, judge_table

NAMESPACE = "campaign"
RATE = 100  # events per second
FIRST_EVENTS = 300
TRIGGER_SECONDS = 3.0
# Frequent table services, so that faults hit them: the pipeline itself runs them after every fifth
# commit, and cleans tables with more than ten commits.
HUDI = {
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.clean.trigger.max.commits": "3",
    "hoodie.clean.commits.retained": "2",
    # The tour's. It has no checksum of its own, which gzip has.
    "hoodie.parquet.compression.codec": "zstd",
}
RECOVERY_SECONDS = 240.0  # maximum wait for a pipeline to catch up
RESTARTS = 4  # as a supervisor would, a failed writer is restarted
STALL_SECONDS = 60.0
READ_EVERY, PARTS = 2.0, 20  # of readers: seconds between two reads; one key in so many is read


class Stuck(Exception):
    """The pipeline did not catch up in time."""


class Group:
    """The pipeline of one group.

    Args:
        label: part of its topic and folder names, for example `17-small-g01-1`.
        seed: the seed of its events.
    """

    def __init__(self, endpoints: Endpoints, label: str, seed: int):
        self.endpoints = endpoints
        self.label = label
        self.topic = f"{namespace_of(NAMESPACE)}.{label}"
        self.base = f"s3a://{endpoints.bucket}/{namespace_of(NAMESPACE)}/{label}"
        self.writer = Writer(f"writer-{namespace_of(NAMESPACE)}-{label}")
        self.gate = Gate(endpoints.s3_endpoint)
        self.patience = STALL_SECONDS
        self.processor_seconds = 0.0
        self._family: list[psutil.Process] = []
        self._seen: dict[str, Observed] = {}
        ledger = ledger_directory(self.topic)
        self.feeder = Feeder(endpoints.kafka_bootstrap, self.topic, ledger, seed, label, RATE)

    def begin(self) -> None:
        """Start the pipeline, and wait until both tables hold the first events."""
        ensure_topic(self.endpoints.kafka_bootstrap, self.topic)
        self.feeder.send(FIRST_EVENTS)
        self.start_writer()
        self.writer.wait_caught_up(self.endpoints, self.ends(), RECOVERY_SECONDS)

    def start_writer(self) -> None:
        """Start the writer, which accesses the store through the gate."""
        through_gate = replace(self.endpoints, s3_endpoint=self.gate.url)
        self.writer.start(through_gate, self.topic, self.base, **self.job())

    def job(self) -> dict:
        """Return the campaign's writer settings other than topic and folder."""
        return {
            "short": True,
            "spark": SHORT_LIFE,
            "sinks": SINKS,
            "trigger_seconds": TRIGGER_SECONDS,
            "stall_seconds": self.patience,
            "hudi": HUDI,
        }

    def ensure_running(self) -> None:
        """Start the writer if needed, and wait until it has committed everything sent."""
        if self.writer.state()["state"] not in ("starting", "running"):
            self.start_writer()
        self.writer.wait_caught_up(self.endpoints, self.ends(), RECOVERY_SECONDS)

    def kill_writer(self) -> None:
        """Kill the writer (SIGKILL); requests held by the gate never reach the store."""
        family = self._family or self.writer.processes()
        self.count(family)
        kill_processes(family)
        self.gate.drop()
        self._family = []

    def aim(self) -> None:
        """Look up the writer's processes in advance, so that `kill_writer` acts without delay."""
        self._family = self.writer.processes()

    def stop_writer(self) -> None:
        """Stop the writer after its current batch."""
        self.count(self.writer.processes())
        self.writer.stop()

    def ends(self) -> dict[int, int]:
        """Return the topic's end offsets by topic partition."""
        return topic_end_offsets(self.endpoints.kafka_bootstrap, self.topic)

    def recover(self, start: bool = False) -> tuple[float, int]:
        """Wait until everything sent so far is committed; restart a failed writer.

        Args:
            start: whether the writer is dead and has to be started first.

        Returns:
            The seconds until everything was committed, and the number of writer starts needed.

        Raises:
            Stuck: the writer has not caught up in time, or fails repeatedly.
        """
        began, ends, restarts = time.monotonic(), self.ends(), int(start)
        if start:
            self.start_writer()
        while True:
            left = RECOVERY_SECONDS - (time.monotonic() - began)
            try:
                self.writer.wait_caught_up(self.endpoints, ends, max(left, 1))
                return round(time.monotonic() - began, 1), restarts
            except LabError as error:
                if left <= 0 or restarts >= RESTARTS or self.writer.state()["state"] == "running":
                    raise Stuck(str(error)) from error
            self.count(self.writer.processes())
            self.start_writer()
            restarts += 1

    def rest(self) -> None:
        """Stop sending, and wait until everything sent is committed or known to be lost."""
        self.feeder.pause()
        self.feeder.settle()
        self.recover()

    def judge(self, whole: bool = False) -> list[Judgement]:
        """Compare both tables with the ledger, using hudi-rs; see `judge_table`."""
        ledger = self.feeder.ledger
        return [judge_table(self.endpoints, self.base, sink, ledger, whole) for sink in SINKS]

    def reached(self) -> list[str]:
        """Return the kinds of completed instants in both tables, and `archive` if one has any."""
        kinds: set[str] = set()
        for sink in SINKS:
            table = xray(self.endpoints, table_path(self.base, sink))
            kinds |= {i.action for i in (*table.history, *table.instants) if i.completed}
            kinds |= {"archive"} if table.history else set()
        return sorted(kinds)

    @contextlib.contextmanager
    def watched(self) -> Generator[None]:
        """Let hudi-rs read both tables again and again, past the gate, while the body runs."""
        with contextlib.ExitStack() as reading:
            for sink in SINKS:
                table = observed(
                    self.endpoints, None, table_path(self.base, sink), parts=PARTS, every=READ_EVERY
                )
                self._seen[sink] = reading.enter_context(table)
            yield

    def seen(self) -> dict[str, dict]:
        """Return by sink how often hudi-rs has read a table, and what it saw that was wrong."""
        views = {}
        for sink, table in self._seen.items():
            reads = [read for read in table.reads if read.reader == "hudi-rs"]
            wrong = [str(broken) for broken in table.broken if broken.read.reader == "hudi-rs"]
            failed = sum(bool(read.error) for read in reads)
            views[sink] = {"reads": len(reads), "errors": failed, "wrong": wrong}
        return views

    def receipts(self) -> dict[str, str]:
        """Describe the progress of each sink, according to its checkpoint and its table."""
        told = {}
        for sink in SINKS:
            state = read_state(self.endpoints, checkpoint_path(self.base, sink))
            receipt = table_receipt(self.endpoints, table_path(self.base, sink))
            told[sink] = state_in_words(state, receipt.batch if receipt else -1)
        return told

    def evidence(self) -> dict:
        """Collect evidence of a failure: requests, checkpoints, timelines and the writer's log."""
        listings = {}
        for sink in SINKS:
            folder = f"{store.key_of(table_path(self.base, sink))}/.hoodie/timeline/"
            objects = store.list_objects(self.endpoints, folder)
            listings[sink] = [entry.key.removeprefix(folder) for entry in objects][-40:]
        return {
            "label": self.label,
            "topic": self.topic,
            "base": self.base,
            "requests": [
                f"{r.number} {r.method} {r.key} {r.kind} {r.size} {r.status} {r.fate}"
                for r in self.gate.last(20)
            ],
            "receipts": self.receipts(),
            "timelines": listings,
            "xrays": {sink: self._xray(sink) for sink in SINKS},
            "state": self.writer.state(),
            "log": supervisor.log_tail(self.writer.name, 200).splitlines()[-200:],
        }

    def _xray(self, sink: str) -> str:
        try:
            return as_html(xray(self.endpoints, table_path(self.base, sink)))
        except Exception as error:  # a damaged table deserves a look, it is no failure here
            return f"<p>{escape(str(error))}</p>"

    def thread_dump(self) -> str:
        """Return a thread dump of the writer's JVM; if it has ended, the dump by its watchdog."""
        with contextlib.suppress(OSError, ValueError, psutil.Error, subprocess.TimeoutExpired):
            jstack = [java.java_home() / "bin" / "jstack", str(self.jvm().pid)]
            done = subprocess.run(jstack, capture_output=True, text=True, timeout=10, check=False)
            if done.stdout:
                return done.stdout[:20_000]
        dump = self.writer.folder / "threads.txt"
        return dump.read_text()[:20_000] if dump.exists() else ""

    def jvm(self) -> psutil.Process:
        """Return the JVM process of the writer."""
        return jvm_of(self.writer)

    def end(self) -> float:
        """Stop everything but keep the tables; return the CPU seconds that the writers used."""
        try:
            self.feeder.pause()
        finally:
            self.gate.disarm()
            self.stop_writer()
            supervisor.remove(self.writer.name)
            self.gate.close()
        return self.processor_seconds

    def count(self, processes: list[psutil.Process]) -> None:
        """Add the processes' processor time to the total; call this before killing them."""
        for process in processes:
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            self.processor_seconds += times.user + times.system


def state_in_words(state: Checkpoint, in_table: int) -> str:
    """Describe how far the newest batch has progressed.

    Args:
        in_table: newest batch in the table's complete commits; -1 for none.
    """
    if state.planned > state.done:
        if in_table == state.planned:
            return f"batch {state.planned} in the table, not in commits"
        return f"batch {state.planned} planned, not in the table"
    return f"between batches, {state.done} is done"
