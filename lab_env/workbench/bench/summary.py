"""Summarizes the figures of all rounds: medians, ranges and verdicts."""

import importlib.metadata
import os
from dataclasses import asdict

from lab_env.platform.processes.system import memory
from lab_env.tables.probes.verdict import Spread, verdict
from lab_env.workbench.bench.machine import stamp
from lab_env.workbench.bench.results import Figures

# Each table against the baseline, and the two tables against each other.
PAIRS = (("cow", "json"), ("mor", "json"), ("mor", "cow"))

RULES = (
    "One recorded stream per scenario: the same bytes for every sink and every round, from one"
    " Kafka topic with two topic partitions. Batches contain the same messages in every sink.",
    "The sinks take turns: while one is measured, the others rest. Each round begins with"
    " another sink. Each sink has its own process and bucket, on the same cores, with the same"
    " memory and Spark settings.",
    "Files of JSON and Parquet are compressed with gzip; Merge-on-Read's logs are Avro and not"
    " compressed, as by default. Both tables use the options of the course's pipeline:"
    " a bucket index with two buckets per partition, the file listing in the metadata table, and"
    " no column statistics. Each base file carries a bloom filter of some 430 KB, a default that"
    " this index does not use and that makes small tables larger.",
    "JSON returns the newest state of each order by a window over all lines. Incremental and"
    " time-travel queries read only the batches that they need, as listed in the sink's own log."
    " Its compaction rewrites the newest lines and deletes the rest.",
    "Table services are measured separately and counted: cleaning for both tables, compaction"
    " for MOR and JSON. Fresh means before them, tidy after them. Cleaning keeps the previous"
    " version for readers that still use it; the files keep none. Table services remove history,"
    " so time-travel and incremental queries run before them only.",
    "Cold is the first query of a table that was just opened; warm is the same query again. All"
    " data is in the memory of one machine: a network and a disk would slow every sink down.",
    "Freshness ends when the commit that holds the event completes, with at most one batch per"
    " second and no compaction during the stream.",
    "The streams have no erasures, late events or malformed events.",
    "The answers are compared with the stream itself. One wrong answer makes all figures"
    " worthless.",
    "A difference counts if all rounds of one sink lie on one side of the other's, and the"
    " medians are farther apart than either sink varies. Otherwise the verdict is inconclusive.",
)


def summary(figures: Figures) -> dict:
    """Build the report as plain data.

    `figures` contains every single figure, `metrics` the spread of each sink and the verdicts by
    scenario and metric, and `freshness` the spreads by rate and sink.
    """
    return {
        "made": stamp()["made"],
        "machine": machine_facts(),
        "rules": list(RULES),
        "size": {
            "rounds": figures.config.rounds,
            "knob": figures.config.extra_options,
            "warm_up": figures.config.warm_up,
            "scenarios": {s.name: asdict(s) | {"title": s.title} for s in figures.config.scenarios},
        },
        "problems": figures.problems,
        "metrics": [
            _metric(figures, scenario.name, metric)
            for scenario in figures.config.scenarios
            for metric in figures.metrics()
        ],
        "freshness": [
            _freshness(figures, rate, sink)
            for rate in figures.config.pace.rates
            for sink in figures.sinks
        ],
        "cpu_seconds": figures.cpu_seconds,
        "figures": figures.rows,
    }


def machine_facts() -> dict[str, object]:
    """Return this machine's cores and memory, and the PySpark version."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(memory().total / 2**30, 1),
        "pyspark": importlib.metadata.version("pyspark"),
    }


def _freshness(figures: Figures, rate: int, sink: str) -> dict:
    """Return the spreads of one sink's freshness at one rate; None where nothing was measured."""
    rounds = [row for row in figures.freshness if (row["rate"], row["sink"]) == (rate, sink)]
    found = {"rate": rate, "sink": sink}
    for name in ("p50", "p95", "requested p50", "rows/s"):
        values = [row[name] for row in rounds if row[name] is not None]
        found[name] = asdict(Spread.of(values)) if values else None
    return found


def _metric(figures: Figures, scenario: str, metric: str) -> dict:
    spreads = {sink: Spread.of(figures.of(scenario, sink, metric)) for sink in figures.sinks}
    return {
        "scenario": scenario,
        "metric": metric,
        "sinks": {sink: asdict(spread) for sink, spread in spreads.items()},
        "verdicts": {
            f"{this} against {other}": {
                "verdict": verdict(spreads[this], spreads[other]),
                "ratio": _ratio(spreads[this].median, spreads[other].median),
            }
            for this, other in PAIRS
            if {this, other} <= set(figures.sinks)
        },
    }


def _ratio(figure: float, baseline: float) -> float | None:
    return round(figure / baseline, 3) if baseline else None
