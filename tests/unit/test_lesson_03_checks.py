"""Lesson 03's checks decide on facts alone, and tell each mistake by its own name."""

import pandas as pd
import pytest

from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l03.checks import (
    Batches,
    BoundBatches,
    Caught,
    FindMalformed,
    Ranges,
    ReadRanges,
    caught_in,
)

SENT = {"not_json": 4, "empty": 1, "wrong_type": 5, "missing_key": 2, "null_key": 1, "oversized": 8}
BY_FORM = {kind: count for kind, count in SENT.items() if kind != "oversized"}


def caught(kinds: dict[str, int], valid: int = 0) -> Passed | NotYet:
    return FindMalformed.judge(Caught(sum(kinds.values()) + valid, SENT, kinds, valid))


def test_all_messages_malformed_by_their_form_pass_with_or_without_the_others():
    assert isinstance(caught(BY_FORM), Passed)
    assert isinstance(caught(SENT), Passed)


@pytest.mark.parametrize(
    ("kinds", "valid", "reason"),
    [
        ({}, 0, "Found 0 of 13"),
        ({"empty": 1}, 0, "row of nulls, which is not null"),
        ({"not_json": 4, "empty": 1, "wrong_type": 5}, 0, "3 messages without an order_id"),
        ({"not_json": 4, "empty": 1, "missing_key": 2, "null_key": 1}, 0, "5 wrong_type"),
        (SENT, 7, "7 valid events"),
    ],
)
def test_what_was_missed_is_named(kinds, valid, reason):
    assert reason in caught(kinds, valid).reason


def test_places_are_judged_by_the_ledger():
    sends = pd.DataFrame(
        [
            ("event", "acked", 0, 0),
            ("malformed:empty", "acked", 0, 1),
            ("malformed:not_json", "acked", 1, 0),
            ("malformed:not_json", "failed", -1, -1),
        ],
        columns=["kind", "state", "partition", "offset"],
    )
    places = pd.DataFrame({"partition": [0, 1], "offset": [0, 0]})
    facts = caught_in(places, sends)
    assert facts == Caught(2, {"empty": 1, "not_json": 1}, {"not_json": 1}, valid=1)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Batches((), 5500, True), "Without `startingOffsets`"),
        (Batches((5500,), 5500, True), "`once` does all of it in one batch"),
        (Batches((801, 700), 1501, True), "801"),
        (Batches((800, 800), 5500, True), "1,600 of the 5,500"),
        (Batches((800,), 800, False), "still running"),
    ],
)
def test_a_stream_that_is_not_bounded_or_not_complete_is_told_why(facts, reason):
    assert reason in BoundBatches.judge(facts).reason


def test_bounded_batches_that_read_everything_pass():
    assert isinstance(BoundBatches.judge(Batches((800, 800, 30), 1630, True)), Passed)


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
