"""Reads `verdicts.toml`: each fault class's expected outcomes and the guarantee behind them."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("verdicts.toml")
OUTCOMES = ("survived", "loud", "guarded", "stuck", "wrong")
NOT_RUN = "not run"


@dataclass(frozen=True)
class Expected:
    """The expected outcomes of a class of faults, and the documented guarantee behind them."""

    title: str
    expect: list[str]  # from `OUTCOMES`
    promise: str
    source: list[str]


@dataclass(frozen=True)
class Change:
    """A later change to the expected outcomes of a class of faults."""

    date: str
    fault: str
    before: list[str]
    after: list[str]
    reason: str


@cache
def verdicts() -> dict[str, Expected]:
    """Return the expected outcomes of each class of faults."""
    entries = _content()
    return {fault: Expected(**entries[fault]) for fault in entries if fault != "changes"}


@cache
def changes() -> tuple[Change, ...]:
    """Return the later changes to the expected outcomes, oldest first."""
    return tuple(Change(**entry) for entry in _content().get("changes", ()))


def as_expected(fault: str, outcome: str) -> bool:
    """Return True if an outcome is expected; `not run` never is."""
    return outcome in verdicts()[fault].expect


def _content() -> dict:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))
