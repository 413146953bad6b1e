"""The X-ray as a drawing: instants from left to right, each file under the instant that wrote it.

Inline SVG that takes its text colour from the page, so it reads in both themes of JupyterLab.
"""

from html import escape

from lab_env.xray.model import DataFile, FileSlice, Instant, Snapshot
from lab_env.xray.names import clock, size_text
from lab_env.xray.text import SHORT, bookkeeping_line, short_group

# Okabe and Ito's colours, told apart by colour-blind readers; the words are there too.
ACTION = {
    "commit": "#0072B2",
    "deltacommit": "#009E73",
    "compaction": "#CC79A7",
    "clustering": "#56B4E9",
    "replacecommit": "#56B4E9",
    "rollback": "#D55E00",
    "restore": "#D55E00",
}
OTHER = "#888888"
FILE = {"base": "#0072B2", "log": "#009E73", "cdc": "#56B4E9"}
NEW = "#E69F00"
INK = "var(--jp-content-font-color1, #24292f)"
FAINT = "var(--jp-content-font-color2, #57606a)"

LEFT, COLUMN, TOP, ROW, HEAD = 150, 146, 112, 60, 28
BOX_WIDTH, BOX_HEIGHT = 112, 38
MAX_COLUMNS, MAX_GROUPS, MAX_PARTITIONS = 8, 6, 6


def as_svg(table: Snapshot) -> str:
    """A snapshot as a drawing.

    Args:
        table: what to draw. Of a long timeline the last instants are drawn, of many file groups
            the first ones; a line says what is left out. The text form has all.

    Returns:
        HTML with one `<svg>` element.
    """
    columns = table.instants[-MAX_COLUMNS:]
    older = len(table.instants) - len(columns)
    drawn = {instant.requested for instant in columns}
    # Files of instants that are not drawn stand in a first column of their own.
    first = int(any(file.instant not in drawn for file in table.files))
    places = {instant.requested: n for n, instant in enumerate(columns, first)}
    frames: list[str] = []
    y = TOP
    partitions = table.partitions[:MAX_PARTITIONS]
    for partition in partitions:
        frame, height = _partition(table, partition, places, y)
        frames.append(frame)
        y += height + 12
    left_out = _left_out(table, older)
    notes = [bookkeeping_line(table), _legend(table), *([left_out] if left_out else [])]
    width = max(LEFT + COLUMN * max(first + len(columns), 2) + 24, 620)
    height = y + 22 * len(notes) + 6
    lines = "".join(_text(24, y + 14 + 22 * n, note, 12.5, FAINT) for n, note in enumerate(notes))
    guides = "".join(
        f'<path d="M{_x(n)} {TOP - 18}V{y - 8}" stroke="{FAINT}" stroke-opacity=".45" '
        'stroke-dasharray="2 5"/>'
        for n in places.values()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'style="max-width:{width}px;width:100%;height:auto" role="img" '
        f'aria-label="{escape(_spoken(table))}" font-family="system-ui,sans-serif">'
        + _text(24, 26, f"{table.name} · {table.table_type}", 17, INK, bold=True)
        + _band(table, columns, places, y, width)
        + _timeline(table, columns, places, width)
        + guides
        + "".join(frames)
        + lines
        + "</svg>"
    )


def _timeline(table: Snapshot, columns: tuple[Instant, ...], places: dict, width: int) -> str:
    y = 62
    parts = [
        _text(24, y + 5, "timeline", 13, FAINT),
        f'<path d="M{LEFT - 34} {y}H{width - 16}" stroke="{FAINT}" stroke-width="2"/>',
    ]
    if min(places.values(), default=0) == 1:
        parts.append(_text(_x(0), y - 17, "earlier", 13, FAINT, "middle"))
    for instant in columns:
        x, colour = _x(places[instant.requested]), ACTION.get(instant.action, OTHER)
        done = instant.completed is not None
        ring = (
            f'<circle cx="{x}" cy="{y}" r="12" fill="none" stroke="{NEW}" stroke-width="2.5"/>'
            if instant in table.new_instants
            else ""
        )
        fill = colour if done else "var(--jp-layout-color0, #fff)"
        end = f"completed {clock(instant.completed)}" if done else f"{instant.state}, not complete"
        hover = f"{instant.action}: requested {instant.requested}, " + (
            f"completed {instant.completed}" if done else instant.state
        )
        parts.append(
            f"<g><title>{escape(hover)}</title>{ring}"
            f'<circle cx="{x}" cy="{y}" r="8" fill="{fill}" stroke="{colour}" stroke-width="2.5"/>'
            + _text(x, y - 17, instant.action, 13, INK, "middle", bold=True)
            + _text(x, y + 25, f"requested {clock(instant.requested)}", 10.5, FAINT, "middle")
            + _text(x, y + 38, end, 10.5, FAINT, "middle")
            + "</g>"
        )
    return "".join(parts)


def _band(
    table: Snapshot, columns: tuple[Instant, ...], places: dict, bottom: int, width: int
) -> str:
    """The amber band behind each instant that is new."""
    parts = []
    new = [places[instant.requested] for instant in columns if instant in table.new_instants]
    for number in new:
        parts.append(
            f'<rect x="{_x(number) - COLUMN / 2}" y="34" width="{COLUMN}" '
            f'height="{bottom - 40}" fill="{NEW}" fill-opacity=".12"/>'
        )
    if new:
        parts.append(
            _text(width - 16, 26, "amber: new since last look", 12.5, INK, "end", bold=True)
        )
    return "".join(parts)


