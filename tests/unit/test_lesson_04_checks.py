"""Lesson 04 judges tables by their rows: each way to be wrong has its own reason."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, Passed
from lab_env.lessons.l04 import checks
from lab_env.lessons.l04.checks import (
    MergedTable,
    MergesEvents,
    OrdersTable,
    RepairAfterAWrongKey,
    RepairedTable,
    StreamIntoTable,
    StreamTable,
    UpsertsOrders,
    late_events_lose,
    misplaced,
)
from lab_env.lessons.l04.figures import SAMPLE
from lab_env.shop.reconcile import TABLE, Reconciliation

DAY, NEXT = "partition_date=2026-11-20", "partition_date=2026-11-21"
RIGHT = (("O-31", "paid", DAY), ("O-32", "shipped", DAY), ("O-33", "delivered", NEXT))
ORDERS = OrdersTable(
    newest={"O-31": "paid", "O-32": "shipped", "O-33": "delivered"},
    days=frozenset({"2026-11-20", "2026-11-21"}),
    rows=RIGHT,
    late=frozenset({"O-32"}),
    first=frozenset({"O-31"}),
)


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


def test_one_row_per_order_in_its_newest_status_and_day_passes():
    assert isinstance(UpsertsOrders.judge(ORDERS), Passed)


def test_a_function_that_does_not_use_its_options_is_told():
    assert "has to use its `options`" in reason_of(
        UpsertsOrders.judge(replace(ORDERS, obeys=False))
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(print, "ORDERS, upsert"), (["order_id", print], "a dictionary")],
)
def test_options_and_function_are_both_asked_for(answer, expected):
    with pytest.raises(Unreadable, match=expected):
        UpsertsOrders.observe(None, answer)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ((), "wrote nothing"),
        (RIGHT[1:], "replaced what the first one had written"),
        (RIGHT[:2], "O-33 is missing"),
        ((*RIGHT, ("O-31", "new", NEXT)), "must not change during a key's life"),
        ((*RIGHT, ("O-31", "new", DAY)), "your record key differs between events"),
        (
            (RIGHT[0], ("O-32", "paid", DAY), RIGHT[2]),
            "O-32 shows 'paid', but it is 'shipped': its late",
        ),
        ((*RIGHT[:2], ("O-33", "shipped", NEXT)), "not the newest change"),
        (tuple((o, s, f"order_id={o}") for o, s, _ in RIGHT), "3 folders for 2 days"),
        (tuple((o, s, "") for o, s, _ in RIGHT), "1 folders for 2 days"),
        (tuple((o, s, f[-10:]) for o, s, f in RIGHT), "named 2026-11-20, without the column"),
    ],
)
def test_a_table_of_orders_that_is_wrong_gets_its_reason(rows, reason):
    assert reason in reason_of(UpsertsOrders.judge(replace(ORDERS, rows=rows)))


def test_each_trap_is_in_the_events_of_the_check():
    events = (*checks.BEFORE, *SAMPLE, *checks.AFTER, *checks.FIRST_ONLY)
    assert checks._late(events) == {"O-32"}  # ordering by the time of sending
    days = {event[1]: {e[7] for e in events if e[1] == event[1]} for event in events}
    assert days["O-31"] == {"20", "21"}  # the day of the change
    of_o33 = [event for event in events if event[1] == "O-33"]
    for column in (0, 3):  # ordering by the event's id, by the status
        assert max(of_o33, key=lambda event: event[column]) != of_o33[-1]
    assert {event[1] for event in checks.FIRST_ONLY} & {e[1] for e in events[:-1]} == set()


STREAMED = {"S-1": ["paid"], "S-3": ["shipped"]}


def test_a_stream_with_an_update_an_erasure_and_a_late_event_passes():
    assert isinstance(StreamIntoTable.judge(StreamTable(STREAMED)), Passed)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (StreamTable(STREAMED, ended=False), "did not end by itself"),
        (StreamTable({}), "wrote nothing"),
        (StreamTable(STREAMED | {"S-1": ["new", "paid"]}), "S-1 has 2 rows"),
        (StreamTable(STREAMED | {"E-2": ["erased"]}), "it shows 'erased'"),
        (StreamTable(STREAMED | {"E-2": ["new"]}), "leave out changes nothing"),
        (StreamTable({"S-1": ["paid"]}), "S-3 is gone"),
        (StreamTable(STREAMED | {"S-3": ["paid"]}), "the late event of 12:05 won"),
        (StreamTable(STREAMED | {"S-1": ["new"]}), "S-1 was paid"),
        (StreamTable(STREAMED, checkpointed=False), "in another place"),
    ],
)
def test_a_streamed_table_that_is_wrong_gets_its_reason(facts, reason):
    assert reason in reason_of(StreamIntoTable.judge(facts))


class Query(SimpleNamespace):
    """A query as far as the check looks at it; each look at it is half a second later."""

    def awaitTermination(self, seconds):
        self.looks += 1
        self.isActive = self.looks < self.ends_at
        return not self.isActive

    def stop(self):
        self.isActive = False

    def exception(self):
        return None


def query(ends_at: int, batch: int = 1) -> Query:
    progress = {"batchId": batch, "numInputRows": 3}
    return Query(
        looks=0, ends_at=ends_at, isActive=True, lastProgress=progress,
        status={"isTriggerActive": False},
    )  # fmt: skip


def test_a_query_that_ends_after_its_batches_has_ended_and_one_that_waits_has_not():
    assert checks._wait(query(ends_at=3, batch=0))
    assert checks._wait(query(ends_at=2))
    assert not checks._wait(query(ends_at=1_000_000))


MERGED = {"O-41": ["shipped"], "O-43": ["paid"], "O-44": ["new"]}


def test_a_merge_with_an_update_a_delete_and_an_insert_passes():
    assert isinstance(MergesEvents.judge(MergedTable(MERGED)), Passed)


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [
        (MERGED | {"O-43": ["new", "paid"]}, "O-43 has 2 rows"),
        (MERGED | {"O-42": ["erased"]}, "rules that update before the one that deletes"),
        (MERGED | {"O-45": ["erased"]}, "your rule for unmatched events inserted it"),
        ({"O-41": ["shipped"], "O-43": ["paid"]}, "O-44 is new"),
        ({"O-41": ["shipped"], "O-44": ["new"]}, "O-43 is gone"),
        (MERGED | {"O-43": ["new"]}, "O-43 was paid"),
        (MERGED | {"O-41": ["paid"]}, "the ordering time has to travel"),
    ],
)
def test_a_merge_that_is_wrong_gets_its_reason(statuses, reason):
    assert reason in reason_of(MergesEvents.judge(MergedTable(statuses)))


@pytest.mark.parametrize("returned", [None, "orders", []])
def test_a_function_that_returns_no_query_is_unreadable(returned, monkeypatch):
    monkeypatch.setattr(checks, "_stream_source", lambda lab: "folder")
    monkeypatch.setattr(checks, "_events", lambda lab, events: SimpleNamespace(schema=""))
    reader = SimpleNamespace(parquet=lambda path: "a stream")
    stream = SimpleNamespace(
        schema=lambda schema: SimpleNamespace(option=lambda name, value: reader)
    )
    lab = SimpleNamespace(scratch=str, spark=SimpleNamespace(readStream=stream))
    with pytest.raises(
        Unreadable, match="nothing" if returned is None else type(returned).__name__
    ):
        StreamIntoTable.observe(lab, lambda events, path, checkpoint: returned)


def verdict(**differences: int) -> Reconciliation:
    return Reconciliation("repaired", TABLE, rows=10, expected=10, **differences)


def test_a_repaired_table_reconciles_is_keyed_by_order_and_ordered_by_time():
    repaired = RepairedTable(verdict(), keyed_by_order=True, late_events_lose=True)
    assert isinstance(RepairAfterAWrongKey.judge(repaired), Passed)


@pytest.mark.parametrize(
    ("fields", "mode", "lose"),
    [
        ("order_ts", "EVENT_TIME_ORDERING", True),
        ("order_ts", "COMMIT_TIME_ORDERING", False),
        ("sent_at,order_ts", "EVENT_TIME_ORDERING", False),
    ],
)
def test_late_events_lose_only_against_order_ts(fields, mode, lose):
    settings = {"hoodie.table.ordering.fields": fields, "hoodie.record.merge.mode": mode}
    assert late_events_lose(settings) is lose
    assert late_events_lose({"hoodie.table.ordering.fields": fields}) is (fields == "order_ts")


def test_an_order_of_the_recording_belongs_in_the_folder_of_its_creation():
    order = "o-rec-002121"  # created before midnight of 2026-01-05, changed after it
    days = ("partition_date=2026-01-05", "2026-01-05", "", "partition_date=2026-01-06")
    assert [misplaced([(order, day)]) for day in days] == [(), (), (), (order,)]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (RepairedTable(), "wrote nothing"),
        (RepairedTable(verdict(duplicate=3), True), "3 rows too many"),
        (RepairedTable(verdict(missing=3), True), "3 orders are missing"),
        (RepairedTable(verdict(stale=3), True), "dropDuplicates keeps whichever row"),
        (RepairedTable(verdict(ghost=3), True), "never held their erasures"),
        (RepairedTable(verdict(altered=3), True), "milliseconds only"),
        (RepairedTable(verdict(), False), "the record key is not `order_id`"),
        (RepairedTable(verdict(), True, False), "does not compare versions by `order_ts`"),
        (RepairedTable(verdict(), True, True, ("o-1", "o-2")), "2 orders, for example o-1, lie in"),
        (RepairedTable(verdict(unexpected=3), True, True), "differs"),
    ],
)
def test_a_repair_that_falls_short_gets_its_reason(table, reason):
    assert reason in reason_of(RepairAfterAWrongKey.judge(table))
