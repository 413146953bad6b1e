"""The capstone's judge: right answers pass in any form, and each mistake has its own message."""

from dataclasses import replace
from decimal import Decimal
from functools import cache

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.lessons.capstone import FRAUD, IOT, VARIANTS
from lab_env.lessons.capstone.judge import (
    Delivered,
    problem_with_answer,
    problem_with_dead_letters,
    problem_with_rows,
)
from lab_env.lessons.capstone.story import CRASHES, DELIVERIES, FIRST, LATE

SEED = 22


@cache
def delivered(variant, deliveries=DELIVERIES):
    story = variant.story(SEED)
    places = {sent.send.send_id: (n % 3, n // 3) for n, sent in enumerate(story.messages())}
    return Delivered(variant, story, deliveries, places)


def right_rows(known):
    return known.variant.oracle(known.events)[known.variant.rows.name]


@pytest.fixture(scope="module")
def iot():
    return delivered(IOT)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=list(VARIANTS))
def test_the_oracles_own_answers_pass(variant):
    known = delivered(variant)
    assert problem_with_rows(right_rows(known), known) == ""
    right = variant.oracle(known.events)
    for question in variant.questions:
        assert problem_with_answer(right[question.name], question, right[question.name]) == ""
    dead = pd.DataFrame(list(known.malformed), columns=["partition", "offset"])
    assert problem_with_dead_letters(dead, known) == ""


def test_times_may_be_timestamps_and_further_columns_and_another_order_do_not_matter(iot):
    rows = right_rows(iot).sample(frac=1, random_state=1)
    rows = rows.assign(ts=pd.to_datetime(rows["ts"]).dt.tz_localize(None), extra="x")
    assert problem_with_rows(rows, iot) == ""


def test_a_missing_column_and_an_empty_value_are_named(iot):
    rows = right_rows(iot)
    with pytest.raises(Unreadable, match="has no column celsius; it has"):
        problem_with_rows(rows.drop(columns="celsius"), iot)
    with pytest.raises(Unreadable, match="a row whose celsius is empty"):
        problem_with_rows(rows.assign(celsius=None), iot)


def test_a_table_that_keeps_each_message_is_named(iot):
    events = [e for e in IOT.kept(iot.events) if e["op"] != "forget"]
    rows = pd.DataFrame([IOT.row(event) for event in events])
    said = problem_with_rows(rows, iot)
    assert f"{len(rows):,} rows for {len(right_rows(iot)):,} keys" in said


def test_keys_with_two_rows_are_counted(iot):
    rows = right_rows(iot)
    said = problem_with_rows(pd.concat([rows, rows[:7].assign(event_id="old")]), iot)
    assert said.startswith("7 keys of `readings` have more than one row, for example D-")


def test_older_versions_are_counted_and_the_newest_is_named(iot):
    rows = right_rows(iot)
    newest = rows.set_index(["device_id", "ts"])["event_id"].to_dict()
    readings = [(IOT.key_of(e), e["event_id"]) for e in iot.events if e["op"] != "forget"]
    older = {key: event for key, event in readings if newest.get(key, event) != event}
    shown = [older.get(key, event) for key, event in newest.items()]
    said = problem_with_rows(rows.assign(event_id=shown), iot)
    assert said.startswith(f"{len(older)} keys of `readings` show an older event")
    assert "What decides which version wins?" in said


def test_what_was_forgotten_and_is_there_is_named(iot):
    rows = right_rows(iot)
    event = next(e for e in iot.story.events([LATE]) if e["device_id"] == "D-05" and "ts" in e)
    said = problem_with_rows(pd.concat([rows, pd.DataFrame([IOT.row(event)])]), iot)
    assert "1 row of `readings` is of D-05, who must be forgotten for good" in said
    assert "'late'" in said


def test_a_delivery_that_nobody_read_is_named_with_its_offsets():
    known = delivered(IOT, (FIRST, CRASHES[0]))
    before = replace(known, deliveries=(FIRST,))
    said = problem_with_rows(right_rows(before), known)
    lost = known.story.messages([CRASHES[0]])
    assert said.startswith(f"{len(lost)} messages after the kill were never read ('crash 1')")
    places = sorted(known.places[sent.send.send_id] for sent in lost)
    first, last = (f"{[o for p, o in places if p == 0][place]:,}" for place in (0, -1))
    assert f"partition 0, offsets {first} to {last}" in said


def test_a_row_of_a_malformed_message_is_a_stranger(iot):
    row = right_rows(iot)[:1].assign(ts="2031-01-01T00:00:00Z", event_id="bad")
    said = problem_with_rows(pd.concat([right_rows(iot), row]), iot)
    assert "1 row of `readings` has a key that no valid message has" in said


def test_a_wrong_value_is_shown_beside_its_message(iot):
    rows = right_rows(iot)
    rows.loc[0, "celsius"] += 1.5
    assert "celsius is" in problem_with_rows(rows, iot)
    rows.loc[0, "celsius"] -= 1.495  # rounding is no mistake
    assert problem_with_rows(rows, iot) == ""


def test_dead_letters_may_not_lack_repeat_or_hold_valid_messages(iot):
    places = sorted(iot.malformed)
    dead = pd.DataFrame(places, columns=["partition", "offset"])
    assert "3 messages are in neither" in problem_with_dead_letters(dead[3:], iot)
    twice = pd.concat([dead, dead[:2]])
    assert "2 dead letters are there twice" in problem_with_dead_letters(twice, iot)
    valid = next(p for p in sorted(iot.places.values()) if p not in iot.malformed)
    wrong = pd.concat([dead, pd.DataFrame([valid], columns=["partition", "offset"])])
    assert "1 dead letter is valid" in problem_with_dead_letters(wrong, iot)


@pytest.fixture(scope="module")
def exposure():
    """A question, and its right answer."""
    return FRAUD.questions[0], FRAUD.oracle(delivered(FRAUD).events)["exposure"]


def test_money_as_double_is_not_exact(exposure):
    question, right = exposure
    doubles = right.assign(exposure=[float(x) for x in right["exposure"]])
    assert problem_with_answer(doubles, question, right) == ""
    doubles.loc[3, "exposure"] += 1e-9
    assert "do not use DOUBLE for money" in problem_with_answer(doubles, question, right)
    cents = right.assign(exposure=[x + Decimal("0.01") for x in right["exposure"]])
    said = problem_with_answer(cents, question, right)
    assert f"{len(right)} rows of `exposure` are wrong" in said


def test_rows_that_lack_or_should_not_be_there_are_named(exposure):
    question, right = exposure
    assert "2 rows of `exposure` are missing" in problem_with_answer(right[2:], question, right)
    ghost = right[:1].assign(card_id="C-007")
    said = problem_with_answer(pd.concat([right, ghost]), question, right)
    assert "It should not have C-007" in said
    doubled = pd.concat([right, right[:1]])
    assert "more than one row for C-001" in problem_with_answer(doubled, question, right)
