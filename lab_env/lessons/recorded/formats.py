"""The claims of `lab bench formats`: for each metric, the table format that is ahead.

A format counts as ahead only if the rounds of one of its tables do not overlap with those of
any other format's table, by the rule of `tables.probes.verdict`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from lab_env.lessons.recorded.contenders import CONTENDERS
from lab_env.tables.probes.verdict import HIGHER, LOWER, Spread, verdict


@dataclass(frozen=True)
class Measure:
    """A metric on the page; `{small}` and `{large}` stand for the number of events in a commit."""

    metric: str
    column: str  # its title as a column of its group
    title: str = ""  # its title elsewhere; by default the same as `column`
    better: str = LOWER
    divisor: float = 1  # converts the metric's unit to the title's
    claimed: bool = True  # True if the page names the format that is ahead


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


@dataclass(frozen=True)
class Claim:
    """A measure in which one format's table is ahead: its rounds overlap with no other format's."""

    measure: Measure
    factor: int
    table: str
    next_table: str  # the best of the other formats


def rounds_of(run: dict, metric: str, factor: int) -> dict[str, list[float]]:
    """Return a metric's figures at one commit size by contender, one figure per round."""
    return {
        row["contender"]: row["values"]
        for row in run["rows"]
        if (row["metric"], row["factor"]) == (metric, factor)
    }


def spreads(run: dict, metric: str, factor: int) -> dict[str, Spread]:
    """Return the figures of `rounds_of` as spreads."""
    return {key: Spread.of(values) for key, values in rounds_of(run, metric, factor).items()}


def _verdict(this: list[float], other: list[float]) -> str:
    return verdict(Spread.of(this), Spread.of(other))


def ahead(
    figures: Mapping[str, list[float]],
    better: str,
    judge: Callable[[list[float], list[float]], str] = _verdict,
) -> str | None:
    """Return the table that beats every table of the other formats; None if there is none.

    If there are several, return the one with the best median.

    Args:
        figures: by contender, one figure per round.
        better: `LOWER` or `HIGHER`.
        judge: compares the figures of two tables; by default the rule of the benchmark.
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
    """Return the measures in which one format is ahead, in the order of `MEASURES`."""
    found = []
    for measure in MEASURES:
        for factor in run["size"]["factors"]:
            figures = rounds_of(run, measure.metric, factor)
            if measure.claimed and (table := ahead(figures, measure.better)):
                best_of = max if measure.better == HIGHER else min
                others = _of_other_formats(figures, table)
                following = best_of(others, key=lambda key: median(figures[key]))
                found.append(Claim(measure, factor, table, following))
    return found


def undecided(run: dict) -> list[tuple[Measure, int]]:
    """Return the measures and commit sizes for which no format is ahead of all others."""
    said = {(claim.measure.metric, claim.factor) for claim in claims(run)}
    return [
        (measure, factor)
        for measure in MEASURES
        for factor in run["size"]["factors"]
        if measure.claimed and (measure.metric, factor) not in said
    ]
