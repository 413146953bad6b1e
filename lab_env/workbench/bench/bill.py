"""Counts the requests that each small commit sends to S3, by table format, kind and purpose.

All requests pass a proxy that notes them; MinIO's own count of the same commits must be equal. The
formats are measured one after the other: the machine's load changes no count.
"""

import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pandas as pd

from lab_env.lab.faults.gate import Gate, Request
from lab_env.lessons.recorded.contenders import CONTENDERS, FORMATS, JARS, Contender
from lab_env.lessons.recorded.cost import read_prices
from lab_env.pipeline import session
from lab_env.platform import services
from lab_env.platform.install.cache import Progress
from lab_env.platform.install.jars import fetch_jars
from lab_env.tables.probes.bucket_usage import MeteredBucket
from lab_env.workbench.bench.formats import format_versions, quick_start
from lab_env.workbench.bench.machine import stamp
from lab_env.workbench.bench.order_stream import OrderStream
from lab_env.workbench.bench.summary import machine_facts
from lab_env.workbench.bench.worker_client import WorkerClient, running_workers

# Default tables. The comparison of formats compacts Hudi's Merge-on-Read itself; here it compacts
# after every fifth commit, as it does by default.
TABLES: dict[str, dict[str, str]] = {
    "iceberg-cow": {},
    "hudi-mor": {"hoodie.compact.inline": "true"},
    "hudi-cow": {},
    "delta": {},
    "iceberg-mor": {},
}
# By purpose: pattern of its keys, from the table's folder on. The first that fits counts.
PURPOSES = {
    "markers": r"/\.hoodie/\.temp",
    "file lists": r"/\.hoodie/metadata|/_delta_log/.*checkpoint|/metadata/.*\.avro",
    "commit log": r"/\.hoodie/timeline|/_delta_log|/metadata",
    "settings": r"/\.hoodie",
    "data": r"/(data|partition_date=)",
    "other": "",
}
# By kind of request: the price that S3 charges for it; DELETE is free.
PRICES = {"PUT": "put", "COPY": "put", "LIST": "list", "GET": "get", "HEAD": "get"}
# By kind of request: the field of `BucketUsage` in which MinIO counts it.
COUNTERS = {kind: f"{item}s" for kind, item in PRICES.items()} | {"DELETE": "deletes"}
KEPT_REQUESTS = 100_000  # more than one commit sends


@dataclass(frozen=True)
class BillConfig:
    """Parameters of the request count."""

    orders: int  # number of orders in a table before
    changes: int  # number of events per commit
    commits: int  # number of commits per table
    # Time after which no commit begins: a fifth of it for each table, and what earlier ones left.
    minutes: float = 45


def bill_config(full: bool) -> BillConfig:
    """Return the parameters of a smoke test or, with `full`, of the recorded run."""
    return BillConfig(20_000, 1_000, commits=35) if full else BillConfig(400, 60, commits=2)


def count_requests(config: BillConfig, folder: Path, report_progress: Progress = print) -> dict:
    """Write the same commits into a table of each format, and count the requests of each.

    Args:
        folder: receives the stream's batches; its earlier content is deleted.

    Returns:
        `made`, `machine`, `versions` of the formats, `size`, `options` by contender, `complete`
        (whether every table got all its commits), `problems` (wrong answers; counts that differ
        from MinIO's) and `commits`: by contender, for each commit, the number of requests by
        purpose and kind.
    """
    for jars in JARS.values():
        fetch_jars(jars, report_progress)
    services.up(progress=lambda line: None)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    gate = Gate(services.endpoints().s3_endpoint, kept=KEPT_REQUESTS)
    run = _Run(config, folder, gate, report_progress)
    try:
        for name in reversed(FORMATS):  # the quickest first, so that it leaves time to the others
            run.count(name)
    finally:
        gate.close()
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "made": stamp()["made"],
        "machine": machine_facts(),
        "versions": format_versions(),
        "size": asdict(config),
        "options": {key: CONTENDERS[key].all_options | extra for key, extra in TABLES.items()},
        "complete": all(len(commits) == config.commits for commits in run.commits.values()),
        "problems": run.problems,
        "commits": {key: run.commits[key] for key in CONTENDERS if key in run.commits},
    }


