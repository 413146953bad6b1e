"""Known errors: what the troubleshooting page says of an exception, as a card below its traceback.

The page is the one place for causes and fixes. A section whose error can be recognised has, below
its heading, a comment with a regular expression of its text: `<!-- error: ... -->`. The card has
the section's first paragraph.
"""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from traceback import walk_tb

from lab_env.display.card import card
from lab_env.settings import REPOSITORY, settings

GUIDE = REPOSITORY / "docs" / "troubleshooting.md"
SECTION = re.compile(
    r"^### (?P<heading>.+)\n+<!-- error: (?P<pattern>.+) -->\n+(?P<advice>.+(?:\n.+)*)", re.M
)
MARKDOWN_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@dataclass(frozen=True)
class KnownError:
    """A section of the troubleshooting page.

    Args:
        heading: in Markdown.
        pattern: a regular expression of the exception's text.
        advice: the section's first paragraph: cause and fix in plain words, with `code`.
    """

    heading: str
    pattern: re.Pattern
    advice: str

    @property
    def address(self) -> str:
        """The section, as a link from the notebook's folder."""
        words = re.sub(r"[^\w\- ]", "", self.heading.lower())
        return f"{os.path.relpath(GUIDE)}#{words.replace(' ', '-')}"


@cache
def known_errors() -> tuple[KnownError, ...]:
    """The sections of the page whose error can be recognised, in their order."""
    return tuple(
        KnownError(
            section["heading"],
            re.compile(section["pattern"]),
            MARKDOWN_LINK.sub(r"\1", section["advice"]),
        )
        for section in SECTION.finditer(GUIDE.read_text(encoding="utf-8"))
    )


def explain(error: BaseException) -> KnownError | None:
    """What is known of an exception, or of what caused it.

    Args:
        error: as a cell raised it.

    Returns:
        The first known error whose pattern is in the text of the exception, of a cause, or of the
        Java exception behind it; None where nothing is known.
    """
    text = "\n".join(_texts(error))
    return next((known for known in known_errors() if known.pattern.search(text)), None)


def _texts(error: BaseException | None) -> Iterator[str]:
    """Name, message and module of an exception and its causes; PySpark keeps Java's apart."""
    while error is not None:
        yield f"{type(error).__name__}: {error} (in {_module(error)})"
        yield str(getattr(error, "stackTrace", ""))
        cause = error.__cause__ or getattr(error, "cause", None)
        error = cause if isinstance(cause, BaseException) else None


def _module(error: BaseException) -> str:
    """The module that raised an exception; empty if it was not raised."""
    frames = list(walk_tb(error.__traceback__))
    return frames[-1][0].f_globals.get("__name__", "") if frames else ""


def as_card(known: KnownError) -> str:
    """A known error as HTML."""
    title = f"Known: {known.heading.replace('`', '')}"
    return card(title, "warn", note=known.advice, link=known.address)


def explain_errors() -> None:
    """From now on, show a card below the traceback of a known error, where a notebook is there.

    Calling it again changes nothing; `LAB_ERROR_CARDS=false` switches it off.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    if not shell or not settings().error_cards:
        return
    if _show_card not in shell.events.callbacks["post_run_cell"]:
        shell.events.register("post_run_cell", _show_card)


def _show_card(result) -> None:
    """Show the card of a cell's exception; `result` is IPython's `ExecutionResult`."""
    if result.error_in_exec and (known := explain(result.error_in_exec)):
        from IPython.display import HTML, display

        display(HTML(as_card(known)))
