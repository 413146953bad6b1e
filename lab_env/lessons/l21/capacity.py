"""The time of a batch on c cores: a line fitted to measured batches, with what the rounds allow.

The model is `seconds = a + b * rows / cores`. `a` is what a batch takes however many cores there
are: its plan, its commit, all that one process does alone. `b` is the work on one row.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lab_env.platform.errors import LabError


@dataclass(frozen=True)
class Line:
    """One fitted line.

    Args:
        a: seconds per batch that do not depend on rows or cores.
        b: core-seconds per row.
    """

    a: float
    b: float

    def seconds(self, rows: float, cores: float) -> float:
        """Seconds of a batch of so many rows on so many cores."""
        return self.a + self.b * rows / cores

    def speedup(self, rows: float, cores: float) -> float:
        """Speed-up against one core."""
        return self.seconds(rows, 1) / self.seconds(rows, cores)


@dataclass(frozen=True)
class Between:
    """A figure, and the lowest and highest that the measured rounds allow."""

    middle: float
    low: float
    high: float

    def shown(self, digits: int = 2, factor: float = 1.0) -> str:
        """For example `1.31 (1.12 to 1.60)`, each figure times a factor."""
        middle, low, high = (
            f"{figure * factor:,.{digits}f}" for figure in (self.middle, self.low, self.high)
        )
        return f"{middle} ({low} to {high})"


@dataclass(frozen=True)
class Fitted:
    """The lines that measured rounds allow.

    Args:
        line: fitted to the fastest round of each setting.
        allowed: fitted to each choice of one round for each setting.
    """

    line: Line
    allowed: tuple[Line, ...]

    def between(self, figure: Callable[[Line], float]) -> Between:
        """A figure of the line, with the lowest and the highest of all allowed lines."""
        found = [figure(line) for line in self.allowed]
        return Between(figure(self.line), min(found), max(found))

    @property
    def a(self) -> Between:
        """Seconds per batch."""
        return self.between(lambda line: line.a)

    @property
    def b(self) -> Between:
        """Core-seconds per row."""
        return self.between(lambda line: line.b)

    def speedup(self, rows: float, cores: float) -> Between:
        """Speed-up against one core."""
        return self.between(lambda line: line.speedup(rows, cores))


def fit_line(runs: pd.DataFrame) -> Line:
    """The line that fits measured batches best, by least squares.

    Args:
        runs: one row per batch with its rows, cores and seconds.
    """
    per_core = runs["rows"] / runs["cores"]
    known = np.column_stack([np.ones(len(runs)), per_core])
    (a, b), *_ = np.linalg.lstsq(known, runs["seconds"].to_numpy(dtype=float), rcond=None)
    return Line(float(a), float(b))


def fit(runs: pd.DataFrame) -> Fitted:
    """The line of the fastest rounds, and one for each choice of a round for each setting.

    What disturbs a batch only adds time, so the fastest round is the least disturbed one.

    Args:
        runs: one row per batch with its rows, cores and seconds; several rounds of each setting.

    Raises:
        LabError: fewer than two different `rows / cores`, which leave the line open.
    """
    if (runs["rows"] / runs["cores"]).nunique() < 2:
        raise LabError(
            "One line needs two different amounts of work per core.",
            "measure batches of two sizes.",
        )
    settings = [group for _, group in runs.groupby(["rows", "cores"])]
    fastest = pd.concat(group.nsmallest(1, "seconds") for group in settings)
    picks = itertools.product(*(range(len(group)) for group in settings))
    allowed = [
        fit_line(
            pd.concat(group.iloc[[place]] for group, place in zip(settings, places, strict=True))
        )
        for places in picks
    ]
    return Fitted(fit_line(fastest), tuple(allowed))


def speedup_by_usl(cores: float, serial: float, talk: float) -> float:
    """Speed-up by Gunther's universal scalability law.

    Args:
        serial: share of the work that only one core can do at a time; with `talk` 0 this is
            Amdahl's law.
        talk: what each pair of cores costs by agreeing with each other.
    """
    return cores / (1 + serial * (cores - 1) + talk * cores * (cores - 1))


def serial_share(at_two: float, talk: float = 0.0) -> float:
    """The serial share that explains a speed-up measured on two cores, given `talk`."""
    return 2 / at_two - 1 - 2 * talk
