"""Draws a batch's receipts in checkpoint and table at several moments."""

from collections.abc import Mapping, Sequence
from html import escape

from lab_env.lessons.l17.receipts import Receipts
from lab_env.platform.display.palette import GREEN, GREY, VERMILION

RUNGS = ("offsets/N: the plan", "marker", "data file", "completed instant", "commits/N")
THERE, MISSING, REMOVED = "there", "missing", "removed"
LEFT, TOP, COLUMN, ROW = 170, 58, 190, 36  # pixels
MARKS = {
    THERE: f"<rect x='-7' y='-7' width='14' height='14' rx='2' fill='{GREEN}'/>",
    MISSING: (
        "<rect x='-7' y='-7' width='14' height='14' rx='2' stroke-width='2.2'"
        f" stroke='{VERMILION}' fill='var(--jp-layout-color0, #fff)'/>"
    ),
    REMOVED: f"<circle r='3.5' fill='{GREY}'/>",
}


def rungs_of(receipts: Receipts) -> dict[str, tuple[str, str]]:
    """Return the state (`there`, `missing` or `removed`) and label of each of the batch's receipts.

    A marker is removed when its write is complete.
    """
    batch = receipts.offsets
    in_table, committed = receipts.table >= batch, receipts.commits >= batch
    wrote = receipts.completed == in_table and receipts.data > 0
    marker = THERE if receipts.markers else REMOVED if in_table else MISSING
    return {
        RUNGS[0]: (THERE, f"offsets/{batch}"),
        RUNGS[1]: (marker, {THERE: "in .temp", REMOVED: "removed", MISSING: ""}[marker]),
        RUNGS[2]: (THERE, f"{receipts.data} Parquet file") if wrote else (MISSING, ""),
        RUNGS[3]: (THERE, f"says batch {receipts.table}")
        if in_table
        else (MISSING, "not complete"),
        RUNGS[4]: (THERE, f"commits/{batch}") if committed else (MISSING, ""),
    }


def draw_ladder(moments: Mapping[str, Receipts], restarts: Sequence[Sequence] = ()) -> str:
    """Draw a batch's five receipts from top to bottom, in the sequence in which they are written.

    A full square is a receipt that is there, an empty square is a missing one, and a grey dot is
    a marker that was removed with the commit.

    Args:
        moments: the receipts at each moment, by the moment's name; one column each.
        restarts: the effect of a restart at each moment, such as `(2, "again", "write")`; shown
            below its column.
    """
    lines = len(RUNGS) + bool(restarts)
    width, height = LEFT + COLUMN * len(moments), TOP + ROW * lines
    rungs = [_text(0, TOP + ROW * row, rung) for row, rung in enumerate(RUNGS)]
    columns = [
        _column(LEFT + COLUMN * place, name, receipts)
        for place, (name, receipts) in enumerate(moments.items())
    ]
    if restarts:
        bottom = TOP + ROW * len(RUNGS)
        rungs.append(_text(0, bottom, "a restart would do", weight="bold"))
        for place, restart in enumerate(restarts):
            said = " · ".join(map(str, ("batch", *restart))).replace(" · ", " ", 1)
            rungs.append(_text(LEFT + COLUMN * place, bottom, said, weight="bold"))
    return (
        f"<svg viewBox='0 0 {width} {height}' width='{width}' style='max-width:100%'"
        " font-family='sans-serif' font-size='13' fill='var(--jp-content-font-color1, #333)'"
        f" xmlns='http://www.w3.org/2000/svg'>{''.join(rungs)}{''.join(columns)}</svg>"
    )


def _column(x: int, name: str, receipts: Receipts) -> str:
    last = TOP + ROW * (len(RUNGS) - 1)
    parts = [
        _text(x, 14, name, weight="bold"),
        _text(x, 32, f"batch {receipts.offsets}"),
        f"<line x1='{x + 8}' x2='{x + 8}' y1='{TOP}' y2='{last}' stroke='{GREY}'/>",
    ]
    for row, (rung, (state, label)) in enumerate(rungs_of(receipts).items()):
        y = TOP + ROW * row
        title = f"<title>{escape(f'{rung}: {state}')}</title>"
        parts.append(f"<g transform='translate({x + 8} {y})'>{MARKS[state]}{title}</g>")
        parts.append(_text(x + 24, y, label))
    return "".join(parts)


def _text(x: int, y: int, text: str, weight: str = "normal") -> str:
    return f"<text x='{x}' y='{y + 4}' font-weight='{weight}'>{escape(text)}</text>"
