"""Many file groups as tiles: one small square per file group, by partition."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab_env.tables.hudi.table import DataFile, FileSlice, Snapshot
from lab_env.tables.xray import captions

MOST = 200  # file groups drawn


@dataclass
class Tile:
    """One file group."""

    slices: list[FileSlice] = field(default_factory=list)  # from old to new
    loose: list[DataFile] = field(default_factory=list)  # uncommitted files
    removed: list[DataFile] = field(default_factory=list)

    @property
    def _current(self) -> list[DataFile]:
        return [file for part in self.slices if part.current for file in part.files]

    @property
    def logs(self) -> int:
        """Number of logs that a query of the latest state reads."""
        return sum(file.kind == "log" for file in self._current)

    def looks(self, table: Snapshot) -> str:
        """CSS classes of this tile."""
        kinds = {file.kind for file in self._current}
        kind = "base" if "base" in kinds or not kinds else "log"
        state = (
            "current" if kinds else "older" if self.slices else "loose" if self.loose else "removed"
        )
        files = [*(file for part in self.slices for file in part.files), *self.loose]
        new = self.removed or not table.new_files.isdisjoint(files)
        behind = any(not part.current for part in self.slices)
        damaged = any(file.key in table.damage for file in files)
        foot = kind == "base" and self.logs
        extra = {"new": new, "damaged": damaged, "behind": behind, "foot": foot}
        return " ".join([state, kind, *(name for name, wanted in extra.items() if wanted)])

    def hover(self, table: Snapshot) -> str:
        """Return the hover text: slices and files with their full names."""
        lines = [captions.slice_of(table, part) for part in self.slices]
        lines += [captions.file(table, file) for file in self.loose]
        lines += [captions.removed(table, file) for file in self.removed]
        return "\n".join(lines)


def tiles_of(table: Snapshot) -> dict[tuple[str, str], Tile]:
    """Make a tile per partition and file group."""
    tiles: dict[tuple[str, str], Tile] = {}
    for attribute, parts in (
        ("slices", table.slices),
        ("loose", table.uncommitted),
        ("removed", table.gone_files),
    ):
        for part in parts:
            tile = tiles.setdefault((part.partition, part.group), Tile())
            getattr(tile, attribute).append(part)
    return tiles


def first_groups(groups: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return at most `MOST` file groups, by partition."""
    shown, room = {}, MOST
    for partition, ids in groups.items():
        if room > 0:
            shown[partition] = ids[:room]
        room -= len(ids)
    return shown


def shared_prefix(partitions: list[str]) -> str:
    """Return the column name that all partitions begin with, such as `day=`; empty if none."""
    prefix = partitions[0].partition("=")[0] + "=" if "=" in partitions[0] else ""
    shared = len(partitions) > 1 and all(name.startswith(prefix) for name in partitions)
    return prefix if shared else ""
