"""Lesson 21 judges who parsed, what ran twice, how many cores keep up, and what they cost."""

import math
from dataclasses import replace

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l21.checks import (
    Billed,
    BothCores,
    CoresForALoad,
    DoneTwice,
    EveryCoreParses,
    Load,
    TheBill,
    WhatRanTwice,
    count_tries,
    made_up_lists,
)

LAB = None  # these checks ask the learner's function, and nothing of the lab


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


# ---------------------------------------------------------------------------- 21.1

ALL = BothCores(rows=6_000, parsed={0: 1_500, 1: 1_500, 2: 1_500, 3: 1_500})


@pytest.mark.parametrize(
    "parsed", [ALL.parsed, {0: 2_900, 1: 3_100}, {0: 2_000, 5: 4_00, 7: 3_600}]
)
def test_several_tasks_of_any_number_pass(parsed):
    assert isinstance(EveryCoreParses.judge(replace(ALL, parsed=parsed)), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(ALL, parsed={0: 6_000}), "a shuffle *before* the parsing"),
        (replace(ALL, parsed={0: 6_000}, shuffle_partitions=8), "the topic has 1 partition"),
        (replace(ALL, stale=61), "Both cores work, and 61 orders are stale"),
        (replace(ALL, parsed={0: 6_000}, stale=61), "One task parsed, and 61 orders are stale"),
        (replace(ALL, missing=12), "12 orders are missing"),
        (replace(ALL, other=3), "3 orders are doubled"),
        (replace(ALL, rows=0, parsed={}, elsewhere=True), "Nothing was written"),
        (replace(ALL, batches=1), "hand `**options` to the source"),
        (replace(ALL, rows=0, parsed={}, running=True), "still running after 120 seconds"),
    ],
)
def test_one_busy_task_or_a_wrong_table_is_named(facts, reason):
    assert reason in reason_of(EveryCoreParses.judge(facts))


def test_a_value_is_no_function():
    with pytest.raises(Unreadable):
        EveryCoreParses.observe(LAB, "minPartitions")


# ---------------------------------------------------------------------------- 21.2


def by_group(tasks: pd.DataFrame) -> int:
    return int((tasks.groupby(["stage", "task"]).size() > 1).sum())


def test_counting_the_tries_of_each_task_is_right_for_every_list():
    assert isinstance(WhatRanTwice.judge(WhatRanTwice.observe(LAB, by_group)), Passed)


def test_each_wrong_way_to_count_gives_another_number_in_each_list():
    for _ in range(50):
        for tasks in made_up_lists():
            facts = count_tries(tasks, 0)
            ways = (
                *(facts.twice, facts.tries, facts.tasks),
                *(facts.further_attempts, facts.failed, facts.further_stages),
            )
            assert len(set(ways)) == len(ways)


@pytest.mark.parametrize(
    ("count", "reason"),
    [
        (len, "that is every try"),
        (lambda tasks: len(tasks.groupby(["stage", "task"])), "that is every task"),
        (lambda tasks: (tasks["attempt"] > 0).sum(), "`attempt` counts within one try of a stage"),
        (lambda tasks: (tasks["status"] == "FAILED").sum(), "succeeded before its executor died"),
        (lambda tasks: (tasks["stage_try"] > 0).sum(), "A stage runs again only where"),
        (lambda tasks: 1, "each row is one try of it"),
    ],
)
def test_what_was_counted_instead_is_named(count, reason):
    assert reason in reason_of(WhatRanTwice.judge(WhatRanTwice.observe(LAB, count)))


def test_the_tasks_of_a_dead_executor_are_counted_once_each():
    tasks = pd.DataFrame(
        [
            # task 0 succeeded and was lost, task 1 failed, task 2 ran once
            {"stage": 4, "stage_try": 0, "task": 0, "attempt": 0, "status": "SUCCESS"},
            {"stage": 4, "stage_try": 0, "task": 1, "attempt": 0, "status": "FAILED"},
            {"stage": 4, "stage_try": 0, "task": 2, "attempt": 0, "status": "SUCCESS"},
            {"stage": 4, "stage_try": 0, "task": 1, "attempt": 1, "status": "SUCCESS"},
            {"stage": 4, "stage_try": 1, "task": 0, "attempt": 0, "status": "SUCCESS"},
        ]
    )
    assert count_tries(tasks, 2) == DoneTwice(
        said=2, twice=2, tries=5, tasks=3, further_attempts=1, failed=1, further_stages=1
    )


