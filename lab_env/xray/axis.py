"""The timeline of the drawing: one column an instant, wide enough for its times or closely set.

Columns stand at even distances, whatever the time between them; that time is written between them,
and a break in the line says that it is an hour or more.
"""

from dataclasses import dataclass

from lab_env.display.text import duration_text
from lab_env.hudi.model import Instant, Snapshot
from lab_env.hudi.timeline import seconds_between
from lab_env.xray import captions, colours
from lab_env.xray.captions import clock, date
from lab_env.xray.shapes import box, hover, line, mark, text, text_width

FULL, MEDIUM, NARROW = 88, 58, 24  # least width of a column with full times, short ones, none
WIDEST, SIDE, EARLIER = 122, 62, 96  # of a write, of another action, of the column of older files
UNDONE = "rolled back"
BREAK = 3600  # seconds
LINE, DETAIL = 14, 10  # height of a line of times, size of its letters


@dataclass(frozen=True)
class Column:
    """One instant's place.

    Args:
        instant: the instant; None for the column of all that is older.
        x: its middle.
        width: pixels.
    """

    instant: Instant | None
    x: float
    width: float


@dataclass(frozen=True)
class Axis:
    """The columns of a drawing.

    Args:
        columns: from old to new.
        earlier: how many instants of the active timeline have no column of their own.
        right: where the last one ends.
    """

    columns: tuple[Column, ...]
    earlier: int
    right: float

    def place(self, requested: str) -> int:
        """The number of the column of an instant's files."""
        for number, column in enumerate(self.columns):
            instant = column.instant
            if instant and instant.requested == requested and instant.action != "savepoint":
                return number
        return 0


