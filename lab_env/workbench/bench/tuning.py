"""Measures the costs and savings of tuning options, changed one at a time on the same stream.

One process runs all settings in turn, round after round, so that changes in the machine's load
affect all of them. Each run is saved immediately, so that a later failure does not lose it.
"""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lab_env.lab.handle import Lab, reset_lesson
from lab_env.lessons.recorded.knobs import compared
from lab_env.pipeline import options, session
from lab_env.pipeline.sinks import table_path
from lab_env.platform import services
from lab_env.platform.install.cache import Progress
from lab_env.tables.probes.bucket_usage import MeteredBucket
from lab_env.tables.xray import xray
from lab_env.workbench.bench import latency
from lab_env.workbench.bench.config import Pace
from lab_env.workbench.bench.machine import stamp
from lab_env.workbench.bench.metering import Meter, ResourceUsage
from lab_env.workbench.bench.rounds import NAMESPACE, rotated, send
from lab_env.workbench.bench.stream import UNIFORM, Scenario, record
from lab_env.workbench.bench.worker_client import WorkerClient

UPDATES = 50  # percent of the changes
# An asynchronous compaction has ended once there is no request for so long.
QUIET_S, QUIET_LIMIT_S = 1.5, 60
SPARE_S = 0.5  # the last event of a live run is sent this long before the last batch begins

DELTAS = "hoodie.compact.inline.max.delta.commits"
TASKS = "hoodie.upsert.shuffle.parallelism"
MOR = options.MOR | {TASKS: "2"}
NO_COMPACTION = MOR | options.COMPACTION_OFF
SIMPLE_COW = {
    **{key: value for key, value in options.COW.items() if key not in options.INDEX},
    "hoodie.index.type": "SIMPLE",
}
SMALL_FILES = "hoodie.parquet.small.file.limit"


@dataclass(frozen=True)
class Setting:
    """One set of options to be measured.

    Args:
        interval: seconds between two commits of a live stream; 0 to read a backlog in batches.
        compacts_beside: whether compaction is asynchronous and so may outlast the stream.
    """

    name: str
    kind: str
    table: dict[str, str]  # all Hudi options of the table
    interval: int = 0
    compacts_beside: bool = False


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("plain", "mor", NO_COMPACTION),
        Setting("eight tasks", "mor", NO_COMPACTION | {TASKS: "8"}),
        Setting("eight buckets", "mor", NO_COMPACTION | {"hoodie.bucket.index.num.buckets": "8"}),
        Setting("no small file limit", "cow", SIMPLE_COW | {SMALL_FILES: "0"}),
        Setting("small file limit", "cow", SIMPLE_COW | {SMALL_FILES: "104857600"}),
        Setting("inline", "mor", NO_COMPACTION | {DELTAS: "2", "hoodie.compact.inline": "true"}),
        Setting("beside", "mor", MOR | {DELTAS: "2"}, compacts_beside=True),
        Setting("after five", "mor", MOR | {DELTAS: "5"}, compacts_beside=True),
        Setting("every 2 s", "mor", NO_COMPACTION, interval=2),
        Setting("every 8 s", "mor", NO_COMPACTION, interval=8),
    )
}
WARM_UP = ("beside", "small file limit")  # one of each table type


@dataclass(frozen=True)
class TuningConfig:
    """Parameters of the tuning measurement."""

    batch: int  # number of events per batch of a backlog, which has `batches`
    batches: int
    rate: int  # events/s of a live stream
    seconds: int  # duration of the live stream; a multiple of each interval
    rounds: int
    minutes: float = 6.2  # time after which no new run begins; the next call of `tune` continues
    # The quick compiler has little left to compile after the warm-up, so rounds are alike.
    java_options: str = session.LESSON_JAVA_OPTIONS


def tuning_config(full: bool) -> TuningConfig:
    """Return the parameters of a smoke test or, with `full`, of a run with reliable figures."""
    if full:
        return TuningConfig(batch=800, batches=5, rate=100, seconds=16, rounds=3)
    return TuningConfig(batch=50, batches=5, rate=20, seconds=16, rounds=1)


