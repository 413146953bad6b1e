"""The page docs/formats.md, made from the recorded run of `lab bench formats`.

No sentence of it names a table or a figure by hand: what a format does well is what the rounds say.
A claim needs a table of one format whose rounds lie apart from those of every table of the other
formats, by the rule of `tables.probes.verdict`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import pandas as pd

from lab_env.lessons import recorded
from lab_env.platform.display.html import number
from lab_env.platform.settings import REPOSITORY
from lab_env.tables.probes.verdict import HIGHER, INCONCLUSIVE, LOWER, Spread, verdict
from lab_env.workbench.bench.contenders import (
    CODEC,
    CONTENDERS,
    FEED,
    FORMATS,
    HUDI,
    ICEBERG_DOCS,
    Contender,
    options_of_all,
)
from lab_env.workbench.bench.format_chart import chart
from lab_env.workbench.bench.formats import formats_config
from lab_env.workbench.bench.machine import Comparison
from lab_env.workbench.bench.order_stream import ERASED, NEW

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
# Drawn at the largest size.
CHARTS = {"commit": "commit: s", "query": "aggregate, before compaction: s"}
NOBODY = "nobody"
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


def write_page() -> list[Path]:
    """Write the page and its charts from the run that comes with the course."""
    run = recorded.delivered("formats")
    files = {PAGE: page(run)} | {path: chart(*parts) for path, parts in charts(run).items()}
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return list(files)


def charts(run: dict) -> dict[Path, tuple[str, dict[str, Spread], str]]:
    """Title, figures and alternative text of each chart, by its file."""
    factor = run["size"]["factors"][-1]
    found = {}
    for name, metric in CHARTS.items():
        measure = next(measure for measure in MEASURES if measure.metric == metric)
        unit = f"{_orders(run, factor)} orders; {measure.better} is better"
        title = f"{_title(run, measure)} ({unit})"
        figures = spreads(run, metric, factor)
        values = ", ".join(
            f"{contender.title} {number(figures[contender.key].median)}"
            for contender in _contenders(run)
        )
        path = PAGE.parent / "images" / f"formats-{name}.svg"
        found[path] = title, figures, f"{title}: {values}."
    return found


def page(run: dict) -> str:
    """The page as Markdown.

    Args:
        run: what `formats.compare_formats` returned, without problems.
    """
    parts = [
        _head(run),
        "## Which format is first\n\n" + _first_places(run),
        "## What this test does not show\n\n" + _limits(run),
        "## Appendix: how it was measured\n\n" + _method(run),
        *(_figures(run, factor) for factor in run["size"]["factors"]),
    ]
    if len(run["size"]["factors"]) > 1:
        parts.append("## Appendix: how cost grows\n\n" + _growth(run))
    parts.append("## Appendix: the options and their sources\n\n" + _options(run))
    return "\n\n".join(parts) + "\n"


def _head(run: dict) -> str:
    formats = ", ".join(f"{FORMATS[name]} {run['versions'][name]}" for name in FORMATS)
    pictures = "\n\n".join(
        f"![{alt}](images/{path.name})" for path, (_, _, alt) in charts(run).items()
    )
    return "\n\n".join(
        (
            "<!-- Made by `lab author formats`; `lab author record formats` measures anew. -->",
            "# Hudi, Delta Lake and Iceberg on one stream",
            f"We wrote one recorded stream of orders into {len(CONTENDERS)} tables, with"
            f" {formats} and PySpark {run['machine']['pyspark']}. Each format has a table that"
            " copies files on a change and one that merges on read, each with default and with"
            f" tuned options. All {run['rows_compared']:,} rows read back at the end were right."
            f" {_score(run)}",
            "**Do not choose a format by this page.** The tables are small, the store is on the"
            " same machine, there is one writer, and the JVMs use only their quick compiler (C1)."
            " Hours with the full compiler may give other ratios. Use this page to decide what to"
            " measure on your own stream.",
            pictures,
            f"*Bars show the median of {_rounds(run)}; lines run from the lowest to the highest.*",
            f"{_reservations(run)}To measure on your own machine, run `.venv/bin/lab bench formats`"
            " (small), or add `--full`. The first run fetches the other formats' jars, about 55"
            " MB.",
        )
    )


def _score(run: dict) -> str:
    """Count how often each format is first, most often first."""
    found = Counter(FORMATS[CONTENDERS[claim.table].format] for claim in claims(run))
    if not found:
        return "No format is first in any comparison."
    first, *others = sorted(FORMATS.values(), key=lambda title: -found[title])
    behind = " and ".join(f"{title} in {found[title]}" for title in others)
    return (
        f"{first} came first in {found[first]} of {found.total() + len(undecided(run))} comparisons"
        f" with both other formats, {behind}; {len(undecided(run))} are {INCONCLUSIVE}."
    )


def _reservations(run: dict) -> str:
    """Sentences if the record is old, the machine was busy, or the run was not a full one."""
    full, load = asdict(formats_config(full=True)), run["machine"]["load"]
    notes = ""
    if run.get("options") != options_of_all():
        notes += (
            "**The figures are older than the options.** The options below have changed since this"
            " run.\n\n"
        )
    if load > QUIET_LOAD:
        notes += (
            f"The machine was busy: its load was {load:g} before the lab's services started. Times"
            " may be noisier than on an idle machine.\n\n"
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


def _first_places(run: dict) -> str:
    """A row per measure: at each size the table that is ahead of both other formats."""
    said = {(claim.measure.metric, claim.factor): claim for claim in claims(run)}
    factors = run["size"]["factors"]
    rows = [
        (
            _title(run, measure),
            *(_first_place(said.get((measure.metric, factor))) for factor in factors),
        )
        for measure in MEASURES
        if measure.claimed
    ]
    heads = ("measure", *(f"{_orders(run, factor)} orders" for factor in factors))
    return (
        "A table is first if all its rounds are better than every round of both other formats, and"
        " the medians differ by more than the rounds of either table do. The brackets show the best"
        f" table of the other formats. *{NOBODY}* means that the result is {INCONCLUSIVE}, not that"
        " the tables are equal. With few rounds and many comparisons, treat a narrow difference as"
        " a hint.\n\n"
    ) + _table(heads, rows)


def _first_place(claim: Claim | None) -> str:
    if claim is None:
        return NOBODY
    first, following = (
        f"{CONTENDERS[table].title} {number(spread.median / claim.measure.divisor)}"
        for table, spread in ((claim.table, claim.spread), (claim.next_table, claim.next_spread))
    )
    return f"{first} ({following})"


def _method(run: dict) -> str:
    size, machine = run["size"], run["machine"]
    points = (
        f"The stream has {100 * (1 - NEW - ERASED):.0f} % updates and {100 * ERASED:.0f} %"
        " erasures, both of orders from the last two of four days, and"
        f" {100 * NEW:.0f} % new orders, all from the last day.",
        f"The run of {run['made'][:10]} took {run['minutes']:g} minutes on {machine['cores']} cores"
        f" with {machine['memory_gb']} GB; all tables are on the lab's MinIO through S3A.",
        f"A round is {size['commits']} commits of {size['small']:,} events, averaged; a query for"
        f" the changes of the last one; a commit of {size['large']:,}; and two queries. Tables"
        " that merge on read are then compacted and queried again.",
        "We compared each query of each round with an oracle in plain Python, and at the end of"
        " each size every row of every table, in all columns except the time of sending.",
        f"Figures are medians of {_rounds(run)}, with the lowest and the highest in brackets.",
        "The query for one order always runs first after a commit or a compaction, so it also loads"
        " the table's new state.",
        "Tables take turns, and each format in turn goes first in a round. Each kind of table was"
        " warmed up with each query.",
        "Processor time covers the process that writes and reads, and its JVM, but not the store.",
        "[Lesson 20](../notebooks/20_json_vs_cow_vs_mor.ipynb) teaches the rule that decides"
        " whether two tables differ.",
    )
    return "\n".join(f"- {point}" for point in points)


def _figures(run: dict, factor: int) -> str:
    parts = [f"## Appendix: figures at {_orders(run, factor)} orders"]
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
        f"Each cell is the figure at {_orders(run, last)} orders divided by that at"
        f" {_orders(run, first)}. The larger tables are also some commits older.\n\n"
    ) + _table(("table", *heads), rows)


def _options(run: dict) -> str:
    parts = [
        "A default table has the properties of its format's quick start:"
        " [Hudi](https://hudi.apache.org/docs/quick-start-guide),"
        " [Delta Lake](https://docs.delta.io/quick-start/),"
        " [Iceberg](https://iceberg.apache.org/docs/1.10.1/spark-getting-started/). All have two"
        " shuffle partitions, and Delta computes its table state in two partitions instead of 50"
        " (`spark.databricks.delta.snapshotPartitions`, an internal setting made for large"
        " clusters).",
        "Hudi writes with its own upsert. The others write with MERGE on partition and key, after"
        " selecting the newest event of each order, as the guides of"
        " [Delta](https://docs.delta.io/delta-update/#write-change-data-into-a-delta-table) and"
        " [Iceberg](https://iceberg.apache.org/docs/1.10.1/spark-writes/#merge-into) advise. Every"
        " table ignores an event that is older than its row, but the stream has none. To merge on"
        " read, Hudi has a table type, Delta"
        " [deletion vectors](https://docs.delta.io/delta-deletion-vectors/) and Iceberg"
        " [write modes](https://iceberg.apache.org/docs/1.10.1/configuration/#write-properties)."
        " Hudi's Merge-on-Read with its default index still rewrites base files for new orders"
        " ([lesson 05](../notebooks/05_cow_and_mor.ipynb)).",
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
    parts.append(_table(("format", "tuning step", "properties"), rows))
    parts.append(
        f"All tuned tables use the codec {CODEC}, Iceberg's default. By default Hudi uses gzip, and"
        " Delta uses Spark's default, snappy. Delta 3.3 has no table property for the codec, so the"
        " session sets it. The MERGE condition gets the partitions that a batch changes; a job that"
        " does not know them must read its batch once more, which we did not measure.",
    )
    parts.append(
        "**Compaction.** Hudi's Merge-on-Read runs `run_compaction`; its automatic compaction after"
        " every fifth commit is off, because no other table compacts while it writes. Delta runs"
        f" `OPTIMIZE`, which may leave deletion vectors: {_optimized(run)}. Iceberg runs"
        " `rewrite_data_files` with `min-input-files=2` and `delete-file-threshold=1`, so that it"
        " leaves nothing to merge, and with `remove-dangling-deletes=true`, which removes the"
        " delete files in one more commit."
    )
    parts.append(
        "**Changes.** For Hudi we run its incremental query. For Iceberg copy-on-write we read its"
        " table `changes`, without the rows that were only copied; the"
        f" [changelog view]({ICEBERG_DOCS}/spark-procedures/#create_changelog_view) compares whole"
        " rows and takes longer. Iceberg cannot read `changes` where a commit wrote delete files,"
        " so its default merge-on-read table has no figure. The tuned one has format version 3 with"
        " [row lineage](https://iceberg.apache.org/spec/#row-lineage): the query selects the rows"
        " whose `_last_updated_sequence_number` is that of the commit. Delta writes its change feed"
        f" with each commit, so *{CONTENDERS[FEED].title}* has a second table with a feed, which"
        " gets the same small commits."
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
    return f"""- **Size.** {largest} orders are a few megabytes, in four partitions. In tables
  that merge on read, a commit's fixed cost dominates. Nothing follows for a terabyte on fifty
  executors.
