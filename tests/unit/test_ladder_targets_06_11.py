"""The targets of lessons 06 and 11: what counts as a change, and events that are hard enough."""

from types import SimpleNamespace
from zlib import crc32

import pandas as pd
import pytest
from ladder_ledger import sent

from lab_env.lab.job.packing import pack, unpack
from lab_env.lab.ladder.answers import find_answer
from lab_env.lab.ladder.history import Look, as_text, history
from lab_env.lab.ladder.rungs import RUNGS, late_and_twice
from lab_env.lab.ladder.target import target_of
from lab_env.lessons.l06.ladder import pending
from lab_env.lessons.l11.ladder import changes
from lab_env.platform.settings import Endpoints
from lab_env.shop.model import SECOND, Send

SEEDS = range(30)
ENDPOINTS = Endpoints("http://s3", "k", "s", "eu", "lake", "kafka:1", "zookeeper:1")
AUDIT, FILES = target_of("11.3"), target_of("11.4")


def event(number: int, order: str = "o-1", kind: str = "event", op: str = "update") -> Send:
    """Return an event; a higher number is a newer one."""
    name = f"{order}-{number}"
    return Send(f"{name}-{kind}", name, order, order, b"{}", kind, op, number * SECOND, 0)


def right(*deliveries: list[Send]) -> dict[str, list[str]]:
    """Return the events that the output must show for each change."""
    keyed = AUDIT.keyed(sent(*deliveries))
    return {key: AUDIT.right(own) for key, own in keyed.groupby("key")}


def audit(*rows: tuple[str, str, int]) -> pd.DataFrame:
    """Return an output with these orders, events and deliveries."""
    return changes(pd.DataFrame(rows, columns=["order_id", "event_id", "delivery"]))


@pytest.mark.parametrize(
    ("later", "shown"),
    [
        ([event(5)], ["o-1-5"]),
        ([event(5), event(4, kind="late")], ["o-1-5"]),
        ([event(2, kind="late")], []),  # the order's row is newer
        ([event(3, kind="resend")], ["o-1-3"]),  # the row is written again
        ([event(5, op="erase")], []),
        ([event(5, kind="malformed:empty")], None),
    ],
)
def test_a_change_is_the_newest_event_of_a_delivery_unless_the_order_is_newer(later, shown):
    found = right([event(1), event(3)], later)
    assert found["o-1 in delivery 1"] == ["o-1-3"]
    assert found.get("o-1 in delivery 2") == shown


def test_a_change_counts_against_all_earlier_deliveries_of_its_own_order():
    found = right([event(9), event(1, "o-2")], [event(2)], [event(4, kind="late"), event(3, "o-2")])
    assert found["o-1 in delivery 2"] == found["o-1 in delivery 3"] == []
    assert found["o-2 in delivery 3"] == ["o-2-3"]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([("o-1", "o-1-1", 1), ("o-1", "o-1-3", 2)], ""),
        (
            [("o-1", "o-1-3", 2)],
            "1 change is missing from the output (o-1 in delivery 1).",
        ),
        (
            [("o-1", "o-1-1", 1), ("o-1", "o-1-3", 2), ("o-1", "o-1-1", 1)],
            "1 change is in the output more than once (o-1 in delivery 1).",
        ),
    ],
)
def test_each_change_must_be_in_the_output_once(rows, found):
    sends = AUDIT.keyed(sent([event(1)], [event(3), event(2, kind="late")]))
    assert AUDIT.judge(sends, audit(*rows)).text == found


def test_the_history_of_a_change_shows_when_it_came_again():
    first, again = ("o-1", "o-1-1", 1), ("o-2", "o-2-2", 2)
    looks = [Look(1, audit(first)), Look(2, audit(first, first, again))]
    sends = AUDIT.keyed(sent([event(1)], [event(2, "o-2")]))
    told = history("o-1 in delivery 1", AUDIT, sends, looks)
    assert told.wrong and "2 rows: update at 00:00:01.000" in as_text(told)
    assert not history("o-2 in delivery 2", AUDIT, sends, looks).wrong


@pytest.mark.parametrize("target", [AUDIT, FILES])
def test_there_may_be_no_output_yet(target, monkeypatch):
    monkeypatch.setattr("lab_env.platform.store.list_objects", lambda *where: iter(()))
    stage = SimpleNamespace(
        endpoints=ENDPOINTS,
        folder="attack",
        hudi_rows=lambda table, columns: pd.DataFrame(columns=list(columns)),
    )
    rows = target.rows(stage)
    assert rows.empty and {"key", "event"} <= set(rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_order_changes_in_two_deliveries_and_both_commits_of_each_change_orders(seed):
    found = right(*late_and_twice(seed))
    changed = [key.split(" in delivery ") for key, shown in found.items() if shown]
    assert len(changed) > len({order for order, _ in changed})
    commits = {(delivery, crc32(order.encode()) % 2) for order, delivery in changed}
    assert len(commits) == 2 * len(late_and_twice(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_each_delivery_has_a_batch_without_a_new_order(seed):
    known: set[str] = set()
    for part in late_and_twice(seed):
        known |= {send.order_id for send in part if send.op == "create"}
        others = {send.order_id for send in part if send.op != "create"}
        assert others and others <= known


@pytest.mark.parametrize("exercise", ["06.3", "11.2", "11.3", "11.4"])
def test_a_function_travels_without_the_variables_that_it_is_given(exercise):
    function = find_answer(exercise, ENDPOINTS, "reference")
    there = unpack(pack(bound=True, answer=function), "the session")["answer"]
    assert not set(target_of(exercise).given) & set(there.__globals__)


def test_a_rung_that_kills_a_compaction_watches_the_table_that_is_compacted():
    names = {name for name, rungs in RUNGS.items() if any("compact" in r.title for r in rungs)}
    assert names == {name for name in RUNGS if target_of(name).compaction}


def test_a_compaction_is_pending_from_its_plan_to_its_commit():
    begin, end = "20261127095503407", "20261127095504490"
    folder = "lake/orders_mor/.hoodie/timeline/"
    plan = [f"{folder}{begin}.compaction.{state}" for state in ("requested", "inflight")]
    batch = [f"{folder}{end}_20261127095505000.deltacommit", f"{folder}history/"]
    assert pending(batch) == set()
    assert pending(plan[:1] + batch) == pending(plan + batch) == {begin}
    assert pending([*plan, f"{folder}{begin}_{end}.commit", *batch]) == set()
