"""Lesson 13 judges the metastore, answers without Spark and merged logs, each with a reason."""

from dataclasses import replace

import pytest

from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l13.checks import (
    Asked,
    Compacted,
    IsRegistered,
    LogsAreMerged,
    NewDayIsKnown,
    Published,
    Registered,
    States,
    WithoutJava,
)

OLD, NEW = "partition_date=2026-11-20", "partition_date=2026-11-22"


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


REGISTERED = Registered(
    name="exercise_1",
    sent=45,
    orders=45,
    names=frozenset({"exercise_1", "exercise_1_ro", "exercise_1_rt"}),
    in_default=False,
    written=frozenset({OLD, NEW}),
    known=frozenset({OLD, NEW}),
)


def test_a_table_that_the_metastore_knows_with_all_partitions_passes():
    verdict = IsRegistered.judge(REGISTERED)
    assert isinstance(verdict, Passed)
    assert "45 orders in 2 partitions" in verdict.note and "3 names" in verdict.note


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"orders": None}, 'no table at `lab.path("exercise_1")`'),
        ({"orders": 5}, "Two calls brought 45 orders, and the table has 5"),
        ({"names": frozenset()}, "knows no table of that name, exercise_1"),
        ({"names": frozenset({"exercise_1_ro"})}, "knows no table of that name"),
        ({"names": frozenset(), "in_default": True}, "in the database `default`"),
        ({"names": frozenset({"exercise_1"})}, "exercise_1 alone, as for a Copy-on-Write"),
        ({"known": frozenset({OLD})}, f"without the partition {NEW}"),
    ],
)
def test_each_way_to_leave_the_metastore_behind_gets_its_reason(facts, reason):
    assert reason in reason_of(IsRegistered.judge(replace(REGISTERED, **facts)))


def test_a_day_that_is_known_afterwards_passes():
    verdict = NewDayIsKnown.judge(Published(NEW, frozenset({OLD}), frozenset({OLD, NEW})))
    assert isinstance(verdict, Passed)
    assert "knows 2026-11-22 now" in verdict.note


def test_another_day_than_the_new_one_was_named_by_hand():
    other = "partition_date=2026-11-21"
    verdict = NewDayIsKnown.judge(Published(NEW, frozenset({OLD}), frozenset({OLD, other})))
    assert f"learnt {other}, but {NEW} is" in reason_of(verdict)


def test_what_leaves_the_metastore_as_it_was_is_told_so():
    verdict = NewDayIsKnown.judge(Published(NEW, frozenset({OLD}), frozenset({OLD})))
    assert f"knows 1 partitions, as before; {NEW} is not" in reason_of(verdict)


STATES = States(
    now={"new": 1200, "paid": 10},
    then={"new": 1200},
    base={"new": 1210},
    parquet=1410,
)
ASKED = Asked("DataFrame", STATES.now, STATES.then, 0, STATES, jobs=0)


def test_three_right_answers_without_spark_pass():
    verdict = WithoutJava.judge(ASKED)
    assert isinstance(verdict, Passed)
    assert "Now 1,200 new, 10 paid, at the first commit 1,200 new" in verdict.note


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"jobs": 2}, "Spark ran 2 jobs"),
        ({"kind": "NoneType", "now": {}, "then": {}}, "returns a NoneType. Return DuckDB's answer"),
        ({"now": {"new": 1410}}, "1,410 rows for 1,210 orders: old slices counted"),
        ({"now": STATES.base}, "1,210 new: you read base files only. The table has 1,200 new, 10"),
        ({"now": {"new": 1200, "paid": 7}}, "1,200 new, 7 paid; the table has 1,200 new, 10 paid"),
        ({"then": STATES.now}, "does not hand on the options"),
        ({"then": {"new": 3}}, "you count 3 new; it was 1,200 new"),
        ({"unchanged": 20}, "changed after the last commit, you count 20 orders"),
    ],
)
def test_each_wrong_answer_about_the_table_gets_its_reason(facts, reason):
    assert reason in reason_of(WithoutJava.judge(replace(ASKED, **facts)))


MERGED = Compacted(
    before=STATES.now,
    base_before=STATES.base,
    deltacommits=2,
    now=STATES.now,
    base=STATES.now,
    planned=0,
    kept=True,
)


def test_base_files_with_the_newest_state_pass():
    verdict = LogsAreMerged.judge(MERGED)
    assert isinstance(verdict, Passed)
    assert "Before, a read-optimised query said 1,210 new. Now" in verdict.note


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"base": STATES.base}, "has had 2 since its last compaction"),
        ({"base": STATES.base, "planned": 1}, "is planned, and nobody has run it"),
        ({"now": {"new": 5}, "base": {"new": 5}}, "now it has 5 new and its earlier commits"),
        ({"kept": False}, "not all of its earlier commits"),
        ({"base": {"new": 1}}, "Read-optimised says 1 new; the snapshot says"),
    ],
)
def test_each_way_to_leave_logs_behind_gets_its_reason(facts, reason):
    assert reason in reason_of(LogsAreMerged.judge(replace(MERGED, **facts)))
