"""HTML from Jinja templates and pandas tables; text is escaped everywhere."""

from functools import cache
from numbers import Number
from pathlib import Path

import pandas as pd

PACKAGE = Path(__file__).parents[1]


def render(template: str, **values) -> str:
    """Fill in a template; returns HTML.

    Args:
        template: its path in `lab_env`, for example `display/card.html.j2`.
        values: what it shows; text is escaped unless the template marks it as `safe`.
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


def table(frame: pd.DataFrame, align: str = "right") -> str:
    """A table with the frame's index as the first column; it reads in light and dark.

    Args:
        frame: numbers and text; a missing number is an empty cell.
        align: of all columns but the first, which is left-aligned.
    """
    rows = zip(frame.index, frame.to_numpy(dtype=object), strict=True)
    return render(
        "display/table.html.j2",
        head=[frame.index.name or "", *frame.columns],
        rows=[[name, *map(_text, row)] for name, row in rows],
        align=align,
    )


def _text(value: object) -> object:
    if isinstance(value, Number) and not isinstance(value, bool):
        return "" if value != value else number(value)
    return value


def number(value: float) -> str:
    """A figure for people, with about three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
