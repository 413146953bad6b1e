"""Runs the three sinks on one stream in turn, for several rounds, and collects all figures.

Each sink has its own process and bucket. The other sinks are idle while one is measured, so all
resource usage counted is that sink's. Each round begins with another sink.
"""

import statistics
from contextlib import ExitStack
from dataclasses import asdict

from lab_env.lab.handle import Lab, reset_lesson
from lab_env.lessons.recorded import SINKS
from lab_env.pipeline.sinks import table_path
from lab_env.platform import services, store
from lab_env.platform.brokers.topics import delete_topic
from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import Progress
from lab_env.shop.model import Send
from lab_env.tables.hudi.timeline import parse_data_name
from lab_env.tables.probes.bucket_usage import MeteredBucket
from lab_env.workbench.bench import latency
from lab_env.workbench.bench.config import AFTER_TABLE_SERVICES, BEFORE_TABLE_SERVICES, RunConfig
from lab_env.workbench.bench.metering import Meter
from lab_env.workbench.bench.results import Figures, wrong_answers
from lab_env.workbench.bench.stream import UNIFORM, Scenario, Stream, record
from lab_env.workbench.bench.worker_client import WorkerClient, in_parallel, running_workers

NAMESPACE = "bench"


class Bench:
    """The three workers and their buckets, as a context manager.

    A lab can run only one benchmark at a time: a second one would use the same buckets and topics.
    `config` determines the warm-up queries and the JVM options.
    """

    def __init__(self, config: RunConfig, report_progress: Progress = print):
        self._config, self._report_progress = config, report_progress
        self._runs = 0

    def __enter__(self) -> "Bench":
        services.up(progress=lambda line: None)
        with ExitStack() as cleanup:
            cleanup.callback(reset_lesson, NAMESPACE)  # removes topics and ledgers
            reset_lesson(NAMESPACE)
            self._lab = Lab(NAMESPACE, services.endpoints())
            self._kafka = self._lab.endpoints.kafka_bootstrap
            self._report_progress("three Spark sessions ...")
            buckets = {sink: MeteredBucket(self._lab.endpoints, sink) for sink in SINKS}
            spark = dict.fromkeys(SINKS, self._config.spark)
            self._workers = cleanup.enter_context(
                running_workers(buckets, self._config.java_options, spark)
            )
            if self._config.warm_up:
                self._report_progress("warm-up round, not counted ...")
                self._warm_up()
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *exc_info) -> None:
        self._cleanup.close()

    def measure(
        self, config: RunConfig, report_progress: Progress = print, sinks: tuple[str, ...] = SINKS
    ) -> Figures:
        """Measure the given sinks; can be called several times."""
        self._runs += 1
        figures = Figures(config, sinks)
        for number in range(1, config.rounds + 1):
            for scenario in config.scenarios:
                report_progress(f"round {number} of {config.rounds}: {scenario.title}")
                self._round(figures, scenario, number)
        for number in range(1, config.pace.rounds + 1):
            for rate in config.pace.rates:
                report_progress(
                    f"freshness, round {number} of {config.pace.rounds}: {rate:,} events/s"
                )
                self._freshness(figures, rate, number)
        figures.cpu_seconds = {sink: self._workers[sink].cpu_seconds() for sink in sinks}
        return figures

    def _warm_up(self) -> None:
        scenario = Scenario(50, UNIFORM, load=200, batch=100, batches=2)
        stream = record(scenario)
        topic = self._lab.topic("warm-up")
        send(self._lab, topic, stream.load + stream.changes)

        def warm_up(worker: WorkerClient) -> None:
            _begin(worker, topic)
            worker.call("ingest", topic=topic, batch=scenario.load)
            for state, queries in self._config.queries.items():
                if state == AFTER_TABLE_SERVICES:
                    worker.call("run_table_services")
                for query in queries:
                    worker.call("run_query", query=_with_key(query, stream), warm=0)

        in_parallel(warm_up, self._workers.values())
        for worker in self._workers.values():
            worker.bucket.clear()

    def _round(self, figures: Figures, scenario: Scenario, number: int) -> None:
        """Measure one scenario once per sink."""
        stream = record(scenario)
        topic = self._lab.topic(f"{scenario.name}-{self._runs}-{number}")
        send(self._lab, topic, stream.load)

        def load(sink: str) -> None:
            _begin(self._workers[sink], topic, figures.config.extra_options)
            self._workers[sink].call("ingest", topic=topic, batch=2 * scenario.load)

        # All together: the load is not measured, and starting a stream into a new table is mostly
        # waiting.
        in_parallel(load, figures.sinks)
        send(self._lab, topic, stream.changes)
        answers = {}
        for sink in rotated(number, figures.sinks):
            metrics, answers[sink] = _measure(
                self._workers[sink], figures.config, scenario, stream, topic
            )
            figures.add(scenario, sink, number, **metrics)
        figures.problems += [f"round {number}, {wrong}" for wrong in wrong_answers(stream, answers)]
        for sink in figures.sinks:
            self._workers[sink].bucket.clear()
        delete_topic(self._kafka, topic)

    def _freshness(self, figures: Figures, rate: int, number: int) -> None:
        """Measure freshness at one rate once per sink."""
        pace = figures.config.pace
        sends = latency.events(pace, rate)
        topics = {sink: self._lab.topic(f"rate-{rate}-{number}-{sink}") for sink in figures.sinks}

        def follow(sink: str) -> latency.Follower:
            worker, topic = self._workers[sink], topics[sink]
            _begin(worker, topic, figures.config.extra_options)
            return latency.Follower(self._lab, worker, topic, sends, pace.trigger)

        followers = dict(zip(figures.sinks, in_parallel(follow, figures.sinks), strict=True))
        timed = len(sends) - latency.FIRST
        for sink in rotated(number, figures.sinks):
            followers[sink].send(rate)
            _, found = followers[sink].stop()
            figures.freshness.append({"rate": rate, "sink": sink, "round": number} | found)
            if found["measured"] < timed:
                figures.problems.append(
                    f"freshness at {rate} events/s, {sink}: {found['measured']:,} of"
                    f" {timed:,} events were seen in a commit"
                )
            self._workers[sink].bucket.clear()
            delete_topic(self._kafka, topics[sink])


