"""Runs the three sinks on one stream, in turn and repeatedly, and keeps every figure of every round.

A sink has a process and a bucket of its own, and while anything is counted only one of them works: what
is counted belongs to it. Which one begins changes from round to round.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field

import psutil

from lab_env import services, store
from lab_env.bench import latency
from lab_env.bench.stream import UNIFORM, ZIPF, Scenario, Stream, record
from lab_env.errors import LabError
from lab_env.install import cds_archive, fetch, java
from lab_env.jvm import explained
from lab_env.lab import Lab, reset_lesson
from lab_env.pipeline import session, writer
from lab_env.pipeline.sinks import table_path
from lab_env.probes.bucket_usage import BucketUsage, MeteredBucket
from lab_env.processes import supervisor
from lab_env.processes.environment import clean_environment, end_processes, mark
from lab_env.shop.producer import Sender
from lab_env.shop.topics import delete_topic, ensure_topic

SPACE = "bench"
SINKS = ("json", "cow", "mor")
PARTITIONS = 2
BEFORE_TABLE_SERVICES, AFTER_TABLE_SERVICES = "fresh", "tidy"
ALL_QUERIES = {
    BEFORE_TABLE_SERVICES: ("point", "range", "aggregate", "incremental", "time travel"),
    # Tidying takes away what no reader of the newest state needs: history, too.
    AFTER_TABLE_SERVICES: ("point", "range", "aggregate"),
}


@dataclass(frozen=True)
class RunConfig:
    """How much is measured.

    Args:
        scenarios: what streams.
        rounds: how often each sink takes each.
        warm: how often a query is asked again.
        pace: how freshness is measured.
        queries: what is asked before (`BEFORE_TABLE_SERVICES`) and after (`AFTER_TABLE_SERVICES`) the table services; without the second
            they are left out.
        java_options: of all three sinks' JVMs.
        extra_options: Hudi options on top of the pipeline's, for both tables.
        warm_up: whether a first round, on a small stream of its own, makes the processes warm.
    """

    scenarios: tuple[Scenario, ...]
    rounds: int
    warm: int
    pace: latency.Pace = field(default_factory=latency.Pace)
    queries: dict[str, tuple[str, ...]] = field(default_factory=lambda: ALL_QUERIES)
    java_options: str = session.JAVA_OPTIONS
    extra_options: dict[str, str] = field(default_factory=dict)
    warm_up: bool = True


def size(full: bool) -> RunConfig:
    """The two sizes: a small one that shows that all works, and one to draw conclusions from."""
    kinds = [(0, UNIFORM), (20, UNIFORM), (20, ZIPF), (80, UNIFORM), (80, ZIPF)]
    if full:
        return RunConfig(
            tuple(Scenario(*kind, load=20_000, batch=10_000, batches=2) for kind in kinds),
            rounds=2,
            warm=1,
            pace=latency.Pace((100, 1_000, 10_000), seconds=5, rounds=2),
        )
    return RunConfig(
        (Scenario(*kinds[-1], load=2_000, batch=1_000, batches=1),),
        rounds=2,
        warm=0,
        pace=latency.Pace((200,), seconds=2, rounds=1),
        queries={
            BEFORE_TABLE_SERVICES: ALL_QUERIES[BEFORE_TABLE_SERVICES],
            AFTER_TABLE_SERVICES: ("aggregate",),
        },
        # As in a lesson: the quick compiler, since each JVM lives for a minute. For the same reason
        # nothing is warmed up: counts do not mind, and times of so few rows say little anyway.
        java_options=session.LESSON_JAVA_OPTIONS,
        warm_up=False,
    )


@dataclass
class Figures:
    """All that was measured.

    Args:
        size: what was measured.
        sinks: by which sinks.
        rows: one figure each: scenario, sink, round, metric, value.
        freshness: what `latency.Follower.measure` found, with its rate, sink and round.
        problems: what makes the figures worthless, for example sinks that answer differently.
        cpu_seconds: of each sink's process from start to end, warm-up included.
    """

    size: RunConfig
    sinks: tuple[str, ...] = SINKS
    rows: list[dict] = field(default_factory=list)
    freshness: list[dict] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    cpu_seconds: dict[str, float] = field(default_factory=dict)

    def note(self, scenario: Scenario, sink: str, number: int, **metrics: float) -> None:
        """Keep some figures of one sink in one round."""
        for metric, value in metrics.items():
            row = {"scenario": scenario.name, "sink": sink, "round": number}
            self.rows.append(row | {"metric": metric, "value": value})

    def of(self, scenario: str, sink: str, metric: str) -> list[float]:
        """A metric's figures over the rounds."""
        wanted = {"scenario": scenario, "sink": sink, "metric": metric}
        return [row["value"] for row in self.rows if wanted.items() <= row.items()]

    def metrics(self) -> list[str]:
        """The names of all metrics, in the order of measuring."""
        return list(dict.fromkeys(row["metric"] for row in self.rows))


