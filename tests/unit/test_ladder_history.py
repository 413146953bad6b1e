"""The history of one order ends at the first step that breaks the promise."""

import pandas as pd

from lab_env.lab.ladder.history import Look, as_text, history, shortest
from lab_env.lab.ladder.target import NewestOfEachOrder

SECOND = 1_000_000
ORDERS = NewestOfEachOrder()
COLUMNS = ["order_id", "event_id", "op", "order_ts", "kind", "partition", "offset", "delivery"]


def sends(*rows: tuple) -> pd.DataFrame:
    """Make sends from (order, event, op, second, kind, offset, delivery)."""
    lines = [(o, e, op, s * SECOND, kind, 0, at, n) for o, e, op, s, kind, at, n in rows]
    return ORDERS.keyed(pd.DataFrame(lines, columns=COLUMNS))


def look(delivery: int, *shown: tuple[str, str], killed: bool = False) -> Look:
    return Look(delivery, pd.DataFrame(shown, columns=["key", "event"]), killed)


SENDS = sends(
    ("O-1", "e1", "create", 1, "event", 0, 1),
    ("O-1", "e2", "update", 9, "event", 1, 1),
    ("O-1", "e3", "update", 5, "late", 2, 2),
    ("O-2", "e4", "create", 1, "event", 3, 1),
    ("O-2", "e5", "erase", 20, "event", 4, 2),
    ("O-2", "e6", "update", 30, "malformed:not_json", 5, 2),
)


def test_a_late_event_that_won_is_the_first_wrong_step_and_the_last():
    looks = [look(1, ("O-1", "e2")), look(2, ("O-1", "e3")), look(3, ("O-1", "e3"))]
    steps = history("O-1", ORDERS, SENDS, looks)
    assert [step.what for step in steps] == ["sent", "sent", "shown", "sent", "shown"]
    assert [step.wrong for step in steps] == [False] * 4 + [True]
    assert steps[-1].text == "update of 00:00:05.000; it must show update of 00:00:09.000"
    assert steps[3].text == "update of 00:00:05.000, late (partition 0, offset 2)"


def test_an_erased_order_must_have_no_row_and_a_malformed_message_is_no_version():
    steps = history("O-2", ORDERS, SENDS, [look(1, ("O-2", "e4")), look(2, ("O-2", "e4"))])
    assert steps[-1].text == "create of 00:00:01.000; it must show no row"
    right = history("O-2", ORDERS, SENDS, [look(1, ("O-2", "e4")), look(2)])
    assert right[-1].text == "no row" and not any(step.wrong for step in right)


def test_rows_that_are_there_twice_and_rows_that_are_gone_are_told():
    twice = history("O-1", ORDERS, SENDS, [look(1, ("O-1", "e2"), ("O-1", "e1"))])
    assert twice[-1].text.startswith("2 rows: update of 00:00:09.000 and create of 00:00:01.000;")
    gone = history("O-1", ORDERS, SENDS, [look(1)])
    assert gone[-1].text == "no row; it must show update of 00:00:09.000"
    foreign = history("O-1", ORDERS, SENDS, [look(1, ("O-1", "x"))])
    assert "x; it must" in foreign[-1].text


def test_after_a_kill_nothing_is_promised_before_the_restart():
    looks = [look(1, ("O-1", "e2")), look(2, killed=True), look(2, ("O-1", "e2"))]
    steps = history("O-1", ORDERS, SENDS, looks)
    whats = ["sent", "sent", "shown", "sent", "killed", "shown", "shown"]
    assert [step.what for step in steps] == whats and not any(step.wrong for step in steps)


def test_a_kill_in_a_delivery_without_a_send_of_the_order_repeats_none():
    looks = [look(1, ("O-2", "e4")), look(3, ("O-2", "e4"), killed=True), look(3, ("O-2", "e4"))]
    steps = history("O-2", ORDERS, SENDS[SENDS["delivery"] == 1], looks)
    assert [step.what for step in steps] == ["sent", "shown", "killed", "shown", "shown"]


def test_of_several_wrong_orders_the_one_with_the_shortest_proof_is_told():
    looks = [look(1, ("O-1", "e1"), ("O-2", "e4")), look(2, ("O-1", "e2"), ("O-2", "e4"))]
    told = shortest(["O-2", "O-1"], ORDERS, SENDS, looks)
    assert "of 00:00:09.000" in told[-1].text and len(told) == 3
    assert shortest(["O-9"], ORDERS, SENDS, [look(1)]) == []


def test_as_text_each_delivery_is_numbered_once_and_an_arrow_marks_the_wrong_step():
    text = as_text(history("O-1", ORDERS, SENDS, [look(1, ("O-1", "e2")), look(2, ("O-1", "e3"))]))
    head, *lines = text.splitlines()
    assert head == "delivery"
    assert [line[:2].strip() for line in lines] == ["1", "", "", "2", ""]
    assert [line.endswith("<-- here") for line in lines] == [False] * 4 + [True]
