"""Expected outcome of each class of faults, and the guarantee behind it: `verdicts.toml`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("verdicts.toml")
OUTCOMES = ("survived", "loud", "guarded", "stuck", "wrong")
NOT_RUN = "not run"


@dataclass(frozen=True)
class Expected:
    """Expectation for a class of faults.

    Args:
        title: the fault in words.
        expect: expected outcomes, from `OUTCOMES`.
        promise: guarantee of Hudi, Spark or the store.
        source: where the guarantee is documented.
    """

    title: str
    expect: tuple[str, ...]
    promise: str
    source: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """A later change to an expectation.

    Args:
        fault: the class of faults.
        before: expected outcomes before.
        after: expected outcomes now.
    """

    date: str
    fault: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    reason: str


@cache
def verdicts() -> dict[str, Expected]:
    """Return the expectation of each class of faults."""
    return {
        fault: Expected(
            **entry | {"expect": tuple(entry["expect"]), "source": tuple(entry["source"])}
        )
        for fault, entry in _content().items()
        if fault != "changes"
    }


@cache
def changes() -> tuple[Change, ...]:
    """Return the expectations that were changed after they were written down, oldest first."""
    return tuple(
        Change(
            str(entry["date"]),
            entry["class"],
            tuple(entry["before"]),
            tuple(entry["after"]),
            entry["reason"],
        )
        for entry in _content().get("changes", ())
    )


def as_expected(fault: str, outcome: str) -> bool:
    """Return True if an outcome is expected; a case that did not run never is."""
    return outcome in verdicts()[fault].expect


def _content() -> dict:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))
