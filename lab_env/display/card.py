"""Draws results as small cards for JupyterLab, readable in its light and its dark theme."""

import math
import re
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:  # it imports Matplotlib, which takes half a second
    from pandas.io.formats.style import Styler

COLOURS = {
    None: "var(--jp-border-color1, #999)",
    True: "var(--jp-success-color1, #388e3c)",
    False: "var(--jp-error-color1, #d32f2f)",
    "warn": "var(--jp-warn-color1, #e08600)",
}


def card(
    title: str,
    ok: bool | str | None,
    table: pd.DataFrame | None = None,
    note: str = "",
    link: str | None = None,
    code: str = "",
) -> str:
    """One card.

    Args:
        title: the first line.
        ok: True draws it green, False red, "warn" amber, None neutral.
        table: numbers to show, with its index as the first column.
        note: a last text; `code` and **bold** in it are drawn so, an empty line parts paragraphs.
        link: an address to show below it.
        code: program text to show as it is.

    Returns:
        HTML.
    """
    body = "" if table is None else _table(table)
    note = "".join(
        f"<div style='margin-top:4px'>{_inline(part)}</div>" for part in note.split("\n\n") if part
    )
    if code:
        note += f"<pre style='margin:6px 0 0;background:none;color:inherit'>{escape(code)}</pre>"
    if link:
        note += f"<div><a href='{escape(link)}' target='_blank'>{escape(link)}</a></div>"
    return (
        "<div style='display:inline-block;padding:8px 14px;margin:2px 0;"
        f"border-left:4px solid {COLOURS[ok]};background:var(--jp-layout-color2, #f5f5f5);"
        "color:var(--jp-content-font-color1, #222)'>"
        f"<b>{escape(title)}</b>{body}{note}</div>"
    )


def styled(frame: pd.DataFrame, formats: str | dict[str, str] | None = None) -> "Styler":
    """A table to style, whose cells and labels are text and never HTML.

    `frame.style` shows text as it is, so an order with a tag in it would run its script in the notebook.

    Args:
        frame: what to show.
        formats: how to write the values, as `Styler.format` takes it.
    """
    styler = frame.style.format(formats, escape="html")
    for axis in ("index", "columns"):
        styler = styler.format_index(escape="html", axis=axis)
    return styler


def _table(table: pd.DataFrame) -> str:
    cell = "padding:1px 12px 1px 0;text-align:{}"
    head = "".join(
        f"<th style='{cell.format('right')}'>{escape(str(name))}</th>" for name in table.columns
    )
    rows = "".join(
        f"<tr><td style='{cell.format('left')}'>{escape(str(name))}</td>"
        + "".join(f"<td style='{cell.format('right')}'>{_number(value)}</td>" for value in row)
        + "</tr>"
        for name, row in zip(table.index, table.to_numpy(dtype=object), strict=True)
    )
    return (
        "<table style='border-collapse:collapse;background:none;color:inherit;margin:4px 0 0'>"
        f"<tr><th></th>{head}</tr>{rows}</table>"
    )


def _inline(text: str) -> str:
    text = re.sub(r"`([^`]+)`", r"<code style='color:inherit'>\1</code>", escape(text))
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)


def _number(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:,.0f}"
    return escape(f"{value:,}" if isinstance(value, int) else str(value))