- **Distance.** A cloud store answers more slowly, so a format that sends more requests may lose
  more there.
- **Concurrency.** One writer means no conflicts and no locks, and nothing compacts while the stream
  runs. With several writers, Hudi needs a lock provider, Delta its DynamoDB log store, and Iceberg
  a catalogue that commits atomically; here Iceberg has a Hadoop catalogue and S3A.
- **A cold reader.** The process that writes also reads, with Iceberg's catalogue and Delta's log in
  its cache. A reader in another process first has to load the table.
- **Maintenance.** Only Hudi cleans while it writes. We did not measure Delta's VACUUM or expiring
  Iceberg's snapshots.
- **Periodic work.** Delta writes a checkpoint with every tenth version, and Hudi compacts its
  metadata table after every tenth commit. A round of {size["commits"]} commits may or may not
  contain such a step, so part of the spread is not noise.
- **Growing tables.** Each round adds rows and commits, which makes some verdicts *{INCONCLUSIVE}*.
- **Bytes.** Default codecs differ, Hudi's logs are Avro, and each of its rows has five more
  columns. By default each of its base files carries a bloom filter for 60,000 keys, which its
  simple index does not read.
- **Deletes among the changes.** Delta's feed and Iceberg's `changes` contain them. Hudi's
  incremental query and Iceberg's row lineage do not; Hudi's
  [CDC query](../notebooks/12_change_feed.ipynb) does, and was not measured.
- **Other versions and engines.** Spark 3.5 keeps Delta at 3.3. How well Trino, Flink or DuckDB
  reads a table may matter more than these figures.
- **Our bias.** This course teaches Hudi. We measured to choose its index, statistics and cleaning
  (`lab_env/pipeline/options.py`), and took all other options from documentation.
- **Not tried:** [liquid clustering](https://docs.delta.io/delta-clustering/) in Delta, S3FileIO in
  Iceberg. If you know a better option, change `lab_env/workbench/bench/contenders.py` and run the
  benchmark again.
- **Tried and left out:** Parquet in Hudi's logs (fewer bytes, more requests before compaction);
  Iceberg's `write.merge.distribution-mode=none` (cheaper for small tables, more expensive for
  larger ones; with format version 3 it made a table that {run["versions"]["iceberg"]} could not
  read); format version 3 for Iceberg copy-on-write (reading changes is faster,
  commits write slightly more)."""


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
