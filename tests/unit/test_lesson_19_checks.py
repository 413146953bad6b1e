"""Lesson 19 judges a count by its streams, an alert by what it did, a cause by its number."""

import random
from dataclasses import replace
from decimal import Decimal

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l19 import scenarios
from lab_env.lessons.l19.checks import (
    FAULTS,
    AgreesWithTheBooks,
    Alarm,
    CauseAndNumber,
    Counted,
    CountsFromOutside,
    Finding,
    RingsWhenItShould,
    Validated,
    as_rules,
    by_partition,
    made_up_days,
    made_up_streams,
    number_in,
    unread_by_partition,
)
from lab_env.lessons.l19.tickets import (
    CAUSES,
    NO_COMPACTION,
    NOT_READ,
    REPLACED,
    SAVEPOINT,
    TOO_SLOW,
    UNFINISHED,
    Evidence,
)
from lab_env.monitor.metrics import METRICS

RIGHT = {scenario.name: scenario.rings for scenario in scenarios.SCENARIOS}


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def counted(count, seed: int = 19) -> list[Counted]:
    """What a function counts in the four made-up streams."""
    return [
        Counted(case, count(ends, batches), unread_by_partition(ends, batches), ends, (*batches,))
        for case, ends, batches in made_up_streams(random.Random(seed))
    ]


@pytest.mark.parametrize("seed", range(20))
def test_each_way_to_count_wrongly_is_found_in_every_draw(seed):
    assert isinstance(CountsFromOutside.judge(counted(unread_by_partition, seed)), Passed)

    def planned(ends, batches):
        return {n: end - batches[-1].end.get(n, 0) for n, end in ends.items()}

    def known(ends, batches):
        right = unread_by_partition(ends, batches)
        return {n: right[n] for n in batches[-1].end}

    def first(ends, batches):
        return {n: end - batches[0].end.get(n, 0) for n, end in ends.items()}

    def more(ends, batches):
        return unread_by_partition(ends, batches) | {99: 0}

    for wrong, reason in (
        (planned, "Planned is not done"),
        (known, "is missing from your answer"),
        (first, "messages are unread, and you count"),
        (more, "partition 99, which the topic lacks"),
    ):
        assert reason in reason_of(CountsFromOutside.judge(counted(wrong, seed)))


def test_a_count_is_read_in_each_form():
    rows = [(0, 3), (1, 4)]
    frame = pd.DataFrame(rows, columns=["partition", "unread"])
    for form in (dict(rows), pd.Series(dict(rows)), frame, rows, {"0": "3", "1": 4.0}):
        assert by_partition(form) == dict(rows)


@pytest.mark.parametrize("answer", [None, 5, [1, 2], "text"])
def test_what_is_no_count_is_refused(answer):
    with pytest.raises(Unreadable):
        by_partition(answer)


def test_an_alert_that_rings_for_a_hang_and_for_a_dead_exporter_passes():
    assert isinstance(RingsWhenItShould.judge(Alarm(RIGHT)), Passed)


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        (scenarios.NIGHT, "Fired at 03:00"),
        (scenarios.MORNING, "the first order after a quiet hour"),
        (scenarios.SALE, "Fired during a sale"),
        (scenarios.HICCUP, "Fired for a hiccup"),
        (scenarios.CALM, "Fired in an ordinary minute"),
        (scenarios.HANG, "your rule did not fire"),
        (scenarios.PAGES, "Spark's pages did not answer"),
        (scenarios.SLOW, "waited 6 s"),
        (scenarios.EXPORTER, "The exporter died and your rule fell silent"),
        (scenarios.BROKER, "Kafka did not answer"),
    ],
)
def test_each_wrong_ring_and_each_silence_has_its_reason(scenario, reason):
    facts = Alarm(RIGHT | {scenario.name: not scenario.rings})
    assert reason in reason_of(RingsWhenItShould.judge(facts))


