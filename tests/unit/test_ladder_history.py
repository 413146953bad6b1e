"""The history of one order ends at the first step that breaks the promise."""

import pandas as pd
from ladder_ledger import ORDERS, sends_of

from lab_env.lab.ladder.history import (
    COMMIT,
    MOST,
    SENT,
    Look,
    abridged,
    as_sentence,
    as_text,
    history,
    shortest,
)


def look(delivery: int, *shown: tuple[str, str], killed: str = "") -> Look:
    return Look(delivery, pd.DataFrame(shown, columns=["key", "event"]), killed)


FIRST = sends_of(
    "O-1",
    ("e1", "create", 1, "event", 1),
    ("e2", "update", 9, "event", 1),
    ("e3", "update", 5, "late", 2),
)
SECOND = sends_of(
    "O-2",
    ("e4", "create", 1, "event", 1),
    ("e5", "erase", 20, "event", 2),
    ("e6", "update", 30, "malformed:not_json", 2),
)
SENDS = pd.concat([FIRST, SECOND])


def test_a_late_event_that_won_is_the_first_wrong_step_and_the_last():
    looks = [look(1, ("O-1", "e2")), look(2, ("O-1", "e3")), look(3, ("O-1", "e3"))]
    steps = history("O-1", ORDERS, SENDS, looks).steps
    assert [step.what for step in steps] == ["sent", "sent", "shown", "sent", "shown"]
    assert [step.wrong for step in steps] == [False] * 4 + [True]
    assert steps[-1].text == "paid at 00:00:05.000; it must show paid at 00:00:09.000"
    assert steps[3].text == "paid at 00:00:05.000, late (partition 0, offset 2)"


def test_an_erased_order_must_have_no_row_and_a_malformed_message_is_no_version():
    steps = history("O-2", ORDERS, SENDS, [look(1, ("O-2", "e4")), look(2, ("O-2", "e4"))]).steps
    assert steps[-1].text == "new at 00:00:01.000; it must show no row"
    right = history("O-2", ORDERS, SENDS, [look(1, ("O-2", "e4")), look(2)])
    assert right.steps[-1].text == "no row" and not right.wrong


def test_rows_that_are_there_twice_and_rows_that_are_gone_are_told():
    twice = history("O-1", ORDERS, SENDS, [look(1, ("O-1", "e2"), ("O-1", "e1"))])
    assert twice.steps[-1].text.startswith("2 rows: paid at 00:00:09.000 and new at 00:00:01.000;")
    gone = history("O-1", ORDERS, SENDS, [look(1)])
    assert gone.steps[-1].text == "no row; it must show paid at 00:00:09.000"
    foreign = history("O-1", ORDERS, SENDS, [look(1, ("O-1", "x"))])
    assert "x; it must" in foreign.steps[-1].text


def test_after_a_kill_nothing_is_promised_before_the_restart():
    right = ("O-1", "e2")
    looks = [look(1, right), look(2, killed="after orders_cow/f.parquet"), look(2, right)]
    steps = history("O-1", ORDERS, SENDS, looks).steps
    whats = ["sent", "sent", "shown", "sent", "killed", "shown", "shown"]
    assert [step.what for step in steps] == whats and not any(step.wrong for step in steps)


def test_a_kill_in_a_delivery_without_a_send_of_the_order_repeats_none():
    row = ("O-2", "e4")
    looks = [look(1, row), look(3, row, killed="after orders_cow/f.parquet"), look(3, row)]
    steps = history("O-2", ORDERS, SENDS[SENDS["delivery"] == 1], looks).steps
    assert [step.what for step in steps] == ["sent", "shown", "killed", "shown", "shown"]


def test_of_several_wrong_orders_the_one_with_the_shortest_proof_is_told():
    looks = [look(1, ("O-1", "e1"), ("O-2", "e4")), look(2, ("O-1", "e2"), ("O-2", "e4"))]
    told = shortest(["O-2", "O-1"], ORDERS, SENDS, looks)
    assert "at 00:00:09.000" in told.steps[-1].text and len(told.steps) == 3
    assert shortest(["O-9"], ORDERS, SENDS, [look(1)]) is None


def test_as_text_each_delivery_is_numbered_once_and_an_arrow_marks_the_wrong_step():
    text = as_text(history("O-1", ORDERS, SENDS, [look(1, ("O-1", "e2")), look(2, ("O-1", "e3"))]))
    name, head, *lines = text.splitlines()
    assert (name, head) == ("order O-1", "delivery")
    assert [line[:2].strip() for line in lines] == ["1", "", "", "2", ""]
    assert [line.endswith("<-- here") for line in lines] == [False] * 4 + [True]


def test_a_kill_is_told_with_its_request_and_a_row_with_its_commit():
    rows = look(1, ("O-1", "e2"), killed="after orders_cow/f.parquet")
    rows.rows[COMMIT] = "20261127043217123"
    steps = history("O-1", ORDERS, SENDS, [rows]).steps
    assert steps[2].text == "after orders_cow/f.parquet; then started again"
    assert steps[3].commits == ("20261127043217123",)


def test_deliveries_before_the_first_event_are_left_out():
    late = SENDS[SENDS["delivery"] == 2]
    steps = history("O-1", ORDERS, late, [look(1, killed="f"), look(1), look(2)]).steps
    assert [(step.delivery, step.what) for step in steps] == [(2, "sent"), (2, "shown")]


def test_of_many_events_in_a_delivery_the_first_and_the_last_are_listed():
    many = sends_of("O-1", *((f"e{n}", "update", n, "event", 1) for n in range(40)))
    told = history("O-1", ORDERS, many, [look(1, *(("O-1", f"e{n}") for n in range(40)))])
    short = abridged(told.steps)
    assert [step.what for step in short] == [SENT] * (MOST + 1) + ["shown"]
    assert sum(step.omitted or 1 for step in short[:-1]) == 40
    text = as_text(told)
    assert f"{40 - MOST} more\n" in text and "40 rows: " in text and "and 36 more;" in text


def test_a_history_is_one_sentence_for_those_who_cannot_see_its_picture():
    told = history("O-1", ORDERS, SENDS, [look(1, ("O-1", "e2")), look(2, ("O-1", "e3"))])
    text = as_sentence(told)
    assert text.startswith("The life of order O-1: in delivery 1: sent new at 00:00:01.000 (")
    assert text.endswith("shown paid at 00:00:05.000; it must show paid at 00:00:09.000.")


def test_events_of_the_same_millisecond_are_told_apart():
    own = sends_of("O-1", *((event, "update", 1, "event", 1) for event in ("e1", "e2")))
    own["order_ts"] += [0, 1]
    wrong = history("O-1", ORDERS, own, [look(1, ("O-1", "e1"))]).steps[-1]
    assert wrong.text == "paid at 00:00:01.000000; it must show paid at 00:00:01.000001"
