"""Many file groups as tiles: one small square each, by partition, the whole story under the pointer."""

from dataclasses import dataclass

from lab_env.display.text import size_text
from lab_env.hudi.model import DataFile, FileSlice, Snapshot
from lab_env.xray import captions, colours
from lab_env.xray.rows import UNNAMED
from lab_env.xray.shapes import box, fitted, hover, text, text_width

MOST = 200  # file groups drawn
TILE, PITCH, LINE = 18, 24, 25
LABEL, PAD = 10.5, 14


@dataclass(frozen=True)
class Group:
    """A file group as a tile.

    Args:
        partition: its folder below the table.
        group: its id.
        slices: from old to new.
        loose: files that are not committed.
        removed: files that are gone since the last look.
    """

    partition: str
    group: str
    slices: list[FileSlice]
    loose: list[DataFile]
    removed: list[DataFile]


def draw_tiles(
    table: Snapshot, groups: dict[str, list[str]], left: float, right: float, top: float
) -> tuple[str, float]:
    """The partitions with their tiles, and where they end below.

    Args:
        table: whose file groups.
        groups: partition to its file groups.
        left: edge of the panel.
        right: edge of the panel.
        top: where it begins.
    """
    shown, hidden = _first(groups, MOST)
    facts = _facts(table)
    shared = _shared_prefix(list(groups))
    labels = {name: name.removeprefix(shared) or UNNAMED for name in shown}
    widest = max(text_width(label, LABEL, mono=True) for label in labels.values())
    label_room = min(widest, 190) + 10
    across, columns = _arranged([len(f) for f in shown.values()], right - left - 16, label_room)
    cell = label_room + across * PITCH + PAD
    cell = (right - left - 16) / columns if len(shown) >= columns else cell
    y = top + (34 if shared else 12)
    parts = []
    if shared:
        told = f"{shared}…  {captions.plural(len(groups), 'partition')}"
        words = fitted(told, right - left - 220, 12, bold=True)
        parts.append(hover(told, text(left + 10, top + 18, words, 12, bold=True)))
    count = sum(map(len, groups.values()))
    told = captions.plural(count, "file group")
    parts.append(text(right - 10, top + 18, told, 10.5, colours.FAINT, "end") if shared else "")
    names = list(shown)
    for begin in range(0, len(names), columns):
        line = names[begin : begin + columns]
        deep = max(-(-len(shown[name]) // across) for name in line)
        for number, name in enumerate(line):
            x = left + 10 + number * cell
            words = fitted(labels[name], label_room - 10, LABEL, mono=True)
            parts.append(hover(name or UNNAMED, text(x, y + TILE / 2 + 4, words, LABEL, mono=True)))
            for place, group in enumerate(shown[name]):
                tile = facts[name, group]
                tile_x = x + label_room + (place % across) * PITCH
                parts.append(_tile(table, tile, tile_x, y + (place // across) * LINE))
        y += deep * LINE + (5 if deep > 1 else 0)
    if hidden:
        bytes_ = size_text(sum(f.size for f in table.files if (f.partition, f.group) in hidden))
        words = (
            f"and {len(hidden):,} more file groups ({bytes_}) in "
            f"{captions.plural(len({name for name, _ in hidden}), 'partition')}; print(...) tells all"
        )
        parts.append(text(left + 10, y + 12, words, 11, colours.FAINT))
        y += 22
    height = y - top + 4
    panel = box(left, top, right - left, height, colours.FAINT, colours.FAINT, 8, 1, opacity=0.06, edge=0.35)  # fmt: skip
    return panel + "".join(parts), top + height + 8


def _arranged(counts: list[int], room: float, label: float) -> tuple[int, int]:
    """How many tiles of a partition, and how many partitions, to set beside each other: the choice
    that takes the fewest lines."""

    def lines(across: int) -> tuple[int, int]:
        columns = fitting(across)
        begins = range(0, len(counts), columns)
        return sum(-(-max(counts[b : b + columns]) // across) for b in begins), across

    def fitting(across: int) -> int:
        return int(room // (label + across * PITCH + PAD))

    most = min(max(counts), int((room - label - PAD) // PITCH))
    across = min(range(1, most + 1), key=lines)
    return across, fitting(across)


def _first(groups: dict[str, list[str]], most: int):
    """The first file groups, and partition and id of all others."""
    shown: dict[str, list[str]] = {}
    hidden, left = set(), most
    for name, found in groups.items():
        if left:
            shown[name] = found[:left]
        hidden.update((name, group) for group in found[left:])
        left -= min(left, len(found))
    return shown, hidden


def _shared_prefix(names: list[str]) -> str:
    """The column's name that all partitions begin with, for example `day=`."""
    prefix = names[0].partition("=")[0] + "=" if "=" in names[0] else ""
    return prefix if prefix and len(names) > 1 and all(n.startswith(prefix) for n in names) else ""


def _facts(table: Snapshot) -> dict[tuple[str, str], Group]:
    found: dict[tuple[str, str], Group] = {}

    def of(partition: str, group: str) -> Group:
        return found.setdefault((partition, group), Group(partition, group, [], [], []))

    for told in table.slices:
        of(told.partition, told.group).slices.append(told)
    for file in table.uncommitted:
        of(file.partition, file.group).loose.append(file)
    for file in table.gone_files:
        of(file.partition, file.group).removed.append(file)
    return found


def _tile(table: Snapshot, group: Group, x: float, y: float) -> str:
    """One file group: blue with a base file, a green foot with its number of logs, an outline behind
    for older slices."""
    current = [told for told in group.slices if told.current]
    files = [file for told in current for file in told.files]
    logs = sum(file.kind == "log" for file in files)
    base = any(file.kind == "base" for file in files)
    new = any(f in table.new_files for told in group.slices for f in told.files)
    new = new or any(f in table.new_files for f in group.loose)
    parts = []
    if len(group.slices) > len(current):
        parts.append(
            box(x + 3, y - 3, TILE, TILE, colours.PAPER, colours.FAINT, 3, 1, "2 2", kind="older")
        )
    edge = colours.NEW if new or group.removed else "none"
    if current:
        colour = colours.FILE["base" if base else "log"]
        parts.append(box(x, y, TILE, TILE, colour, edge, 3, 2.5, kind="file"))
        if logs and base:
            foot = colours.FILE["log"]  # set off by a line of the paper's colour
            parts.append(box(x, y + TILE - 9, TILE, 9, foot, colours.PAPER, 2, 1, kind="foot"))
        if logs:
            words = str(logs) if logs < 100 else "…"
            parts.append(
                text(x + TILE / 2, y + TILE - 2.5, words, 8, colours.ON_FILE, "middle", True)
            )
    elif group.slices:
        colour = colours.FILE["base"]
        edge = edge if edge != "none" else colour
        parts.append(box(x, y, TILE, TILE, colour, edge, 3, 1.2, "3 2", opacity=0.16, kind="file"))
    elif group.loose:
        colour = colours.NOT_COMMITTED
        parts.append(
            box(x, y, TILE, TILE, colour, colour, 3, 1.4, "2 2", opacity=0.07, kind="file")
        )
    else:
        parts.append(box(x, y, TILE, TILE, "none", colours.NEW, 3, 1.8, "3 2", kind="file"))
    return hover(_told(table, group), *parts)


def _told(table: Snapshot, group: Group) -> str:
    lines = [captions.slice_of(table, told) for told in group.slices]
    lines += [captions.file(table, file) for file in group.loose]
    lines += [captions.removed(file) for file in group.removed]
    return "\n".join(lines)