def test_an_alert_that_never_ends_and_a_broken_rule_have_their_reason():
    assert "still fired" in reason_of(RingsWhenItShould.judge(Alarm(RIGHT, still=True)))
    assert "parse error" in reason_of(RingsWhenItShould.judge(Alarm(broken="parse error at 3")))


@pytest.mark.parametrize(
    "answer",
    [
        {"alert": "A", "expr": "x > 5", "for": "3s"},
        {"expr": "x > 5", "for": "3s"},
        ["x > 5", "3s"],
        "- alert: A\n  expr: x > 5\n  for: 3s\n",
        {"groups": [{"name": "g", "rules": [{"alert": "A", "expr": "x > 5", "for": "3s"}]}]},
    ],
)
def test_a_rule_is_read_in_each_form(answer):
    (group,) = as_rules(answer)["groups"]
    (rule,) = group["rules"]
    assert (rule["expr"], rule["for"]) == ("x > 5", "3s") and rule["alert"]


@pytest.mark.parametrize("answer", [5, "text", {"alert": "A"}, ["x > 5"], "a: [", None])
def test_what_is_no_rule_is_refused(answer):
    with pytest.raises(Unreadable):
        as_rules(answer)


def test_a_scenario_has_a_sample_per_second_of_every_series():
    for scenario in scenarios.SCENARIOS:
        for row in scenario.series():
            assert len(row["values"].split()) == scenarios.SECONDS + 1


def ended(scenario) -> set[str]:
    rows = (row for row in scenario.series() if row["values"].split()[-1] == "_")
    return {row["series"].partition("{")[0] for row in rows}


def test_what_the_exporter_cannot_say_ends():
    assert {"pipeline_oldest_unread_seconds", "pipeline_watched"} <= ended(scenarios.EXPORTER)
    assert ended(scenarios.BROKER) == {
        "pipeline_oldest_unread_seconds",
        "pipeline_newest_message_seconds",
        "pipeline_lag_messages",
        "pipeline_expired_messages",
        "pipeline_clock_ahead_seconds",
    }
    assert not ended(scenarios.HANG)


def test_every_metric_of_the_exporter_can_be_used():
    names = {row["series"].partition("{")[0] for row in scenarios.CALM.series()}
    assert set(METRICS) <= names


def test_the_oldest_message_is_older_than_the_limit_only_where_the_alert_must_ring():
    for scenario in scenarios.SCENARIOS:
        late = [s for s in range(scenarios.SECONDS + 1) if scenario.unread(s) > 5]
        assert (len(late) > 3) == (scenario in (scenarios.HANG, scenarios.SLOW))


def test_every_day_of_the_hidden_table_has_its_own_fault():
    rows, books, faults = made_up_days(random.Random(19))
    assert sorted(faults.values()) == sorted([*FAULTS, "", ""])
    expected = {day: (orders, revenue, newest) for day, orders, revenue, newest in books}
    for day, fault in faults.items():
        of_day = [row for row in rows if row[1] == day]
        total = sum((row[2] for row in of_day), Decimal(0))
        newest = max((row[3] for row in of_day), default=None)
        found = len(of_day), len({row[0] for row in of_day}), total, newest
        orders, revenue, last = expected.get(day, (0, Decimal(0), None))
        agrees = tuple(a == b for a, b in zip(found, (orders, orders, revenue, last), strict=True))
        assert (
            agrees
            == {
                "": (True, True, True, True),
                "hidden": (True, False, True, True),
                "doubled": (False, True, True, True),
                "amount": (True, True, False, True),
                "stale": (True, True, True, False),
                "missing": (False, False, False, False),
                "unknown": (False, False, False, False),
            }[fault]
        )


DAYS = {f"day-{fault or 'right'}": fault for fault in (*FAULTS, "")}
WRONG_DAYS = frozenset(day for day, fault in DAYS.items() if fault)


def test_all_wrong_days_and_no_other_pass():
    assert isinstance(AgreesWithTheBooks.judge(Validated(DAYS, WRONG_DAYS)), Passed)


