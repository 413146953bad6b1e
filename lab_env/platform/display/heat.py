"""HTML tables whose cell colours show how large the measured values are."""

from collections.abc import Iterable
from html import escape

from lab_env.platform.display.palette import AMBER

STYLE = "padding:4px 9px;text-align:{};border-bottom:1px solid var(--jp-border-color2,#ccc)"


def heading(text: str, align: str = "center", span: int = 1) -> str:
    """Return an HTML heading cell that spans `span` columns; the text is escaped."""
    return f"<th colspan='{span}' style='{STYLE.format(align)}'>{escape(text)}</th>"


def tint(colour: str, strength: float) -> str:
    """CSS for a translucent background: a `#rrggbb` colour with an opacity from 0 to 1."""
    parts = ", ".join(map(str, bytes.fromhex(colour.removeprefix("#"))))  # red, green, blue
    return f"background:rgba({parts}, {strength:.2f})"


def cell(inside: str, align: str = "right", heat: float | None = None) -> str:
    """HTML table cell; `inside` is not escaped, `heat` from 0 to 1 is the colour's strength."""
    style = STYLE.format(align) + ";white-space:nowrap"
    if heat is not None:
        # Stronger, the text of the dark theme would not stand out from it.
        style += f";{tint(AMBER, 0.04 + 0.36 * heat)}"
    return f"<td style='{style}'>{inside}</td>"


def table(rows: Iterable[str], note: str) -> str:
    """HTML table for both themes, from rows of headings and cells; the note below it is escaped."""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        "<table style='border-collapse:collapse;background:none;"
        f"color:var(--jp-content-font-color1,#222)'>{body}</table>"
        f"<div style='margin:4px 0'>{escape(note)}</div>"
    )
