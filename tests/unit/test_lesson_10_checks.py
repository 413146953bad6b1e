"""Lesson 10 judges by rows as of each write, by a replayed table, by what a cleaning left."""

from dataclasses import replace
from decimal import Decimal

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.hudi.timeline import Instant
from lab_env.lessons.boards import as_board
from lab_env.lessons.l10.checks import (
    BoardAtAMoment,
    GoesBack,
    KeepsThePast,
    Kept,
    Replayed,
    Travelled,
    TravelsInTime,
    UndoneWithoutLoss,
    Wall,
    WentBack,
    _after_the_restore,
    _moments,
)

OLD = {"O-1": ("new", Decimal("11.00")), "O-2": ("new", Decimal("12.00"))}
NOW = {"O-1": ("new", Decimal("11.00")), "O-2": ("paid", Decimal("16.50"))}
TRAVELLED = Travelled(1, "20261121090000000", OLD, OLD, NOW, frozenset({"O-1"}))


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_the_rows_of_that_time_pass():
    verdict = TravelsInTime.judge(TRAVELLED)
    assert isinstance(verdict, Passed) and "As of write 1, 09:00:00.000, the table" in verdict.note


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({"O-1": OLD["O-1"]}, "O-2 had rows then, too, and have been changed"),
        (NOW, "O-2 cost 12.00; your function says 16.50"),
        ({}, "your function returns 0 rows"),
    ],
)
def test_other_rows_get_their_reason(found, reason):
    assert reason in reason_of(TravelsInTime.judge(replace(TRAVELLED, found=found)))


def test_a_filter_that_finds_nothing_is_told_so():
    """As of a write whose rows have all been changed since."""
    facts = replace(TRAVELLED, found={}, unchanged=frozenset())
    assert "a filter of today's rows" in reason_of(TravelsInTime.judge(facts))


def test_a_function_that_ignores_the_path_is_told_so():
    """Its rows are right, of another table."""
    facts = replace(TRAVELLED, copied=True)
    assert "It is given the path of the table" in reason_of(TravelsInTime.judge(facts))


SEEN, ASKED, LAST, ROWS = ({"new": Decimal(n)} for n in (1, 2, 3, 4))
WALL = Wall("20261121090001000", True, SEEN, SEEN, ASKED, LAST, ROWS)


def test_what_readers_saw_passes():
    verdict = BoardAtAMoment.judge(WALL)
    assert (
        isinstance(verdict, Passed)
        and "at 09:00:01.000 the board said new 1, and a" in verdict.note
    )


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (ASKED, "requested, and not yet complete"),
        (ROWS, "today's table has only the later row"),
        (LAST, "Yours is the board of now"),
        ({}, "your board says none. The one on the wall said new 1"),
    ],
)
def test_another_board_gets_its_reason(found, reason):
    assert reason in reason_of(BoardAtAMoment.judge(replace(WALL, found=found)))


def test_the_moments_lie_at_completions_within_a_write_and_after_all():
    writes = tuple(
        Instant(f"2026112109{minute}00000", f"2026112109{minute}02000", "commit", "completed")
        for minute in (10, 20, 30)
    )
    completions, interrupted = set(), set()
    for _ in range(50):
        later, at_completion, within = _moments(writes)
        assert later > writes[-1].completed
        completions.add(at_completion)
        interrupted |= {write for write in writes if write.requested < within < write.completed}
    assert completions == {write.completed for write in writes[:-1]}
    assert interrupted == set(writes[1:])


@pytest.mark.parametrize(
    "answer",
    [
        {"new": 11, "paid": "16.50"},
        pd.DataFrame({"status": ["new", "paid"], "revenue": [11, 16.5]}),
        pd.Series([11, 16.5], index=pd.Index(["new", "paid"], name="status"), name="amount"),
    ],
)
def test_a_board_may_come_in_any_form(answer):
    assert as_board(answer) == {"new": Decimal("11"), "paid": Decimal("16.5")}


WENT_BACK = WentBack(2, 4, marked=(2,), left=2, restored=True, rows_then=True)


