"""File groups as rows: each file under the instant that wrote it, one frame around each slice."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from lab_env.display.text import size_text
from lab_env.hudi.model import CleanedFile, DataFile, FileSlice, Snapshot
from lab_env.xray import captions, colours
from lab_env.xray.axis import MEDIUM, Axis
from lab_env.xray.shapes import box, fitted, hover, text, text_width

HEADER, GAP = 24, 8  # of a partition's panel: its name's line, the space below it
PILL = 8.5  # size of the letters of `new`
UNNAMED = "(no partitions)"
UNREAD = {"loose": "not committed", "cleaned": "cleaned"}  # said instead of the size


@dataclass(frozen=True)
class Style:
    """How high a row and its boxes are, and whether there is room for a second line."""

    height: float
    box: float
    detailed: bool


DETAILED = Style(height=54, box=36, detailed=True)
COMPACT = Style(height=27, box=18, detailed=False)


@dataclass
class Run:
    """What stands together in a row: a slice, or files that are in none.

    Args:
        cells: files by the number of their column.
        look: current, older, planned, loose (not committed), removed or cleaned.
        slice: the slice, for those that are one.
    """

    look: str
    slice: FileSlice | None = None
    cells: dict[int, list] = field(default_factory=dict)
    planned: int | None = None

    @property
    def first(self) -> int:
        """Number of its first column."""
        return min([*self.cells, *([] if self.planned is None else [self.planned])])

    @property
    def last(self) -> int:
        """Number of its last column."""
        return max([*self.cells, *([] if self.planned is None else [self.planned])])


def groups_of(table: Snapshot) -> dict[str, list[str]]:
    """Partition to the ids of its file groups, those that are gone since the last look too."""
    found: dict[str, dict[str, None]] = {}
    for file in sorted(
        [*table.files, *table.gone_files], key=lambda f: (f.partition, f.instant, f.group)
    ):
        found.setdefault(file.partition, {})[file.group] = None
    return {partition: list(groups) for partition, groups in sorted(found.items())}


def draw_rows(
    table: Snapshot,
    axis: Axis,
    groups: dict[str, list[str]],
    style: Style,
    left: float,
    gutter: float,
    right: float,
    top: float,
) -> tuple[str, float]:
    """All partitions' panels and where they end below.

    Args:
        table: whose file groups.
        axis: the columns of the instants.
        groups: from `groups_of`.
        style: DETAILED or COMPACT.
        left: edge of the panels.
        gutter: where the columns begin; the names stand in front of it.
        right: edge of the panels.
        top: where the first panel begins.
    """
    parts, y = [], top
    headed = not style.detailed or any(len(found) > 1 for found in groups.values())
    for partition, found in groups.items():
        rows = [_lanes(table, axis, partition, group) for group in found]
        height = sum(len(lanes) for lanes in rows) * style.height + (HEADER if headed else 6)
        parts.append(
            box(left, y, right - left, height, colours.FAINT, colours.FAINT, 8, 1, opacity=0.06, edge=0.35)
        )  # fmt: skip
        room = gutter - left - 20
        name = f"{partition}/" if partition else UNNAMED
        row = y + (HEADER if headed else 3)
        if headed:
            words = fitted(name, right - left - 200, 12, bold=True)
            size = size_text(sum(f.size for f in table.files if f.partition == partition))
            told = f"{captions.plural(len(found), 'file group')} · {size}"
            parts.append(hover(name, text(left + 10, y + 16, words, 12, bold=True)))
            parts.append(text(right - 10, y + 16, told, 10.5, colours.FAINT, "end"))
        for group, lanes in zip(found, rows, strict=True):
            parts.append(_name(table, partition, group, style, left + 10, row, room, not headed))
            for lane in lanes:
                parts += [_run(table, axis, run, style, row) for run in lane]
                row += style.height
        y += height + GAP
    return "".join(parts), y


def gutter_width(table: Snapshot, groups: dict[str, list[str]], style: Style) -> float:
    """How much room the names in front of the rows want, within limits."""
    wanted = [text_width("requested, UTC", 10)]
    headed = not style.detailed or any(len(found) > 1 for found in groups.values())
    for partition, found in groups.items():
        if not headed:
            wanted.append(text_width(f"{partition}/" if partition else UNNAMED, 11.5, bold=True))
        for group in found:
            first, second = _names(table, partition, group)
            if headed:
                wanted.append(text_width(first, 11.5, mono=True))
                wanted.append(text_width(second, 10) if style.detailed else 0)
            else:
                wanted.append(text_width(f"{first} · {second}", 10))
    most = 300 if len(table.instants) <= 4 else 206  # few columns leave room for long names
    return min(max(wanted), most) + 26


def _names(table: Snapshot, partition: str, group: str) -> tuple[str, str]:
    return captions.short_group(group), captions.content(table, partition, group)


def _name(
    table: Snapshot,
    partition: str,
    group: str,
    style: Style,
    x: float,
    y: float,
    room: float,
    with_partition: bool,
) -> str:
    """The words in front of a row."""
    first, second = _names(table, partition, group)
    told = f"{partition + '/ ' if partition else ''}file group {group}"
    if not style.detailed:
        return hover(told, text(x, y + 17, fitted(first, room, 10.5, mono=True), 10.5, mono=True))
    if with_partition:
        name = f"{partition}/" if partition else UNNAMED
        both = f"{first} · {second}" if second else first
        # The id stands in the hover text too; the numbers only here.
        second = both if not second or text_width(both, 10) <= room else second
        head = text(x, y + 24, fitted(name, room, 11.5, bold=True), 11.5, bold=True)
    else:
        head = text(x, y + 24, fitted(first, room, 11.5, mono=True), 11.5, mono=True)
    return hover(told, head, text(x, y + 39, fitted(second, room, 10), 10, colours.FAINT))


def _lanes(table: Snapshot, axis: Axis, partition: str, group: str) -> list[list[Run]]:
    """What stands in a file group's row, in as many lanes as keep it apart."""
    mine = (partition, group)
    older = axis.columns[0].instant is None if axis.columns else True
    runs, past = [], Run("older")
    for found in table.slices:
        if (found.partition, found.group) != mine:
            continue
        run = Run("current" if found.current else "older", found)
        if found.planned and not found.base:
            run.planned = axis.place(found.instant)
        for file in found.files:
            run.cells.setdefault(axis.place(file.instant), []).append(file)
        if older and run.look == "older" and run.planned is None and run.last == 0:
            past.cells.setdefault(0, []).extend(found.files)  # all old versions in one box
        else:
            runs.append(run)
    runs += [past] if past.cells else []
    for look, files in (
        ("loose", table.uncommitted),
        ("removed", table.gone_files),
        ("cleaned", _cleaned_and_drawn(table, axis)),
    ):
        cells: dict[int, list] = {}
        for file in files:
            if (file.partition, file.group) == mine:
                cells.setdefault(axis.place(file.instant), []).append(file)
        runs += [Run(look, cells={place: here}) for place, here in cells.items()]
    return _apart(runs)


