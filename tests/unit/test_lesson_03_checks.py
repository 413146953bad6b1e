"""Lesson 03's checks decide on facts alone, and name each mistake."""

import json
from random import Random

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l03.checks import (
    Batches,
    BoundStream,
    FilesWithAMemory,
    MessagesOfABatch,
    OrdersAndDeadLetters,
    Parted,
    RecordsRead,
    TwoRuns,
    batches_in,
    incomplete_messages,
    made_ranges,
    parted,
    plan_of,
    spans_of,
    two_of,
)
from lab_env.lessons.l03.figures import books, draw_rates, draw_state, one_of_each
from lab_env.lessons.l03.jars import first_java_error
from lab_env.lessons.streams import started
from lab_env.pipeline.checkpoint import batches_of
from lab_env.shop.events import FIELDS, MALFORMED_KINDS

BY_FORM = {
    "not_json": 4,
    "empty": 1,
    "wrong_type": 5,
    "missing_key": 2,
    "null_key": 1,
    "without order_id": 2,
    "without amount": 2,
}
BY_RULE = {"oversized": 8, "impossible_timestamp": 6}
MALFORMED = BY_FORM | BY_RULE
SENT = MALFORMED | {"event": 900}


def judged(orders=None, dead=MALFORMED, neither=None, both=None) -> Passed | NotYet:
    """The verdict on a split; valid events are among the orders unless it says otherwise."""
    orders = {"event": 900} if orders is None else orders
    return OrdersAndDeadLetters.judge(Parted(SENT, orders, dead, neither or {}, both or {}))


def test_orders_on_one_side_and_all_malformed_messages_on_the_other_pass():
    assert judged() == Passed("900 orders, 31 dead letters, and no message in both or in neither.")


@pytest.mark.parametrize(
    ("through", "reason"),
    [
        (MALFORMED, "31 of 31 malformed messages are among your orders. Since Spark 3.0"),
        (
            {kind: count for kind, count in MALFORMED.items() if kind != "empty"},
            "a row of nulls, which is not null",
        ),
        (
            {"missing_key": 2, "null_key": 1, "without order_id": 2, "without amount": 2},
            "7 messages without amount, order_id",
        ),
        ({"without amount": 2}, "2 messages without amount are among your orders"),
        ({"without amount": 2, "oversized": 8}, "2 messages without amount are among your orders"),
        ({"wrong_type": 5, "oversized": 8}, "13 of 31 malformed messages are among your orders"),
        (BY_RULE, "14 messages that break a rule of the business"),
    ],
)
def test_what_slipped_through_is_named(through, reason):
    dead = {kind: count for kind, count in MALFORMED.items() if kind not in through}
    assert reason in judged({"event": 900} | through, dead).reason


def test_a_valid_event_among_the_dead_letters_is_the_first_thing_to_say():
    verdict = judged({"event": 893, "oversized": 8}, BY_FORM | {"event": 7})
    assert "7 valid events are among your dead letters" in verdict.reason


def test_messages_for_which_the_condition_is_null_are_counted_as_lost():
    dead = MALFORMED | {"impossible_timestamp": 4}
    reason = judged(dead=dead, neither={"impossible_timestamp": 2}).reason
    assert "2 messages are in neither of your two (2 impossible_timestamp)" in reason


def test_a_message_on_both_sides_does_not_pass():
    verdict = judged({"event": 900, "oversized": 0}, both={"oversized": 8})
    assert isinstance(verdict, NotYet)


def test_the_check_sends_messages_without_each_field_and_valid_ones_between_them():
    messages, sends = incomplete_messages(seed=7)
    events = [json.loads(message) for message in messages]
    absent = [[f for f in FIELDS if event.get(f) is None] for event in events]
    assert absent == [fields for f in FIELDS for fields in ([], [f], [f])] + [[]] * 5
    assert list(sends["offset"]) == list(range(len(messages)))
    kinds = [kind.partition("without ")[2] for kind in sends["kind"]]
    assert kinds == [fields[0] if fields else "" for fields in absent]
    assert list(sends["kind"][-5:]) == [
        "malformed:impossible_timestamp", "malformed:impossible_timestamp",
        "malformed:impossible_timestamp", "malformed:negative_amount", "malformed:unknown_op",
    ]  # fmt: skip
    assert events[-5]["order_ts"] == "yesterday"  # no time, so a comparison with it is NULL
    assert messages != incomplete_messages(seed=8)[0]


