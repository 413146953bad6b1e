"""A Hudi table at one moment: its instants, its files, and the file slices they form.

Subtracting one snapshot from another gives a pandas DataFrame of the objects that differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from lab_env.tables.hudi.commits import Commit, decode_commit
from lab_env.tables.hudi.timeline import Instant

# A job's name for itself in the metadata of its writes, an option of this name.
WRITER = "_writer"
# Where rollbacks and restores record the requested times that they undo.
_UNDOES = {"rollback": "commitsRollback", "restore": "instantsToRollback"}


class CommitNotFound(LookupError):
    """No completed write has this requested time."""


@dataclass(frozen=True)
class GroupFile:
    """One base file, log file or change log, stored or deleted."""

    partition: str  # its folder below the table; empty for a table without partitions
    group: str  # id of its file group
    instant: str  # requested time of the action that wrote it
    kind: str  # base, log or cdc
    name: str

    @property
    def key(self) -> str:
        """Its path in the table's folder."""
        return f"{self.partition}/{self.name}" if self.partition else self.name


@dataclass(frozen=True, order=True)
class DataFile(GroupFile):
    """A stored file."""

    size: int  # bytes
    committed: bool  # whether the action that wrote it is complete; readers skip other files
    rows: int | None = None  # of a base file, or changes of a log; None if not recorded (cdc)


@dataclass(frozen=True, order=True)
class CleanedFile(GroupFile):
    """A file that a clean deleted."""

    cleaned: str  # requested time of the clean


