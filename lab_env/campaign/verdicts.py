"""The expected outcome of each class of faults, and who promises it: `verdicts.toml`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("verdicts.toml")
OUTCOMES = ("survived", "loud", "guarded", "stuck", "wrong")
NOT_RUN = "not run"


@dataclass(frozen=True)
class Expected:
    """What is expected of a class of faults.

    Args:
        title: the fault in words.
        expect: the outcomes that are as expected, of `OUTCOMES`.
        promise: what Hudi, Spark or the store says about it.
        source: where they say it.
    """

    title: str
    expect: tuple[str, ...]
    promise: str
    source: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """A later change of an expectation.

    Args:
        date: of the change.
        fault: the class of faults.
        before: the outcomes that were expected.
        after: those that are expected now.
        reason: why.
    """

    date: str
    fault: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    reason: str


@cache
def verdicts() -> dict[str, Expected]:
    """The expectation of each class of faults."""
    return {
        fault: Expected(
            **entry | {"expect": tuple(entry["expect"]), "source": tuple(entry["source"])}
        )
        for fault, entry in _content().items()
        if fault != "changes"
    }


@cache
def changes() -> tuple[Change, ...]:
    """The expectations that were changed after they had been written down, the oldest first."""
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
    """Whether an outcome is one of those that are expected; what was not run never is."""
    return outcome in verdicts()[fault].expect


def _content() -> dict:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))
