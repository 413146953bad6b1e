"""Measures a small commit of the pipeline's tables: request by request, and option by option.

A stream commits small batches to a table that has orders already. First a proxy in front of the
store notes every request of each commit. Then, without the proxy, settings that differ in one
option take turns on the same events, round after round.
"""

import re
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise

from lab_env.lab.faults.gate import Gate, Request
from lab_env.lab.handle import Lab, reset_lesson
from lab_env.lessons.recorded.commit import (
    NO_SERVER,
    PIPELINE,
    SHORT_LIVED,
    option_table,
    phase_table,
)
from lab_env.pipeline import options, session
from lab_env.platform import services
from lab_env.platform.install.cache import Progress
from lab_env.tables.probes.bucket_usage import MeteredBucket
from lab_env.workbench.bench import latency
from lab_env.workbench.bench.machine import stamp
from lab_env.workbench.bench.metering import Meter
from lab_env.workbench.bench.rounds import NAMESPACE, rotated, send
from lab_env.workbench.bench.stream import UNIFORM, Scenario, Stream, record
from lab_env.workbench.bench.worker_client import WorkerClient

UPDATES = 60  # percent of the changes
DAYS = 4  # table partitions, each with two buckets
KEPT_REQUESTS = 100_000
OFFSETS = re.compile(r"_checkpoint/offsets/\.?(\d+)")  # of a batch, or the file renamed to it
KINDS = {"cow": options.COW, "mor": options.MOR}