def rotated(number: int, ways: tuple) -> tuple:
    """Rotate the items by the round's number, so that each round begins with a different item."""
    first = number % len(ways)
    return ways[first:] + ways[:first]


def _measure(
    worker: WorkerClient, config: RunConfig, scenario: Scenario, stream: Stream, topic: str
) -> tuple[dict[str, float], dict[str, list[int]]]:
    """Measure one sink; return its metrics, and each query's result (rows and cents)."""
    meter = Meter(worker)
    answers = {}

    def run_queries(state: str) -> dict[str, float]:
        metrics = {}
        for query in config.queries[state]:
            reply, used = meter.call(
                "run_query",
                query=_with_key(query, stream),
                batch=scenario.batches - 1,
                warm=config.warm,
            )
            answers[f"{query}, {state}"] = reply["answer"]
            runs = 1 + config.warm
            metrics |= {
                f"{query}, {state}: cold s": reply["cold"],
                f"{query}, {state}: CPU s": used.cpu_seconds / runs,
                f"{query}, {state}: requests": (used.bucket.gets + used.bucket.lists) / runs,
                f"{query}, {state}: lists": used.bucket.lists / runs,
                f"{query}, {state}: bytes read": used.bucket.bytes_read / runs,
            }
            if reply["warm"]:
                metrics[f"{query}, {state}: warm s"] = statistics.median(reply["warm"])
        return metrics

    # Spark divides the limit by the number of topic partitions and rounds down: the remainder would
    # become a separate batch.
    reply, ingest = meter.call("ingest", topic=topic, batch=scenario.batch + latency.PARTITIONS)
    rows = sum(batch["rows"] for batch in reply["batches"])
    seconds = sum(batch["seconds"] for batch in reply["batches"])
    metrics = {
        "rows": rows,
        "commits": len(reply["batches"]),
        "ingest rows/s": rows / seconds,
        "ingest CPU s": ingest.cpu_seconds,
        "ingest store CPU s": ingest.store_cpu_seconds,
        **{f"ingest {name}": value for name, value in asdict(ingest.bucket).items()},
        "write amplification": ingest.bucket.bytes_written / stream.bytes_of_changes,
    }
    metrics |= _sizes(worker, BEFORE_TABLE_SERVICES) | run_queries(BEFORE_TABLE_SERVICES)
    if AFTER_TABLE_SERVICES not in config.queries:
        return metrics, answers
    _, tidied = meter.call("run_table_services")
    written = ingest.bucket.bytes_written + tidied.bucket.bytes_written
    metrics |= {
        "ingest rows/s, services counted": rows / (seconds + tidied.seconds),
        "services CPU s": tidied.cpu_seconds,
        "services store CPU s": tidied.store_cpu_seconds,
        **{f"services {name}": value for name, value in asdict(tidied.bucket).items()},
        "write amplification, services counted": written / stream.bytes_of_changes,
    }
    metrics |= _sizes(worker, AFTER_TABLE_SERVICES) | run_queries(AFTER_TABLE_SERVICES)
    return metrics, answers


def _sizes(worker: WorkerClient, state: str) -> dict[str, float]:
    """Count a sink's files and bytes by kind; the stream's checkpoint is left out."""
    folder = store.key_of(table_path("s3a://any/bench", worker.sink)).rpartition("/")[2]
    stored = [
        entry
        for entry in store.list_objects(worker.bucket.endpoints, "bench/")
        if f"/{folder}" in entry.key
    ]
    data = [e for e in stored if "/.hoodie/" not in e.key and "/_spark_metadata/" not in e.key]
    groups = {
        (partition, name.group)
        for partition, _, file in (entry.key.rpartition("/") for entry in data)
        if (name := parse_data_name(file))
    }
    return {
        f"file groups, {state}": len(groups),
        f"files, {state}": len(stored),
        f"data files, {state}": len(data),
        f"bytes stored, {state}": sum(entry.size for entry in stored),
        f"data bytes, {state}": sum(entry.size for entry in data),
    }


def _with_key(query: str, stream: Stream) -> str:
    """Add an order id to a point query; return any other query unchanged."""
    return f"point:{stream.hot_order}" if query == "point" else query


def _begin(worker: WorkerClient, topic: str, extra_options: dict[str, str] | None = None) -> None:
    base = f"s3a://{worker.bucket.name}/bench/{topic.rpartition('.')[2]}"
    worker.call("begin", base=base, extra_options=extra_options or {})


def send(lab: Lab, topic: str, sends: list[Send]) -> None:
    """Send events to a topic of the benchmark, which is created if missing."""
    sender = latency.sender_to(lab, topic)
    sender.send_all(sends)
    sender.close()
    if sender.lost:
        raise LabError(f"{sender.lost} sends were not acknowledged.", "run: lab status")
