"""Lesson 20 judges sinks by what they hold, a break-even by bytes, a rule by its verdicts."""

from dataclasses import replace
from random import Random

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l20.checks import (
    COW,
    MOR,
    AsksAndCompacts,
    BreakEven,
    Compacted,
    ComputesTheBreakEven,
    Judged,
    WhenIsItADifference,
    WritesToThreeSinks,
    Written,
    as_recorded,
    made_up_runs,
)

FIRST = {"O-1": ["new"], "O-2": ["new"], "O-3": ["new"]}
PAID = FIRST | {"O-2": ["paid"]}
WRITTEN = Written(4, True, {MOR: MOR, COW: COW}, False, FIRST, PAID)
COMPACTED = Compacted(["paid"], ["new"], before=1, statuses=PAID)


def reason_of(outcome) -> str:
    assert isinstance(outcome, NotYet)
    return outcome.reason


def test_a_line_per_event_and_a_row_per_order_pass():
    assert isinstance(WritesToThreeSinks.judge(WRITTEN), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"lines": 1}, "Lines in the files: 1, not 4"),
        ({"compressed": False}, "not compressed"),
        ({"types": {MOR: COW}}, "Asked for MERGE_ON_READ, your function made a COPY_ON_WRITE"),
        ({"types": {MOR: MOR, COW: MOR}}, "Asked for COPY_ON_WRITE"),
        ({"metadata": True}, "has a metadata table"),
        ({"first": {"O-1": ["new"]}}, "the table has O-1"),
        ({"second": {"O-2": ["paid"]}}, "replaced the first: the table has O-2"),
        ({"second": PAID | {"O-2": ["new", "paid"]}}, "as new and paid"),
    ],
)
def test_a_sink_that_holds_something_else_gets_its_reason(facts, reason):
    assert reason in reason_of(WritesToThreeSinks.judge(replace(WRITTEN, **facts)))


def test_both_queries_and_a_compaction_pass():
    assert isinstance(AsksAndCompacts.judge(COMPACTED), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"cheap": ["paid"]}, "read_optimized query says that O-2 is paid, not new"),
        ({"snapshot": ["new"]}, "snapshot query says that O-2 is new, not paid"),
        ({"snapshot": []}, "O-2 is not there"),
        ({"after": 1}, "Nothing was planned: 1 of 1 logs still wait. The table has 2"),
        ({"after": 1, "planned": True}, "planned and not carried out: 1 of 1"),
        ({"statuses": FIRST}, "the rows changed"),
    ],
)
def test_a_query_or_compaction_that_does_something_else_gets_its_reason(facts, reason):
    assert reason in reason_of(AsksAndCompacts.judge(replace(COMPACTED, **facts)))


def break_even(**changed) -> BreakEven:
    runs = {("bloom", 1): (1_000_000, 200_000, 2_000_000), ("bloom", 2): (300, 400, 900)}
    answers = {("bloom", 1): 2.5, ("bloom", 2): None}
    return BreakEven(runs, answers | {("bloom", int(key[1:])): v for key, v in changed.items()})


def test_bytes_of_a_compaction_over_what_a_commit_saves_pass():
    assert isinstance(ComputesTheBreakEven.judge(break_even()), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (break_even(f1=5.0), "Each commit saves 800,000. After how many of them is the compaction"),
        (break_even(f1=5.0), "You say 5.00, it is 2.50"),
        (break_even(f1=None), "You say NULL, it is 2.50"),
        (break_even(f2=-9.0), "Merge-on-Read saves nothing, so it never writes less: NULL"),
        (BreakEven(break_even().runs, {}), "no row for the bloom index, factor 1"),
    ],
)
def test_another_break_even_is_told_the_bytes_of_its_run(facts, reason):
    assert reason in reason_of(ComputesTheBreakEven.judge(facts))


def test_the_runs_of_a_check_differ_each_time_and_one_of_them_never_pays():
    first, again = made_up_runs(Random(1)), made_up_runs(Random(2))
    assert first != again
    for runs in (first, again):
        facts = BreakEven(runs, {})
        found = [facts.right(key) for key in runs]
        assert found.count(None) == 1
        # Neither one commit nor the ratio of two commits passes by chance.
        assert all(commits > 1.2 for commits in found if commits)
    kinds = {(kind, metric) for kind, _, _, metric, *_ in as_recorded(first)}
    assert len(kinds) == 6


RIGHT = ("lower", "higher", "equal", *["inconclusive"] * 5)


def test_the_rule_with_both_halves_passes():
    assert isinstance(WhenIsItADifference.judge(Judged(RIGHT)), Passed)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (0, "you say 'higher', it is 'lower'"),
        (2, "All rounds gave the same figure"),
        (3, "the rounds are not"),
        (4, "the medians alone"),
        (5, "varies by itself by 0.9"),
        (6, "lies above one of the second"),
        (7, "lies below one of the second"),
    ],
)
def test_each_half_that_is_missing_gets_its_reason(case, reason):
    answers = [*RIGHT]
    answers[case] = "higher"
    assert reason in reason_of(WhenIsItADifference.judge(Judged(tuple(answers))))


@pytest.mark.parametrize("answer", [None, 1, ["lower", "higher"], "faster"])
def test_a_verdict_is_one_of_four_words(answer):
    with pytest.raises(Unreadable, match="One of 'lower', 'higher', 'equal', 'inconclusive'"):
        WhenIsItADifference.judge(Judged((answer, *RIGHT[1:])))
