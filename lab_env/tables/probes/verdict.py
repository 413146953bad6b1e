"""Compares two variants over several measured rounds: lower, higher, equal or inconclusive.

A difference counts only if it exceeds the noise: all rounds of one variant are lower than all
rounds of the other, and the difference of the medians exceeds the range of each variant. Exercise
20.2 teaches the rule.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LOWER, HIGHER, EQUAL, INCONCLUSIVE = "lower", "higher", "equal", "inconclusive"


@dataclass(frozen=True)
class Spread:
    """Summary of one variant's figures over the rounds."""

    median: float
    low: float
    high: float
    rounds: int  # number of rounds

    @classmethod
    def of(cls, figures: Sequence[float]) -> "Spread":
        """Summarize one or more figures."""
        return cls(statistics.median(figures), min(figures), max(figures), len(figures))

    @property
    def width(self) -> float:
        """Range: difference between the highest and the lowest round."""
        return self.high - self.low


def verdict(this: Spread, other: Spread) -> str:
    """Compare one variant with another: `LOWER`, `HIGHER`, `EQUAL` or `INCONCLUSIVE`.

    `LOWER` and `HIGHER` mean that `this` differs from `other` by more than the noise; `EQUAL`, that
    every round of both gave the same figure. A single round is always inconclusive, because it does
    not show how much the figures vary.
    """
    if min(this.rounds, other.rounds) < 2:
        return INCONCLUSIVE
    if this.width == other.width == 0 and this.median == other.median:
        return EQUAL
    if abs(this.median - other.median) <= max(this.width, other.width):
        return INCONCLUSIVE
    if this.high < other.low:
        return LOWER
    if this.low > other.high:
        return HIGHER
    return INCONCLUSIVE
