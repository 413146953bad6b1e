"""The X-ray as a drawing: instants from left to right, each file under the instant that wrote it.

Inline SVG that takes its text colour from the page, so it reads in both themes of JupyterLab. Few file
groups are rows with a box for each file, many are tiles; a snapshot's text form tells all in any case.
"""

from html import escape

from lab_env.hudi.model import Snapshot
from lab_env.xray import captions, colours
from lab_env.xray.axis import axis_of, draw_axis, draw_guides
from lab_env.xray.rows import COMPACT, DETAILED, draw_rows, groups_of, gutter_width
from lab_env.xray.shapes import SANS, box, fitted, flow, hover, mark, text, text_width
from lab_env.xray.tiles import draw_tiles

WIDTH, LEAST, MARGIN = 940, 640, 10
EDGE = (
    12  # between the last column and the panel's edge: times of close columns reach beyond theirs
)
ROWS, CLOSE_ROWS = 10, 24  # file groups in rows with two lines, and in rows with one
TOP = 34  # below the title


def as_svg(table: Snapshot) -> str:
    """A snapshot as a drawing.

    Args:
        table: what to draw. Up to 200 file groups are drawn; a line says what is left out.

    Returns:
        HTML with one `<svg>` element.
    """
    groups = groups_of(table)
    count = sum(map(len, groups.values()))
    style = DETAILED if count <= ROWS else COMPACT
    tiles = count > CLOSE_ROWS
    gutter = MARGIN + (130 if tiles else gutter_width(table, groups, style))
    axis = axis_of(table, gutter, WIDTH - MARGIN - EDGE)
    right = WIDTH - MARGIN if tiles else max(axis.right + EDGE, LEAST - MARGIN)
    timeline, y = draw_axis(table, axis, MARGIN + 10, TOP)
    top = y
    if tiles:
        body, y = draw_tiles(table, groups, MARGIN, right, y)
        guides = draw_guides(table, axis, TOP, top - 4, top)
    else:
        body, y = draw_rows(table, axis, groups, style, MARGIN, gutter, right, y)
        guides = draw_guides(table, axis, TOP, top - 4, y - 8)
    width = right + MARGIN
    foot, y = _footer(table, tiles, width, y)
    height = y + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="max-width:{width:.0f}px;width:100%;height:auto" role="img" '
        f'aria-label="{escape(_spoken(table))}" font-family="{SANS}">'
        f"{_title(table, width)}{guides}{timeline}{body}{foot}</svg>"
    )


def _title(table: Snapshot, width: float) -> str:
    totals = captions.totals(table)
    room = width - 2 * MARGIN - 20 - text_width(totals, 12)
    kind = f" · {table.table_type}"
    name = fitted(table.name, room - text_width(kind, 16, bold=True), 16, bold=True)
    return hover(
        f"{table.path}, table version {table.version}",
        text(MARGIN, 22, name + kind, 16, bold=True),
        text(width - MARGIN, 22, totals, 12, colours.FAINT, "end"),
    )


def _footer(table: Snapshot, tiles: bool, width: float, y: float) -> tuple[str, float]:
    """The objects by part, the metadata table's partitions, and what needs explaining."""
    lines = [
        _chips(
            [
                captions.counted(table.objects, "object"),
                *(words for _, words in captions.parts(table)),
            ],
            width,
            y,
        )
    ]
    if metadata := captions.metadata(table):
        lines.append(_chips(["metadata table", *metadata], width, lines[-1][1]))
    lines.append(_legend(table, tiles, width, lines[-1][1]))
    return "".join(part for part, _ in lines), lines[-1][1]


def _chips(words: list[str], width: float, y: float) -> tuple[str, float]:
    """A heading and a row of small frames with words in them."""
    head, *rest = words
    left = MARGIN + 10 + max(text_width(head, 11), text_width("metadata table", 11)) + 12
    widths = [text_width(word, 10.5) + 14 for word in rest]
    places = flow(widths, left, width - MARGIN, 6)
    parts = [text(MARGIN + 10, y + 13, head, 11, colours.FAINT)]
    for word, wide, (x, row) in zip(rest, widths, places, strict=True):
        parts.append(
            box(
                x,
                y + row * 23,
                wide,
                18,
                stroke=colours.FAINT,
                radius=9,
                thick=1,
                edge=0.4,
                kind="chip",
            )
        )
        parts.append(text(x + wide / 2, y + row * 23 + 13, word, 10.5, colours.INK, "middle"))
    return "".join(parts), y + 23 * (max((row for _, row in places), default=0) + 1)


def _legend(table: Snapshot, tiles: bool, width: float, y: float) -> tuple[str, float]:
    """What the drawing uses and does not say in words itself."""
    items = _explained(table, tiles)
    if not items:
        return "", y
    widths = [24 + text_width(words, 10.5) for _, words in items]
    places = flow(widths, MARGIN + 10, width - MARGIN, 18)
    parts = []
    for (swatch, words), (x, row) in zip(items, places, strict=True):
        line = y + 4 + row * 19
        parts.append(f'<g transform="translate({x:.1f} {line:.1f})">{swatch}</g>')
        parts.append(text(x + 24, line + 10, words, 10.5, colours.FAINT))
    return "".join(parts), y + 8 + 19 * (places[-1][1] + 1)


def _explained(table: Snapshot, tiles: bool) -> list[tuple[str, str]]:
    blue, green, faint = colours.FILE["base"], colours.FILE["log"], colours.FAINT
    older = any(not found.current and found.files for found in table.slices)
    logs = any(file.kind == "log" for file in table.files)
    items = []
    if tiles:
        items.append((box(3, 0, 12, 12, blue, radius=3), "a file group with a base file"))
        if logs:
            foot = box(3, 0, 12, 12, blue, radius=3) + box(4, 6, 10, 5, green, radius=1)
            items.append((foot, "with logs, and their number"))
        if older:
            behind = box(6, -1, 11, 11, "none", faint, 3, 1, "2 2") + box(
                3, 2, 11, 11, blue, radius=3
            )
            items.append((behind, "older slices behind it"))
    elif older or table.uncommitted:
        items.append(
            (
                box(0, 0, 18, 12, stroke=colours.INK, radius=4),
                "solid: a query of the newest state reads it",
            )
        )
        if older:
            items.append(
                (box(0, 0, 18, 12, stroke=faint, radius=4, dash="4 3"), "dashed: an older version")
            )
    if any(file.kind == "cdc" for file in table.files):
        items.append((box(5, 0, 6, 12, colours.FILE["cdc"], radius=2), "cdc log"))
    if table.uncommitted:
        colour = colours.NOT_COMMITTED
        items.append((box(0, 0, 18, 12, colour, colour, 4, 1.5, "2 3", 0.07), "not committed: no reader sees it"))  # fmt: skip
    if any(not instant.completed for instant in table.instants):
        colour = colours.OTHER_ACTION
        items.append((mark("", 9, 6, colour, False, colours.PAPER), "hollow: not complete"))
    if table.since:
        items.append((box(1, 1, 16, 10, "none", colours.NEW, 4, 2.5), "new since last look"))
    if table.gone_files:
        items.append(
            (box(1, 1, 16, 10, "none", colours.NEW, 4, 2, "3 2"), "removed since last look")
        )
    return items


def _spoken(table: Snapshot) -> str:
    return (
        f"Table {table.name}, {table.table_type}: {len(table.instants)} instants, "
        f"{len(table.files)} data files, {len(table.current)} current file slices."
    )
