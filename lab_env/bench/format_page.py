"""The page docs/formats.md, made from the recorded run of `lab bench formats`.

No sentence of it names a table or a figure by hand: what a format does well is what the rounds say.
A claim needs a table of one format whose rounds lie apart from those of every table of the other
formats, by the rule of `probes.verdict`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import pandas as pd

from lab_env.bench import recorded
from lab_env.bench.contenders import (
    CODEC,
    CONTENDERS,
    FEED,
    FORMATS,
    HUDI,
    ICEBERG_DOCS,
    Contender,
    options_of_all,
)
from lab_env.bench.formats import formats_config
from lab_env.bench.machine import Comparison
from lab_env.bench.order_stream import ERASED, NEW
from lab_env.display.html import number
from lab_env.probes.verdict import HIGHER, INCONCLUSIVE, LOWER, Spread, verdict
from lab_env.settings import REPOSITORY

PAGE = REPOSITORY / "docs" / "formats.md"
QUIET_LOAD = 0.8  # processes that want to run, when nothing but the benchmark begins


@dataclass(frozen=True)
class Measure:
    """A metric as the page shows it.

    Args:
        metric: its name in the record.
        column: its title beside the columns of its group; `{small}` and `{large}` are the events of
            a commit.
        title: its title elsewhere; by default that of the column.
        better: `LOWER` or `HIGHER`.
        divisor: from the metric's unit to the title's.
        claimed: whether the page says which format does it well.
    """

    metric: str
    column: str
    title: str = ""
    better: str = LOWER
    divisor: float = 1
    claimed: bool = True


COMMITS = (
    Measure("commit: s", "commit of {small} events, s"),
    Measure("commit: CPU s", "its processor time, s", "processor seconds of a commit of {small}"),
    Measure("commit: requests", "its S3 requests", "S3 requests of a commit of {small}"),
    Measure(
        "commit: bytes written", "its MB written", "MB written by a commit of {small}", divisor=1e6
    ),
    Measure("rows/s", "events/s in a commit of {large}", better=HIGHER),
    Measure(
        "large commit: CPU s", "its processor time, s", "processor seconds of a commit of {large}"
    ),
)
QUERIES = (
    Measure("point, before compaction: s", "one order, s", "one order, before compaction, s"),
    # Claimed once, for the query of all rows: most of the requests open the same files.
    Measure("point, before compaction: requests", "its S3 requests", claimed=False),
    Measure(
        "aggregate, before compaction: s",
        "count and sum of all, s",
        "count and sum, before compaction, s",
    ),
    Measure(
        "aggregate, before compaction: requests", "its S3 requests", "S3 requests of count and sum"
    ),
)
COMPACTION = (
    # A table that rewrites files at each commit may have nothing left to do, which is no merit.
    Measure("compaction: s", "compaction, s", claimed=False),
    Measure("compaction: CPU s", "its processor time, s", claimed=False),
    Measure("compaction: requests", "its S3 requests", claimed=False),
    Measure("compaction: bytes written", "its MB written", divisor=1e6, claimed=False),
    Measure("point, after compaction: s", "one order, s", "one order, after compaction, s"),
    Measure("point, after compaction: requests", "its S3 requests", claimed=False),
    Measure(
        "aggregate, after compaction: s",
        "count and sum of all, s",
        "count and sum, after compaction, s",
    ),
    Measure("aggregate, after compaction: requests", "its S3 requests", claimed=False),
)
CHANGES = (
    # Of tables that keep a feed: the others have no such commit.
    Measure("commit, changes kept: s", "commit of {small} with a change feed, s", claimed=False),
    Measure(
        "changes: s",
        "the rows that a commit of {small} changed, s",
        "reading the rows that a commit of {small} changed, s",
    ),
    Measure("changes: requests", "its S3 requests", claimed=False),
)
GROUPS = {
    "Commits": COMMITS,
    "Queries before compaction": QUERIES,
    "Compaction, and the queries after it": COMPACTION,
    "Changes": CHANGES,
}
MEASURES = tuple(measure for group in GROUPS.values() for measure in group)
GROWN = ("commit: s", "commit: CPU s", "commit: bytes written", "aggregate, before compaction: s")
COMMIT_GOAL = 1.2  # times the quickest commit of another format


@dataclass(frozen=True)
class Claim:
    """What a format does well: all rounds of one of its tables lie apart from all others'.

    Args:
        measure: what.
        factor: at which size.
        table: key of the contender.
        next_table: the best of the other formats.
        spread: the figures of the table.
        next_spread: those of the other.
    """

    measure: Measure
    factor: int
    table: str
    next_table: str
    spread: Spread
    next_spread: Spread


def rounds_of(run: dict, metric: str, factor: int) -> dict[str, list[float]]:
    """A metric's figures at one size, one per round, by contender.

    Args:
        run: what `formats.compare_formats` or `recorded.shown` returned.
        metric: for example `commit: s`.
        factor: the size.
    """
    return {
        row["contender"]: row["values"]
        for row in run["rows"]
        if (row["metric"], row["factor"]) == (metric, factor)
    }


def spreads(run: dict, metric: str, factor: int) -> dict[str, Spread]:
    """The figures of `rounds_of`, summarized."""
    return {key: Spread.of(values) for key, values in rounds_of(run, metric, factor).items()}


def _verdict(this: list[float], other: list[float]) -> str:
    return verdict(Spread.of(this), Spread.of(other))


def ahead(
    figures: Mapping[str, list[float]],
    better: str,
    judge: Callable[[list[float], list[float]], str] = _verdict,
) -> str | None:
    """The table that is better than every table of the other formats.

    Args:
        figures: one per round, by contender.
        better: `LOWER` or `HIGHER`.
        judge: compares the figures of two tables; lesson 20 has the learner's own rule.

    Returns:
        The contender, of several that with the best median; None if there is none.
    """
    for key in sorted(figures, key=lambda key: median(figures[key]), reverse=better == HIGHER):
        others = _of_other_formats(figures, key)
        if all(judge(figures[key], theirs).lower() == better for theirs in others.values()):
            return key
    return None


def _of_other_formats(figures: Mapping[str, list[float]], key: str) -> dict[str, list[float]]:
    own = CONTENDERS[key].format
    return {other: found for other, found in figures.items() if CONTENDERS[other].format != own}


def claims(run: dict) -> list[Claim]:
    """What the rounds say that a format does well, in the order of `MEASURES`."""
    found = []
    for measure in MEASURES:
        for factor in run["size"]["factors"]:
            figures = rounds_of(run, measure.metric, factor)
            if measure.claimed and (table := ahead(figures, measure.better)):
                best_of = max if measure.better == HIGHER else min
                others = _of_other_formats(figures, table)
                following = best_of(others, key=lambda key: median(figures[key]))
                of_both = (Spread.of(figures[key]) for key in (table, following))
                found.append(Claim(measure, factor, table, following, *of_both))
    return found


def undecided(run: dict) -> list[tuple[Measure, int]]:
    """The measures and sizes at which no format's table lies apart from all others'."""
    said = {(claim.measure.metric, claim.factor) for claim in claims(run)}
    return [
        (measure, factor)
        for measure in MEASURES
        for factor in run["size"]["factors"]
        if measure.claimed and (measure.metric, factor) not in said
    ]


def commit_time(run: dict) -> list[Comparison]:
    """Small commits at the first size: Hudi's quickest table against the quickest of the others.

    Args:
        run: what `formats.compare_formats` returned; with wrong answers there is no comparison.
    """
    size, factor = run["size"], run["size"]["factors"][0]
    figures = rounds_of(run, "commit: s", factor)
    if not figures:
        return []
    quickest = sorted(figures, key=lambda key: median(figures[key]))
    hudi = next(key for key in quickest if CONTENDERS[key].format == HUDI)
    peer = next(key for key in quickest if CONTENDERS[key].format != HUDI)
    return [
        Comparison.of(
            "formats",
            f"commit of {size['small']:,} events into {_orders(run, factor)} orders,"
            f" {CONTENDERS[hudi].title}",
            CONTENDERS[peer].title,
            "s",
            list(zip(figures[hudi], figures[peer], strict=True)),
            (f"{COMMIT_GOAL} or less", lambda ratio: ratio <= COMMIT_GOAL),
        )
    ]


def write_page() -> Path:
    """Write the page from the run that comes with the course."""
    PAGE.write_text(page(recorded.delivered("formats")), encoding="utf-8")
    return PAGE


def page(run: dict) -> str:
    """The page as Markdown.

    Args:
        run: what `formats.compare_formats` returned, without problems.
    """
    parts = [
        _head(run),
        "## Where one format is ahead of both others\n\n" + _well(run),
        "## Where no format is ahead of both others\n\n" + _not_told(run),
        *(_figures(run, factor) for factor in run["size"]["factors"]),
    ]
    if len(run["size"]["factors"]) > 1:
        parts.append("## How cost grows\n\n" + _growth(run))
    parts += [
        "## What tuning changed\n\n" + _tuning(run),
        "## The options, and where they come from\n\n" + _options(run),
        "## What this test does not show\n\n" + _limits(run),
    ]
    return "\n\n".join(parts) + "\n"


def _head(run: dict) -> str:
    size, machine = run["size"], run["machine"]
    formats = ", ".join(f"{FORMATS[name]} {run['versions'][name]}" for name in FORMATS)
    sizes = " and ".join(f"{factor * size['orders']:,}" for factor in size["factors"])
    return f"""<!-- Made by `lab author formats`; `lab author record formats` measures anew. -->

