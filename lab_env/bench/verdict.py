"""What may be said of two measured ways: one is lower, or the rounds do not tell.

A difference counts only where it stands clear of the noise: the rounds of one way lie all on one side
of the rounds of the other, and their medians are farther apart than either way varies by itself.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LOWER, HIGHER, EQUAL, INCONCLUSIVE = "lower", "higher", "equal", "inconclusive"


@dataclass(frozen=True)
class Spread:
    """The figures of one way over the rounds.

    Args:
        median: of all rounds.
        low: the lowest.
        high: the highest.
        rounds: how many.
    """

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, figures: Sequence[float]) -> "Spread":
        """The spread of some figures, one at least."""
        return cls(statistics.median(figures), min(figures), max(figures), len(figures))

    @property
    def width(self) -> float:
        """From the lowest to the highest."""
        return self.high - self.low


def verdict(this: Spread, other: Spread) -> str:
    """What the rounds say of one way against another.

    Args:
        this: the way that the verdict is about.
        other: what it is held against.

    Returns:
        `LOWER`, `HIGHER`, `EQUAL` (the same figure in every round) or `INCONCLUSIVE`; the last
        always where one of them has a single round, since noise cannot be told from it.
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
