"""A table's past: its state at the completion of each instant.

Cleaned files are no longer in the listing, but the timeline or its archive records the write that
made them and the clean that deleted them. Readers see an instant's effect when it completes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lab_env.tables.hudi.commits import replaced_groups, written_files
from lab_env.tables.hudi.reader import PLANNED_ACTIONS, replaced_by
from lab_env.tables.hudi.table import DataFile, Snapshot
from lab_env.tables.hudi.timeline import Instant

PENDING = "pending"  # the timeline does not record when a requested action became inflight
BEFORE_ALL, NEVER = "", "9" * 17


@dataclass(frozen=True)
class Moment:
    """A table at the completion of one instant."""

    instant: Instant
    table: Snapshot  # without uncommitted files; `since` is the moment before, None if unknown

    @property
    def added(self) -> list[DataFile]:
        """Data files added since the previous moment."""
        return sorted(self.table.new_files)

    @property
    def superseded(self) -> list[DataFile]:
        """Data files that are still stored, but that queries of the latest state no longer read."""
        before = self.table.since.read_files if self.table.since else ()
        now = {file.key for file in self.table.read_files}
        stored = {file.key for file in self.table.files}
        return sorted(f for f in before if f.key in stored and f.key not in now)

    @property
    def removed(self) -> list[DataFile]:
        """Data files deleted since the previous moment."""
        return sorted(self.table.gone_files)


@dataclass(frozen=True)
class Past:
    """The part of a table's past that can be rebuilt.

    The `unknown` instants cannot be rebuilt, because a later clean deleted files whose write is no
    longer recorded.
    """

    moments: tuple[Moment, ...]  # the newest moments, oldest first
    completed: int  # number of completed instants on the timeline and in its archive
    unknown: tuple[Instant, ...]  # the oldest completed instants
    older_files: tuple[DataFile, ...]  # stored files whose write is no longer recorded
    undone: tuple[str, ...]  # requested times of instants that a restore removed from the timeline
    lost: tuple[DataFile, ...]  # files of the last moment that are missing from the listing
    uncommitted: tuple[DataFile, ...]  # stored files that no completed instant wrote


@dataclass(frozen=True)
class _Life:
    """A file, with the completion times of the write that made it and the clean that deleted it."""

    file: DataFile
    begin: str
    end: str


def past_of(table: Snapshot, last: int) -> Past:
    """Rebuild a table's newest moments from a snapshot, at most `last` of them."""
    done = sorted(
        (instant for instant in (*table.history, *table.instants) if instant.completed),
        key=lambda instant: (instant.completed, instant.requested),
    )
    lives = _lives(table, done)
    first_known = _first_known(table, done, lives)
    known = [instant for instant in done if instant.completed >= first_known]
    older = tuple(life.file for life in lives if life.begin == BEFORE_ALL)
    since = None
    if known == done and not older:  # before its first write, a table is empty
        since = replace(table, instants=(), history=(), files=(), replaced=(), planned=())
    moments: list[Moment] = []
    for instant in known[-(last + 1) :]:  # one more, to compare the first one with
        moment = Moment(instant, _table_at(table, instant.completed, lives, since))
        since = moment.table
        moments.append(moment)
    stored = {file.key for file in table.files}
    final = since.files if since else ()
    return Past(
        moments=tuple(moments[-last:]),
        completed=len(done),
        unknown=tuple(done[: len(done) - len(known)]),
        older_files=older,
        undone=_undone(table),
        lost=tuple(file for file in final if file.key not in stored),
        uncommitted=table.uncommitted,
    )


def _lives(table: Snapshot, done: Iterable[Instant]) -> list[_Life]:
    """Return all files of known size: those that a write recorded, and those still stored."""
    completed = {(instant.action, instant.requested): instant.completed for instant in done}
    stored = {file.key for file in table.files}
    deleted = {file.key: completed["clean", file.cleaned] for file in table.cleaned}
    lives = {}
    for (action, requested), record in table.records.items():
        for found in written_files(record):
            rows = None if found.kind == "cdc" else found.changes
            file = DataFile(
                found.partition, found.group, requested, found.kind, found.name, found.size, True,
                rows,
            )  # fmt: skip
            end = NEVER if file.key in stored else deleted.get(file.key, NEVER)
            lives[file.key] = _Life(file, completed[action, requested], end)
    for file in table.files:
        if file.committed and file.key not in lives:
            write = table.completed_writes.get(file.instant)
            lives[file.key] = _Life(file, write.completed if write else BEFORE_ALL, NEVER)
    return list(lives.values())


def _first_known(table: Snapshot, done: Iterable[Instant], lives: Iterable[_Life]) -> str:
    """Return the time from which all files of the table are known.

    This is the completion time of the last clean that deleted a file of unknown size, that is, one
    whose write is no longer recorded.
    """
    known = {life.file.key for life in lives}
    cleans = {file.cleaned for file in table.cleaned if file.key not in known}
    found = (i.completed for i in done if i.action == "clean" and i.requested in cleans)
    return max(found, default=BEFORE_ALL)


def _table_at(
    table: Snapshot, now: str, lives: Iterable[_Life], since: Snapshot | None
) -> Snapshot:
    instants = sorted(
        instant
        if instant.completed and instant.completed <= now
        else replace(instant, completed="", state=PENDING)
        for instant in (*table.history, *table.instants)
        # A savepoint has the requested time of the write that it protects.
        if (instant.completed if instant.action == "savepoint" else instant.requested) <= now
    )
    completed = {(i.action, i.requested) for i in instants if i.completed}
    records = {which: record for which, record in table.records.items() if which in completed}
    files = tuple(sorted(life.file for life in lives if life.begin <= now < life.end))
    groups = {file.group for file in files}
    return Snapshot(
        path=table.path,
        name=table.name,
        table_type=table.table_type,
        version=table.version,
        instants=tuple(instants),
        files=files,
        replaced=tuple(pair for pair in replaced_by(records) if pair[0] in groups),
        since=since,
        compared_with="the step before",
        cleaned=tuple(file for file in table.cleaned if ("clean", file.cleaned) in completed),
        planned=_planned_at(table, instants),
        records=records,
    )


def _planned_at(table: Snapshot, instants: Iterable[Instant]) -> tuple[tuple[str, str, str], ...]:
    """Return file group, requested time and action of each plan that is pending in `instants`.

    If the action was completed later, its plan is derived from the files it wrote and replaced.
    """
    planned = set()
    for instant in instants:
        if instant.completed or instant.action not in PLANNED_ACTIONS:
            continue
        record = table.records.get((instant.action, instant.requested), {})
        groups = {group for _, group in replaced_groups(record)}
        if instant.action != "clustering":
            groups = {file.group for file in written_files(record)}
        groups |= {group for group, requested, _ in table.planned if requested == instant.requested}
        planned |= {(group, instant.requested, instant.action) for group in groups}
    return tuple(sorted(planned))


def _undone(table: Snapshot) -> tuple[str, ...]:
    """Return instants undone by restores; not by rollbacks, as these may undo incomplete writes."""
    restores = (record for (action, _), record in table.records.items() if action == "restore")
    return tuple(sorted(i for record in restores for i in record.get("instantsToRollback") or ()))