def tune(config: TuningConfig, folder: Path, report_progress: Progress = print) -> dict:
    """Measure all settings in rounds; continue an interrupted measurement.

    Args:
        folder: receives one JSON file per run. Files of a complete measurement, or of one with
            another `config`, are deleted first.

    Returns:
        `complete` (whether all runs were made), `made`, `cores`, `size`, `problems` (wrong answers
        and failed runs) and `runs`: one dictionary per run, as in `_figures`.
    """
    size, kept = json.dumps(_size(config)), folder / "size"
    same = kept.exists() and kept.read_text() == size
    if not same or len(list(folder.glob("*.json"))) == config.rounds * len(SETTINGS):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        kept.write_text(size)
    with _Run(config, folder, report_progress) as run:
        run.all()
    runs = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    good = [run for run in runs if not run.get("problem")]
    problems = [
        f"round {run['round']}, {run['setting']}: {run['problem']}"
        for run in runs
        if run not in good
    ]
    complete = len(good) == config.rounds * len(SETTINGS)
    found = {"size": _size(config), "problems": problems, "runs": good}
    return {"complete": complete} | stamp() | found


def _size(config: TuningConfig) -> dict[str, int]:
    sizes = {key: getattr(config, key) for key in ("batch", "batches", "rate", "seconds")}
    return sizes | {"updates percent": UPDATES}


