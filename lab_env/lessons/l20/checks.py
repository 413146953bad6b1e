"""Checks of lesson 20: a rule for differences, and a knob that must leave the answers right."""

from dataclasses import dataclass

from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.probes.verdict import EQUAL, INCONCLUSIVE, Spread, verdict

# Rounds of one way and of another, and what a wrong verdict may have overlooked.
CASES = (
    ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), ""),
    ((2.0, 2.1, 2.2), (1.0, 1.1, 1.2), ""),
    ((5, 5, 5), (5, 5, 5), ""),
    (
        (1.0, 1.1, 2.1),
        (2.0, 2.1, 2.2),
        "A round of the first lies among those of the second. You compare the medians alone.",
    ),
    (
        (1.0, 1.8, 1.9),
        (2.0, 2.1, 2.2),
        "The medians are 0.3 apart, but the first varies by itself by 0.9.",
    ),
)
HALF = 0.5


@dataclass(frozen=True)
class Judged:
    """The verdicts of the learner's rule on `CASES`, in their order."""

    verdicts: tuple[object, ...]


@check_of("20.1")
class WhenIsItADifference:
    """The rule agrees with the benchmark's own."""

    @staticmethod
    def observe(lab, answer) -> Judged:
        """Apply the rule to each case."""
        return Judged(tuple(answer(list(this), list(other)) for this, other, _ in CASES))

    @staticmethod
    def judge(facts: Judged) -> Passed | NotYet:
        """Each verdict is the benchmark's; `inconclusive` also passes for `equal`."""
        for found, (this, other, why) in zip(facts.verdicts, CASES, strict=True):
            right = verdict(Spread.of(this), Spread.of(other))
            if found != right and (right, found) != (EQUAL, INCONCLUSIVE):
                return NotYet(
                    f"For {list(this)} against {list(other)} you say {found!r},"
                    f" it is {right!r}. {why}".strip()
                )
        return Passed("Two of the five cases are no differences, though their medians differ.")


@dataclass(frozen=True)
class Lighter:
    """One sink with more options.

    Args:
        before: bytes that its batches wrote without them.
        after: and with them.
        wrong: answers that differ from the stream's.
    """

    before: float
    after: float
    wrong: tuple[str, ...]


@check_of("20.2")
class TheSameAnswersForLess:
    """Less than half the bytes, and no wrong answer."""

    @staticmethod
    def observe(lab, answer) -> Lighter:
        """Take what the notebook's function measured."""
        return Lighter(answer["before"], answer["with"], tuple(answer["wrong answers"]))

    @staticmethod
    def judge(facts: Lighter) -> Passed | NotYet:
        """The answers first."""
        share = f"{facts.after / facts.before:.0%} of the bytes"
        if facts.wrong:
            return NotYet(
                f"The table writes {share}, and gives wrong answers: {facts.wrong[0]}. A figure of a"
                " table that answers wrongly is worth nothing."
            )
        if facts.after >= HALF * facts.before:
            return NotYet(
                f"The answers are right, but the table still writes {share}: not half. The filter"
                " of the keys is still in each base file."
            )
        return Passed(f"Right answers, and {share}.")
