"""Lesson 01 judges tasks, paces and shapes by the load they produce."""

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import Passed
from lab_env.lessons.l01.checks import (
    Cancelling,
    EveryTenthACancellation,
    FiveHundredASecond,
    Pace,
    Sale,
    Shape,
    cancelling,
    shape_of,
)


def message(offset, order_id, op):
    return offset, {"order_id": order_id, "op": op}


def test_an_order_that_changes_after_its_cancellation_is_found_whatever_the_order_of_reading():
    messages = [
        message(2, "O-1", "update"),
        message(0, "O-1", "create"),
        message(1, "O-1", "cancel"),
    ]
    assert cancelling(1, messages) == Cancelling(1, events=3, cancels=1, changed_after=1)


def test_a_cancellation_that_ends_its_order_is_fine():
    messages = [
        message(0, "O-1", "create"),
        message(1, "O-1", "cancel"),
        message(2, "O-2", "create"),
    ]
    assert cancelling(1, messages).changed_after == 0


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Cancelling(1, 500, 0, 0), "none is a cancellation"),
        (Cancelling(1, 500, 0, 0, "IndexError: pop"), "IndexError: pop"),
        (Cancelling(10, 500, 260, 0), "52% of the events"),
        (Cancelling(2, 600, 109, 0), "18% of the events"),
        (Cancelling(1, 600, 25, 0), "Weights are compared"),
        (Cancelling(1, 500, 50, 7), "7 orders changed again"),
    ],
)
def test_a_wrong_cancellation_is_told_what_it_did(facts, reason):
    assert reason in EveryTenthACancellation.judge(facts).reason


def test_a_tenth_passes_with_what_chance_does_to_it():
    for cancels in (35, 50, 70):
        assert isinstance(EveryTenthACancellation.judge(Cancelling(1, 500, cancels, 0)), Passed)


@pytest.mark.parametrize("weight", [None, 1.5, "one"])
def test_a_weight_that_is_no_whole_number_is_unreadable(weight):
    with pytest.raises(Unreadable):
        EveryTenthACancellation.observe(None, (print, weight))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Pace(rate=0, wait=25), "send 0.8 events a second"),
        (Pace(rate=240, wait=0.08), "send 250.0 events a second"),
        (Pace(rate=4200, wait=0.002), "you asked for 10,000 a second in all"),
        (Pace(rate=9000, wait=0), "you asked for inf"),
        # a busy machine may send 500 by chance
        (Pace(rate=500, wait=0.002), "you asked for 10,000"),
        (Pace(rate=400, wait=0.05), "send 400.0 events a second"),
        (Pace(rate=480, wait=1 / 24), "send 480.0 events a second"),
        (Pace(rate=520, wait=1 / 26), "you asked for 520"),
    ],
)
def test_a_wrong_pace_is_told_what_it_asked_for(facts, reason):
    assert reason in FiveHundredASecond.judge(facts).reason


def test_five_hundred_a_second_passes_also_on_a_busy_machine():
    for rate in (490, 520):
        assert FiveHundredASecond.judge(Pace(rate, 0.04)) == Passed(
            f"You asked for 500 events a second and got {rate}, measured."
        )
    busy = FiveHundredASecond.judge(Pace(150, 0.04))
    assert isinstance(busy, Passed) and "got 150" in busy.note and "busy" in busy.note


def shape(*steps):
    """A tick of (until second, users, start rate)."""

    def tick(self):
        for until, users, speed in steps:
            if self.get_run_time() < until:
                return users, speed
        return None

    return tick


def test_users_start_and_stop_at_the_rate_of_the_shape():
    assert shape_of(shape((1, 2, 2), (3, 6, 2), (8, 3, 1))).users == (2, 4, 6, 5, 4, 3, 3, 3)


def test_a_shape_is_asked_again_while_its_users_start():
    assert shape_of(shape((2, 10, 3), (4, 2, 2))).users == (3, 6, 4, 2)


def test_a_shape_without_end_is_looked_at_for_a_while():
    assert shape_of(lambda self: (5, 5), at_most=4).users == (5, 5, 5, 5)


@pytest.mark.parametrize("answer", [5, None, ("five", 20)])
def test_a_tick_that_returns_no_two_numbers_is_unreadable_or_ends_the_test(answer):
    if answer is None:
        assert shape_of(lambda self: answer).users == ()
    else:
        with pytest.raises(Unreadable):
            shape_of(lambda self: answer)


@pytest.mark.parametrize("speed", [20, 25, 100])
def test_the_sale_passes_at_any_speed_that_reaches_the_burst_within_a_second(speed):
    facts = shape_of(shape((2, 5, speed), (5, 25, speed), (7, 5, speed)))
    assert isinstance(Sale.judge(facts), Passed)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (((2, 5, 25), (5, 25, 25)), "ends at second 5"),
        (((7, 5, 5),), "reaches only 5 users"),
        (((2, 5, 5), (5, 25, 1), (7, 5, 5)), "only 8 users"),
        (((3, 5, 25), (5, 25, 25), (7, 5, 25)), "Between second 2 and second 3 you reach 5"),
        (((2, 5, 5), (5, 25, 10), (7, 5, 20)), "Between second 2 and second 3 you reach 15"),
        (((2, 10, 25), (5, 25, 25), (7, 5, 25)), "Before the sale there are 10"),
        (((2, 5, 25), (4, 25, 25), (7, 5, 25)), "Between second 4 and second 5 you reach 5"),
        (((2, 5, 25), (6, 25, 25), (7, 5, 25)), "Between second 5 and second 6 you reach 25"),
        (((2, 5, 25), (5, 30, 25), (7, 5, 25)), "you reach 30 users, not 25"),
        (((2, 5, 25), (5, 25, 25), (7, 5, 5)), "Between second 5 and second 6 you reach 20"),
        (((2, 5, 25), (5, 25, 25), (8, 5, 25)), "goes on after second 7"),
    ],
)
def test_a_wrong_sale_is_told_what_it_does(steps, reason):
    assert reason in Sale.judge(shape_of(shape(*steps))).reason


def test_a_shape_that_never_starts_a_user_ends_at_once():
    assert "ends at second 0" in Sale.judge(Shape(())).reason