# Hudi beside Delta Lake and Iceberg

One recorded stream of the shop's events ({100 * (1 - NEW - ERASED):.0f} % updates and
{100 * ERASED:.0f} % erasures, both of orders of the last two of four days, and {100 * NEW:.0f} %
new orders, all on the last day) into {len(CONTENDERS)} tables:
three formats, each copying (a change rewrites the files of its rows) and merging on read (it adds
small files that readers merge; Hudi by default still rewrites base files for new orders, because
its default index does not find keys in logs: [lesson 05](../notebooks/05_cow_and_mor.ipynb)), each
with its defaults and once with options that its documentation offers for this. Measured on
{run["made"][:10]} in {run["minutes"]:g} minutes on {machine["cores"]} cores with
{machine["memory_gb"]} GB: {formats}, PySpark {machine["pyspark"]}, all on the lab's MinIO
through S3A.

**Right answers first.** Each query of each round was compared with a plain-Python oracle, and at
the end of each size every row of every table, in all columns but the time of sending:
{run["rows_compared"]:,} rows in the end, equal in all of them. One wrong row, and there would be
no figures here.

Each figure is the median of {_rounds(run)} at {sizes} orders, with the lowest and the
highest: 0.513 (0.504 to 0.531). A round is {size["commits"]} commits of {size["small"]:,}
events, whose mean counts, the changes of the last of them read back, a commit of {size["large"]:,}
and two queries; where tables merge on read, also compaction and the two queries again. (Tables
that rewrite files at each change were not compacted.) The first query after a commit or a
compaction is always that for one order: it also loads the table's new state. The tables
take turns; the rounds begin with Hudi, Delta and Iceberg in turn. Each kind of table was warmed up
first, with each query. Processor time is that of the process that writes and reads, with its JVM;
what the store uses for its requests is not in it.
A difference counts if all rounds of one
table lie on one side of the other's, and the medians are farther apart than either varies: the
rule of [lesson 20](../notebooks/20_json_vs_cow_vs_mor.ipynb). Everything else is inconclusive.
Three rounds are few, and many pairs are compared: take a single narrow difference as a hint.

