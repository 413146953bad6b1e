"""Results as small cards for JupyterLab, readable in its light and its dark theme."""

import re
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from lab_env.display import html

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
    """One card as HTML.

    Args:
        title: the first line.
        ok: True draws it green, False red, "warn" amber, None neutral.
        table: numbers to show; the index is the first column.
        note: a last text, in which an empty line separates paragraphs; it may contain `code` and
            **bold**.
        link: an address to show below it.
        code: program text to show unchanged.
    """
    return html.render(
        "display/card.html.j2",
        title=title,
        colour=COLOURS[ok],
        table="" if table is None else html.frame_table(table),
        paragraphs=[_inline(part) for part in note.split("\n\n") if part],
        code=code,
        link=link,
    )


def styled(frame: pd.DataFrame, formats: str | dict[str, str] | None = None) -> "Styler":
    """A table to style, whose cells and labels are text and never HTML.

    `frame.style` does not escape: an order with a tag in it would run its script in the notebook.

    Args:
        frame: what to show.
        formats: how to write the values, as `Styler.format` takes it.
    """
    styler = frame.style.format(formats, escape="html")
    for axis in ("index", "columns"):
        styler = styler.format_index(escape="html", axis=axis)
    return styler


def _inline(text: str) -> str:
    text = re.sub(r"`([^`]+)`", r"<code style='color:inherit'>\1</code>", escape(text))
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
