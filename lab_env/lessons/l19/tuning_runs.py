"""Measures five tuning knobs, each on the same stream: `python -m lab_env.lessons.l19.tuning_runs`.

Writes `data/tuning.csv`, which lesson 19 shows. One JVM runs all settings in turn, round after
round, so that a machine that gets busier meets all of them. Takes about five minutes on two cores.
"""

import csv
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import psutil
from pyspark.sql import functions as F

from lab_env import services
from lab_env.hudi.timeline import to_seconds
from lab_env.install import cds_archive, java
from lab_env.install.jars import jar_folder
from lab_env.lab import Lab, reset_lesson
from lab_env.pipeline import options, parsing, session
from lab_env.pipeline.sinks import event_rows
from lab_env.probes.inputs import InputBytes
from lab_env.probes.s3_requests import count_requests
from lab_env.shop.model import DATA
from lab_env.shop.record import recording

RESULTS = DATA / "tuning.csv"
ROUNDS = 2
EVENTS, BATCH = 4_000, 800
RATE, RATE_SECONDS = 100, 21
WARM_UP = ("2", "0")  # each table type once

SIMPLE_COW = {
    **{key: value for key, value in options.COW.items() if "bucket" not in key},
    "hoodie.index.type": "SIMPLE",
}


@dataclass(frozen=True)
class Setting:
    """One position of one knob.

    Args:
        knob: what the advice is about.
        setting: its position, in words.
        table: Hudi options of the table.
        batch: messages per batch, at most; with a `trigger` all there are.
        trigger: seconds between two batches of a live stream; 0 reads what is there already.
    """

    knob: str
    setting: str
    table: dict[str, str]
    batch: int = BATCH
    trigger: int = 0


@dataclass(frozen=True)
class Run:
    """What one run of a setting cost.

    Args:
        knob: what the advice is about.
        setting: its position.
        round: from 1.
        events: messages read.
        seconds: from the first batch's start to the last one's end, the compaction included.
        cpu_seconds: of Spark's JVM.
        requests: to the object store.
        written_kb: bytes of all data files that are left.
        files: base and log files of the current slices.
        read_kb: bytes that a query of the revenue read afterwards.
        freshness_s: median seconds from a message's arrival to the completed commit; empty unless
            the stream was live.
    """

    knob: str
    setting: str
    round: int
    events: int
    seconds: float
    cpu_seconds: float
    requests: int
    written_kb: int
    files: int
    read_kb: int
    freshness_s: float | str


def settings() -> Iterator[Setting]:
    """All settings, the neighbours of a knob beside each other."""
    mor, compaction = options.MOR, "hoodie.compact.inline.max.delta.commits"
    for buckets in ("2", "8"):
        changed = {"hoodie.bucket.index.num.buckets": buckets}
        yield Setting("write tasks", buckets, mor | options.COMPACTION_OFF | changed)
    for limit in ("0", "104857600"):
        changed = {"hoodie.parquet.small.file.limit": limit}
        yield Setting("small file limit", limit, SIMPLE_COW | changed)
    in_writer = {"hoodie.datasource.compaction.async.enable": "false"}
    yield Setting("compaction", "async", mor | {compaction: "2"})
    yield Setting("compaction", "inline", mor | {compaction: "2", "hoodie.compact.inline": "true"}
                  | in_writer)  # fmt: skip
    yield Setting("delta commits", "1", mor | {compaction: "1"})
    yield Setting("delta commits", "5", mor | {compaction: "5"})
    for seconds in (2, 10):
        table = mor | options.COMPACTION_OFF
        yield Setting("commit interval", f"{seconds} s", table, trigger=seconds)