SENDS = pd.DataFrame(
    [
        ("event", "acked", 0, 0),
        ("malformed:empty", "acked", 0, 1),
        ("malformed:not_json", "acked", 1, 0),
        ("resend", "acked", 1, 1),
        ("malformed:not_json", "failed", -1, -1),
    ],
    columns=["kind", "state", "partition", "offset"],
)


def test_records_are_looked_up_in_the_ledger():
    sides = [(0, 0, "orders"), (1, 0, "orders"), (1, 0, "dead"), (1, 1, "orders")]
    facts = parted(pd.DataFrame(sides, columns=["partition", "offset", "side"]), SENDS)
    assert facts == Parted(
        sent={"event": 2, "empty": 1, "not_json": 1},
        orders={"event": 2, "not_json": 1},
        dead={"not_json": 1},
        neither={"empty": 1},
        both={"not_json": 1},
    )


@pytest.mark.parametrize(
    ("answer", "shown"), [(None, "a NoneType"), ([1, 2, 3], "3 things"), ((1, 2), "2 things")]
)
def test_what_is_not_two_dataframes_is_told_what_it_is(answer, shown):
    with pytest.raises(Unreadable, match=shown):
        two_of(answer)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Batches((), 0, 437, 100), "none of the 437 messages"),
        (Batches((4000,), 4000, 437, 100), "read 4,000 messages of a topic that holds 437"),
        (Batches((437,), 437, 437, 100), "One batch of 437 records; at most 100"),
        (Batches((101, 100), 201, 201, 100), "101"),
        (Batches((100, 100), 200, 437, 100), "200 of the 437"),
        (Batches((100, 100, 30), 230, 230, 130), "The largest batch has 100 records, where 130"),
    ],
)
def test_a_stream_that_is_not_bounded_or_not_complete_is_told_why(facts, reason):
    assert reason in BoundStream.judge(facts).reason


def test_bounded_batches_that_read_everything_pass():
    assert isinstance(BoundStream.judge(Batches((99, 99, 30), 228, 228, 100)), Passed)


def reports(numbers: range, size: int) -> list[dict]:
    """Progress reports of batches of one size, from one partition."""
    return [
        {
            "batchId": number,
            "numInputRows": size,
            "inputRowsPerSecond": 10.0,
            "processedRowsPerSecond": 20.0,
            "stateOperators": [{"numRowsTotal": size, "numRowsUpdated": size}],
            "sources": [{"endOffset": {"orders": {"0": (number + 1) * size, "1": 0}}}],
        }
        for number in numbers
    ]


def test_a_query_with_more_batches_than_spark_keeps_reports_of_has_read_everything():
    facts = batches_in(reports(range(4, 104), 5), waiting=520, bound=5)
    assert facts.read == 520 and isinstance(BoundStream.judge(facts), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (TwoRuns((30, 7), (0, 0), 2), "the JSON files in `path` hold 0"),
        (TwoRuns((30, 7), (30, 67), 2), "the 30 of the first run: the same messages again"),
        (TwoRuns((30, 7), (30, 30), 2), "whose list has a batch 0 already"),
        (TwoRuns((30, 7), (30, 33), 2), "hold 33 rows; 37"),
        (TwoRuns((30, 7), (30, 37), 0), "stayed empty"),
        (TwoRuns((30, 7), (30, 37), 2, ended=False), "which ends when all is read"),
        (TwoRuns((30, 7), (30, 37), 2, listed=False), "no list of the files"),
        (TwoRuns((30, 7), (30, 30), 2, listed=False), "hold 30 rows; 37"),
        (TwoRuns((30, 7), (30, 37), 2, stayed=False), "runs until somebody stops it"),
    ],
)
def test_a_stream_that_forgets_or_writes_elsewhere_is_told_what_its_files_hold(facts, reason):
    assert reason in FilesWithAMemory.judge(facts).reason


def test_a_stream_that_goes_on_where_it_stopped_passes():
    assert isinstance(FilesWithAMemory.judge(TwoRuns((30, 7), (30, 37), 2)), Passed)


@pytest.mark.parametrize(("answer", "reason"), [(None, "nothing"), (800, "a int")])
def test_what_is_no_query_is_told_what_it_is(answer, reason):
    with pytest.raises(Unreadable, match=reason):
        started(answer)


