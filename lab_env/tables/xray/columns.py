"""Columns of the drawing: one per recent instant, and one for all older instants."""

from dataclasses import dataclass

from lab_env.tables.hudi.table import Snapshot
from lab_env.tables.hudi.timeline import Instant, seconds_between

MOST = 32  # maximum number of columns that are wide enough to tell apart
UNDONE = "rolled back"


@dataclass(frozen=True)
class Column:
    """One column."""

    instant: Instant | None  # None for the column of all older instants
    seconds: float | None = None  # since the previous column's instant; None if there is none

    @property
    def has_files(self) -> bool:
        """True if the column can contain data files, and so must be wide enough to draw them."""
        return self.instant is None or self.instant.writes or self.instant.action == UNDONE


@dataclass(frozen=True)
class Columns:
    """All columns, from old to new."""

    all: tuple[Column, ...]
    earlier: int  # instants of the active timeline that have no column of their own

    def index(self, requested: str) -> int:
        """Return the column of an instant's files; 0 if the instant has no column."""
        for number, column in enumerate(self.all):
            instant = column.instant
            if instant and instant.requested == requested and instant.action != "savepoint":
                return number
        return 0

    @property
    def has_older(self) -> bool:
        """True if the first column stands for all older instants."""
        return not self.all or self.all[0].instant is None


def columns_of(table: Snapshot) -> Columns:
    """Make a column per instant; if there are more than `MOST`, the oldest share the first one."""
    instants = _with_undone(table)
    known = {instant.requested for instant in instants if instant.action != "savepoint"}
    files = [*table.files, *table.gone_files]
    older = bool(table.history) or any(file.instant not in known for file in files)
    older = older or len(instants) > MOST
    shown = instants[-(MOST - older) :]
    columns = [
        Column(after, seconds_between(before.requested, after.requested) if before else None)
        for before, after in zip([None, *shown], shown, strict=False)
    ]
    earlier = len(table.instants) - sum(instant in table.instants for instant in shown)
    return Columns(tuple([Column(None)] * older + columns), earlier)


def _with_undone(table: Snapshot) -> list[Instant]:
    """Return the table's instants, and rolled-back instants whose files are drawn.

    These files are still stored, or were stored in the earlier snapshot.
    """
    known = {instant.requested for instant in table.instants}
    left = {file.instant for file in table.uncommitted}
    left |= {file.instant for file in table.gone_files} & table.undone
    undone = [Instant(requested, "", UNDONE, "undone") for requested in left - known]
    return sorted([*table.instants, *undone], key=lambda i: (i.requested, i.action == "savepoint"))