class _Run:
    def __init__(self, config: BillConfig, folder: Path, gate: Gate, report_progress: Progress):
        self._gate, self._report_progress = gate, report_progress
        self._began, self._seconds = time.monotonic(), 60 * config.minutes
        stream = OrderStream(folder)
        self._load = stream.grow(config.orders)
        self._changes = [stream.change(config.changes) for _ in range(config.commits)]
        self.commits: dict[str, list[dict[str, dict[str, int]]]] = {}
        self.problems: list[str] = []

    def count(self, name: str) -> None:
        """Count the requests of a format's tables."""
        endpoints = replace(services.endpoints(), s3_endpoint=self._gate.url)
        bucket = MeteredBucket(endpoints, f"formats-{name}")
        spark = {name: quick_start(name, bucket)}
        with running_workers({name: bucket}, session.LESSON_JAVA_OPTIONS, spark) as workers:
            for contender in (CONTENDERS[key] for key in TABLES):
                if contender.format == name:
                    self._report_progress(f"{len(self._changes)} commits: {contender.title}")
                    self._commit(contender, workers[name])

    def _commit(self, contender: Contender, worker: WorkerClient) -> None:
        bucket, name = worker.bucket, contender.key.replace("-", "_")
        base, extra = f"s3a://{bucket.name}/tables/db", TABLES[contender.key]
        worker.call("begin", contender=contender.key, base=base, name=name, extra=extra)
        worker.call("append", file=str(self._load.file))
        before = bucket.usage()
        counts = self.commits[contender.key] = []
        deadline = self._began + self._seconds * len(self.commits) / len(TABLES)
        for batch in self._changes:
            if counts and time.monotonic() > deadline:
                break
            self._gate.requests.clear()
            worker.call("upsert", batches=[(str(batch.file), batch.days)])
            counts.append(requests_by_purpose(list(self._gate.requests), f"tables/db/{name}"))
        used = bucket.usage() - before
        noted = frame(counts).groupby("counter")["requests"].sum().to_dict()
        metered = {counter: getattr(used, counter) for counter in COUNTERS.values()}
        if noted != {counter: count for counter, count in metered.items() if count}:
            self.problems.append(f"{contender.title}: the proxy noted {noted}, MinIO {metered}")
        answer = worker.call("run_query", query="aggregate")["answer"]
        if tuple(answer) != (right := self._changes[len(counts) - 1].answers["aggregate"]):
            self.problems.append(f"{contender.title} answers {answer}, but {right} is right")


def requests_by_purpose(requests: Iterable[Request], table: str) -> dict[str, dict[str, int]]:
    """Count requests by purpose and kind; `table` is the key of the table's folder.

    A request that deletes several objects has no key, so it counts as `other`.
    """
    found: dict[str, Counter[str]] = {}
    for request in requests:
        key = request.listed or request.key
        inside = key.removeprefix(table) if key.startswith(table) else ""
        purpose = next(name for name, keys in PURPOSES.items() if re.match(keys, inside))
        found.setdefault(purpose, Counter())[request.operation] += 1
    return {purpose: dict(kinds) for purpose, kinds in found.items()}


def frame(commits: list[dict[str, dict[str, int]]]) -> pd.DataFrame:
    """Return one row per commit (counted from 1), purpose and kind.

    Columns: `commit`, `purpose`, `kind`, its `counter` in MinIO's metrics, and `requests`.
    """
    rows = [
        (number, purpose, kind, COUNTERS[kind], requests)
        for number, commit in enumerate(commits, 1)
        for purpose, kinds in commit.items()
        for kind, requests in kinds.items()
    ]
    return pd.DataFrame(rows, columns=["commit", "purpose", "kind", "counter", "requests"])


def spans(commits: int) -> dict[str, tuple[int, int]]:
    """Return the first and last commit of each row of the table, by its label.

    Services that run every fifth or tenth commit are in both spans of ten.
    """
    if commits < 20:
        return {"1": (1, 1), f"1 to {commits}": (1, commits)}
    last = commits - 9
    return {"1": (1, 1), "1 to 10": (1, 10), f"{last} to {commits}": (last, commits)}


def bill_table(run: dict) -> pd.DataFrame:
    """Return the mean requests per commit, by table and span of commits.

    Columns: `all`; the requests by kind, then by purpose; US dollars for 1,000 such commits.
    """
    prices = read_prices()
    found = {}
    for key, commits in run["commits"].items():
        counted = frame(commits)
        for label, (first, last) in spans(len(commits)).items():
            rows = counted[counted["commit"].between(first, last)]
            kinds, purposes = (
                rows.groupby(by)["requests"].sum().reindex(list(every), fill_value=0)
                / (last - first + 1)
                for by, every in (("kind", COUNTERS), ("purpose", PURPOSES))
            )
            # A price is for 1,000 requests, so the product is for 1,000 commits.
            dollars = sum(kinds[kind] * prices[item] for kind, item in PRICES.items())
            found[CONTENDERS[key].title, label] = {
                "all": kinds.sum(), **kinds, **purposes, "$ per 1,000 commits": dollars
            }  # fmt: skip
    return pd.DataFrame.from_dict(found, orient="index").rename_axis(["table", "commits"])


def text_table(run: dict) -> str:
    """Return the table for the terminal."""
    return bill_table(run).round(2).to_string()