class _Run:
    """A measurement in progress, with its worker, bucket and backlog topic."""

    def __init__(self, config: TuningConfig, folder: Path, report_progress: Progress):
        self._config, self._folder, self._report_progress = config, folder, report_progress
        self._began = time.monotonic()

    def __enter__(self) -> "_Run":
        services.up(progress=lambda line: None)
        with ExitStack() as cleanup:
            reset_lesson(NAMESPACE)
            self._lab = Lab(NAMESPACE, services.endpoints())
            cleanup.callback(reset_lesson, NAMESPACE)
            self._bucket = MeteredBucket(self._lab.endpoints, "tuning")
            cleanup.callback(self._bucket.remove)
            self._bucket.make()
            self._start_worker()
            cleanup.callback(lambda: self._worker.stop())  # the one that runs at the end
            batch = self._config.batch
            self._stream = record(
                Scenario(UPDATES, UNIFORM, batch, batch, self._config.batches - 1)
            )
            self._topic = self._lab.topic("tuning")
            send(self._lab, self._topic, self._stream.load + self._stream.changes)
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *exc_info) -> None:
        self._cleanup.close()

    def _start_worker(self) -> None:
        self._worker = WorkerClient("tuning", self._bucket, self._config.java_options)
        self._worker.wait()
        self._meter = Meter(self._worker)

    def all(self) -> None:
        if self._config.rounds > 1:
            for name in WARM_UP:
                self._one(SETTINGS[name], 0)
        for number in range(1, self._config.rounds + 1):
            for setting in rotated(number - 1, tuple(SETTINGS.values())):
                file = self._folder / f"{number}-{setting.name.replace(' ', '-')}.json"
                if file.exists():
                    continue
                if time.monotonic() - self._began > 60 * self._config.minutes:
                    minutes = f"{self._config.minutes:g} minutes are over"
                    self._report_progress(f"{minutes}; run the same command to continue")
                    return
                found = self._one(setting, number)
                file.write_text(json.dumps(found))

    def _one(self, setting: Setting, number: int) -> dict:
        """Perform one run; if it fails, return its `problem` and the values measured until then."""
        found = {"setting": setting.name, "round": number}
        try:
            for part in self._live(setting) if setting.interval else self._backlog(setting):
                found |= part
        except Exception as error:  # one failed run must not lose the others
            found |= {"problem": f"{type(error).__name__}: {error}"}
            self._worker.stop()
            self._start_worker()
        finally:
            self._bucket.clear()
        what = "warm-up" if not number else f"round {number}"
        spent = time.monotonic() - self._began
        self._report_progress(f"{spent:5.0f} s  {what}, {json.dumps(found)}")
        return found

    def _begin(self, setting: Setting) -> str:
        """Make the worker start a new table; return its path."""
        base = f"s3a://{self._bucket.name}/bench/{time.time_ns()}"
        self._worker.call("begin", base=base, kind=setting.kind, extra_options=setting.table)
        return table_path(base, setting.kind)

    def _backlog(self, setting: Setting) -> Iterator[dict]:
        """Measure a setting on the backlog, which is read in batches."""
        path = self._begin(setting)
        before = self._meter.read()
        # Spark divides the limit by the number of topic partitions and rounds down.
        batch = self._config.batch + latency.PARTITIONS
        self._worker.call("follow", topic=self._topic, trigger=0, batch=batch)
        self._worker.call("settle")
        if setting.compacts_beside:
            self._wait_until_quiet()
        used = self._meter.read() - before
        batches = self._worker.call("stop_following")["batches"]
        yield _figures(batches, used)
        yield from self._asked(path, self._stream.answers()["aggregate"])

    def _live(self, setting: Setting) -> Iterator[dict]:
        """Measure a setting on live events at a fixed rate, once the table exists."""
        config = self._config
        pace = Pace((config.rate,), seconds=config.seconds - SPARE_S, trigger=setting.interval)
        sends = latency.events(pace, config.rate)
        path, topic = self._begin(setting), self._lab.topic(f"tuning-{time.time_ns()}")
        follower = latency.Follower(self._lab, self._worker, topic, sends, setting.interval)
        _wait_for_next(max(other.interval for other in SETTINGS.values()))
        before = self._meter.read()
        follower.send(config.rate)
        used = self._meter.read() - before
        batches, fresh = follower.stop()
        yield _figures(batches, used)
        yield {"visible after s": fresh["p50"], "p95": fresh["p95"]}
        timed = len(sends) - latency.FIRST
        if fresh["measured"] < timed:
            yield {"problem": f"{fresh['measured']} of {timed} events in a commit"}
        yield from self._asked(path)

    def _asked(self, path: str, right: tuple[int, int] | None = None) -> Iterator[dict]:
        """Query the table and list its files; yield the measured values."""
        reply, used = self._meter.call("run_query", query="aggregate", warm=0)
        yield {
            "query requests": used.bucket.gets + used.bucket.lists,
            "query KB": round(used.bucket.bytes_read / 1000),
        }
        if right and tuple(reply["answer"]) != right:
            yield {"problem": f"the table answers {reply['answer']}, but {right} is right"}
        table = xray(self._bucket.endpoints, path)
        yield {
            "files": sum(len(part.files) for part in table.current),
            "base files written": sum(file.kind == "base" for file in table.files),
            "commits": len(table.completed_writes),
        }
        if table.planned:
            yield {"problem": "a compaction was still running"}

    def _wait_until_quiet(self) -> None:
        """Wait until the store has had no request for QUIET_S seconds.

        It reads MinIO's counters, because that makes no request to the bucket; reading the table's
        timeline would.
        """
        deadline = time.monotonic() + QUIET_LIMIT_S
        last, since = self._bucket.usage(), time.monotonic()
        while time.monotonic() - since < QUIET_S and time.monotonic() < deadline:
            time.sleep(0.2)
            if (now := self._bucket.usage()) != last:
                last, since = now, time.monotonic()


def _wait_for_next(seconds: float) -> None:
    """Sleep until just after the next multiple of `seconds`, when Spark begins a batch."""
    time.sleep(seconds - time.time() % seconds + 0.2)


def _figures(batches: list[dict], used: ResourceUsage) -> dict:
    """Compute the costs of a stream; `puts` counts those `requests` that write."""
    later = batches[1:]  # the first creates the table
    bucket = used.bucket
    return {
        "events": sum(batch["rows"] for batch in batches),
        "batches": len(batches),
        "batch s": round(sum(batch["seconds"] for batch in later) / len(later), 3),
        "CPU s": round(used.cpu_seconds, 2),
        "store CPU s": round(used.store_cpu_seconds, 2),
        "requests": bucket.requests,
        "puts": bucket.puts,
        "MB written": round(bucket.bytes_written / 1e6, 3),
    }


def text_table(run: dict) -> str:
    """Return a table for the terminal: one line per option and metric."""
    return compared(run).round(3).to_string()