def test_a_function_without_an_answer_is_told():
    with pytest.raises(Unreadable):
        WhatRanTwice.observe(LAB, lambda tasks: None)


# ---------------------------------------------------------------------------- 21.3


def right_cores(rate, a, b, freshness, partitions):
    for cores in range(1, partitions + 1):
        if a + b * rate * (freshness / 2) / cores <= freshness / 2:
            return cores
    return None


def without_the_fixed_part(rate, a, b, freshness, partitions):
    return max(1, math.ceil(rate * b))


def without_partitions(rate, a, b, freshness, partitions):
    interval = freshness / 2
    return max(1, math.ceil(b * rate * interval / (interval - a))) if interval > a else None


def test_searching_upward_finds_the_cores_of_every_load():
    for _ in range(20):
        assert isinstance(CoresForALoad.judge(CoresForALoad.observe(LAB, right_cores)), Passed)


def test_infinity_says_that_there_is_none():
    def answer(*load):
        return right_cores(*load) or math.inf

    assert isinstance(CoresForALoad.judge(CoresForALoad.observe(LAB, answer)), Passed)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (without_the_fixed_part, "In 1 of each 5 s nobody parses; the lag grows by 400 rows/s"),
        (without_partitions, "24 cores for 6 partitions"),
        (lambda *load: right_cores(*load) or 1, "nothing is left for the rows"),
        (lambda *load: (right_cores(*load) or 0) + 1, "3 cores keep up, too"),
        (lambda *load: 0, "Without a core nothing is read"),
        (lambda *load: None, "you say that no number is enough. 3 cores keep up"),
    ],
)
def test_a_wrong_number_of_cores_is_answered_with_what_it_does(answer, reason):
    assert reason in reason_of(CoresForALoad.judge(CoresForALoad.observe(LAB, answer)))


def test_the_lag_grows_by_what_the_cores_do_not_do():
    load = Load(rate=2_000, a=1.0, b=0.001, freshness=10, partitions=12)
    assert load.interval == 5 and load.exact == pytest.approx(2.5) and load.right == 3
    assert load.behind(2) == pytest.approx(400)  # 2 cores do 8,000 rows in 4 of 5 s
    assert load.behind(3) == 0


# ---------------------------------------------------------------------------- 21.4


def right_bill(parallelism, per_kpu, hours, price):
    return (math.ceil(parallelism / per_kpu) + 1) * hours * price


@pytest.mark.parametrize(
    "answer",
    [
        right_bill,
        lambda *application: round(right_bill(*application), 2),
        lambda *application: f"{right_bill(*application):.4f}",
    ],
)
def test_a_right_bill_passes_in_cents_or_in_full(answer):
    assert isinstance(TheBill.judge(TheBill.observe(LAB, answer)), Passed)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda p, k, h, price: -(-p // k) * h * price, "Billed: 3, one for the application"),
        (lambda p, k, h, price: (p / k + 1) * h * price, "They are whole ones: 5 tasks need 3"),
        (lambda p, k, h, price: (p // k + 1) * h * price, "which is 3 KPUs. The tasks take all"),
        (lambda p, k, h, price: 0, "2 run tasks, and the application has one more: $240.90"),
    ],
)
def test_a_wrong_bill_says_how_many_were_charged(answer, reason):
    assert reason in reason_of(TheBill.judge(TheBill.observe(LAB, answer)))


def test_a_bill_is_right_to_half_a_cent():
    application = Billed(parallelism=5, per_kpu=2, hours=730, price=0.11)
    assert application.kpus == 3 and application.right == pytest.approx(321.2)
    assert (
        replace(application, said=321.2).is_right and not replace(application, said=321.3).is_right
    )
