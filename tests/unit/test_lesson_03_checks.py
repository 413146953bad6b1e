"""Lesson 03's checks decide on facts alone, and name each mistake."""

import json

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l03.checks import (
    Batches,
    BoundBatches,
    Caught,
    FindMalformed,
    Ranges,
    ReadRanges,
    batches_in,
    caught_in,
    given_ranges,
    incomplete_messages,
)
from lab_env.shop.events import FIELDS

SENT = {
    "not_json": 4,
    "empty": 1,
    "wrong_type": 5,
    "missing_key": 2,
    "null_key": 1,
    "without order_id": 2,
    "without amount": 2,
    "oversized": 8,
}
BY_FORM = {kind: count for kind, count in SENT.items() if kind != "oversized"}


def caught(kinds: dict[str, int], valid: int = 0) -> Passed | NotYet:
    return FindMalformed.judge(Caught(sum(kinds.values()) + valid, SENT, kinds, valid))


def test_all_messages_malformed_by_their_form_pass_with_or_without_the_others():
    assert isinstance(caught(BY_FORM), Passed)
    assert isinstance(caught(SENT), Passed)


@pytest.mark.parametrize(
    ("kinds", "valid", "reason"),
    [
        ({}, 0, "Found 0 of 17"),
        ({"empty": 1}, 0, "row of nulls, which is not null"),
        ({"not_json": 4, "empty": 1, "wrong_type": 5}, 0, "7 messages without amount, order_id"),
        (BY_FORM | {"without amount": 0}, 0, "2 messages without amount got through"),
        (BY_FORM | {"wrong_type": 0}, 0, "5 wrong_type"),
        (SENT, 7, "7 valid events"),
    ],
)
def test_what_was_missed_is_named(kinds, valid, reason):
    assert reason in caught(kinds, valid).reason


def test_the_check_sends_messages_without_each_field_and_valid_ones_between_them():
    messages, sends = incomplete_messages(seed=7)
    events = [json.loads(message) for message in messages]
    absent = [[f for f in FIELDS if event.get(f) is None] for event in events]
    assert absent == [fields for f in FIELDS for fields in ([], [f], [f])]
    assert list(sends["offset"]) == list(range(len(messages)))
    kinds = [kind.partition("without ")[2] for kind in sends["kind"]]
    assert kinds == [fields[0] if fields else "" for fields in absent]
    assert messages != incomplete_messages(seed=8)[0]


def test_records_are_looked_up_in_the_ledger():
    sends = pd.DataFrame(
        [
            ("event", "acked", 0, 0),
            ("malformed:empty", "acked", 0, 1),
            ("malformed:not_json", "acked", 1, 0),
            ("malformed:not_json", "failed", -1, -1),
        ],
        columns=["kind", "state", "partition", "offset"],
    )
    found = pd.DataFrame({"partition": [0, 1], "offset": [0, 0]})
    facts = caught_in(found, sends)
    assert facts == Caught(2, {"empty": 1, "not_json": 1}, {"not_json": 1}, valid=1)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Batches((), 0, 5500, True), "Without `startingOffsets`"),
        (Batches((5500,), 5500, 5500, True), "`once` does all of it in one batch"),
        (Batches((801, 700), 1501, 1501, True), "801"),
        (Batches((800, 800), 1600, 5500, True), "1,600 of the 5,500"),
        (Batches((800,), 800, 800, False), "still running"),
    ],
)
def test_a_stream_that_is_not_bounded_or_not_complete_is_told_why(facts, reason):
    assert reason in BoundBatches.judge(facts).reason


def test_bounded_batches_that_read_everything_pass():
    facts = Batches((800, 800, 30), 1630, 1630, True)
    assert isinstance(BoundBatches.judge(facts), Passed)


def reports(numbers: range, size: int) -> list[dict]:
    """Progress reports of batches of one size, from one partition."""
    return [
        {
            "batchId": number,
            "numInputRows": size,
            "sources": [{"endOffset": {"orders": {"0": (number + 1) * size, "1": 0}}}],
        }
        for number in numbers
    ]


def test_a_query_with_more_batches_than_spark_keeps_reports_of_has_read_everything():
    facts = batches_in(reports(range(4, 104), 50), waiting=5200, ended=True)
    assert facts.read == 5200 and isinstance(BoundBatches.judge(facts), Passed)


def test_a_query_that_continued_an_old_checkpoint_has_read_only_its_own_batches():
    facts = batches_in(reports(range(100, 104), 50), waiting=5200, ended=True)
    assert "200 of the 5,200" in BoundBatches.judge(facts).reason


@pytest.mark.parametrize(("answer", "reason"), [(None, "awaitTermination"), (800, "a int")])
def test_what_is_no_query_is_told_what_it_is(answer, reason):
    with pytest.raises(Unreadable, match=reason):
        BoundBatches.observe(None, answer)


BATCHES = ({0: (0, 10), 1: (0, 8)}, {0: (10, 14), 1: (8, 9)}, {0: (14, 20), 1: (9, 9)})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (BATCHES[2], "what batch 2 read"),
        (BATCHES[0], "what batch 0 read"),
        ({0: (10, 13), 1: (8, 8)}, "the offset behind the last record"),
        ({0: (10, 14)}, "each with a range"),
        ({0: (1, 2), 1: (3, 4)}, "belong to no batch"),
    ],
)
def test_wrong_ranges_are_told_apart(given, reason):
    assert reason in ReadRanges.judge(Ranges(given, BATCHES)).reason


def test_the_ranges_of_batch_1_pass():
    assert ReadRanges.judge(Ranges(BATCHES[1], BATCHES)) == Passed("Batch 1 read 5 records.")


@pytest.mark.parametrize(
    "answer",
    [BATCHES[1], {"0": [10, 14], "1": ("8", 9.0)}, {0: pd.Series([10, 14]), 1: range(8, 10)}],
)
def test_ranges_are_read_in_any_form(answer):
    assert given_ranges(answer) == BATCHES[1]


@pytest.mark.parametrize("answer", [None, 5, [(0, 10)], {0: 10}, {0: (1, 2, 3)}, {"a": (1, 2)}])
def test_other_forms_of_ranges_are_unreadable(answer):
    with pytest.raises(Unreadable):
        given_ranges(answer)
