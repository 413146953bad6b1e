"""A Hudi table at one moment, as plain facts: instants, files, and the file slices they form.

Two snapshots can be subtracted; what is new or gone comes as a pandas table.
"""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

ACTIONS_THAT_WRITE = ("commit", "deltacommit", "replacecommit", "compaction", "clustering")


@dataclass(frozen=True, order=True)
class Instant:
    """One action on the timeline.

    Args:
        requested: when it was asked for: digits, year to millisecond, UTC.
        completed: when it was complete, in the same form; None while it is pending.
        action: commit, deltacommit, compaction, clean and so on. A finished compaction is a
            `commit` on the timeline; its plan stands beside it, so here it is a `compaction`.
        state: completed, inflight or requested.
    """

    requested: str
    completed: str | None
    action: str
    state: str


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
    """

    partition: str
    group: str
    instant: str
    kind: str
    name: str
    size: int
    committed: bool


@dataclass(frozen=True)
class FileSlice:
    """One version of a file group: a base file and the logs written on it.

    Args:
        partition: its folder below the table.
        group: id of its file group.
        instant: where it begins: the base file's instant, or the first log's.
        base: the base file; None while there are only logs.
        logs: in the order of their instants.
        current: whether a query of the newest state reads it.
    """

    partition: str
    group: str
    instant: str
    base: DataFile | None
    logs: tuple[DataFile, ...]
    current: bool

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

    @property
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
        """Part a file group's files into slices.

        A log belongs to the newest base file that was requested before the log was complete (a
        compaction that runs meanwhile leaves it to the next slice).
        """
        bases = sorted((f for f in files if f.kind == "base"), key=lambda f: f.instant)
        slices: dict[str, list[DataFile]] = {base.instant: [] for base in bases}
        logs = sorted((f for f in files if f.kind != "base"), key=lambda f: (f.instant, f.name))
        completed = {i.requested: i.completed or i.requested for i in self.instants}
        for log in logs:
            done = completed.get(log.instant, log.instant)
            before = [instant for instant in slices if instant <= done]
            begin = max(before) if before else log.instant
            slices.setdefault(begin, []).append(log)
        partition, group = files[0].partition, files[0].group
        base_at = {base.instant: base for base in bases}
        replaced = group in dict(self.replaced)
        newest = max(slices)
        return [
            FileSlice(
                partition,
                group,
                instant,
                base_at.get(instant),
                tuple(slices[instant]),
                current=instant == newest and not replaced,
            )
            for instant in sorted(slices)
        ]

    def __repr__(self) -> str:
        from lab_env.xray.text import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from lab_env.xray.drawing import as_svg

        return as_svg(self)
