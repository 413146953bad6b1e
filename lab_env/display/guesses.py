"""Tables whose colours show the size of measured values, with the learner's guesses."""

from collections.abc import Iterable
from html import escape

from lab_env.display.palette import AMBER

STYLE = "padding:4px 9px;text-align:{};border-bottom:1px solid var(--jp-border-color2,#ccc)"


def mark(guess: object, truth: object) -> str:
    """A guess, marked: `✓ log` or `✗ log`; empty without a guess.

    Args:
        guess: what the learner expects; `...` is no guess.
        truth: what was measured; upper and lower case are equal.
    """
    if guess is ...:
        return ""
    right = str(guess).strip().casefold() == str(truth).casefold()
    return f"{'✓' if right else '✗'} {guess}"


def score(marks: Iterable[str]) -> str:
    """How many guesses were right, by what `mark` returned; empty without a guess."""
    given = [text for text in marks if text]
    right = sum(text.startswith("✓") for text in given)
    return f"You guessed {right} of {len(given)} right." if given else ""


def heading(text: str, align: str = "center", span: int = 1) -> str:
    """The heading of `span` columns; the text is escaped."""
    return f"<th colspan='{span}' style='{STYLE.format(align)}'>{escape(text)}</th>"


def tint(colour: str, strength: float) -> str:
    """The CSS of a translucent background: a `#rrggbb` colour with a strength from 0 to 1."""
    parts = ", ".join(map(str, bytes.fromhex(colour.removeprefix("#"))))  # red, green, blue
    return f"background:rgba({parts}, {strength:.2f})"


def cell(inside: str, align: str = "right", heat: float | None = None) -> str:
    """One cell.

    Args:
        inside: HTML.
        align: left, center or right.
        heat: strength of its colour, from 0 to 1; None for no colour.
    """
    style = STYLE.format(align) + ";white-space:nowrap"
    if heat is not None:
        style += f";{tint(AMBER, 0.08 + 0.62 * heat)}"
    return f"<td style='{style}'>{inside}</td>"


def table(rows: Iterable[str], note: str, score: str = "") -> str:
    """A table that reads in both themes of the page.

    Args:
        rows: the HTML of the headings and cells of each row.
        note: a sentence below the table.
        score: the learner's score.
    """
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        "<table style='border-collapse:collapse;background:none;"
        f"color:var(--jp-content-font-color1,#222)'>{body}</table>"
        f"<div style='margin:4px 0'>{escape(note)} <b>{escape(score)}</b></div>"
    )
