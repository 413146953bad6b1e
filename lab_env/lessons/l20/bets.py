"""Bets of lesson 20: buy rounds of a measurement whose truth is known, and score the claims.

A simulated machine has what the recorded runs have: in a slow round everything is slow, and now and
then something disturbs a single measurement.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from lab_env.course.answers import as_choice
from lab_env.tables.probes.verdict import EQUAL, HIGHER, INCONCLUSIVE, LOWER

Buy = Callable[[], tuple[float, float]]
SLOWER = 1.3  # times as long, wherever two systems differ
MOST = 100  # rounds that one bet may buy
CLAIMS = (LOWER, HIGHER, INCONCLUSIVE)
TRUTHS = {INCONCLUSIVE: 1.0, LOWER: 1 / SLOWER, HIGHER: SLOWER}  # times as long as the other


@dataclass(frozen=True)
class Machine:
    """A simulated machine, with what disturbs its measurements."""

    seconds: float = 0.15  # in a median round, of the system that both are compared with
    slow_rounds: float = 0.25  # spread of what both systems of a round share, as a logarithm
    own: float = 0.08  # spread of each measurement, as a logarithm
    disturbed: float = 0.08  # share of the measurements that take 1.5 to 3 times as long

    def round(self, rng: Random, ratio: float) -> tuple[float, float]:
        """Measure both systems once; the first takes `ratio` times as long as the second."""
        usual = self.seconds * math.exp(rng.gauss(0, self.slow_rounds))
        return ratio * self._measure(rng, usual), self._measure(rng, usual)

    def _measure(self, rng: Random, usual: float) -> float:
        found = usual * math.exp(rng.gauss(0, self.own))
        return found * rng.uniform(1.5, 3) if rng.random() < self.disturbed else found


@dataclass(frozen=True)
class Score:
    """Share of the bets that ended with each claim, and the mean number of rounds bought."""

    claims: Counter[str]
    rounds: float

    def percent(self, claim: str) -> float:
        """Return the percentage of the bets with this claim."""
        return 100 * self.claims[claim] / self.claims.total()


def play(
    decide: Callable[[Buy], str], truth: str, bets: int, rng: Random, machine: Machine
) -> Score:
    """Play bets with one truth, a key of `TRUTHS`.

    Raises:
        ValueError: a bet has bought `MOST` rounds and wants another one.
    """
    claims, rounds = Counter(), 0
    for _ in range(bets):
        bet = _Bet(machine, rng, TRUTHS[truth])
        said = as_choice(decide(bet.buy), (*CLAIMS, EQUAL))
        claims[INCONCLUSIVE if said == EQUAL else said] += 1
        rounds += bet.bought
    return Score(claims, rounds / bets)


class _Bet:
    def __init__(self, machine: Machine, rng: Random, ratio: float):
        self._machine, self._rng, self._ratio = machine, rng, ratio
        self.bought = 0

    def buy(self) -> tuple[float, float]:
        if self.bought == MOST:
            raise ValueError(f"A bet may buy {MOST} rounds, and this one wants more.")
        self.bought += 1
        return self._machine.round(self._rng, self._ratio)


def scorecard(decide: Callable[[Buy], str], bets: int = 500) -> dict[str, float]:
    """Return false alarms and finds in percent of the bets, and the rounds bought per bet.

    Half of the real differences go each way. The bets are the same in each call.
    """
    rng = Random(20)
    nothing = play(decide, INCONCLUSIVE, bets, rng, Machine())
    less, more = (play(decide, truth, bets // 2, rng, Machine()) for truth in (LOWER, HIGHER))
    return {
        "false alarms, %": 100 - nothing.percent(INCONCLUSIVE),
        "differences found, %": (less.percent(LOWER) + more.percent(HIGHER)) / 2,
        "rounds per bet": (2 * nothing.rounds + less.rounds + more.rounds) / 4,
    }