@dataclass(frozen=True)
class Setting:
    """The pipeline's options with a change, and the table types for which to measure it."""

    options: dict[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = tuple(KINDS)


def _compacted_after(commits: int) -> dict[str, str]:
    return {"hoodie.metadata.compact.max.delta.commits": str(commits)}


SERVED = {"hoodie.embed.timeline.server": "true"}
# Without an asynchronous service the sink closes its writer and the server after the first batch.
KEPT_OPEN = SERVED | {
    "hoodie.clustering.async.enabled": "true",
    "hoodie.clustering.async.max.commits": "1000000000",  # never
}
MERGER = {
    "hoodie.write.record.merge.custom.implementation.classes": (
        "org.apache.hudi.DefaultSparkRecordMerger"
    )
}
SETTINGS = {
    PIPELINE: Setting(),
    NO_SERVER: Setting({"hoodie.embed.timeline.server": "false"}, ("mor",)),
    "server kept open by async clustering": Setting(KEPT_OPEN, ("cow",)),
    SHORT_LIVED: Setting(options.SHORT_LIVED),
    "no metadata table": Setting({"hoodie.metadata.enable": "false"}),
    "metadata table compacted after 3": Setting(_compacted_after(3), ("mor",)),
    "metadata table compacted after 10": Setting(_compacted_after(10), ("cow",)),
    "metadata table compacted after 30": Setting(_compacted_after(30)),
    "no streaming to the metadata table": Setting(
        {"hoodie.metadata.streaming.write.enabled": "false"}
    ),
    "no bloom filter, zstd": Setting(
        {
            "hoodie.parquet.bloom.filter.enabled": "false",
            "hoodie.parquet.compression.codec": "zstd",
        }
    ),
    # On Merge-on-Read with Avro logs the stream hangs (1.1.1).
    "Spark's record merger": Setting(MERGER, ("cow",)),
    "no record positions": Setting({"hoodie.write.record.positions": "false"}, ("mor",)),
    "asynchronous cleaning": Setting({"hoodie.clean.async.enabled": "true"}),
    "asynchronous archiving": Setting({"hoodie.archive.async": "true"}),
}
DRAWN = {"cow": (PIPELINE, SHORT_LIVED), "mor": (NO_SERVER, PIPELINE, SHORT_LIVED)}


@dataclass(frozen=True)
class CommitConfig:
    """Parameters of the measurement of small commits."""

    orders: int  # number of orders in the table before
    changes: int  # number of events per commit
    commits: int  # number of commits per run
    drawn: int  # the commit whose requests are recorded, counted from 1; no table service is due
    rounds: int  # number of runs of each setting without the proxy; 0 for none
    pictures: dict[str, tuple[str, ...]]  # by table type: settings whose requests are recorded
    settings: tuple[str, ...] = tuple(SETTINGS)
    # With the quick compiler alone, little is left to compile after the warm-up.
    java_options: str = session.LESSON_JAVA_OPTIONS


def commit_config(full: bool) -> CommitConfig:
    """Return the parameters of a smoke test or, with `full`, of a run with reliable figures."""
    if full:
        return CommitConfig(20_000, 1_000, commits=10, drawn=7, rounds=5, pictures=DRAWN)
    return CommitConfig(1_000, 100, commits=4, drawn=3, rounds=0, pictures={"mor": (PIPELINE,)})


def measure_commits(config: CommitConfig, report_progress: Progress = print) -> dict:
    """Record the requests of commits, then compare the settings.

    Returns:
        `made`, `cores`, `size`, `problems` (wrong answers); `commits`, each with `kind`, `setting`
        and `requests` (ms since the batch began, ms until the response, operation, key without the
        table's base path); `options`, one dictionary per run: kind, setting, round, and means per
        commit.
    """
    services.up(progress=lambda line: None)
    with ExitStack() as cleanup:
        reset_lesson(NAMESPACE)
        lab = Lab(NAMESPACE, services.endpoints())
        cleanup.callback(reset_lesson, NAMESPACE)
        bucket = MeteredBucket(lab.endpoints, "commit")
        cleanup.callback(bucket.remove)
        bucket.make()
        run = _Run(config, lab, bucket, report_progress)
        commits = run.anatomy()
        found = run.compare() if config.rounds else []
    sizes = ("orders", "changes", "commits", "drawn", "rounds")
    return stamp() | {
        "size": {name: getattr(config, name) for name in sizes},
        "problems": run.problems,
        "commits": commits,
        "options": found,
    }


class _Run:
    def __init__(self, config: CommitConfig, lab: Lab, bucket: MeteredBucket, progress: Progress):
        self._config, self._lab, self._bucket, self._report = config, lab, bucket, progress
        self._stream: Stream = record(
            Scenario(UPDATES, UNIFORM, config.orders, config.changes, config.commits, days=DAYS)
        )
        self.problems: list[str] = []

    def anatomy(self) -> list[dict]:
        """Record one commit of each drawn setting and table type through the proxy."""
        found = []
        with ExitStack() as cleanup:
            gate = Gate(self._lab.endpoints.s3_endpoint, kept=KEPT_REQUESTS)
            cleanup.callback(gate.close)
            worker = self._start(cleanup, gate.url)
            for kind, settings in self._config.pictures.items():
                for setting in settings:
                    self._report(f"every request of a commit: {kind}, {setting}")
                    began = time.time()
                    base, topic = self._load(worker, kind, setting)
                    self._follow(worker, topic)
                    requests = [request for request in list(gate.requests) if request.at > began]
                    commit = _commits(requests)[self._config.drawn]
                    rows = [_row(request, commit[0].at, base) for request in commit]
                    found.append({"kind": kind, "setting": setting, "requests": rows})
                    self._check(worker, f"{kind}, {setting}")
        return found

    def compare(self) -> list[dict]:
        """Run all settings in turn, round after round; the round before the first is a warm-up."""
        found = []
        with ExitStack() as cleanup:
            worker = self._start(cleanup, self._lab.endpoints.s3_endpoint)
            for kind in KINDS:
                self._timed(worker, kind, PIPELINE, 0)
            for number in range(1, self._config.rounds + 1):
                for setting in rotated(number - 1, self._config.settings):
                    for kind in SETTINGS[setting].kinds:
                        found.append(self._timed(worker, kind, setting, number))
                        self._report(f"round {number}: {found[-1]}")
        return found

    def _start(self, cleanup: ExitStack, store: str) -> WorkerClient:
        """Start a worker that reaches the store at the given URL."""
        bucket = MeteredBucket(replace(self._lab.endpoints, s3_endpoint=store), "commit")
        worker = WorkerClient("tuning", bucket, self._config.java_options)
        cleanup.callback(worker.stop)
        worker.wait()
        worker.bucket = self._bucket  # whose usage MinIO counts
        return worker

    def _load(self, worker: WorkerClient, kind: str, setting: str) -> tuple[str, str]:
        """Make a table with its first orders, and send the changes; return base path and topic."""
        base = f"s3a://{self._bucket.name}/bench/{time.time_ns()}"
        table = KINDS[kind] | SETTINGS[setting].options
        worker.call("begin", base=base, kind=kind, extra_options=table)
        topic = self._lab.topic(f"commit-{time.time_ns()}")
        send(self._lab, topic, self._stream.load)
        worker.call("ingest", topic=topic, batch=0)
        send(self._lab, topic, self._stream.changes)
        return base, topic

    def _follow(self, worker: WorkerClient, topic: str) -> list[dict]:
        """Commit the changes in batches; return these."""
        # Spark divides the limit by the number of topic partitions and rounds down.
        batch = self._config.changes + latency.PARTITIONS
        worker.call("follow", topic=topic, trigger=0, batch=batch)
        worker.call("settle")
        return worker.call("stop_following")["batches"]

    def _timed(self, worker: WorkerClient, kind: str, setting: str, number: int) -> dict:
        """Measure one run without the proxy; return means per commit.

        The seconds leave out the first batch, which starts the stream.
        """
        _, topic = self._load(worker, kind, setting)
        meter = Meter(worker)
        before = meter.read()
        batches = self._follow(worker, topic)
        used = meter.read() - before
        self._check(worker, f"round {number}, {kind}, {setting}")
        self._bucket.clear()
        later = batches[1:]
        return {
            "kind": kind,
            "setting": setting,
            "round": number,
            "seconds": round(sum(batch["seconds"] for batch in later) / len(later), 3),
            "CPU s": round(used.cpu_seconds / len(batches), 3),
            "requests": round(used.bucket.requests / len(batches), 1),
        }

    def _check(self, worker: WorkerClient, what: str) -> None:
        answer = worker.call("run_query", query="aggregate", warm=0)["answer"]
        if tuple(answer) != (right := self._stream.answers()["aggregate"]):
            self.problems.append(f"{what}: the table answers {answer}, but {right} is right")


def _commits(requests: list[Request]) -> list[list[Request]]:
    """Split a stream's requests into those of each batch, without the last, which has no end.

    A batch begins when its offsets are written. The first one makes the table.
    """
    starts: dict[str, int] = {}
    for place, request in enumerate(requests):
        if request.method == "PUT" and (batch := OFFSETS.search(request.key)):
            starts.setdefault(batch[1], place)
    return [requests[begin:end] for begin, end in pairwise(starts.values())]


def _row(request: Request, began: float, base: str) -> tuple[float, float, str, str]:
    prefix = base.split("/", 3)[3] + "/"
    return (
        round((request.at - began) * 1000, 1),
        round(request.seconds * 1000, 1),
        request.operation.replace("COPY", "PUT"),  # a copy costs as much
        (request.listed or request.key).removeprefix(prefix),
    )


def text_table(run: dict) -> str:
    """Return tables for the terminal: requests by phase and, if measured, costs by setting."""
    drawn = [(commit["kind"], commit["setting"]) for commit in run["commits"]]
    parts = [f"{', '.join(which)}\n{phase_table(run, *which)}" for which in drawn]
    if run["options"]:
        parts.append(option_table(run).round(2).to_string())
    return "\n\n".join(parts)
