"""Rows of the drawing: the boxes of each file group, by column."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from lab_env.platform.display.units import size_text
from lab_env.tables.hudi.table import CleanedFile, DataFile, FileSlice, Snapshot
from lab_env.tables.xray import captions
from lab_env.tables.xray.columns import Columns

DAMAGED = "damaged"  # shown in place of the size
UNREAD = {"loose": "not committed", "cleaned": "cleaned"}  # shown in place of the size


@dataclass
class Run:
    """Files drawn together in a row: those of a slice, or files that belong to no slice."""

    look: str  # current, older, loose (not committed), removed or cleaned
    slice: FileSlice | None = None
    files: dict[int, list] = field(default_factory=dict)  # by column number
    planned: int | None = None  # the column where a pending compaction will write a base file

    @property
    def columns(self) -> set[int]:
        """Numbers of the columns that contain its files or its planned base file."""
        return {*self.files, *([] if self.planned is None else [self.planned])}

    @property
    def first(self) -> int:
        """Number of its first column."""
        return min(self.columns)

    @property
    def last(self) -> int:
        """Number of its last column."""
        return max(self.columns)

    def cells(self, table: Snapshot) -> list[dict]:
        """Return the boxes of the run: the files of one instant share a box."""
        return [_cell(table, self.look, column, files) for column, files in self.files.items()]


def groups_of(table: Snapshot) -> dict[str, list[str]]:
    """Return the ids of the file groups by partition, including those that no longer exist."""
    files = [*table.files, *table.gone_files]
    groups: dict[str, dict[str, None]] = {}
    for file in sorted(files, key=lambda file: (file.partition, file.instant, file.group)):
        groups.setdefault(file.partition, {})[file.group] = None
    return {partition: list(ids) for partition, ids in sorted(groups.items())}


def lanes_of(table: Snapshot, columns: Columns, partition: str, group: str) -> list[list[Run]]:
    """Return the runs of a file group, divided into lanes in which no two overlap."""
    place = (partition, group)
    runs, past = [], Run("older")
    for part in table.slices:
        if (part.partition, part.group) != place:
            continue
        run = Run("current" if part.current else "older", part)
        if part.planned and not part.base:
            run.planned = columns.index(part.instant)
        for file in part.files:
            run.files.setdefault(columns.index(file.instant), []).append(file)
        if columns.has_older and run.look == "older" and run.planned is None and run.last == 0:
            past.files.setdefault(0, []).extend(part.files)  # all old versions in one box
        else:
            runs.append(run)
    runs += [past] if past.files else []
    loose = {
        "loose": table.uncommitted,
        "removed": table.gone_files,
        "cleaned": _cleaned_and_drawn(table, columns),
    }
    for look, files in loose.items():
        found: dict[int, list] = {}
        for file in files:
            if (file.partition, file.group) == place:
                found.setdefault(columns.index(file.instant), []).append(file)
        runs += [Run(look, files={column: here}) for column, here in found.items()]
    return _apart(runs)


def _cleaned_and_drawn(table: Snapshot, columns: Columns) -> Iterable[CleanedFile]:
    """Return the cleaned files whose instant has a column.

    Files that the earlier snapshot had are left out, because they are drawn as removed.
    """
    drawn = {column.instant.requested for column in columns.all if column.instant}
    gone = {(file.partition, file.name) for file in table.gone_files}
    return (
        file
        for file in table.cleaned
        if file.instant in drawn and (file.partition, file.name) not in gone
    )


def _apart(runs: list[Run]) -> list[list[Run]]:
    """Put each run into the first lane where it overlaps no other; place slices first."""
    lanes: list[list[Run]] = []
    for run in sorted(runs, key=lambda run: (run.look not in ("current", "older"), run.first)):
        for lane in lanes:
            if all(run.first > other.last or run.last < other.first for other in lane):
                lane.append(run)
                break
        else:
            lanes.append([run])
    return lanes or [[]]


def _cell(table: Snapshot, look: str, column: int, files: list) -> dict:
    main = [file for file in files if file.kind != "cdc"] or files
    kind = captions.SHORT[main[0].kind]
    if len(main) > 1:
        kind = f"{len(main)} {'logs' if kind == 'log' else 'files'}"
    damaged = any(isinstance(file, DataFile) and file.key in table.damage for file in files)
    size = DAMAGED if damaged else UNREAD.get(look) or size_text(sum(file.size for file in main))
    return {
        "column": column,
        "kind": main[0].kind,
        "words": kind,
        "size": size,
        "strip": len(main) < len(files),  # a change log in addition to other files
        "mark": _mark(table, look, files),
        "damaged": damaged,
        "writer": table.writers.get(main[0].instant, ""),
        "hover": "\n".join(_hover(table, look, file) for file in files),
    }


def _mark(table: Snapshot, look: str, files: list) -> str:
    if look == "removed":
        return "removed"
    new = [file for file in files if isinstance(file, DataFile) and file in table.new_files]
    changes = {captions.change(table, file) for file in new}
    return "rewritten" if "rewritten" in changes else "new" if changes else ""


def _hover(table: Snapshot, look: str, file: DataFile | CleanedFile) -> str:
    if isinstance(file, CleanedFile):
        return captions.cleaned(file)
    return captions.removed(table, file) if look == "removed" else captions.file(table, file)