def _cleaned_and_drawn(table: Snapshot, axis: Axis) -> Iterable[CleanedFile]:
    """Cleaned files whose instant has a column of its own; those just removed are drawn as such."""
    drawn = {column.instant.requested for column in axis.columns if column.instant}
    gone = {(file.partition, file.name) for file in table.gone_files}
    return (
        file
        for file in table.cleaned
        if file.instant in drawn and (file.partition, file.name) not in gone
    )


def _apart(runs: list[Run]) -> list[list[Run]]:
    """Put each run into the first lane where it covers no other."""
    lanes: list[list[Run]] = []
    for run in sorted(
        runs, key=lambda run: (run.look in ("removed", "cleaned", "loose"), run.first)
    ):
        for lane in lanes:
            if all(run.first > other.last or run.last < other.first for other in lane):
                lane.append(run)
                break
        else:
            lanes.append([run])
    return lanes or [[]]


def _run(table: Snapshot, axis: Axis, run: Run, style: Style, y: float) -> str:
    """One slice in its frame, or files without one."""
    top = y + (style.height - style.box) / 2
    parts = []
    if run.look in ("current", "older"):
        pad = 5 if style.detailed else 3
        first, last = axis.columns[run.first], axis.columns[run.last]
        x = first.x - _box_width(first.width) / 2 - pad
        width = last.x + _box_width(last.width) / 2 + pad - x
        current = run.look == "current"
        parts.append(
            box(
                x, top - pad, width, style.box + 2 * pad,
                stroke=colours.INK if current else colours.FAINT, radius=8,
                thick=1.5 if current else 1.1, dash="" if current else "4 3",
                edge=0.8 if current else 0.7, kind="slice",
            )
        )  # fmt: skip
    if run.planned is not None and run.planned not in run.cells:
        parts.append(_to_come(axis.columns[run.planned], style, top))
    for number, files in sorted(run.cells.items()):
        parts.append(_cell(table, run, files, axis.columns[number], style, top))
    if run.slice:
        return hover(captions.slice_of(table, run.slice), *parts)
    return "".join(parts)