class WorkerClient:
    """An agent, seen from here.

    Args:
        sink: whose.
        bucket: its bucket.
        java_options: of its JVM.
    """

    def __init__(self, sink: str, bucket: MeteredBucket, java_options: str):
        self.sink, self.bucket = sink, bucket
        self._log = supervisor.log_path(f"bench-{sink}")
        environment = clean_environment() | mark() | writer.environment(bucket.endpoints)
        java_options = cds_archive.java_options(java_options)
        arguments = [sink, str(fetch.jars("spark")), str(java.java_home()), java_options]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lab_env.bench.agent", *arguments],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._tree = [psutil.Process(self._process.pid)]

    def wait(self) -> None:
        """Until it has its session."""
        self._answer()
        self._tree += self._tree[0].children(recursive=True)

    def do(self, what: str, **order) -> dict:
        """Have something done; returns the answer.

        Raises:
            LabError: it failed, or the agent is gone.
        """
        try:
            self._process.stdin.write(json.dumps({"do": what} | order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None
        return self._answer()

    def cpu_seconds(self) -> float:
        """Processor time of the driver and its JVM since their start."""
        return sum(sum(process.cpu_times()[:2]) for process in self._tree)

    def hang_up(self) -> None:
        """Have it end when it has done what it was told, and go on here."""
        with contextlib.suppress(BrokenPipeError):  # it is gone, and did not take its last order
            self._process.stdin.close()

    def end(self) -> None:
        """End it, and wait until its JVM is gone, too, which is a moment later."""
        self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(15)
        _, alive = psutil.wait_procs(self._tree, timeout=15)
        end_processes(alive)

    def _answer(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            raise self._gone()
        reply = json.loads(line)
        if "error" in reply:
            raise LabError(f"The {self.sink} sink failed: {reply['error']}", f"read {self._log}")
        return reply

    def _gone(self) -> LabError:
        tail = supervisor.log_tail(f"bench-{self.sink}")
        what = explained(f"The process of the {self.sink} sink ended.", self._log)
        return LabError(what, f"read {self._log}", tail)


@dataclass(frozen=True)
class ResourceUsage:
    """What one step took: wall clock, processor time of the sink and of the store, requests."""

    seconds: float
    cpu_seconds: float
    store_cpu_seconds: float
    usage: BucketUsage


class Meter:
    """Measures steps of one sink.

    Args:
        agent: the sink's process.
    """

    def __init__(self, agent: WorkerClient):
        self._agent = agent
        self._store = psutil.Process(supervisor.status_of("minio").pid)

    def measure(self, what: str, **order) -> tuple[dict, ResourceUsage]:
        """Have a step done and measure it; returns the agent's answer and what it took."""
        before = self._read()
        reply = self._agent.do(what, **order)
        after = self._read()
        return reply, ResourceUsage(
            *(round(b - a, 4) for a, b in zip(before[:3], after[:3], strict=True)),
            after[3] - before[3],
        )

    def _read(self) -> tuple[float, float, float, BucketUsage]:
        store = sum(self._store.cpu_times()[:2])
        return time.monotonic(), self._agent.cpu_seconds(), store, self._agent.bucket.usage()


Progress = Callable[[str], None]


def compare(chosen: RunConfig, report_progress: Progress = print) -> Figures:
    """Measure the three sinks, from the start of their processes to their end.

    Args:
        chosen: how much.
        say: told what is going on.

    Returns:
        The figures; without problems when all sinks gave the right answers.

    Raises:
        LabError: a sink failed, or the store tells no metrics.
    """
    with Bench(chosen, report_progress) as bench:
        return bench.measure(chosen, report_progress)


class Bench:
    """The three processes and their buckets; use it in a `with`, or `close` it.

    One at a time in a lab: a second one would take the first one's buckets and topics.

    Args:
        chosen: what the warm-up asks, and the options of the JVMs.
        say: told what is going on.

    Raises:
        LabError: a sink failed, or the store tells no metrics.
    """

    def __init__(self, chosen: RunConfig, report_progress: Progress = print):
        services.up(progress=lambda line: None)
        reset_lesson(SPACE)
        self._lab = Lab(SPACE, services.endpoints())
        self._left = ExitStack()
        self._runs = 0
        try:
            self._agents = self._start(chosen, report_progress)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *exc_info) -> None:
        self.close()

    def close(self) -> None:
        """End the processes; remove buckets, topics and ledgers."""
        self._left.close()
        reset_lesson(SPACE)

    def measure(
        self, chosen: RunConfig, report_progress: Progress = print, sinks: tuple[str, ...] = SINKS
    ) -> Figures:
        """Measure; as often as you like.

        Args:
            chosen: how much.
            say: told what is going on.
            sinks: which sinks.

        Returns:
            The figures.

        Raises:
            LabError: a sink failed.
        """
        self._runs += 1
        agents = {sink: self._agents[sink] for sink in sinks}
        figures = Figures(chosen, sinks)
        for number in range(1, chosen.rounds + 1):
            for scenario in chosen.scenarios:
                report_progress(f"round {number} of {chosen.rounds}: {scenario.title}")
                _round(self._lab, agents, figures, scenario, number, self._runs)
        for number in range(1, chosen.pace.rounds + 1):
            for rate in chosen.pace.rates:
                report_progress(
                    f"freshness, round {number} of {chosen.pace.rounds}: {rate:,} events/s"
                )
                _freshness(self._lab, agents, figures, rate, number)
        figures.cpu_seconds = {sink: agent.cpu_seconds() for sink, agent in agents.items()}
        return figures

    def _start(self, chosen: RunConfig, report_progress: Progress) -> dict[str, WorkerClient]:
        buckets = {sink: MeteredBucket(self._lab.endpoints, sink) for sink in SINKS}
        for bucket in buckets.values():
            self._left.callback(bucket.remove)
            bucket.make()
        report_progress("three Spark sessions ...")
        agents = {}
        for sink, bucket in buckets.items():
            agents[sink] = WorkerClient(sink, bucket, chosen.java_options)
            self._left.callback(agents[sink].end)
        for agent in agents.values():  # the last in is the first out: they end at the same time
            self._left.callback(agent.hang_up)
        with ThreadPoolExecutor(len(SINKS)) as together:
            list(together.map(WorkerClient.wait, agents.values()))
            if chosen.warm_up:
                report_progress("a first round that does not count ...")
                self._warm_up(agents, chosen, together)
        return agents

    def _warm_up(self, agents: dict[str, WorkerClient], chosen: RunConfig, together) -> None:
        scenario = Scenario(50, UNIFORM, load=200, batch=100, batches=2)
        stream = record(scenario)
        topic = self._lab.topic("warm-up")
        _send(self._lab, topic, stream.load + stream.changes)

        def warm_up(agent: WorkerClient) -> None:
            agent.do("begin", base=_base(agent, "warm-up"), extra_options={})
            agent.do("ingest", topic=topic, batch=scenario.load)
            for state, queries in chosen.queries.items():
                if state == AFTER_TABLE_SERVICES:
                    agent.do("tidy")
                for query in queries:
                    agent.do("ask", query=_asked(query, stream), warm=0)

        list(together.map(warm_up, agents.values()))
        for agent in agents.values():
            agent.bucket.clear()


def _round(
    lab: Lab,
    agents: dict[str, WorkerClient],
    figures: Figures,
    scenario: Scenario,
    number: int,
    run: int,
) -> None:
    """One scenario, once by each sink; the order of the sinks turns with the round."""
    stream = record(scenario)
    topic = lab.topic(f"{scenario.name}-{run}-{number}")
    _send(lab, topic, stream.load)

    def load(sink: str) -> None:
        agents[sink].do(
            "begin", base=_base(agents[sink], topic), extra_options=figures.size.extra_options
        )
        agents[sink].do("ingest", topic=topic, batch=2 * scenario.load)

    # All at once: the load is not measured, and starting a stream into a new table is mostly waiting.
    with ThreadPoolExecutor(len(figures.sinks)) as together:
        list(together.map(load, figures.sinks))
    _send(lab, topic, stream.changes)
    answers = {}
    for sink in rotated(number, figures.sinks):
        metrics, answers[sink] = _measure(agents[sink], figures.size, scenario, stream, topic)
        figures.note(scenario, sink, number, **metrics)
    figures.problems += [f"round {number}, {found}" for found in differences(stream, answers)]
    for agent in agents.values():
        agent.bucket.clear()
    delete_topic(lab.endpoints.kafka_bootstrap, topic)


def rotated(number: int, ways: tuple) -> tuple:
    """The order of some ways in a round: another one begins in the next.

    Args:
        number: of the round.
        ways: in the order of a round 0.
    """
    first = number % len(ways)
    return ways[first:] + ways[:first]


def _freshness(
    lab: Lab, agents: dict[str, WorkerClient], figures: Figures, rate: int, number: int
) -> None:
    """One rate, once to each sink."""
    pace = figures.size.pace
    sends = latency.events(pace, rate)
    topics = {sink: lab.topic(f"rate-{rate}-{number}-{sink}") for sink in figures.sinks}

    def make(sink: str) -> latency.Follower:
        agent, topic = agents[sink], topics[sink]
        agent.do("begin", base=_base(agent, topic), extra_options=figures.size.extra_options)
        return latency.Follower(lab, agent, topic, sends, pace.trigger)

    with ThreadPoolExecutor(len(figures.sinks)) as together:
        followers = dict(zip(figures.sinks, together.map(make, figures.sinks), strict=True))
    for sink in rotated(number, figures.sinks):
        found = followers[sink].measure(rate)
        figures.freshness.append({"rate": rate, "sink": sink, "round": number} | found)
        if found["measured"] < len(sends) - latency.FIRST:
            figures.problems.append(
                f"freshness at {rate} events/s, {sink}: {found['measured']:,} of"
                f" {len(sends) - latency.FIRST:,} events were seen in a commit"
            )
        agents[sink].bucket.clear()
        delete_topic(lab.endpoints.kafka_bootstrap, topics[sink])


def _measure(
    agent: WorkerClient, chosen: RunConfig, scenario: Scenario, stream: Stream, topic: str
) -> tuple[dict[str, float], dict[str, list[int]]]:
    """What one sink takes for the changes, the queries and the table services, and its answers."""
    meter = Meter(agent)
    answers = {}

    def ask(state: str) -> dict[str, float]:
        metrics = {}
        for query in chosen.queries[state]:
            reply, spent = meter.measure(
                "ask", query=_asked(query, stream), batch=scenario.batches - 1, warm=chosen.warm
            )
            answers[f"{query}, {state}"] = reply["answer"]
            asked = 1 + chosen.warm
            metrics |= {
                f"{query}, {state}: cold s": reply["cold"],
                f"{query}, {state}: CPU s": spent.cpu_seconds / asked,
                f"{query}, {state}: requests": (spent.usage.gets + spent.usage.lists) / asked,
                f"{query}, {state}: lists": spent.usage.lists / asked,
                f"{query}, {state}: bytes read": spent.usage.bytes_read / asked,
            }
            if reply["warm"]:
                metrics[f"{query}, {state}: warm s"] = statistics.median(reply["warm"])
        return metrics

    # Spark divides the bound among the topic's partitions and rounds down: what is left over would
    # make a batch of its own.
    done, ingest = meter.measure("ingest", topic=topic, batch=scenario.batch + PARTITIONS)
    rows = sum(batch["rows"] for batch in done["batches"])
    seconds = sum(batch["seconds"] for batch in done["batches"])
    metrics = {
        "rows": rows,
        "commits": len(done["batches"]),
        "ingest rows/s": rows / seconds,
        "ingest CPU s": ingest.cpu_seconds,
        "ingest store CPU s": ingest.store_cpu_seconds,
        **{f"ingest {name}": value for name, value in asdict(ingest.usage).items()},
        "write amplification": ingest.usage.bytes_written / stream.bytes_of_changes,
    }
    metrics |= _sizes(agent, BEFORE_TABLE_SERVICES) | ask(BEFORE_TABLE_SERVICES)
    if AFTER_TABLE_SERVICES not in chosen.queries:
        return metrics, answers
    _, tidied = meter.measure("tidy")
    written = ingest.usage.bytes_written + tidied.usage.bytes_written
    metrics |= {
        "ingest rows/s, services counted": rows / (seconds + tidied.seconds),
        "services CPU s": tidied.cpu_seconds,
        "services store CPU s": tidied.store_cpu_seconds,
        **{f"services {name}": value for name, value in asdict(tidied.usage).items()},
        "write amplification, services counted": written / stream.bytes_of_changes,
    }
    return metrics | _sizes(agent, AFTER_TABLE_SERVICES) | ask(AFTER_TABLE_SERVICES), answers


def _sizes(agent: WorkerClient, state: str) -> dict[str, float]:
    """Files and bytes of a sink, without the stream's checkpoint."""
    folder = store.key_of(table_path("s3a://any/bench", agent.sink)).rpartition("/")[2]
    stored = [
        entry
        for entry in store.list_objects(agent.bucket.endpoints, "bench/")
        if f"/{folder}" in entry.key
    ]
    data = [e for e in stored if "/.hoodie/" not in e.key and "/_spark_metadata/" not in e.key]
    return {
        f"files, {state}": len(stored),
        f"data files, {state}": len(data),
        f"bytes stored, {state}": sum(entry.size for entry in stored),
        f"data bytes, {state}": sum(entry.size for entry in data),
    }


def differences(stream: Stream, answers: dict[str, dict[str, list[int]]]) -> list[str]:
    """Where sinks answer other than the stream says, or than each other.

    Args:
        stream: what was sent.
        answers: for each sink its answer to each query: rows, and the sum of their cents.

    Returns:
        A sentence for each difference.
    """
    expected = stream.answers()
    found = []
    for query in dict.fromkeys(query for said in answers.values() for query in said):
        said = {sink: tuple(answers[sink][query]) for sink in answers}
        right = expected.get(query.partition(",")[0])
        if right is not None and set(said.values()) != {right}:
            found.append(f"{query}: the stream says {right}, the sinks {said}")
        elif len(set(said.values())) > 1:
            found.append(f"{query}: the sinks differ: {said}")
    return found


def _asked(query: str, stream: Stream) -> str:
    return f"point:{stream.hot_order}" if query == "point" else query


def _base(agent: WorkerClient, name: str) -> str:
    return f"s3a://{agent.bucket.name}/bench/{name.rpartition('.')[2]}"


def _send(lab: Lab, topic: str, sends: list) -> None:
    ensure_topic(lab.endpoints.kafka_bootstrap, topic, partitions=PARTITIONS)
    sender = Sender(lab.endpoints.kafka_bootstrap, topic, lab.ledger(topic).directory)
    sender.send_all(sends)
    sender.close()
    if sender.lost:
        raise LabError(f"{sender.lost} sends were not acknowledged.", "look at `lab status`.")


def machine() -> dict[str, object]:
    """What the figures belong to."""
    return {"cores": os.cpu_count(), "memory_gb": round(psutil.virtual_memory().total / 2**30, 1)}
