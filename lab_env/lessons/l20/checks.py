"""Checks of lesson 20: a rule for differences, and an option that must leave the answers right."""

from dataclasses import dataclass

from lab_env.course.answers import as_choice, as_list, as_number
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.probes.verdict import EQUAL, HIGHER, INCONCLUSIVE, LOWER, Spread, verdict

# Rounds of one way and of another, and what a wrong verdict may have overlooked.
CASES = (
    ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), ""),
    ((2.0, 2.1, 2.2), (1.0, 1.1, 1.2), ""),
    ((5, 5, 5), (5, 5, 5), "All rounds gave the same figure."),
    ((5, 5, 6), (5, 5, 5), "The medians are the same, the rounds are not."),
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
    (
        (1.0, 1.0, 3.0),
        (2.9, 3.1, 3.2),
        "The medians are farther apart than either varies, but a round of the first lies above one "
        "of the second.",
    ),
    (
        (2.9, 3.1, 3.2),
        (1.0, 1.0, 3.0),
        "The medians are farther apart than either varies, but a round of the first lies below one "
        "of the second.",
    ),
)
HALF = 0.5


@dataclass(frozen=True)
class Judged:
    """The answers of the learner's rule to each of `CASES`."""

    answers: tuple[object, ...]


@check_of("20.1")
class WhenIsItADifference:
    """Both halves of the rule, and what is equal."""

    @staticmethod
    def observe(lab, answer) -> Judged:
        """Ask the rule about each case."""
        return Judged(tuple(answer(list(this), list(other)) for this, other, _ in CASES))

    @staticmethod
    def judge(facts: Judged) -> Passed | NotYet:
        """The rule has the benchmark's verdict on each case."""
        for answer, (this, other, why) in zip(facts.answers, CASES, strict=True):
            right = verdict(Spread.of(this), Spread.of(other))
            word = as_choice(answer, (LOWER, HIGHER, EQUAL, INCONCLUSIVE))
            if word != right:
                return NotYet(
                    f"For {list(this)} against {list(other)} you say {word!r}, it is {right!r}. "
                    f"{why}".strip()
                )
        return Passed("Four of the eight cases are no differences, though their medians differ.")


@dataclass(frozen=True)
class Lighter:
    """One sink with more options.

    Args:
        before: bytes that its batches wrote without them.
        after: bytes that its batches wrote with them.
        wrong: answers that differ from the stream's.
    """

    before: object
    after: object
    wrong: object


@check_of("20.2")
class TheSameAnswersForLess:
    """Less than half the bytes, and no wrong answer."""

    @staticmethod
    def observe(lab, answer) -> Lighter:
        """Take what the notebook's function measured."""
        return Lighter(answer["before"], answer["with"], answer["wrong answers"])

    @staticmethod
    def judge(facts: Lighter) -> Passed | NotYet:
        """Wrong answers count before bytes."""
        ratio = float(as_number(facts.after) / as_number(facts.before))
        share = f"{ratio:.0%} of the bytes"
        wrong = as_list(facts.wrong)
        if wrong:
            return NotYet(
                f"The table writes {share}, and gives wrong answers: {wrong[0]}. A figure of a "
                "table that answers wrongly is worth nothing."
            )
        if ratio >= HALF:
            return NotYet(
                f"The answers are right, but the table still writes {share}: not half. The filter "
                "of the keys is still in each base file."
            )
        return Passed(f"Right answers, and {share}.")
