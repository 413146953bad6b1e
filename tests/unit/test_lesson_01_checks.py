"""Lesson 01 judges sends, tasks, paces and shapes by the load they produce."""

from dataclasses import replace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import Passed
from lab_env.lessons.l01.checks import (
    FiveHundredASecond,
    Mix,
    Pace,
    Sale,
    SendAndReport,
    Sending,
    Shape,
    TheMix,
    mix_of,
    shape_of,
)

RIGHT = Sending(sends=60, arrived=60, keyed=60, handed=60, answered=60, median_ms=14.0)


def test_a_send_that_reports_each_answer_once_passes():
    verdict = SendAndReport.judge(RIGHT)
    assert isinstance(verdict, Passed) and "60 events arrived" in verdict.note


@pytest.mark.parametrize(
    ("differs", "reason"),
    [
        ({"arrived": 0, "keyed": 0, "answered": 0}, "60 events, and 0 of them are in the topic"),
        ({"answered": 0, "error": "NameError: json"}, "NameError: json"),
        ({"keyed": 45}, "15 of 60 events have another key"),
        ({"handed": 0}, "called 60 times, and `HANDED` was reported 0 times"),
        ({"handed": 120}, "`HANDED` was reported 120 times"),
        ({"silent_successes": 12}, "you reported 12 successes of `KAFKA`"),
        ({"silent_ms": 1400.0}, "each send takes 1.4 seconds"),
        ({"answered": 0}, "no answer was reported"),
        ({"answered": 57}, "60 events are in the topic, and 57 answers were reported"),
        ({"answered": 120}, "120 answers were reported"),
        ({"unanswered": 11}, "11 events had been reported neither as a success"),
        ({"median_ms": 610.0}, "taken in 610 ms after the send"),
        ({"error": "AttributeError: flush"}, "AttributeError: flush"),
    ],
)
def test_a_wrong_send_is_told_what_it_did(differs, reason):
    assert reason in SendAndReport.judge(replace(RIGHT, **differs)).reason


def message(offset, order_id, op):
    return offset, {"order_id": order_id, "op": op}


def test_an_order_that_changes_after_its_cancellation_is_found_whatever_the_order_of_reading():
    messages = [
        message(2, "O-1", "update"),
        message(0, "O-1", "create"),
        message(1, "O-1", "cancel"),
    ]
    mix = mix_of(messages, {"create": 6})
    assert mix == Mix({"create": 1, "cancel": 1, "update": 1}, 1, {"create": 6})


def test_a_cancellation_that_ends_its_order_is_fine():
    messages = [
        message(0, "O-1", "create"),
        message(1, "O-1", "cancel"),
        message(2, "O-2", "create"),
    ]
    assert mix_of(messages, {}).changed_after == 0


def mix(create, update, cancel, /, changed_after=0, error="", **weights):
    weights = {"create": 6, "update": 3, "cancel": 1} | weights
    ops = {"create": create, "update": update, "cancel": cancel}
    return Mix(ops, changed_after, weights, error)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (mix(500, 100, 0), 'none has the operation "cancel"'),
        (mix(500, 0, 0), 'none has the operation "update"'),
        (mix(500, 0, 0, error="IndexError: pop"), "IndexError: pop"),
        (mix(78, 391, 130, update=30, cancel=10), "yours are create 6, update 30, cancel 10"),
        (mix(300, 180, 120, cancel=2), "30% of the events are updates and 20% cancellations"),
        (mix(420, 110, 70), "Weights are compared"),
        # chance hides the difference
        (mix(180, 95, 25, update=4), "yours are create 6, update 4, cancel 1"),
        (mix(190, 80, 30, update=2), "yours are create 6, update 2, cancel 1"),
        (mix(360, 180, 60, changed_after=7), "7 orders changed again"),
    ],
)
def test_a_wrong_mix_is_told_what_it_did(facts, reason):
    assert reason in TheMix.judge(facts).reason


def test_the_mix_passes_with_what_chance_does_to_it():
    for update, cancel in ((180, 60), (150, 75), (210, 45)):
        assert isinstance(TheMix.judge(mix(600 - update - cancel, update, cancel)), Passed)


def test_the_weights_of_more_tasks_than_three_are_judged_by_their_shares():
    assert isinstance(TheMix.judge(mix(360, 180, 60, update=2, update_other=1)), Passed)


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
    facts = shape_of(shape((2, 5, speed), (6, 25, speed), (8, 5, speed)))
    assert isinstance(Sale.judge(facts), Passed)


def test_a_shape_with_stages_of_its_own_is_asked_like_any_other():
    class Stages:
        stages = ((2, 5), (6, 25), (8, 5))

        def tick(self):
            now = self.get_run_time()
            return next(((users, 20) for end, users in self.stages if now < end), None)

    assert Sale.observe(None, Stages).users == (5, 5, 25, 25, 25, 25, 5, 5)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (((2, 5, 25), (6, 25, 25)), "ends at second 6"),
        (((8, 5, 5),), "reaches only 5 users"),
        (((2, 5, 5), (6, 25, 1), (8, 5, 5)), "only 9 users"),
        (((3, 5, 25), (6, 25, 25), (8, 5, 25)), "Between second 2 and second 3 you reach 5"),
        (((2, 5, 5), (6, 25, 10), (8, 5, 20)), "Between second 2 and second 3 you reach 15"),
        (((2, 10, 25), (6, 25, 25), (8, 5, 25)), "Before the sale there are 10"),
        (((2, 5, 25), (5, 25, 25), (8, 5, 25)), "Between second 5 and second 6 you reach 5"),
        (((2, 5, 25), (7, 25, 25), (8, 5, 25)), "Between second 6 and second 7 you reach 25"),
        (((2, 5, 25), (6, 30, 25), (8, 5, 25)), "you reach 30 users, not 25"),
        (((2, 5, 25), (6, 25, 25), (8, 5, 5)), "Between second 6 and second 7 you reach 20"),
        (((2, 5, 25), (6, 25, 25), (9, 5, 25)), "goes on after second 8"),
    ],
)
def test_a_wrong_sale_is_told_what_it_does(steps, reason):
    assert reason in Sale.judge(shape_of(shape(*steps))).reason


def test_a_shape_that_never_starts_a_user_ends_at_once():
    assert "ends at second 0" in Sale.judge(Shape(())).reason
