"""HTML from Jinja templates, in which all text is escaped."""

from collections.abc import Iterable, Sequence
from functools import cache
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

PACKAGE = Path(__file__).parents[2]


def render(template: str, **values) -> str:
    """Fill in a template, named by its path in `lab_env`, and return the HTML.

    Text is escaped unless the template marks it as `safe`.
    """
    return _templates().get_template(template).render(values)


@cache
def _templates():
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # takes 0.1 s

    return Environment(
        loader=FileSystemLoader(PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def table(head: Sequence[object], rows: Iterable[Sequence[object]], align: str = "right") -> str:
    """HTML table for both themes; a missing number is an empty cell.

    `align` applies to all columns but the first, which is left-aligned.
    """
    texts = [[_text(cell) for cell in row] for row in rows]
    return render(
        "platform/display/table.html.j2", rows=[[str(name) for name in head], *texts], align=align
    )


def frame_table(frame: "DataFrame", align: str = "right") -> str:
    """A data frame as a `table`, with its index as the first column."""
    rows = zip(frame.index, *(frame[name].tolist() for name in frame), strict=True)
    return table([frame.index.name or "", *frame.columns], rows, align)


def _text(value: object) -> object:
    if isinstance(value, Number) and not isinstance(value, bool):
        return "" if value != value else number(value)
    return value


def number(value) -> str:
    """Format a number for display, with about three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
