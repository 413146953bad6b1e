"""Compares a parser's results with an oracle's verdicts."""

from collections import Counter
from collections.abc import Iterable, Sequence


def kind(verdict: object) -> str:
    """Return the reason why a message is refused, or `valid`."""
    return verdict if isinstance(verdict, str) else "valid"


def assert_every_reason(verdicts: Sequence, reasons: Iterable[str], most_valid: float) -> None:
    """Check that each reason occurs often enough, and that the valid share is within limits."""
    counts = Counter(map(kind, verdicts))
    rare = {reason: counts[reason] for reason in reasons if counts[reason] < len(verdicts) / 2000}
    assert not rare, counts
    assert 0.25 < counts["valid"] / len(verdicts) < most_valid, counts


def assert_agree(sent: Sequence, verdicts: Sequence, answers: Sequence, seed: int) -> None:
    """Check that each answer equals its verdict; the error shows the shortest differing messages.

    Args:
        sent: the messages, each with a `value`.
    """
    cases = zip(sent, verdicts, answers, strict=True)
    wrong = [case for case in cases if case[1] != case[2]]
    kinds = Counter((kind(right), kind(told)) for _, right, told in wrong)
    smallest = sorted(wrong, key=lambda case: len(case[0].value or b""))[:5]
    lines = [f"{one}\n    contract: {right}\n    pipeline: {told}" for one, right, told in smallest]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(sent)}, seed {seed}: {kinds}", *lines])
