"""Lesson 16 judges what readers find: each way to lose a field has its own reason."""

from dataclasses import replace

import pytest

from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l16.checks import (
    Alarm,
    Backfill,
    Backfilled,
    NewNameWithoutABreak,
    Renamed,
    TheAlarm,
    TwoAppVersions,
    Updated,
)

FIELDS = {"channel": 7, "gift_note": 1}
BROKEN = ("ERROR checkout",)
RIGHT_BACKFILL = Backfilled(expected=70, before=20, after=70, rows=(660, 660), new_query=True)
ORDERS = {
    "O-17": {"status": "shipped", "items": "4", "coupon": "SAVE10"},
    "O-18": {"status": "shipped", "items": "5", "coupon": None},
    "O-19": {"status": "new", "items": "6", "coupon": "HELLO"},
}
RIGHT_NAME = Renamed(coupons=70, rows=660, old_query=70, hudi_rs=70, offered=660)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_an_alarm_that_names_and_counts_each_field_passes():
    assert isinstance(TheAlarm.judge(Alarm(FIELDS, FIELDS, BROKEN)), Passed)


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ({}, "`from_json` dropped it before you looked"),
        ({"ERROR checkout": 1}, "An extra field is no error"),
        ({**FIELDS, "order_id": 20}, "order_id: known fields are no news"),
        ({"channel": 7}, "names channel (7); the check's events carry channel (7), gift_note (1)"),
        ({**FIELDS, "channel": 1}, "names channel (1)"),
    ],
)
def test_an_alarm_that_misses_or_invents_a_field_gets_its_reason(named, reason):
    assert reason in reason_of(TheAlarm.judge(Alarm(FIELDS, named, BROKEN)))


def test_a_table_with_every_coupon_passes():
    assert isinstance(Backfill.judge(RIGHT_BACKFILL), Passed)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"after": 20, "new_query": False}, "50 earlier orders stay empty"),
        ({"after": 20}, "0 filled: your query began at batch 0, and Hudi skips"),
        ({"after": 20, "new_commits": 1}, "1 commits more, and 50 orders still lack"),
        ({"rows": (660, 1320)}, "had 660 rows and has 1320 now"),
        ({"lost_commits": 3}, "You have replaced the table: 3 commits are gone"),
        ({"wrong": 3}, "3 orders have a coupon that no event of theirs names"),
    ],
)
def test_a_backfill_that_misses_or_destroys_gets_its_reason(changes, reason):
    assert reason in reason_of(Backfill.judge(replace(RIGHT_BACKFILL, **changes)))


def updated(order: str = "", **columns) -> Updated:
    """What is found after an update, with some columns of one order other than expected."""
    found = {name: row | (columns if name == order else {}) for name, row in ORDERS.items()}
    return Updated(ORDERS, found, old_app=("O-17", "O-18"))


def test_updates_that_keep_the_coupons_pass():
    assert isinstance(TwoAppVersions.judge(updated()), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (updated("O-17", coupon=None), "O-17 lost its coupon SAVE10"),
        (updated("O-18", status="new"), "O-18 is still new; an update says shipped"),
        (replace(updated(), found={}), "O-17 is not in the table"),
        (updated("O-19", coupon="SAVE10"), "O-19 has coupon SAVE10; expected is HELLO"),
        (updated("O-17", items=None), "O-17 has items NULL; expected is 4"),
        (replace(updated(), lost=2), "2 rows too many"),
        (
            replace(updated("O-19", coupon=None), given_first="O-19"),
            "O-19 lost the coupon HELLO that the first batch wrote",
        ),
    ],
)
def test_an_update_that_loses_something_gets_its_reason(facts, reason):
    assert reason in reason_of(TwoAppVersions.judge(facts))


def test_two_names_for_all_readers_pass():
    assert isinstance(NewNameWithoutABreak.judge(RIGHT_NAME), Passed)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"old_query": None, "hudi_rs": None, "error": "UNRESOLVED_COLUMN"},
            "Yesterday's query fails",
        ),
        ({"old_query": 0}, "Yesterday's query: 660 NULLs in `coupon`, where 590 orders have none"),
        ({"hudi_rs": 20}, "hudi-rs: 640 NULLs in `coupon`"),
        ({"offered": None}, "has no column `voucher`"),
        ({"offered": 590}, "`voucher` is right in 590 of 660 orders"),
    ],
)
def test_a_name_that_breaks_a_reader_gets_its_reason(changes, reason):
    assert reason in reason_of(NewNameWithoutABreak.judge(replace(RIGHT_NAME, **changes)))
