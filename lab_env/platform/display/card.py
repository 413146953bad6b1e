"""Small cards that show results in JupyterLab, in its light and its dark theme."""

import re
from html import escape
from textwrap import indent
from typing import TYPE_CHECKING

import pandas as pd
from markupsafe import Markup

from lab_env.platform.display import html

if TYPE_CHECKING:  # it imports Matplotlib, which takes half a second
    from pandas.io.formats.style import Styler

COLOURS = {
    None: "var(--jp-border-color1, #999)",
    True: "var(--jp-success-color1, #388e3c)",
    False: "var(--jp-error-color1, #d32f2f)",
    "warn": "var(--jp-warn-color1, #e08600)",
}

_BLOCK = re.compile(r"```\n(.*?)\n```", re.S)
_PARAGRAPH = re.compile(r"```\n.*?\n```|(?:(?!\n\n|```\n).)+", re.S)


def card(
    title: str,
    ok: bool | str | None,
    table: pd.DataFrame | None = None,
    note: str = "",
    link: str | None = None,
    code: str = "",
) -> str:
    """One card as HTML: green if `ok` is True, red if False, amber if "warn", neutral if None.

    An empty line separates paragraphs of the note, which may contain inline `code`, and blocks of
    code between two lines of three backticks.
    """
    return html.render(
        "platform/display/card.html.j2",
        title=title,
        colour=COLOURS[ok],
        table="" if table is None else html.frame_table(table),
        paragraphs=[_paragraph(part) for part in _PARAGRAPH.findall(note)],
        code=_block(code) if code else "",
        link=link,
    )


def plain(note: str) -> str:
    """A card's text for a terminal: blocks of code are indented."""
    return _BLOCK.sub(lambda found: indent(found[1], "    "), note)


def styled(frame: pd.DataFrame, formats: str | dict[str, str] | None = None) -> "Styler":
    """Styler of a table whose cells and labels are escaped.

    `frame.style` does not escape: an order with a script tag would run it in the notebook.
    """
    styler = frame.style.format(formats, escape="html")
    for axis in ("index", "columns"):
        styler = styler.format_index(escape="html", axis=axis)
    return styler


def _block(code: str) -> str:
    return Markup("<pre style='margin:6px 0 0;background:none;color:inherit'>{}</pre>").format(code)


def _paragraph(text: str) -> str:
    if block := _BLOCK.fullmatch(text):
        return _block(block[1])
    return re.sub(r"`([^`]+)`", r"<code style='color:inherit'>\1</code>", escape(text))