def _partition(table: Snapshot, partition: str, places: dict, y: int) -> tuple[str, int]:
    """The frame of one partition and its height."""
    slices = [found for found in table.slices if found.partition == partition]
    loose = [file for file in table.uncommitted if file.partition == partition]
    groups = list(dict.fromkeys([s.group for s in slices] + [file.group for file in loose]))
    drawn = groups[:MAX_GROUPS]
    more = len(groups) - len(drawn)
    height = HEAD + ROW * len(drawn) + (20 if more else 4)
    width = LEFT + COLUMN * max(max(places.values(), default=0) + 1, 2)
    parts = [
        f'<rect x="12" y="{y}" width="{width}" height="{height}" rx="9" fill="{FAINT}" '
        f'fill-opacity=".05" stroke="{FAINT}" stroke-opacity=".5"/>',
        _text(24, y + 20, f"{partition}/" if partition else "(no partitions)", 13, INK, bold=True),
    ]
    for number, group in enumerate(drawn):
        top = y + HEAD + ROW * number
        parts.append(_text(24, top + 21, "file group", 11, FAINT))
        parts.append(_text(24, top + 38, short_group(group), 12.5, INK, mono=True))
        parts += [_slice(table, s, places, top) for s in slices if s.group == group]
        parts += [
            _box(table, file, places, top, {}, note="not committed")
            for file in loose
            if file.group == group
        ]
    if more:
        parts.append(_text(24, y + height - 8, f"and {more} more file groups", 11.5, FAINT))
    return "".join(parts), height


def _slice(table: Snapshot, found: FileSlice, places: dict, top: int) -> str:
    stacks: dict[int, int] = {}
    for file in found.files:
        column = places.get(file.instant, 0)
        stacks[column] = stacks.get(column, 0) + 1
    first, last = _x(min(stacks)), _x(max(stacks))
    frame = (
        f'stroke="{INK}" stroke-width="1.8"'
        if found.current
        else f'stroke="{FAINT}" stroke-width="1.3" stroke-dasharray="5 4"'
    )
    boxes, drawn = [], set()
    for file in found.files:
        column = places.get(file.instant, 0)
        if column not in drawn:
            note = "" if found.current else "older"
            boxes.append(_box(table, file, places, top, stacks, note))
            drawn.add(column)
    return (
        f'<g opacity="{1 if found.current else 0.72}">'
        f'<rect x="{first - BOX_WIDTH / 2 - 6}" y="{top + 2}" width="{last - first + BOX_WIDTH + 12}" '
        f'height="{BOX_HEIGHT + 12}" rx="9" fill="none" {frame}/>{"".join(boxes)}</g>'
    )


def _box(
    table: Snapshot, file: DataFile, places: dict, top: int, stacks: dict[int, int], note: str
) -> str:
    """One file; several of one slice and instant stand in one box with their number."""
    column = places.get(file.instant, 0)
    x, y = _x(column) - BOX_WIDTH / 2, top + 8
    new = file in table.new_files
    colour = FILE[file.kind]
    count = stacks.get(column, 1)
    kind = SHORT[file.kind] if count == 1 else f"{count} files"
    stroke = NEW if new else colour
    dash = ' stroke-dasharray="2 3"' if not file.committed else ""
    note = note if not file.committed else "new" if new else note
    size = size_text(file.size) + (f" · {note}" if note else "")
    hover = f"{file.name}: {file.size:,} bytes, written by the instant {file.instant}"
    return (
        f"<g><title>{escape(hover)}</title>"
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" fill="{colour}" '
        f'fill-opacity="{0.28 if file.committed else 0.06}" stroke="{stroke}" '
        f'stroke-width="{3 if new else 1.3}"{dash}/>'
        + _text(x + BOX_WIDTH / 2, y + 16, kind, 12.5, INK, "middle", bold=True)
        + _text(x + BOX_WIDTH / 2, y + 31, size, 11, INK, "middle")
        + "</g>"
    )


def _legend(table: Snapshot) -> str:
    parts = ["solid frame: a query of the newest state reads it", "dashed: an older version"]
    if table.uncommitted:
        parts.append("dotted box: not committed, no reader sees it")
    return " · ".join(parts)


def _left_out(table: Snapshot, older: int) -> str:
    parts = []
    if older:
        parts.append(f"{older} earlier instants")
    if len(table.partitions) > MAX_PARTITIONS:
        parts.append(f"{len(table.partitions) - MAX_PARTITIONS} partitions")
    return f"Not drawn: {', '.join(parts)}; print(...) shows all." if parts else ""


def _spoken(table: Snapshot) -> str:
    return (
        f"Table {table.name}, {table.table_type}: {len(table.instants)} instants, "
        f"{len(table.files)} data files, {len(table.current)} current file slices."
    )


def _x(column: int) -> float:
    return LEFT + COLUMN * column + COLUMN / 2


def _text(
    x: float,
    y: float,
    text: str,
    size: float,
    colour: str,
    anchor: str = "start",
    bold: bool = False,
    mono: bool = False,
) -> str:
    more = ' font-weight="600"' if bold else ""
    more += ' font-family="ui-monospace,monospace"' if mono else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"{more} '
        f'style="fill:{colour}">{escape(text)}</text>'
    )
