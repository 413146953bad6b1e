"""Explains known errors with cards from the troubleshooting page.

Causes and fixes are described only on that page. A section may have a comment `<!-- error: ... -->`
below its heading, which contains a regular expression. If an exception's text matches it, the card
shows the section's first paragraph.
"""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from traceback import walk_tb

from lab_env.course.checking import mistake
from lab_env.course.interrupt import card_of_interrupt
from lab_env.platform.display.card import card
from lab_env.platform.errors import LabError
from lab_env.platform.settings import REPOSITORY, settings

GUIDE = REPOSITORY / "docs" / "troubleshooting.md"
SECTION = re.compile(
    r"^### (?P<heading>.+)\n+<!-- error: (?P<pattern>.+) -->\n+(?P<advice>.+(?:\n.+)*)", re.M
)
TRACEBACK = "`%tb` in a cell of its own shows the traceback."
MARKDOWN_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@dataclass(frozen=True)
class KnownError:
    """A section of the troubleshooting page; `advice` is its first paragraph."""

    heading: str
    pattern: re.Pattern
    advice: str

    @property
    def address(self) -> str:
        """The section's URL, relative to the notebook's folder."""
        words = re.sub(r"[^\w\- ]", "", self.heading.lower())
        return f"{os.path.relpath(GUIDE)}#{words.replace(' ', '-')}"


@cache
def known_errors() -> tuple[KnownError, ...]:
    """Return the sections that have a pattern, in page order."""
    return tuple(
        KnownError(
            section["heading"],
            re.compile(section["pattern"]),
            MARKDOWN_LINK.sub(r"\1", section["advice"]),
        )
        for section in SECTION.finditer(GUIDE.read_text(encoding="utf-8"))
    )


def explain(error: BaseException) -> KnownError | None:
    """Return the first known error that matches an exception or one of its causes, if any."""
    text = "\n".join(_texts(error))
    return next((known for known in known_errors() if known.pattern.search(text)), None)


def _texts(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield f"{type(error).__name__}: {error} (in {_module(error)})"
        yield str(getattr(error, "stackTrace", ""))
        cause = error.__cause__ or getattr(error, "cause", None)
        error = cause if isinstance(cause, BaseException) else None


def _module(error: BaseException) -> str:
    frames = list(walk_tb(error.__traceback__))
    return frames[-1][0].f_globals.get("__name__", "") if frames else ""


def card_of(error: BaseException) -> str:
    """Return an HTML card for a lab, Spark or known error; empty for any other."""
    if isinstance(error, LabError):
        step = f"Next step: {error.next_step}" if error.next_step else ""
        return card(error.what, False, note=step, code=error.log.rstrip())
    known = explain(error)
    if known is None and not type(error).__module__.startswith("pyspark.errors"):
        return ""
    said = f"{mistake(error)}\n\n{TRACEBACK}"
    if known is None:
        return card("Spark refuses this", False, note=said)
    title = f"Known: {known.heading.replace('`', '')}"
    return card(title, "warn", note=f"{known.advice}\n\n{said}", link=known.address)


def explain_errors() -> None:
    """In a notebook, show `card_of` cards instead of tracebacks, and let interrupts reach Spark."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    if shell:
        shown = (Exception, KeyboardInterrupt) if settings().error_cards else (KeyboardInterrupt,)
        shell.set_custom_exc(shown, _show)


def _show(shell, kind, error, trace, tb_offset=None) -> None:
    """Show a cell's error as a card; registered as IPython's exception handler."""
    html = card_of_interrupt() if kind is KeyboardInterrupt else card_of(error)
    if not html:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)
        return
    from IPython.display import HTML, display

    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace  # what %tb shows
    # What a client gets that waits for the cell, as nbclient does.
    shell._last_traceback = shell.InteractiveTB.structured_traceback(kind, error, trace)
    display(HTML(html))
