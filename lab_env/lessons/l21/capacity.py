"""Models a batch's time on several cores by a line fitted to measured batches.

The model is `seconds = a + b * rows / cores`. `a` is the part that does not depend on the number of
cores: planning, commit, everything that one process does alone. `b` is the work per row.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lab_env.platform.errors import LabError

NONE = "–"  # no number of cores is enough


@dataclass(frozen=True)
class Line:
    """A fitted line: the model's two parameters."""

    a: float  # seconds per batch that do not depend on rows or cores
    b: float  # core-seconds per row

    def seconds(self, rows: float, cores: float) -> float:
        """Return the seconds that a batch with this many rows takes on this many cores."""
        return self.a + self.b * rows / cores

    def speedup(self, rows: float, cores: float) -> float:
        """Return the speed-up over one core."""
        return self.seconds(rows, 1) / self.seconds(rows, cores)


@dataclass(frozen=True)
class Between:
    """A figure with its lowest and highest value over the measured rounds."""

    middle: float
    low: float
    high: float

    def shown(self, digits: int = 2, factor: float = 1.0) -> str:
        """Return the values as text, multiplied by a factor, for example `1.31 (1.12 to 1.60)`."""
        middle, low, high = (
            f"{figure * factor:,.{digits}f}" for figure in (self.middle, self.low, self.high)
        )
        return f"{middle} ({low} to {high})"


@dataclass(frozen=True)
class Fitted:
    """The lines fitted to measured rounds."""

    line: Line  # fitted to the fastest round of each setting
    allowed: tuple[Line, ...]  # one line per combination of one round of each setting

    def between(self, figure: Callable[[Line], float]) -> Between:
        """Return a figure of the line with its lowest and highest value over all allowed lines."""
        found = [figure(line) for line in self.allowed]
        return Between(figure(self.line), min(found), max(found))

    @property
    def a(self) -> Between:
        """Seconds per batch that do not depend on rows or cores."""
        return self.between(lambda line: line.a)

    @property
    def b(self) -> Between:
        """Core-seconds per row."""
        return self.between(lambda line: line.b)

    def speedup(self, rows: float, cores: float) -> Between:
        """Return the speed-up over one core."""
        return self.between(lambda line: line.speedup(rows, cores))


def fit_line(runs: pd.DataFrame) -> Line:
    """Fit a line to the rows, cores and seconds of measured batches by least squares."""
    per_core = runs["rows"] / runs["cores"]
    known = np.column_stack([np.ones(len(runs)), per_core])
    (a, b), *_ = np.linalg.lstsq(known, runs["seconds"].to_numpy(dtype=float), rcond=None)
    return Line(float(a), float(b))


def fit(runs: pd.DataFrame) -> Fitted:
    """Fit a line to the fastest rounds, and one to each combination of one round per setting.

    Other load only adds time to a batch, so the fastest round is the least disturbed one.

    Args:
        runs: rows, cores and seconds of each batch; several rounds per setting (rows and cores).
    """
    if (runs["rows"] / runs["cores"]).nunique() < 2:
        raise LabError(
            "One line needs two different amounts of work per core.",
            "measure batches of two sizes.",
        )
    settings = [group.to_dict("records") for _, group in runs.groupby(["rows", "cores"])]
    fastest = [min(group, key=lambda run: run["seconds"]) for group in settings]
    allowed = tuple(fit_line(pd.DataFrame(picked)) for picked in itertools.product(*settings))
    return Fitted(fit_line(pd.DataFrame(fastest)), allowed)


def capacity_sheet(
    cores_for: Callable, fitted: Fitted, rates: Sequence[int], ages: Sequence[int], partitions: int
) -> pd.DataFrame:
    """Return the cores for each rate (events per second) and each greatest age (seconds).

    Args:
        cores_for: the answer to 21.3.
    """
    return pd.DataFrame(
        {
            f"{age} s": [_range(cores_for, fitted, rate, age, partitions) for rate in rates]
            for age in ages
        },
        index=[f"{rate:,} events/s" for rate in rates],
    )


def _range(cores_for: Callable, fitted: Fitted, rate: int, age: int, partitions: int) -> str:
    found = {cores_for(rate, line.a, line.b, age, partitions) for line in fitted.allowed}
    known = sorted(found - {None, math.inf})
    if not known:
        return NONE
    most = NONE if found - set(known) else f"{known[-1]:g}"
    return f"{known[0]:g} to {most}" if most != f"{known[0]:g}" else most