Do not choose a format by this page. It shows what to measure on your own stream; read
[what this test does not show](#what-this-test-does-not-show) first.

{_reservations(run)}Measure your own machine with `.venv/bin/lab bench formats` (small) or `--full`;
it fetches the other formats' jars, about 55 MB, when it is first called."""


def _reservations(run: dict) -> str:
    """Sentences if the record is old, the machine was busy, or the run was not a full one."""
    full, load = asdict(formats_config(full=True)), run["machine"]["load"]
    notes = ""
    if run.get("options") != options_of_all():
        notes += (
            "**The figures are older than the options.** They are of a run before the last changes"
            " to what is written below about options and the way to measure.\n\n"
        )
    if load > QUIET_LOAD:
        notes += (
            f"The load of the machine was {load:g} before the lab's services started. Times may be"
            " noisier than they would be alone.\n\n"
        )
    if run["size"] == {name: full[name] for name in run["size"]} | {
        "factors": list(full["factors"])
    }:
        return notes
    sizes = " and ".join(f"{factor * full['orders']:,}" for factor in full["factors"])
    alone = (
        " One round does not show how much a figure varies, so nothing can be claimed from it."
        if run["size"]["rounds"] == 1
        else ""
    )
    return (
        f"{notes}**This is a reduced record**, of {_rounds(run)}.{alone} `lab bench formats"
        f" --full` measures"
        f" {full['rounds']} rounds at {sizes} orders, with commits of {full['small']:,} and"
        f" {full['large']:,} events.\n\n"
    )


def _well(run: dict) -> str:
    found = claims(run)
    parts = []
    for name, title in FORMATS.items():
        rows = [
            (
                _title(run, claim.measure),
                _orders(run, claim.factor),
                CONTENDERS[claim.table].title,
                _text(claim.spread, claim.measure),
                f"{CONTENDERS[claim.next_table].title}: {_text(claim.next_spread, claim.measure)}",
            )
            for claim in found
            if CONTENDERS[claim.table].format == name
        ]
        heads = ("measure", "orders", "table", "figure", "best of the other formats")
        text = _table(heads, rows) if rows else "Nothing that passes the rule against both others."
        parts.append(f"**{title}**\n\n{text}")
    first_places = (
        "First places only: a format without a row may be second or last, as the figures below"
        " say. Of several tables of a format that are ahead, that with the best median is named."
    )
    return "\n\n".join((first_places, *parts))


def _not_told(run: dict) -> str:
    lines = [
        f"- {_title(run, measure)}, {_orders(run, factor)} orders"
        for measure, factor in undecided(run)
    ]
    intro = (
        "No table passes the rule against every table of both other formats: the rounds overlap,"
        " or the medians are no farther apart than the rounds of one table. The verdict is"
        f" *{INCONCLUSIVE}*, not *equal*. One table that varies much is enough to prevent a first"
        " place, and two formats may still be ahead of the third:\n\n"
    )
    return intro + "\n".join(lines) if lines else "Each measure has one."


def _figures(run: dict, factor: int) -> str:
    parts = [f"## The figures at {_orders(run, factor)} orders"]
    for title, group in GROUPS.items():
        figures = [spreads(run, measure.metric, factor) for measure in group]
        heads = [measure.column.format(**_sizes(run)) for measure in group]
        rows = [
            (
                contender.title,
                *(
                    _text(found[contender.key], measure) if contender.key in found else "–"
                    for found, measure in zip(figures, group, strict=True)
                ),
            )
            for contender in _contenders(run)
            if any(contender.key in found for found in figures)
        ]
        parts += [f"**{title}**", _table(("table", *heads), rows)]
    return "\n\n".join(parts)


def _growth(run: dict) -> str:
    first, last = run["size"]["factors"][0], run["size"]["factors"][-1]
    measures = [measure for measure in MEASURES if measure.metric in GROWN]
    rows = []
    for contender in _contenders(run):
        cells = []
        for measure in measures:
            small, large = (
                spreads(run, measure.metric, factor)[contender.key] for factor in (first, last)
            )
            cells.append(_ratio(large, small))
        rows.append((contender.title, *cells))
    heads = [_title(run, measure) for measure in measures]
    return (
        "A commit of as many events and the same query on the same tables, grown to"
        f" {last / first:g} times the orders and some commits older: how many times the figure at"
        f" {_orders(run, first)} orders. [What this test does not"
        " show](#what-this-test-does-not-show) says where that misleads.\n\n"
    ) + _table(("table", *heads), rows)


def _tuning(run: dict) -> str:
    rows = []
    keys = {contender.key for contender in _contenders(run)}
    for contender in _contenders(run):
        if not contender.tuned or contender.default_key not in keys:
            continue
        for factor in run["size"]["factors"]:
            cells = []
            for metric in (
                "commit: s",
                "commit: CPU s",
                "rows/s",
                "aggregate, before compaction: s",
            ):
                figures = spreads(run, metric, factor)
                cells.append(_ratio(figures[contender.key], figures[contender.default_key]))
            rows.append((contender.title, _orders(run, factor), *cells))
    heads = ("commit, s", "its processor time", "events/s in a large commit", "count and sum, s")
    intro = (
        "How many times the figure of the same table with its defaults: below 1 is better for"
        " times, above 1 for events/s.\n\n"
    )
    return intro + _table(("table", "orders", *heads), rows)


def _options(run: dict) -> str:
    parts = [
        "By default a table has what its format's quick start asks for, in the lab's Spark session"
        " with two shuffle partitions for all, and as many partitions of Delta's state of the"
        " table instead of 50 (`spark.databricks.delta.snapshotPartitions`, an internal setting,"
        " not in Delta's guide):"
        " [Hudi](https://hudi.apache.org/docs/quick-start-guide),"
        " [Delta Lake](https://docs.delta.io/quick-start/),"
        " [Iceberg](https://iceberg.apache.org/docs/1.10.1/spark-getting-started/). Hudi is"
        " written by its own upsert, the others by MERGE on partition and key, after the newest"
        " event of each order was chosen, as"
        " [Delta's](https://docs.delta.io/delta-update/#write-change-data-into-a-delta-table) and"
        " [Iceberg's](https://iceberg.apache.org/docs/1.10.1/spark-writes/#merge-into) guides"
        " ask. All are written to refuse an event that is older than the row; the stream has no"
        " such event, so that was not tested. Merging on read: Hudi's table type,"
        " Delta's [deletion vectors](https://docs.delta.io/delta-deletion-vectors/), Iceberg's"
        " [write modes](https://iceberg.apache.org/docs/1.10.1/configuration/#write-properties).",
    ]
    rows: list[tuple[str, ...]] = []
    seen = set()
    for contender in CONTENDERS.values():
        for advice in contender.advice:
            if (contender.format, advice.what) in seen:
                continue
            seen.add((contender.format, advice.what))
            only = "" if _everywhere(contender, advice) else f" ({contender.title} only)"
            values = ", ".join(f"`{key}={value}`" for key, value in advice.all_options.items())
            rows.append(
                (
                    FORMATS[contender.format],
                    f"[{advice.what}]({advice.guide}){only}",
                    values or "–",
                )
            )
    parts.append(_table(("format", "tuned", "properties"), rows))
    parts.append(
        f"The codec of the data files is {CODEC} in all tuned tables. It is Iceberg's default; by"
        " default Hudi has gzip and Delta Spark's snappy. Delta 3.3 has no property of the table"
        " for it, so it is one of the session.",
    )
    parts.append(
        "MERGE is told which partitions a batch changes. A job that does not know them has to read"
        " its batch once more to find out, which is not in these figures. Two links of"
        " Iceberg lead elsewhere than to its guide: to the change with which it began to use such a"
        " condition, and to the specification of format version 3, which the guide of"
        f" {run['versions']['iceberg']} does not describe."
    )
    parts.append(
        "**Compaction** is `run_compaction` for Hudi's Merge-on-Read, whose own compaction after"
        " each fifth commit is switched off, because no other table compacts while it writes. It is"
        f" `OPTIMIZE` for Delta, which may leave deletion vectors: {_optimized(run)}. It is"
        " `rewrite_data_files` for Iceberg, with `min-input-files=2` and"
        " `delete-file-threshold=1`, so that it merges all that waits (by default it rewrites"
        " groups of five files, or where 30 % of a file's rows are deleted), and with"
        " `remove-dangling-deletes=true`, which removes the delete files in one more commit."
    )
    parts.append(
        "**Changes** are read by Hudi's incremental query, and by Delta's change data feed. Of"
        " Iceberg copy-on-write they come from its table `changes`, which has the rows of all files"
        " that a commit removed or wrote: the query leaves out what was only copied. (The"
        f" [changelog view]({ICEBERG_DOCS}/spark-procedures/#create_changelog_view) does so, too,"
        " and takes longer, because it compares whole rows.) Iceberg refuses to read that table"
        " where a commit wrote delete files, so its merge-on-read has no figure by default. Tuned,"
        " its format version 3 has [row lineage](https://iceberg.apache.org/spec/#row-lineage): the"
        " query is for the rows whose `_last_updated_sequence_number` is that of the commit. Hudi"
        " and Iceberg need nothing for it. Delta's feed is written by each commit, so"
        f" {CONTENDERS[FEED].title}, has a sister with it, which takes the same small commits."
    )
    return "\n\n".join(parts)


def _optimized(run: dict) -> str:
    """What `OPTIMIZE` left of deletion vectors, by the requests of a query."""
    factor, query = run["size"]["factors"][-1], "aggregate, {} compaction: requests"
    before, after = (spreads(run, query.format(state), factor) for state in ("before", "after"))
    return (
        f"at {_orders(run, factor)} orders count and sum needed"
        f" {number(before['delta-dv'].median)} requests before it and"
        f" {number(after['delta-dv'].median)} after it, and"
        f" {number(before['delta'].median)} on the table without them"
    )


def _everywhere(contender: Contender, advice) -> bool:
    same = [c for c in CONTENDERS.values() if c.format == contender.format and c.tuned]
    return all(advice in other.advice for other in same)


def _limits(run: dict) -> str:
    size, largest = run["size"], _orders(run, run["size"]["factors"][-1])
    events = size["commits"] * size["small"] + size["large"]
    one_more = sum(sum(row["values"]) for row in run["rows"] if row["metric"] == "commit: s")
    return f"""- **Size.** {largest} orders are some megabytes: where readers merge, what a commit
  costs before its first row dominates; where files are copied, part of it already grows with the
  table. Nothing follows for a table of a terabyte on fifty executors.
- **The store is next door.** A cloud's store answers more slowly: whoever sends more requests
  may lose more there.
- **Work that comes every few commits.** Delta writes a checkpoint with every tenth version, Hudi
  compacts its metadata table after every tenth commit. The mean of {size["commits"]} commits has a
  share of it in some rounds, and nothing in the others; a commit of {size["large"]:,} has all of it
  or nothing. Part of these spreads is therefore no noise. Ten commits would even it out for small
  commits, and take {(10 - size["commits"]) * one_more / 60:.0f} minutes more, by
  calculation. Tuned, Hudi cleans after each fifth commit.
- **Rounds are no repeats.** Each adds its events to the tables, and all new orders to the last day:
  a table grows by some {(NEW - ERASED) * events:,.0f} orders a round, and has more history. At the
  smaller size that makes most commits slower from round to round, and some *inconclusive* comes
  from it.
- **Delta's feed is read from a sister** without the large commits. Hudi's and Iceberg's changes
  come from the tables with all commits.
- **Versions.** The lab has Spark 3.5, for which Delta's last line is 3.3.
- **Bytes of small tables.** Each base file of Hudi by default carries a bloom filter for 60,000
  keys, however few it has, which neither its simple nor its bucket index uses; tuned, it has none.
  That constant makes the MB of Hudi's defaults seem to grow less than the others' do.
- **Codecs by default.** Hudi gzip, Delta Spark's snappy, Iceberg zstd. That shapes the MB written
  and part of the processor time; it is a setting, not the format. Tuned, all write
  Parquet with one codec, but Hudi's logs stay Avro, its default, and its rows have five columns of
  its own: the MB of its Merge-on-Read are not comparable with the others'.
- **Delta's state with 50 partitions.** That default is for large clusters; all its tables have two
  here, those with defaults, too.
- **Another reader.** The queries run in the process that wrote, where Iceberg's catalogue and
  Delta's log are cached, which favours both in every query above. A reader elsewhere first loads
  the table; that is not measured.
- **One writer.** No conflict, no second job, no compaction beside the stream: the compaction here
  has the machine for itself.
- **History.** Cleaning, VACUUM and expiring snapshots are not measured. Hudi alone cleans while it
  writes, Delta writes its checkpoints; both are in these figures, and not measured apart.
- **Deletes among changes.** The query asks for the rows that a commit left. The deletes
  themselves are in Delta's feed and Iceberg's table of changes, not in Hudi's incremental query
  and Iceberg's row lineage. Hudi's [CDC query](../notebooks/12_change_feed.ipynb) has them, and is
  not measured.
- **Catalogues and locks.** Delta is named by its path with its single-driver log store, Iceberg by
  a Hadoop catalogue and S3A instead of its own S3FileIO, Hudi has one writer without a lock.
  Tables that several jobs share need Delta's DynamoDB log store, a catalogue that commits
  atomically, and Hudi's lock provider; their cost is not counted here.
- **Partitions.** Four days of a few MB each; Delta's guide advises a partition only from 1 GB on,
  and has [liquid clustering](https://docs.delta.io/delta-clustering/) (`CLUSTER BY`, since Delta
  3.1) in the place of partitions.
- **Other engines.** Spark alone reads and writes. How well Trino, Flink or DuckDB read a table
  may matter more than these figures.
- **The quick compiler.** The three JVMs use C1 alone, as in the lessons. A stream of hours with
  the full compiler may have other ratios.
- **Who measured.** This course teaches Hudi. Its statistics and cleaning were chosen by measuring
  commits of 1,000 rows into 20,000 orders, as here, and its index by reading a backlog into larger
  tables (`lab_env/pipeline/options.py`). The other options of all three were taken from
  documentation; what they changed together is above.
- **Tried in short runs and left out.** Parquet in Hudi's logs: fewer bytes for as much processor
  time, but queries before compaction need more requests. Iceberg's
  `write.merge.distribution-mode=none`: fewer seconds of processor time in a small table, more in a
  larger one; and with format version 3 a commit wrote two deletion vectors for one file, after
  which {run["versions"]["iceberg"]} could not read the table. Its format version 3 for
  copy-on-write: the changed rows are read sooner, and each commit writes a little more. (Its
  `write.spark.fanout.enabled` is on by default with Spark 3.5 in a table without a sort order.)
- **Not tried.** Delta's liquid clustering, Iceberg's S3FileIO. If you know a better option, change
  `lab_env/bench/contenders.py` and run it again."""


def text_table(run: dict) -> str:
    """The medians for a terminal, one table per size."""
    if not run["rows"]:
        return "No figures: the answers are wrong."
    rows = pd.DataFrame(run["rows"])
    parts = []
    for factor, of_size in rows.groupby("factor"):
        frame = of_size.pivot(index="metric", columns="contender", values="median")
        order = [c.key for c in _contenders(run)]
        parts.append(f"{_orders(run, factor)} orders\n{frame[order].round(2).to_string()}")
    return "\n\n".join(parts)


def _contenders(run: dict) -> list[Contender]:
    measured = {row["contender"] for row in run["rows"]}
    return [contender for key, contender in CONTENDERS.items() if key in measured]


def _sizes(run: dict) -> dict[str, str]:
    return {name: f"{run['size'][name]:,}" for name in ("small", "large")}


def _title(run: dict, measure: Measure) -> str:
    return (measure.title or measure.column).format(**_sizes(run))


def _rounds(run: dict) -> str:
    number_of_rounds = run["size"]["rounds"]
    return "one round" if number_of_rounds == 1 else f"{number_of_rounds} rounds"


def _orders(run: dict, factor: int) -> str:
    return f"{factor * run['size']['orders']:,}"


def _text(spread: Spread, measure: Measure) -> str:
    median, low, high = (
        number(value / measure.divisor) for value in (spread.median, spread.low, spread.high)
    )
    return median if low == high else f"{median} ({low} to {high})"


def _ratio(this: Spread, other: Spread) -> str:
    """How many times the other; inconclusive where the rounds do not lie apart."""
    found = verdict(this, other)
    if found not in (LOWER, HIGHER) or not other.median:
        return found
    return f"{this.median / other.median:.2g}"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = tuple(heads)
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