@dataclass(frozen=True)
class FileSlice:
    """One version of a file group: a base file and the logs written on top of it.

    It begins at the requested time of its base file, of its first log, or of the pending compaction
    that will write its base file. While a compaction is pending, a query reads two slices: the one
    to be compacted and the new one.
    """

    partition: str
    group: str
    instant: str  # requested time at which it begins
    base: DataFile | None  # None while there are only logs
    logs: tuple[DataFile, ...]  # ordered by instant, including change logs
    current: bool  # whether a query of the latest state reads it
    planned: bool = False  # the new slice of a pending compaction; it may have no file yet

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Base file, if any, and logs."""
        return (self.base, *self.logs) if self.base else self.logs


@dataclass(frozen=True)
class Snapshot:
    """A table at one moment.

    Args:
        instants: the active timeline, ordered by requested time.
        replaced: id of each replaced file group that is still stored, with the requested time of
            the clustering or overwrite that replaced it.
        bookkeeping: part (timeline, metadata or other), key and bytes of each object that is not a
            data file.
        since: an earlier snapshot to compare with.
        history: archived instants, ordered by requested time.
        cleaned: files deleted by cleans, as far as timeline and history record them.
        planned: file group, requested time and action of each pending compaction or clustering.
        records: decoded metadata of completed instants, by action and requested time.
        damage: description of each file's damage, by path in the table's folder; empty if the table
            was not checked.
        compared_with: name for `since` in captions, for example "the last look".
    """

    path: str
    name: str
    table_type: str  # COPY_ON_WRITE or MERGE_ON_READ
    version: int
    instants: tuple[Instant, ...]
    files: tuple[DataFile, ...]
    replaced: tuple[tuple[str, str], ...] = ()
    bookkeeping: tuple[tuple[str, str, int], ...] = field(default=(), repr=False)
    since: "Snapshot | None" = field(default=None, repr=False)
    history: tuple[Instant, ...] = ()
    cleaned: tuple[CleanedFile, ...] = ()
    planned: tuple[tuple[str, str, str], ...] = ()
    records: Mapping[tuple[str, str], dict] = field(default_factory=dict, compare=False, repr=False)
    damage: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    compared_with: str = field(default="the last look", compare=False, repr=False)

    def commit(self, requested: str | None = None) -> Commit:
        """Return the metadata of a completed write, by default the last one to complete.

        The last one may be a compaction or a clustering. Raises `CommitNotFound` if no write is
        complete, or none has this requested time.
        """
        writes = self.completed_writes
        if not writes:
            raise CommitNotFound(f"No write to {self.path} is complete.")
        latest = max(writes.values(), key=lambda write: (write.completed, write.requested))
        requested = requested or latest.requested
        write = writes.get(requested)
        if write is None:
            raise CommitNotFound(f"{self._state_of(requested)}, so there is no commit to read.")
        return decode_commit(self.records.get((write.action, write.requested), {}), write)

    def _state_of(self, requested: str) -> str:
        for instant in (*self.instants, *self.history):
            if instant.requested == requested:
                return f"The {instant.action} {requested} is {instant.state}"
        return f"The timeline has no instant {requested}"

    @cached_property
    def completed_writes(self) -> dict[str, Instant]:
        """Completed writes by requested time, including archived ones."""
        instants = (*self.history, *self.instants)
        return {i.requested: i for i in instants if i.writes and i.completed}

    @cached_property
    def writers(self) -> dict[str, str]:
        """Name of the writer by requested time, for writes whose metadata has `_writer`."""
        named = {
            requested: (record.get("extraMetadata") or {}).get(WRITER)
            for (_, requested), record in self.records.items()
        }
        return {requested: name for requested, name in sorted(named.items()) if name}

    @cached_property
    def slices(self) -> tuple[FileSlice, ...]:
        """All slices, excluding uncommitted files, ordered by partition, file group and instant."""
        groups: dict[tuple[str, str], list[DataFile]] = {}
        for file in sorted(self.files):
            if file.committed:
                groups.setdefault((file.partition, file.group), []).append(file)
        return tuple(part for files in groups.values() for part in self._slices_of(files))

    @property
    def current(self) -> tuple[FileSlice, ...]:
        """Slices that a query of the latest state reads."""
        return tuple(part for part in self.slices if part.current)

    @property
    def read_files(self) -> list[DataFile]:
        """Files that a query of the latest state reads: those of `current` except change logs."""
        return [file for part in self.current for file in part.files if file.kind != "cdc"]

    @property
    def uncommitted(self) -> tuple[DataFile, ...]:
        """Files of incomplete actions; readers skip them."""
        return tuple(file for file in self.files if not file.committed)

    @cached_property
    def undone(self) -> frozenset[str]:
        """Requested times of the instants that rollbacks and restores removed from the timeline."""
        return frozenset(
            instant
            for (action, _), record in self.records.items()
            for instant in record.get(_UNDOES.get(action, ""), ())
        )

    @cached_property
    def rewritten_files(self) -> frozenset[DataFile]:
        """New base files of file groups that had a base file in `since`."""
        old = self.since.files if self.since else ()
        before = {(file.partition, file.group) for file in old if file.kind == "base"}
        return frozenset(
            f for f in self.new_files if f.kind == "base" and (f.partition, f.group) in before
        )

    @cached_property
    def gone_files(self) -> tuple[DataFile, ...]:
        """Data files of `since` that no longer exist."""
        if not self.since:
            return ()
        keys = {file.key for file in self.files}
        return tuple(file for file in self.since.files if file.key not in keys)

    @property
    def rows(self) -> int | None:
        """Number of current rows; None if unmerged logs or missing commits make it unknown."""
        files = self.read_files
        if any(file.kind == "log" or file.rows is None for file in files):
            return None
        return sum(file.rows or 0 for file in files)

    @property
    def metadata_partitions(self) -> pd.DataFrame:
        """Return the metadata table's objects and bytes, one row per partition."""
        rows = [
            (name.split("/")[2], size)
            for part, name, size in self.bookkeeping
            if part == "metadata" and not name.split("/")[2].startswith(".hoodie")
        ]
        table = pd.DataFrame(rows, columns=["partition", "bytes"])
        return table.groupby("partition")["bytes"].agg(objects="count", bytes="sum")

    @property
    def partitions(self) -> tuple[str, ...]:
        """Partitions that contain data files."""
        return tuple(sorted({file.partition for file in self.files}))

    @property
    def objects(self) -> int:
        """Number of objects, data files included."""
        return len(self.files) + len(self.bookkeeping)

    @property
    def new_instants(self) -> frozenset[Instant]:
        """Instants that are new, or in another state, since `since`."""
        before = self.since.instants if self.since else self.instants
        return frozenset(self.instants).difference(before)

    @cached_property
    def new_files(self) -> frozenset[DataFile]:
        """Data files that are new since `since`."""
        if not self.since:
            return frozenset()
        known = {file.key for file in self.since.files}
        return frozenset(file for file in self.files if file.key not in known)

    def parts(self) -> pd.DataFrame:
        """Return objects and bytes by part: base, log, cdc, timeline, metadata, other."""
        return self.frame().groupby("part", sort=False)["bytes"].agg(objects="count", bytes="sum")

    def frame(self) -> pd.DataFrame:
        """Return one row per object: part, partition, file_group, instant, name, bytes."""
        rows = [(f.kind, f.partition, f.group, f.instant, f.name, f.size) for f in self.files]
        rows += [(part, "", "", "", name, size) for part, name, size in self.bookkeeping]
        columns = ["part", "partition", "file_group", "instant", "name", "bytes"]
        return pd.DataFrame(rows, columns=columns)

    def __sub__(self, before: "Snapshot") -> pd.DataFrame:
        """Return the objects that differ from `before`, as `frame()` does.

        The additional first column, `change`, contains new, gone or changed.
        """
        both = self.frame().merge(
            before.frame(),
            how="outer",
            on=["part", "partition", "file_group", "instant", "name"],
            suffixes=("", "_before"),
            indicator=True,
        )
        names = {"left_only": "new", "right_only": "gone", "both": "changed"}
        both.insert(0, "change", both["_merge"].astype(str).map(names))
        both["bytes"] = both["bytes"].fillna(both["bytes_before"]).astype("int64")
        same = (both["_merge"] == "both") & (both["bytes"] == both["bytes_before"])
        return both[~same].drop(columns=["_merge", "bytes_before"]).reset_index(drop=True)

    def _slices_of(self, files: list[DataFile]) -> list[FileSlice]:
        """Split a file group's files into slices, as Hudi's file system view does.

        A log belongs to the latest base file that was requested before the log was completed. If a
        compaction is planned or running at that time, the log belongs to the next slice.
        """
        partition, group = files[0].partition, files[0].group
        base_at = {file.instant: file for file in files if file.kind == "base"}
        compaction = self._pending_compactions.get(group)
        begins = {*base_at, *([compaction] if compaction else [])}
        slices: dict[str, list[DataFile]] = {begin: [] for begin in begins}
        logs = sorted((f for f in files if f.kind != "base"), key=lambda f: (f.instant, f.name))
        for log in logs:
            write = self.completed_writes.get(log.instant)
            completed = write.completed if write else log.instant
            before = [instant for instant in slices if instant <= completed]
            slices.setdefault(max(before, default=log.instant), []).append(log)
        order = sorted(slices)
        # Until a planned compaction is complete, a query merges the slice before it and its own.
        latest = order[-2:] if order[-1] == compaction else order[-1:]
        current = () if group in dict(self.replaced) else latest
        return [
            FileSlice(
                partition,
                group,
                instant,
                base_at.get(instant),
                tuple(slices[instant]),
                current=instant in current and bool(instant in base_at or slices[instant]),
                planned=instant == compaction,
            )
            for instant in order
        ]

    @cached_property
    def _pending_compactions(self) -> dict[str, str]:
        return {group: begin for group, begin, action in self.planned if action == "compaction"}