def test_a_restore_to_the_marked_write_passes():
    verdict = GoesBack.judge(WENT_BACK)
    assert isinstance(verdict, Passed) and "A savepoint on write 2 of 4" in verdict.note


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"marked": (), "left": 4}, "your `mark` left no savepoint"),
        (
            {"marked": (4,), "left": 4},
            "Asked to mark write 2 of 4, and the savepoint is on write 4",
        ),
        ({"marked": (2, 4), "left": 4}, "the savepoint is on write 2 and 4"),
        ({"any_time": True}, "Without a time Hudi takes the newest savepoint"),
        ({"restored": False, "left": 4}, "Time travel only looks back"),
        ({"restored": False, "left": 5}, "Rows that are written again make one more write"),
        ({"restored": False}, "undoes all of them at once leaves a restore"),
        ({"left": 1}, "1 writes are left, where write 2 should be the last one"),
        ({"rows_then": False}, "the table has other rows than it had after write 2"),
    ],
)
def test_another_way_back_gets_its_reason(change, reason):
    assert reason in reason_of(GoesBack.judge(replace(WENT_BACK, **change)))


def test_both_functions_are_expected():
    with pytest.raises(Unreadable, match="The two functions"):
        GoesBack.observe(None, print)


REPLAYED = Replayed()
SIX = ("O-21", "O-22", "O-23", "O-24", "O-25", "O-26")


@pytest.mark.parametrize(
    ("checkpoints", "note"), [(1, "continues with the new checkpoint"), (0, "You wrote a batch")]
)
def test_a_replay_that_leaves_nothing_wrong_passes_as_a_stream_or_a_batch(checkpoints, note):
    verdict = UndoneWithoutLoss.judge(replace(REPLAYED, checkpoints=checkpoints))
    assert isinstance(verdict, Passed) and note in verdict.note


def test_the_check_hides_what_came_after_the_restore_and_needs_one():
    actions = ("commit", "restore", "commit", "commit")
    instants = [Instant(str(at), f"{at}9", act, "completed") for at, act in enumerate(actions)]
    assert [found.requested for found in _after_the_restore(instants)] == ["2", "3"]
    assert _after_the_restore(instants[:2]) == ()
    with pytest.raises(Unreadable, match="they restore the table"):
        _after_the_restore(instants[:1])


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (
            replace(REPLAYED, missing=SIX, stale=1, commits=0, checkpoints=0),
            "Nothing was written: 6",
        ),
        (replace(REPLAYED, missing=SIX, stale=1, commits=0), "took your batch 0 for one"),
        (replace(REPLAYED, zero=8), "8 orders have an amount of 0 again"),
        (replace(REPLAYED, missing=SIX[:2]), "O-21 and O-22 are missing"),
        (replace(REPLAYED, missing=SIX[2:], stale=1), "After the replay 4 good orders are missing"),
        (replace(REPLAYED, missing=SIX, commits=0, elsewhere=True), "the lesson's own table"),
    ],
)
def test_each_way_to_lose_orders_has_its_reason(found, reason):
    assert reason in reason_of(UndoneWithoutLoss.judge(found))


KEPT = Kept(asked=2, writes=4, answered=frozenset({3, 4}), empty=frozenset())


def test_the_newest_writes_as_many_as_asked_pass():
    last = replace(KEPT, asked=1, answered=frozenset({4}))
    assert isinstance(KeepsThePast.judge(last), Passed) and KEPT.right


def test_a_table_that_was_not_cleaned_does_not_pass_although_it_answers():
    assert not replace(KEPT, cleaned=0).right


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"answered": frozenset({4})}, "Asked to keep 2 of 4 writes readable, it answers as of 1"),
        ({"answered": frozenset({2, 3, 4})}, "it answers as of 3: you retain more commits"),
        ({"empty": frozenset({1})}, "as of write 1 the table now answers with fewer rows"),
        ({"answered": frozenset({1, 2, 3, 4}), "cleaned": 0}, "cleaned nothing"),
    ],
)
def test_another_past_gets_its_reason(change, reason):
    assert reason in reason_of(KeepsThePast.judge(replace(KEPT, **change)))