def axis_of(table: Snapshot, left: float, right: float) -> Axis:
    """Give each instant a column; where there is no room, the oldest ones share the first.

    Args:
        table: whose timeline.
        left: where the first column begins.
        right: where the last one must end.
    """
    room, instants = right - left, _with_undone(table)
    known = {instant.requested for instant in instants if instant.action != "savepoint"}
    shown = [*table.files, *table.gone_files]
    older = bool(table.history) or any(file.instant not in known for file in shown)
    if older:
        room -= EARLIER
    if len(instants) * NARROW > room:
        room -= 0 if older else EARLIER
        older = True
        instants = instants[-int(room // NARROW) :]
    side = sum(not _has_files(instant) for instant in instants)
    wide = len(instants) - side
    if wide * FULL + side * SIDE <= room:
        width = min(WIDEST, (room - side * SIDE) / max(wide, 1))
        widths = [width if _has_files(instant) else SIDE for instant in instants]
    else:
        widths = [min(FULL, room / len(instants))] * len(instants)
    columns, x = [], left
    for instant, width in [
        *([(None, EARLIER)] if older else []),
        *zip(instants, widths, strict=True),
    ]:
        columns.append(Column(instant, x + width / 2, width))
        x += width
    drawn = sum(column.instant in table.instants for column in columns)
    return Axis(tuple(columns), len(table.instants) - drawn, x)


def _has_files(instant: Instant) -> bool:
    return instant.writes or instant.action == UNDONE


def _with_undone(table: Snapshot) -> list[Instant]:
    """The instants, and those that were rolled back whose files are drawn: they are still on the
    store, or were at the last look."""
    known = {instant.requested for instant in table.instants}
    left = {file.instant for file in table.uncommitted}
    left |= {file.instant for file in table.gone_files} & table.undone
    undone = [Instant(requested, None, UNDONE, "undone") for requested in left - known]
    return sorted([*table.instants, *undone], key=lambda i: (i.requested, i.action == "savepoint"))


def draw_axis(table: Snapshot, axis: Axis, left: float, top: float) -> tuple[str, float]:
    """The timeline and where it ends below.

    Args:
        table: whose timeline.
        axis: its columns.
        left: where the words in front of it begin.
        top: its upper edge.
    """
    if not table.instants:
        words = "the timeline is empty: no write yet"
        return text(left, top + 14, words, 12, colours.FAINT), top + 24
    rotated = any(_label_width(column) > column.width - 4 for column in axis.columns)
    y = top + (66 if rotated else 34)
    dates = sorted({date(instant.requested) for instant in table.instants})
    rows = [y + 24, y + 24 + LINE, y + 24 + 2 * LINE]
    parts = [
        text(left, y + 4, dates[0] if len(dates) == 1 else "timeline", 11, colours.FAINT),
        text(left, rows[0], "requested, UTC", DETAIL, colours.FAINT),
        text(left, rows[1], "completed", DETAIL, colours.FAINT),
        *_lines(axis, y),
    ]
    told, day = -1e9, ""
    for column in axis.columns:
        if column.instant is None:
            parts.append(_older(table, axis, column, y, rotated))
            continue
        times = ""
        if column.width >= MEDIUM or column.x - told >= MEDIUM:
            told, today = column.x, date(column.instant.requested)
            times = _times(column, rows)
            if len(dates) > 1 and today != day:
                times += text(
                    column.x, rows[2], today[5:], DETAIL, colours.FAINT, "middle", mono=True
                )
            day = today
        parts.append(
            hover(
                captions.instant(table, column.instant),
                _dot(table, column, y),
                _label(column.instant.action, column.x, y, rotated),
                times,
            )
        )
    return "".join(parts), rows[2 if len(dates) > 1 else 1] + 10


def draw_guides(table: Snapshot, axis: Axis, band: float, top: float, bottom: float) -> str:
    """The dotted line below each instant, and the amber band where it is new.

    Args:
        table: whose new instants.
        axis: its columns.
        band: upper edge of the bands.
        top: where the lines begin.
        bottom: where both end.
    """
    parts = []
    for column in axis.columns:
        if column.instant in table.new_instants:
            x, height = column.x - column.width / 2, bottom - band
            parts.append(box(x, band, column.width, height, colours.NEW, radius=0, opacity=0.13))
        more = ' stroke-opacity=".4" stroke-dasharray="1.5 5"'
        parts.append(line(column.x, top, column.x, bottom, more=more))
    return "".join(parts)


def _label_width(column: Column) -> float:
    return text_width(column.instant.action, 11, bold=True) if column.instant else 0


def _lines(axis: Axis, y: float) -> list[str]:
    """The line from instant to instant, with the time between them."""
    parts = []
    for before, after in zip(axis.columns, axis.columns[1:], strict=False):
        if before.instant is None:
            parts.append(
                line(before.x, y, after.x, y, more=' stroke-width="2" stroke-dasharray="2 4"')
            )
            continue
        seconds = seconds_between(before.instant.requested, after.instant.requested)
        dash = ' stroke-dasharray="7 5"' if seconds >= BREAK else ""
        parts.append(line(before.x, y, after.x, y, more=f' stroke-width="2"{dash}'))
        words = f"+{duration_text(seconds)}" if seconds else ""  # a savepoint has its write's time
        if text_width(words, 9) + 26 <= after.x - before.x:
            x = (before.x + after.x) / 2
            parts.append(text(x, y - 5, words, 9, colours.FAINT, "middle"))
    return parts


def _older(table: Snapshot, axis: Axis, column: Column, y: float, rotated: bool) -> str:
    count = axis.earlier + len(table.history)
    archived = "" if axis.earlier else "archived"
    return hover(
        captions.earlier(table, axis.earlier),
        mark("earlier", column.x, y, colours.OTHER_ACTION, False, colours.PAPER),
        _label(f"{count} earlier" if count else "earlier", column.x, y, rotated),
        text(column.x, y + 24, archived, DETAIL, colours.FAINT, "middle") if archived else "",
    )


def _dot(table: Snapshot, column: Column, y: float) -> str:
    instant = column.instant
    colour = colours.ACTION.get(instant.action, colours.OTHER_ACTION)
    ring = (
        f'<circle cx="{column.x:.1f}" cy="{y:.1f}" r="12" fill="none" stroke-width="2.5" '
        f'style="stroke:{colours.NEW}"/>'
        if instant in table.new_instants
        else ""
    )
    return ring + mark(instant.action, column.x, y, colour, bool(instant.completed), colours.PAPER)


def _label(words: str, x: float, y: float, rotated: bool) -> str:
    """The word above a mark; turned where columns are narrow, its end at the mark."""
    if rotated:
        more = f' transform="rotate(38 {x:.1f} {y - 13:.1f})"'
        return text(x, y - 11, words, 11, anchor="end", bold=True, more=more)
    return text(x, y - 18, words, 11, anchor="middle", bold=True)


def _times(column: Column, rows: list[float]) -> str:
    instant, full = column.instant, column.width >= FULL
    size = DETAIL if full else 9.5
    requested = clock(instant.requested) if full else clock(instant.requested)[:8]
    if instant.completed:
        completed = clock(instant.completed) if full else clock(instant.completed)[:8]
        end = text(column.x, rows[1], completed, size, colours.FAINT, "middle", mono=True)
    else:
        end = text(column.x, rows[1], instant.state, size, colours.INK, "middle", bold=True)
    return text(column.x, rows[0], requested, size, colours.INK, "middle", mono=True) + end
