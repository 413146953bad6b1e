"""Counts what readers saw wrong while a pipeline was written, compacted, cleaned and killed.

The pipeline is the campaign's, with two tables and frequent table services. Its writer is killed
again and again; all readers of `lab watch` read both tables meanwhile.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass

import pandas as pd

from lab_env.lab.handle import Lab, reset_lesson
from lab_env.lessons.recorded.campaign_plan import SINKS
from lab_env.pipeline.sinks import table_path
from lab_env.platform import services
from lab_env.platform.install.cache import Progress
from lab_env.tables.observed.picture import proofs
from lab_env.tables.observed.watching import Observed, observed
from lab_env.workbench.bench.machine import stamp
from lab_env.workbench.campaign.group import NAMESPACE, Group

KEYS_READ = 150  # at the end, by each read of a table
ORDERS_A_SECOND = 50  # of the campaign's 100 events


@dataclass(frozen=True)
class ReadersConfig:
    """Parameters: seeds of the events, seconds per seed, and seconds between two kills."""

    seeds: tuple[int, ...]
    seconds: int
    kill_every: int


def readers_config(full: bool) -> ReadersConfig:
    """Return the parameters of a smoke test or, with `full`, of three times ten minutes."""
    return ReadersConfig((17, 18, 19), 600, 90) if full else ReadersConfig((17,), 60, 40)


def watch_readers(config: ReadersConfig, report_progress: Progress = print) -> dict:
    """Watch both tables for each seed.

    Returns:
        `made`, `cores`, `size` and `problems` (a table that differs from the ledger); `runs`, each
        with its seed, kills and, by table, commits, services and the first proof of each broken
        rule; `rows`, each with seed, table, reader, its reads and errors, and its reads that broke
        each rule.
    """
    services.up(progress=lambda line: None)
    reset_lesson(NAMESPACE)
    lab = Lab(NAMESPACE, services.endpoints())
    found: dict = {"size": {"seeds": list(config.seeds), "seconds": config.seconds}}
    found |= {"problems": [], "runs": [], "rows": []}
    try:
        for seed in config.seeds:
            report_progress(f"seed {seed}, {config.seconds} s")
            _watch(lab, seed, config, found)
    finally:
        lab.spark.stop()
        reset_lesson(NAMESPACE)
    return stamp() | found


def _watch(lab: Lab, seed: int, config: ReadersConfig, found: dict) -> None:
    group, kills = Group(lab.endpoints, f"readers-{seed}", seed), 0
    seen: dict[str, Observed] = {}
    parts = 1 + config.seconds * ORDERS_A_SECOND // KEYS_READ
    try:
        group.begin()
        with ExitStack() as reading:
            for sink in SINKS:
                path = table_path(group.base, sink)
                watched = observed(lab.endpoints, lab.spark, path, parts=parts)
                seen[sink] = reading.enter_context(watched)
            end = time.monotonic() + config.seconds
            while (left := end - time.monotonic()) > 0:
                group.feeder.resume()
                time.sleep(min(left, config.kill_every))
                group.kill_writer()
                kills += 1
                group.recover(start=True)
            group.rest()
        found["problems"] += [f"seed {seed}: {j}" for j in group.judge(whole=True) if not j.ok]
    finally:
        group.end()
    tables = {}
    for sink, table in seen.items():
        actions = pd.Series([action for action, *_ in table.services]).value_counts()
        tables[sink] = {
            "commits": len(table.commits),
            "services": actions.to_dict(),
            "proofs": proofs(table),
        }
        for reader, counts in table.verdicts.astype(object).iterrows():
            counted = counts.where(counts.notna(), None).to_dict()
            found["rows"].append({"seed": seed, "table": sink, "reader": reader} | counted)
    found["runs"].append({"seed": seed, "kills": kills, "tables": tables})
