"""The X-ray's player: a table's past, one step per completed instant, with a slider.

It is HTML with every step's drawing and a small script, so it needs no kernel. If scripts are
disabled, it shows the newest step.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from lab_env.platform.display.html import render
from lab_env.platform.display.units import duration_text, size_text
from lab_env.tables.hudi.commits import Commit
from lab_env.tables.hudi.past import Moment, Past, past_of
from lab_env.tables.hudi.table import DataFile, Snapshot
from lab_env.tables.hudi.timeline import seconds_between
from lab_env.tables.xray import captions, colours
from lab_env.tables.xray.drawing import as_html

STEPS = 30  # maximum number of drawings that a notebook and a page show smoothly


@dataclass(frozen=True)
class Player:
    """A table's past; a notebook shows it as a player, `print` as text."""

    name: str
    past: Past

    def __repr__(self) -> str:
        lines = [f"{self.name}: {captions.counted(len(self.past.moments), 'step')}"]
        for number, moment in enumerate(self.past.moments, 1):
            lines += [f"{number} {heading(moment)}", *(f"  {fact}" for fact in facts(moment))]
        return "\n".join([*lines, *limits(self.past)])

    def _repr_html_(self) -> str:
        moments = self.past.moments
        steps = [
            {
                "heading": heading(moment),
                "facts": facts(moment),
                "drawing": as_html(moment.table, styled=moment is moments[-1]),
            }
            for moment in moments
        ]
        return render(
            "tables/xray/player.html.j2",
            name=self.name,
            steps=steps,
            limits=limits(self.past),
            colours=colours,
        )


def player(table: Snapshot, last: int = STEPS) -> Player:
    """Make the player of a table's newest steps."""
    return Player(table.name, past_of(table, last))


def heading(moment: Moment) -> str:
    """Describe a step's action, writer, requested time and completion time."""
    instant = moment.instant
    writer = moment.table.writers.get(instant.requested)
    by = f" by {writer}" if writer else ""
    took = duration_text(seconds_between(instant.requested, instant.completed))
    return (
        f"{instant.action}{by}, completed {_when(instant.completed)} UTC, "
        f"requested {captions.clock(instant.requested)} ({took} before)"
    )


def facts(moment: Moment) -> list[str]:
    """Describe a step's effect on rows and files."""
    table, instant = moment.table, moment.instant
    lines = []
    if instant.writes:
        lines.append(_operation(table.commit(instant.requested)))
    elif instant.action != "clean":  # a clean's effect is described by its files
        lines.append(captions.effect(table, instant))
    if not table.since:
        changes = ["the step before is not known, so nothing is marked as new"]
    else:
        kinds = (
            ("added", moment.added, ""),
            ("replaced", moment.superseded, ": still stored, no longer read"),
            ("cleaned", moment.removed, ": no longer stored"),
        )
        changes = [f"{verb} {amount(files)}{after}" for verb, files, after in kinds if files]
    return [line for line in [*lines, *(changes or ["no data file changed"])] if line]


def amount(files: Iterable[DataFile]) -> str:
    """Describe files by kind, with their rows and bytes.

    For example `2 base files (1,000 rows, 870 KB) and 1 log (3 changes, 2.1 KB)`. Rows are left out
    if no commit records them.
    """
    parts = []
    for kind, name in captions.SHORT.items():
        found = [file for file in files if file.kind == kind]
        if not found:
            continue
        rows = [file.rows for file in found if file.rows is not None]
        details = [size_text(sum(file.size for file in found))]
        if len(rows) == len(found):
            details.insert(0, captions.counted(sum(rows), "change" if kind == "log" else "row"))
        parts.append(f"{captions.counted(len(found), name)} ({', '.join(details)})")
    return " and ".join(parts)


def limits(past: Past) -> list[str]:
    """Return sentences that state where the past begins and what it lacks."""
    if not past.moments:
        return ["No action on this table is complete yet."]
    lines = [_begin(past)]
    if past.older_files:
        before = amount(past.older_files)
        lines.append(f"From before: {before}, whose writes are no longer recorded.")
    if past.undone:
        lines.append(
            f"The instants undone by a restore ({len(past.undone):,}) have no step: it deleted "
            "their metadata."
        )
    if past.lost:
        lines.append(f"Missing from the listing: {amount(past.lost)} of the last step.")
    if past.uncommitted:
        files = amount(past.uncommitted)
        lines.append(f"Not drawn: {files} of actions that are not complete; no reader sees them.")
    return lines


def _begin(past: Past) -> str:
    begin = _when(past.moments[0].instant.completed)
    if len(past.moments) + len(past.unknown) < past.completed:
        return (
            f"These are the last {len(past.moments):,} of {past.completed:,} completed actions, "
            f"from {begin} UTC on."
        )
    if past.unknown:
        return (
            f"The past begins at {begin} UTC. The completed actions before it "
            f"({len(past.unknown):,}) cannot be drawn: a clean deleted files whose writes are no "
            "longer recorded."
        )
    return (
        f"The past begins at {begin} UTC, with the oldest action that the timeline and its archive "
        "record."
    )


def _operation(commit: Commit) -> str:
    if commit.rewrites:
        return f"{commit.operation}: no row changed, only the files"
    return (
        f"{commit.operation}: {commit.inserted:,} inserted, {commit.updated:,} updated, "
        f"{commit.deleted:,} deleted"
    )


def _when(instant: str) -> str:
    return f"{captions.date(instant)} {captions.clock(instant)}"