class Bench:
    """One session, and the topics that all settings read."""

    def __init__(self) -> None:
        services.up(list(services.DEFAULT))
        reset_lesson("19")
        self.lab = Lab("19", services.endpoints())
        java_options = cds_archive.java_options(session.LESSON_JAVA_OPTIONS)
        self.spark = session.build_session(
            self.lab.endpoints,
            jar_folder("spark"),
            java.java_home(),
            "tuning",
            {"spark.driver.extraJavaOptions": java_options},
            log=self.lab.spark_log,
        )
        children = psutil.Process().children(recursive=True)
        (self.jvm,) = [child for child in children if "java" in child.name()]
        self.sends = [s for s in recording() if not s.kind.startswith("malformed")]
        self.topic = self.lab.topic("tuning")
        self.lab.replay(self.topic, n=EVENTS, sends=self.sends)

    def run(self, setting: Setting, number: int) -> Run:
        """Stream all events into a new table, and measure."""
        path, checkpoint = self.lab.scratch("tuning"), self.lab.scratch("checkpoint")
        topic = self.lab.topic(f"live-{time.time_ns()}") if setting.trigger else self.topic
        if setting.trigger:
            self.lab.replay(topic, n=1, sends=self.sends)  # the topic exists
        cpu, began = self._cpu(), time.time()
        with count_requests(self.spark) as requests:
            query = self._start(setting, topic, path, checkpoint)
            if setting.trigger:
                count = RATE * RATE_SECONDS
                self.lab.replay(topic, n=count, skip=1, rate=RATE, sends=self.sends)
            query.processAllAvailable()
            self._wait_for_compaction(path)
            seconds = time.time() - began
        spent, progress = self._cpu() - cpu, query.recentProgress
        query.stop()
        events = sum(batch["numInputRows"] for batch in progress)
        freshness = self._freshness(topic, path, progress) if setting.trigger else ""
        with InputBytes(self.spark, path) as read:
            self.spark.read.format("hudi").load(path).agg(F.sum("amount")).first()
        picture = self.lab.xray(path)
        return Run(
            knob=setting.knob,
            setting=setting.setting,
            round=number,
            events=events,
            seconds=round(seconds, 1),
            cpu_seconds=round(spent, 1),
            requests=requests.total,
            written_kb=sum(file.size for file in picture.files) // 1024,
            files=sum(len(found.files) for found in picture.current),
            read_kb=read.bytes // 1024,
            freshness_s=freshness,
        )

    def _start(self, setting: Setting, topic: str, path: str, checkpoint: str):
        limits = {} if setting.trigger else {"maxOffsetsPerTrigger": str(setting.batch)}
        kafka = self.lab.endpoints.kafka_bootstrap
        rows = event_rows(parsing.parse(parsing.read_topic(self.spark, kafka, topic, **limits)))
        return (
            rows.writeStream.format("hudi")
            .options(**setting.table)
            .option("hoodie.table.name", "tuning")
            .option("path", path)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{setting.trigger} seconds")
            .start()
        )

    def _wait_for_compaction(self, path: str) -> None:
        deadline = time.time() + 60
        while self.lab.xray(path).planned and time.time() < deadline:
            time.sleep(0.2)

    def _freshness(self, topic: str, path: str, progress: list) -> float:
        """Median seconds from the broker's acknowledgement to the completed commit."""
        sends = self.lab.ledger(topic).frame()
        writes = sorted(self.lab.xray(path).completed_writes.values())
        batches = [batch for batch in progress if batch["numInputRows"]]
        ages = []
        for batch, write in zip(batches, writes, strict=False):
            offsets = [batch["sources"][0][name] or {} for name in ("startOffset", "endOffset")]
            start, end = (found.get(topic, {}) for found in offsets)
            for partition, last in end.items():
                held = sends["partition"] == int(partition)
                held &= sends["offset"].between(start.get(partition, 0), last - 1)
                ages += list(to_seconds(write.completed) - sends.loc[held, "acked_at"] / 1e6)
        return round(sorted(ages)[len(ages) // 2], 1)

    def _cpu(self) -> float:
        times = self.jvm.cpu_times()
        return times.user + times.system


def write_results(runs: list[Run], target: Path) -> None:
    """Write one row per run."""
    with target.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Run)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(run) for run in runs)


def main() -> None:
    """Run some settings to warm up, then all in rounds; write the results."""
    bench, runs = Bench(), []
    for setting in settings():
        if setting.setting in WARM_UP:
            bench.run(setting, 0)
    for number in range(1, ROUNDS + 1):
        for setting in settings():
            runs.append(bench.run(setting, number))
            print(runs[-1], flush=True)
        write_results(runs, RESULTS)


if __name__ == "__main__":
    main()
