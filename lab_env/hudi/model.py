"""A Hudi table at one moment, as plain facts: instants, files, and the file slices they form.

Two snapshots can be subtracted; what is new or gone comes as a pandas table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from lab_env.errors import LabError
from lab_env.hudi.commits import Commit, commit_of

ACTIONS_THAT_WRITE = (
    "commit",
    "deltacommit",
    "replacecommit",
    "compaction",
    "logcompaction",
    "clustering",
)
# Under which name an action that undoes others recorded their requested times.
_UNDOES = {"rollback": "commitsRollback", "restore": "instantsToRollback"}


@dataclass(frozen=True, order=True)
class Instant:
    """One action on the timeline.

    Args:
        requested: when it was asked for: digits, year to millisecond, UTC.
        completed: when it was complete, in the same form; None while it is pending.
        action: commit, deltacommit, compaction, clean and so on. A finished compaction is a
            `commit` on the timeline, a finished log compaction a `deltacommit` and a finished
            clustering a `replacecommit`; here they keep their own names.
        state: completed, inflight or requested.
    """

    requested: str
    completed: str | None
    action: str
    state: str

    @property
    def writes(self) -> bool:
        """Whether such an action makes data files."""
        return self.action in ACTIONS_THAT_WRITE


@dataclass(frozen=True, order=True)
class DataFile:
    """One file with rows or changes.

    Args:
        partition: its folder below the table, empty for a table without partitions.
        group: id of its file group.
        instant: requested time of the action that wrote it.
        kind: base, log or cdc.
        name: the last part of its key.
        size: bytes.
        committed: whether that action is complete; readers leave out a file that is not.
        rows: of a base file its rows, of a log its changes; None where no commit tells, as of the
            change log (cdc) beside a base file.
    """

    partition: str
    group: str
    instant: str
    kind: str
    name: str
    size: int
    committed: bool
    rows: int | None = None


@dataclass(frozen=True, order=True)
class CleanedFile:
    """A file that a clean deleted.

    Args:
        partition: its folder below the table.
        group: id of its file group.
        instant: requested time of the action that wrote it.
        kind: base, log or cdc.
        name: the last part of its key.
        cleaned: requested time of the clean.
    """

    partition: str
    group: str
    instant: str
    kind: str
    name: str
    cleaned: str


@dataclass(frozen=True)
class FileSlice:
    """One version of a file group: a base file and the logs written on it.

    Args:
        partition: its folder below the table.
        group: id of its file group.
        instant: where it begins: the base file's instant, the first log's, or the instant of a
            compaction that is planned and will put its base file here.
        base: the base file; None while there are only logs.
        logs: in the order of their instants; change logs (cdc), which no snapshot query reads, too.
        current: whether a query of the newest state reads it. While a compaction is pending, that
            is the slice that it will compact and the one that it has begun.
        planned: whether a pending compaction has begun it; it may have no file yet.
    """

    partition: str
    group: str
    instant: str
    base: DataFile | None
    logs: tuple[DataFile, ...]
    current: bool
    planned: bool = False

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The base file, if there is one, and the logs."""
        return (self.base, *self.logs) if self.base else self.logs


