"""A campaign's plan depends only on seed and size, and every fault has an expected outcome."""

from collections import Counter
from itertools import pairwise

import pytest

from lab_env.lab.faults.gate import CLASSES
from lab_env.lessons.recorded.campaign_plan import (
    DISKS,
    GROUP,
    INPUTS,
    PLANTED,
    POINTS,
    Case,
    find_case,
    make_plan,
)
from lab_env.lessons.recorded.verdicts import OUTCOMES, as_expected, changes, verdicts
from lab_env.platform.errors import LabError


def test_the_same_seed_and_size_give_the_same_plan():
    assert make_plan(17, "full") == make_plan(17, "full")
    assert make_plan(17, "full") != make_plan(18, "full")
    # A case of this plan can still be run under its number in a year.
    by_id = {case.id: case for case in make_plan(17, "full")}
    assert by_id["001"] == Case("001", 1, "kill", "instant", "before", "cow")
    assert by_id["002"] == Case("002", 1, "kill", seconds=6.6)
    assert by_id["034"] == Case("034", 4, "kill", "data", "before", "cow", k=2)


def test_the_small_plan_is_the_one_of_the_ci():
    faults = Counter(case.fault for case in make_plan(1, "small"))
    assert faults["kill"] == 4 and faults["checkpoint_lost"] == 1
    assert sum(faults[f"{s}"] for s in ("store_stopped", "broker_stopped", "store_killed")) == 3
    assert faults["log_cut"] + faults["footer_cut"] == 2
    last = (*INPUTS, *DISKS)
    assert faults.total() == GROUP + len(last) and all(faults[fault] == 1 for fault in last)
    kills = {case.where for case in make_plan(1, "small") if case.fault == "kill"}
    wanted = ("after data, mor", "before instant, cow", "after instant, mor", "before commits, cow")
    assert kills == set(wanted)


def test_the_full_plan_has_the_faults_that_it_promises():
    plan = make_plan(17, "full")
    faults = Counter(case.fault for case in plan)
    assert faults["kill"] == 100
    assert faults["store_stopped"] + faults["store_killed"] == 10
    assert faults["broker_stopped"] + faults["broker_killed"] == 10
    unaligned = [case for case in plan if case.fault == "kill" and not case.point]
    assert len(unaligned) == 30 and len({case.seconds for case in unaligned}) > 15
    assert {3, 30, 180} == {case.seconds for case in plan if case.fault.endswith("_stopped")}
    points = {(case.point, case.when) for case in plan if case.fault == "kill" and case.point}
    assert points == {(point, when) for point in POINTS for when in ("before", "after")}
    assert set(faults) | {PLANTED} == set(verdicts())


def test_a_plan_that_is_cut_off_has_seen_each_class_and_each_point():
    plan = make_plan(17, "full")
    begin = plan[:30] + plan[-len(INPUTS) - len(DISKS) :]
    assert {case.fault for case in begin} == {case.fault for case in plan}
    assert {case.point for case in begin if case.fault == "kill"} == {"", *POINTS}


def test_groups_have_ten_cases_at_most_on_their_own_tables():
    for seed in range(20):
        plan = make_plan(seed, "full")
        assert max(Counter(case.group for case in plan).values()) <= GROUP
        assert [case.id for case in plan] == [f"{n:03d}" for n in range(1, len(plan) + 1)]
        assert all(a.group <= b.group for a, b in pairwise(plan))


def test_a_case_is_found_by_its_number():
    plan = make_plan(17, "small")
    assert find_case(plan, "3") == find_case(plan, "003") == plan[2]
    assert find_case(plan, PLANTED).fault == PLANTED
    with pytest.raises(LabError, match="no case 042"):
        find_case(plan, "042")
    with pytest.raises(LabError, match="no size"):
        make_plan(17, "medium")


def test_every_point_is_a_class_of_the_gate_and_every_expectation_names_its_source():
    assert set(POINTS) == set(CLASSES)
    for fault, expected in verdicts().items():
        assert set(expected.expect) <= set(OUTCOMES) and expected.expect, fault
        assert expected.promise and expected.source, fault
        # What Hudi and Spark claim to survive must be survived, and nothing may be silently wrong.
        assert not {"wrong", "stuck"} & set(expected.expect), fault
    assert not as_expected("kill", "not run") and as_expected("log_cut", "guarded")


def test_a_changed_expectation_says_what_it_was_and_why():
    for change in changes():
        assert verdicts()[change.fault].expect == change.after != change.before
        assert len(change.reason) > 20 and change.date