def _box_width(column: float) -> float:
    return min(column - (16 if column >= MEDIUM else 8), 96)


def _to_come(column, style: Style, top: float) -> str:
    """Where a pending compaction will put its base file."""
    width = _box_width(column.width)
    x = column.x - width / 2
    words = "to come" if text_width("to come", 10) <= width - 4 else ""
    return hover(
        "a pending compaction will write a base file here",
        box(x, top, width, style.box, stroke=colours.ACTION["compaction"], dash="2 3", kind="file"),
        text(column.x, top + style.box / 2 + 4, words, 10, colours.FAINT, "middle")
        if words
        else "",
    )


def _cell(table: Snapshot, run: Run, files: list, column, style: Style, top: float) -> str:
    """The files of one instant in a row: one box, with a strip for change-data logs beside others."""
    width = _box_width(column.width)
    x = column.x - width / 2
    main = [file for file in files if file.kind != "cdc"] or files
    strip = len(main) < len(files) and width >= 16
    room = width - 8 if strip else width
    mark = _change(table, run, files)
    colour = colours.FILE[main[0].kind]
    parts = [_box(run.look, x, top, room, style.box, colour, mark)]
    if strip:
        cdc = colours.FILE["cdc"]
        parts.append(box(x + room + 2, top, 6, style.box, cdc, radius=2, kind="strip"))
    parts += _words(run.look, main, x, top, room, style)
    if mark and style.detailed:
        parts.append(_pill(mark, column.x, top, width))
    return hover("\n".join(_told(table, run.look, file) for file in files), *parts)


def _box(look: str, x: float, y: float, width: float, height: float, colour: str, mark: str) -> str:
    fill, edge, dash, opacity, thick = {
        "current": (colour, colour, "", 1, 1.3),
        "older": (colour, colour, "", 0.16, 1.1),
        "loose": (colours.NOT_COMMITTED, colours.NOT_COMMITTED, "2 3", 0.07, 1.6),
        "removed": ("none", colour, "4 3", 1, 1.1),
        "cleaned": ("none", colours.FAINT, "1 3", 1, 1.1),
    }[look]
    if mark:
        edge, thick = colours.NEW, 3
    paper = box(x, y, width, height, colours.PAPER) if opacity < 1 or fill == "none" else ""
    return paper + box(x, y, width, height, fill, edge, 5, thick, dash, opacity, kind="file")


def _words(look: str, files: list, x: float, top: float, room: float, style: Style) -> list[str]:
    """What stands in a box, as far as there is room."""
    colour = {"current": colours.ON_FILE, "older": colours.INK}.get(look, colours.FAINT)
    kind = captions.SHORT[files[0].kind]
    kind = kind if len(files) == 1 else f"{len(files)} {'logs' if kind == 'log' else 'files'}"
    size = UNREAD.get(look) or size_text(sum(file.size for file in files))
    middle = x + room / 2
    lines = [(kind, 11, True), (size, 10, False)] if style.detailed else [(size, 9.5, False)]
    fit = [(words, s, b) for words, s, b in lines if text_width(words, s, b) <= room - 4]
    places = {2: (15.5, 29.5), 1: (style.box / 2 + 3.5,)}.get(len(fit), ())
    return [
        text(middle, top + place, words, s, colour, "middle", b)
        for place, (words, s, b) in zip(places, fit, strict=True)
    ]


def _pill(words: str, x: float, top: float, width: float) -> str:
    """The amber word on a box's upper edge."""
    wide = text_width(words, PILL, True) + 8
    if wide > width:
        return ""
    return box(x - wide / 2, top - 7, wide, 12, colours.NEW, radius=6, kind="pill") + text(
        x, top + 2, words, PILL, colours.ON_NEW, "middle", True
    )


def _change(table: Snapshot, run: Run, files: list) -> str:
    """`new`, `rewritten` or `removed` since the last look, or nothing."""
    if run.look == "removed":
        return "removed"
    changes = {
        captions.change(table, file)
        for file in files
        if isinstance(file, DataFile) and file in table.new_files
    }
    return "rewritten" if "rewritten" in changes else "new" if changes else ""


def _told(table: Snapshot, look: str, file) -> str:
    if look == "removed":
        return captions.removed(file)
    return captions.cleaned(file) if look == "cleaned" else captions.file(table, file)