@dataclass(frozen=True, repr=False)
class Snapshot:
    """A table at one moment.

    Args:
        path: where it lies.
        name: of the table.
        table_type: COPY_ON_WRITE or MERGE_ON_READ.
        version: table version.
        instants: the active timeline, in the order of requests.
        files: data files.
        replaced: file groups that a clustering or an overwrite has replaced, with the requested
            time of the action that did.
        bookkeeping: for each other part of the table its objects' names and sizes in bytes.
        since: an earlier snapshot; what is not in it is shown as new.
        history: archived instants that the timeline's history still tells, in the same order.
        cleaned: files that cleans deleted, as far as timeline and history tell.
        planned: file groups that a pending compaction or clustering has planned in, with its
            requested time and its action.
        records: what completed instants recorded, decoded, by action and requested time.
    """

    path: str
    name: str
    table_type: str
    version: int
    instants: tuple[Instant, ...]
    files: tuple[DataFile, ...]
    replaced: tuple[tuple[str, str], ...] = ()
    bookkeeping: tuple[tuple[str, str, int], ...] = ()
    since: "Snapshot | None" = None
    history: tuple[Instant, ...] = ()
    cleaned: tuple[CleanedFile, ...] = ()
    planned: tuple[tuple[str, str, str], ...] = ()
    records: Mapping[tuple[str, str], dict] = field(default_factory=dict, compare=False)

    def commit(self, requested: str | None = None) -> Commit:
        """What a completed write recorded about itself, at the moment of this snapshot.

        Args:
            requested: the write's requested time, as `.instants` and file names have it; the
                write that was complete last when not given, be it a compaction or a clustering.

        Returns:
            The commit; showing it draws a card.

        Raises:
            LabError: there is no completed write (yet), or none at that time.
        """
        writes = {
            i.requested: i for i in (*self.history, *self.instants) if i.writes and i.completed
        }
        if not writes:
            raise LabError(f"No write to {self.path} is complete.", "write to the table first.")
        newest = max(writes.values(), key=lambda instant: (instant.completed, instant.requested))
        found = writes.get(requested or newest.requested)
        if found is None:
            raise LabError(
                f"{self._what_is_at(requested)}, so there is no commit to read.",
                f"take one of: {', '.join(sorted(writes)[-5:])}",
            )
        record = self.records.get((found.action, found.requested), {})
        return commit_of(record, found.requested, found.completed, found.action)

    def _what_is_at(self, requested: str) -> str:
        for instant in (*self.instants, *self.history):
            if instant.requested == requested:
                return f"The {instant.action} {requested} is {instant.state}"
        return f"The timeline has no instant {requested}"

    @cached_property
    def slices(self) -> tuple[FileSlice, ...]:
        """All file slices, by partition, file group and instant; uncommitted files left out."""
        groups: dict[tuple[str, str], list[DataFile]] = {}
        for file in sorted(self.files):
            if file.committed:
                groups.setdefault((file.partition, file.group), []).append(file)
        return tuple(found for files in groups.values() for found in self._slices_of(files))

    @property
    def current(self) -> tuple[FileSlice, ...]:
        """The slices that a query of the newest state reads."""
        return tuple(found for found in self.slices if found.current)

    @property
    def uncommitted(self) -> tuple[DataFile, ...]:
        """Files of actions that are not complete; no reader sees them."""
        return tuple(file for file in self.files if not file.committed)

    @cached_property
    def undone(self) -> frozenset[str]:
        """Requested times of the instants that rollbacks and restores took off the timeline."""
        return frozenset(
            instant
            for (action, _), record in self.records.items()
            for instant in record.get(_UNDOES.get(action, ""), ())
        )

    @cached_property
    def rewritten_files(self) -> frozenset[DataFile]:
        """New base files of file groups that had a base file in `since`: its rows were rewritten."""
        old = self.since.files if self.since else ()
        before = {(file.partition, file.group) for file in old if file.kind == "base"}
        return frozenset(
            f for f in self.new_files if f.kind == "base" and (f.partition, f.group) in before
        )

    @cached_property
    def gone_files(self) -> tuple[DataFile, ...]:
        """Data files that `since` had and that are no longer there."""
        if not self.since:
            return ()
        here = {(file.partition, file.name) for file in self.files}
        return tuple(f for f in self.since.files if (f.partition, f.name) not in here)

    @property
    def rows(self) -> int | None:
        """Rows that a query of the newest state gives; None where logs, not yet merged, or missing
        commits leave it open."""
        files = [file for found in self.current for file in found.files if file.kind != "cdc"]
        if any(file.kind == "log" or file.rows is None for file in files):
            return None
        return sum(file.rows for file in files)

    @property
    def metadata_partitions(self) -> pd.DataFrame:
        """The partitions of the metadata table: objects and bytes of each."""
        rows = [
            (name.split("/")[2], size)
            for part, name, size in self.bookkeeping
            if part == "metadata" and not name.split("/")[2].startswith(".hoodie")
        ]
        table = pd.DataFrame(rows, columns=["partition", "bytes"])
        return table.groupby("partition")["bytes"].agg(objects="count", bytes="sum")

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that hold data files."""
        return tuple(sorted({file.partition for file in self.files}))

    @property
    def objects(self) -> int:
        """How many objects the table has on the store."""
        return len(self.files) + len(self.bookkeeping)

    @property
    def new_instants(self) -> frozenset[Instant]:
        """Instants that `since` did not have, or had in another state."""
        return (
            frozenset(self.instants) - frozenset(self.since.instants) if self.since else frozenset()
        )

    @cached_property
    def new_files(self) -> frozenset[DataFile]:
        """Data files that `since` did not have."""
        if not self.since:
            return frozenset()
        known = {(file.partition, file.name) for file in self.since.files}
        return frozenset(f for f in self.files if (f.partition, f.name) not in known)

    def parts(self) -> pd.DataFrame:
        """Objects and bytes of each part of the table: base, log, cdc, timeline, metadata, other."""
        return self.frame().groupby("part", sort=False)["bytes"].agg(objects="count", bytes="sum")

    def frame(self) -> pd.DataFrame:
        """Every object of the table: part, partition, file_group, instant, name, bytes."""
        rows = [(f.kind, f.partition, f.group, f.instant, f.name, f.size) for f in self.files]
        rows += [(part, "", "", "", name, size) for part, name, size in self.bookkeeping]
        columns = ["part", "partition", "file_group", "instant", "name", "bytes"]
        return pd.DataFrame(rows, columns=columns)

    def __sub__(self, before: "Snapshot") -> pd.DataFrame:
        """What is new or gone since `before`, with a first column `change`."""
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
        """Part a file group's files into slices, as Hudi's file system view does.

        A log belongs to the newest base file that was requested before the log was complete (a
        compaction that runs meanwhile leaves it to the next slice, and so does a planned one).
        """
        partition, group = files[0].partition, files[0].group
        base_at = {file.instant: file for file in files if file.kind == "base"}
        compaction = self._compaction_of.get(group)
        begins = {*base_at, *([compaction] if compaction else [])}
        slices: dict[str, list[DataFile]] = {begin: [] for begin in begins}
        logs = sorted((f for f in files if f.kind != "base"), key=lambda f: (f.instant, f.name))
        for log in logs:
            done = self._completed.get(log.instant, log.instant)
            before = [instant for instant in slices if instant <= done]
            slices.setdefault(max(before, default=log.instant), []).append(log)
        order = sorted(slices)
        # Until a planned compaction is complete, a query merges the slice before it and its own.
        read = set() if group in dict(self.replaced) else set(order[-1:])
        if read and order[-1] == compaction:
            read.update(order[-2:])
        return [
            FileSlice(
                partition,
                group,
                instant,
                base_at.get(instant),
                tuple(slices[instant]),
                current=instant in read and bool(instant in base_at or slices[instant]),
                planned=instant == compaction,
            )
            for instant in order
        ]

    @cached_property
    def _compaction_of(self) -> dict[str, str]:
        """File group to the pending compaction that will compact it."""
        return {group: begin for group, begin, action in self.planned if action == "compaction"}

    @cached_property
    def _completed(self) -> dict[str, str]:
        """Requested to completion time of the writes that are complete."""
        return {
            i.requested: i.completed
            for i in (*self.history, *self.instants)
            if i.writes and i.completed
        }

    def __repr__(self) -> str:
        from lab_env.xray.text import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from lab_env.xray.drawing import as_svg

        return as_svg(self)