@pytest.mark.parametrize("fault", FAULTS)
def test_each_day_that_is_not_reported_has_its_reason(fault):
    facts = Validated(DAYS, WRONG_DAYS - {f"day-{fault}"}, {f"day-{fault}": 20})
    reason = reason_of(AgreesWithTheBooks.judge(facts))
    assert f"day-{fault}" in reason
    if fault == "hidden":
        assert "20 orders" in reason and "only 19 different" in reason


def test_a_validation_that_reports_nothing_is_told_how_many_days_are_wrong():
    assert "on 6 of 7 days" in reason_of(AgreesWithTheBooks.judge(Validated(DAYS, frozenset())))


def test_a_false_alarm_and_an_unknown_day_have_their_reason():
    facts = Validated(DAYS, WRONG_DAYS | {"day-right"})
    assert "agrees with the books" in reason_of(AgreesWithTheBooks.judge(facts))
    facts = Validated(DAYS, WRONG_DAYS | {"day-x"})
    assert "no day of the table" in reason_of(AgreesWithTheBooks.judge(facts))


EVIDENCE = (
    Evidence("A", NO_COMPACTION, 5, {0: 0, 1: 0}, logs=5, table_batch=6, checkpoint_batch=6),
    Evidence("B", REPLACED, 6, {0: 0, 1: 0}, logs=5, table_batch=6, checkpoint_batch=0),
    Evidence("C", SAVEPOINT, 20261120120000000, logs=0, savepoints=1, merge_on_read=False),
    Evidence("D", NOT_READ, 98, {0: 0, 1: 0, 2: 98}, checkpoint_batch=0),
)
FOUND = [Finding(evidence.cause, evidence.number, evidence) for evidence in EVIDENCE]


def test_four_causes_with_their_numbers_pass():
    assert isinstance(CauseAndNumber.judge(FOUND), Passed)


@pytest.mark.parametrize(
    ("place", "cause", "reason"),
    [
        (0, TOO_SLOW, "A, writer too slow: 2 of its 2 partitions have lag 0."),
        (0, REPLACED, "both know batch 6"),
        (1, NO_COMPACTION, "a snapshot query reads them"),
        (1, UNFINISHED, "0 pending instants"),
        (2, NO_COMPACTION, "has no logs"),
        (2, TOO_SLOW, "no stream writes this table"),
        (2, REPLACED, "no commit here knows a batch"),
        (3, TOO_SLOW, "D, writer too slow: 2 of its 3 partitions have lag 0."),
        (3, SAVEPOINT, "0 savepoints"),
    ],
)
def test_a_wrong_cause_gets_the_measured_number_against_it(place, cause, reason):
    facts = list(FOUND)
    facts[place] = replace(facts[place], cause=cause)
    assert reason in reason_of(CauseAndNumber.judge(facts))


@pytest.mark.parametrize("place", range(4))
def test_a_right_cause_needs_its_number(place):
    facts = list(FOUND)
    facts[place] = replace(facts[place], number=1)
    assert "the cause is right" in reason_of(CauseAndNumber.judge(facts))


def test_one_ticket_at_a_time_is_proved_and_the_others_are_open():
    facts = [FOUND[0], Finding("", "", EVIDENCE[1]), Finding("", "", EVIDENCE[2]), FOUND[3]]
    reason = reason_of(CauseAndNumber.judge(facts))
    assert "A: 5 logs" in reason and "D: 98 messages" in reason and "Still open: B, C." in reason


@pytest.mark.parametrize(("said", "number"), [((7,), 7), ("7", 7), (7.0, 7), ("23:04", "23:04")])
def test_a_number_is_read_from_a_row_or_kept_for_the_message(said, number):
    assert number_in(said) == number


def test_every_cause_has_something_said_against_it():
    for evidence in EVIDENCE:
        assert all(evidence.against(cause) for cause in CAUSES)