BATCHES = {
    0: {0: (0, 10), 1: (0, 8)},
    1: {0: (10, 14), 1: (8, 9)},
    2: {0: (14, 20), 1: (9, 9)},
}


def read_of(batch: int, given, rows: int | None = None) -> RecordsRead:
    """What a function read that returned each record of the ranges once, unless `rows` differs."""
    counted = sum(end - begin for begin, end in given.values())
    return RecordsRead(batch, given, counted if rows is None else rows, BATCHES)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({0: (14, 20)}, "what batch 2 read"),
        (BATCHES[0], "what batch 0 read"),
        ({0: (10, 13), 1: (8, 8)}, "the offset behind the last record"),
        ({0: (10, 15), 1: (8, 10)}, "the offset behind the last record"),
        ({0: (10, 20), 1: (8, 9)}, "It begins right and goes on too far"),
        ({0: (10, 14)}, "The batch has the offsets 10 to 13 of partition 0, 8 to 8 of partition 1"),
        ({0: (1, 2), 1: (3, 4)}, "Compare `offsets/0` and `offsets/1`"),
        ({}, "your function read no record"),
    ],
)
def test_wrong_records_are_told_apart(given, reason):
    facts = (read_of(2, {0: (14, 20)}), read_of(1, given))
    assert reason in MessagesOfABatch.judge(facts).reason


def test_a_record_that_is_there_twice_or_not_at_all_is_counted():
    reason = MessagesOfABatch.judge((read_of(1, BATCHES[1], rows=6),)).reason
    assert "These are 5 records; it returned 6." in reason


def test_the_records_of_every_batch_that_is_asked_for_pass():
    facts = (read_of(1, BATCHES[1]), read_of(2, {0: (14, 20)}))  # partition 1 of batch 2 is empty
    assert MessagesOfABatch.judge(facts).note.startswith("Batch 2 of the orders has 6 messages")


def test_a_made_checkpoint_reads_like_one_of_spark():
    last = {0: 1700, 1: 1900, 2: 1600}
    made = made_ranges(Random(3), last)
    assert all(made[4][p][1] <= end for p, end in last.items())
    files = {
        f"offsets/{number}": plan_of("orders", {p: end for p, (_, end) in ranges.items()})
        for number, ranges in made.items()
    }
    files["sources/0/0"] = plan_of("orders", dict.fromkeys(range(3), 0))
    read = {batch.number: batch for batch in batches_of(set(files), files.__getitem__)}
    for number, ranges in made.items():
        assert ranges == {p: (read[number].start[p], end) for p, end in read[number].end.items()}
    assert made != made_ranges(Random(4), last)


@pytest.mark.parametrize("answer", [None, 5, {0: (10, 14)}])
def test_what_is_no_table_of_records_is_unreadable(answer):
    with pytest.raises(Unreadable, match="a DataFrame of records is expected"):
        spans_of(answer)


class SmallLedger:
    """A ledger that holds `SENDS`."""

    def frame(self):
        return SENDS


def test_one_message_of_each_kind_comes_in_the_order_of_the_shops_list():
    found = one_of_each(SmallLedger()).to_dict("list")
    assert found == {"kind": ["not_json", "empty"], "partition": [1, 0], "offset": [0, 1]}
    assert MALFORMED_KINDS.index("not_json") < MALFORMED_KINDS.index("empty")


def test_the_books_hold_one_row_per_order_and_no_erased_one():
    few, more = books(n=500), books(n=5200)
    assert set(more.columns) == {"status", "orders", "revenue"}
    assert "erased" not in set(more["status"])
    assert 300 < few["orders"].sum() < 500 < more["orders"].sum() < 5200


def test_rates_and_state_are_drawn():
    progress = reports(range(3), 50)
    assert draw_rates(pd.DataFrame(progress).set_index("batchId")).startswith("<svg")
    assert draw_state(progress).startswith("<svg")


def test_the_first_line_that_names_a_java_error_is_the_telling_one():
    log = "WARN x\njava.lang.NoSuchMethodError: 'void a.B()'\n\tat c\njava.lang.Other: z"
    assert first_java_error(log) == "java.lang.NoSuchMethodError: 'void a.B()'"
    assert first_java_error("all well") == ""
