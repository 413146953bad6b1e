"""The ladder's targets judge outputs; the events of its rungs are hard enough on every seed."""

import io
import json
import sys
import time
from dataclasses import asdict, replace
from decimal import Decimal
from types import SimpleNamespace
from unittest.mock import MagicMock
from zlib import crc32

import pandas as pd
import pytest
from ladder_ledger import sent

from lab_env.course import registry
from lab_env.course.answers import Unreadable
from lab_env.lab.faults.messages import WITHOUT, defects
from lab_env.lab.job.packing import pack, unpack
from lab_env.lab.ladder import rungs
from lab_env.lab.ladder.answers import find_answer
from lab_env.lab.ladder.history import Look, as_text, history
from lab_env.lab.ladder.rungs import (
    DISTURBED,
    FALLS,
    IN_NOTEBOOK,
    RUNGS,
    SENDS,
    customer_of,
    every_defect_between,
    late_and_twice,
    malformed_between,
    moved_and_cancelled,
    new_orders,
    with_new_field,
    with_only,
)
from lab_env.lab.ladder.target import Task, check_ended, target_of
from lab_env.lab.ladder.worker import LadderWorker
from lab_env.lessons.l03.ladder import BOUND, DEAD_LETTER, ORDER, TARGETS, check_bound
from lab_env.lessons.l06.ladder import pending
from lab_env.lessons.l11.ladder import changes
from lab_env.lessons.l12.ladder import check_others, with_absent
from lab_env.lessons.l15 import ladder as l15
from lab_env.lessons.l17 import ladder as l17
from lab_env.lessons.l18 import checks
from lab_env.lessons.l18 import ladder as l18
from lab_env.pipeline.messages import Malformed, read_event
from lab_env.platform.processes.state import folder
from lab_env.platform.settings import Endpoints
from lab_env.shop.events import FIELDS, MALFORMED_KINDS
from lab_env.shop.model import SECOND, Send, generate

SEEDS = range(30)
SPLIT, LANDED = TARGETS["03.2"], TARGETS["03.3"]
KINDS = ("event", "late", "malformed:null_key", "malformed:empty")
MESSAGES = SPLIT.keyed(
    pd.DataFrame(
        {
            "send_id": list("abcd"),
            "kind": KINDS,
            "op": "update",
            "order_ts": 1_000_000,
            "partition": [0, 1, 0, 1],
            "offset": [0, 0, 1, 1],
            "delivery": 1,
            "value": "",
        }
    )
)
RIGHT = {"0:0": ORDER, "1:0": ORDER, "0:1": DEAD_LETTER, "1:1": DEAD_LETTER}


def sides(shown: dict[str, str], *more: tuple[str, str]) -> pd.DataFrame:
    return pd.DataFrame([*shown.items(), *more], columns=["key", "event"])


def test_each_message_is_on_its_side():
    assert SPLIT.judge(MESSAGES, sides(RIGHT)).text == ""
    assert not SPLIT.judge(MESSAGES, sides(RIGHT)).wrong


@pytest.mark.parametrize(
    ("key", "side", "why"),
    [
        ("0:1", ORDER, "malformed, but among your orders (0:1, malformed:null_key)"),
        ("1:0", DEAD_LETTER, "valid, but among your dead letters (1:0, late)"),
        ("1:1", None, "in neither of your results (1:1, malformed:empty)"),
        ("0:0", "twice", "in your results more than once (0:0, event)"),
        ("0:7", ORDER, "in your results, but not in the topic (0:7, never sent)"),
    ],
)
def test_a_message_on_the_wrong_side_is_named(key, side, why):
    shown = sides(RIGHT, ("0:0", DEAD_LETTER)) if side == "twice" else sides(RIGHT | {key: side})
    verdict = SPLIT.judge(MESSAGES, shown.dropna())
    assert verdict.text == f"Messages: 1 {why}." and verdict.wrong == (key,)


def test_of_several_messages_on_the_wrong_side_the_first_is_named():
    verdict = SPLIT.judge(MESSAGES, sides(RIGHT | {"0:1": ORDER, "1:1": ORDER}))
    why = "Messages: 2 malformed, but among your orders (0:1, malformed:null_key)."
    assert verdict.text == why
    assert verdict.wrong == ("0:1", "1:1")


def test_the_history_of_a_message_names_both_results():
    steps = history("0:1", SPLIT, MESSAGES, [Look(1, sides(RIGHT | {"0:1": ORDER}))]).steps
    assert steps[-1].wrong and steps[-1].text == "an order; it must show a dead letter"


def test_files_must_hold_each_place_once():
    sends, once = LANDED.keyed(MESSAGES), LANDED.keyed(MESSAGES[["partition", "offset"]])
    assert not LANDED.judge(sends, once).wrong
    twice = LANDED.judge(sends, pd.concat([once, once[:1]]))
    assert "1 message is in the output more than once (0:0)" in twice.text
    assert "3 messages are missing" in LANDED.judge(sends, once[:1]).text


def test_a_batch_above_its_bound_is_said():
    check_bound([])
    check_bound([BOUND, BOUND + 1, 3])  # Spark rounds up for a partition with few messages
    with pytest.raises(Unreadable, match=f"has 50 messages; with at_most={BOUND}"):
        check_bound([50])


@pytest.mark.parametrize("seed", range(30))
def test_the_delivery_of_malformed_messages_has_every_defect(seed):
    first, alone, last = every_defect_between(seed)
    kinds = [send.kind.partition(":")[2] for send in alone]
    assert all(kinds)
    assert {"duplicate_key", "missing_field", "missing_key", "impossible_timestamp"} <= {*kinds}
    sends = [send for part in (first, alone, last) for send in part]
    assert len({send.send_id for send in sends}) == len(sends)


def test_the_contract_gives_each_defect_the_reason_that_the_ledger_has():
    valid = next(generate(1, 17, malformed=0)).value
    now = time.time_ns() // 1000
    read_event(valid, now)
    found = list(defects(valid))
    assert len({value for _, value in found}) == len(found) > 2 * len(FIELDS)
    for reason, value in found:
        with pytest.raises(Malformed) as refused:
            read_event(value, now)
        assert refused.value.args == (reason,), value
    assert {*WITHOUT["order_id"]} < {*MALFORMED_KINDS}


ENDPOINTS = Endpoints("http://s3", "k", "s", "eu", "lake", "kafka:1", "zookeeper:1")
AUDIT, FEED = target_of("11.3"), target_of("11.4")


def change(number: int, order: str = "o-1", kind: str = "event", op: str = "update") -> Send:
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
        ([change(5)], ["o-1-5"]),
        ([change(5), change(4, kind="late")], ["o-1-5"]),
        ([change(2, kind="late")], []),  # the order's row is newer
        ([change(3, kind="resend")], ["o-1-3"]),  # the row is written again
        ([change(5, op="erase")], []),
        ([change(5, kind="malformed:empty")], None),
    ],
)
def test_a_change_is_the_newest_event_of_a_delivery_unless_the_order_is_newer(later, shown):
    found = right([change(1), change(3)], later)
    assert found["o-1 in delivery 1"] == ["o-1-3"]
    assert found.get("o-1 in delivery 2") == shown


def test_a_change_counts_against_all_earlier_deliveries_of_its_own_order():
    found = right(
        [change(9), change(1, "o-2")], [change(2)], [change(4, kind="late"), change(3, "o-2")]
    )
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
    sends = AUDIT.keyed(sent([change(1)], [change(3), change(2, kind="late")]))
    assert AUDIT.judge(sends, audit(*rows)).text == found


def test_the_history_of_a_change_shows_when_it_came_again():
    first, again = ("o-1", "o-1-1", 1), ("o-2", "o-2-2", 2)
    looks = [Look(1, audit(first)), Look(2, audit(first, first, again))]
    sends = AUDIT.keyed(sent([change(1)], [change(2, "o-2")]))
    told = history("o-1 in delivery 1", AUDIT, sends, looks)
    assert told.wrong and "2 rows: update at 00:00:01.000" in as_text(told)
    assert not history("o-2 in delivery 2", AUDIT, sends, looks).wrong


@pytest.mark.parametrize("target", [AUDIT, FEED])
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


WATERMARK = 120 * SECOND
TOTALS, BOARD = target_of("12.3"), target_of("14.4")


def event(number: int, order: str, status: str, cents: int, customer: str, kind="event") -> Send:
    """Return an event; a higher number is a newer one."""
    op = {"cancelled": "cancel", "erased": "erase"}.get(status, "update")
    fields = {"customer_id": customer, "status": status, "amount": cents / 100}
    value = json.dumps(fields).encode()
    name = f"{order}-{number}"
    return Send(f"{name}-{kind}", name, order, order, value, kind, op, number * SECOND, 0)


def totals(*sends: Send) -> dict[str, str]:
    """Return the right total of each customer."""
    keyed = TOTALS.keyed(sent(list(sends)))
    return {key: TOTALS.right(own)[0] for key, own in keyed.groupby("key")}


def test_a_total_counts_the_newest_event_of_each_order_once():
    late = event(1, "o-1", "new", 100, "c-1", "late")
    paid = event(2, "o-1", "paid", 290, "c-1")
    again = event(2, "o-1", "paid", 290, "c-1", "resend")
    assert totals(paid, late, again, event(3, "o-2", "new", 1999, "c-1")) == {"c-1": "22.89"}


@pytest.mark.parametrize("status", ["cancelled", "erased"])
def test_a_cancelled_or_erased_order_is_worth_nothing(status):
    assert totals(event(1, "o-1", "new", 100, "c-1"), event(2, "o-1", status, 100, "c-1")) == {
        "c-1": "0.00"
    }


def test_an_order_that_has_moved_counts_for_its_new_customer_only():
    sends = event(1, "o-1", "new", 100, "c-1"), event(2, "o-1", "paid", 150, "c-2")
    assert totals(*sends) == {"c-1": "0.00", "c-2": "1.50"}


def test_a_malformed_message_has_no_customer():
    bad = event(2, "o-1", "paid", 900, "c-1", "malformed:empty")
    bad.value = b"  "
    assert totals(event(1, "o-1", "new", 100, "c-1"), bad) == {"c-1": "1.00"}


def shown(**cents: float | None) -> pd.DataFrame:
    """Return the rows of a table of totals; two of its customers may have none."""
    table = pd.DataFrame({"customer_id": cents.keys(), "cents": cents.values()})
    return with_absent(table, pd.Series(["a", "b"]))


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (shown(a=100, b=0), ""),
        (shown(a=100), ""),
        (shown(a=100, b=None), "1 customer is in the output with another value (b)."),
        (shown(b=0), "1 customer is in the output with another value (a)."),
        (shown(a=100, b=7), "1 customer is in the output with another value (b)."),
    ],
)
def test_no_row_counts_as_0_and_a_null_does_not(rows, found):
    sends = [event(1, "o-1", "new", 100, "a"), event(2, "o-2", "cancelled", 50, "b")]
    assert TOTALS.judge(TOTALS.keyed(sent(sends)), rows).text == found


def test_the_history_of_a_customer_has_all_events_of_an_order_that_moved():
    sends = [event(1, "o-1", "new", 100, "a")], [event(2, "o-1", "paid", 150, "b")]
    looks = [Look(1, shown(a=100)), Look(2, shown(a=100, b=150))]
    told = as_text(history("a", TOTALS, TOTALS.keyed(sent(*sends)), looks))
    assert "paid at 00:00:02.000, b, 1.50 (" in told
    assert "1.00; it must show 0.00   <-- here" in told


def test_nothing_is_promised_of_a_customer_before_the_first_order():
    sends = [event(1, "o-1", "new", 100, "a")], [event(2, "o-1", "paid", 150, "b")]
    rows = pd.DataFrame({"key": ["a"], "event": ["1.00"]})
    looks = [Look(1, rows), Look(2, shown(a=100, b=0))]
    told = as_text(history("b", TOTALS, TOTALS.keyed(sent(*sends)), looks))
    assert told.splitlines()[-1].split(maxsplit=1)[1] == "0.00; it must show 1.50   <-- here"


def test_only_customers_who_have_moved_get_a_new_bookmark():
    before = {"a": "1", "b": "1"}
    check_others({"a", "c"}, before, {"a": "2", "b": "1", "c": "2"})
    with pytest.raises(Unreadable, match="does not name b, and its `upto` has become 2"):
        check_others({"a"}, before, {"a": "2", "b": "2"})


@pytest.mark.parametrize("seed", SEEDS)
def test_orders_move_and_a_cancelled_one_is_erased_across_deliveries(seed):
    newest: dict[str, Send] = {}
    moved = erased = 0
    for part in moved_and_cancelled(seed):
        before = dict(newest)
        for send in sorted(part, key=lambda send: send.order_ts):
            if send.order_id not in newest or newest[send.order_id].order_ts <= send.order_ts:
                newest[send.order_id] = send
        for old, new in ((old, newest[order]) for order, old in before.items()):
            counts = {old.op, new.op} <= {"create", "update"}
            moved += counts and customer_of(old) != customer_of(new)
            erased += old.op == "cancel" and new.op == "erase"
    assert moved and erased


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_customer_comes_after_the_first_delivery(seed):
    first, *later = moved_and_cancelled(seed)
    known = {customer_of(send) for send in first}
    assert any(customer_of(send) not in known for part in later for send in part)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_order_comes_later_than_the_watermark_of_two_minutes_allows(seed):
    parts, newest = new_orders(seed), 0
    assert {send.op for part in parts for send in part} == {"create"}
    for part in parts:
        assert all(send.order_ts > newest - WATERMARK for send in part)
        newest = max(newest, *(send.order_ts for send in part))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_minute_goes_on_in_the_next_delivery_and_another_one_is_over(seed):
    parts = [set(BOARD.keyed(sent(part))["key"]) for part in new_orders(seed)]
    assert parts[0] & parts[1] and parts[1] & parts[2]
    assert parts[0] - parts[1] - parts[2]
    assert {send.kind for part in new_orders(seed) for send in part} == {"event", "late", "resend"}


def test_a_minute_shows_its_orders_and_their_sum():
    sends = sent([event(1, "o-1", "new", 250, "c"), event(59, "o-2", "new", 1005, "c")])
    keyed = BOARD.keyed(sends)
    assert set(keyed["key"]) == {"1970-01-01 00:00"}
    assert BOARD.right(keyed) == ["2 orders, 12.55"]


def test_the_output_of_14_4_shows_the_same():
    table = pd.DataFrame(
        {
            "minute": pd.to_datetime([0, 60 * SECOND], unit="us", utc=True),
            "orders": [2, 1],
            "revenue": [Decimal("12.55"), None],
        }
    )
    rows = BOARD.rows(SimpleNamespace(hudi_rows=lambda path, columns: table))
    assert rows["key"].tolist() == ["1970-01-01 00:00", "1970-01-01 00:01"]
    assert rows["event"].tolist() == ["2 orders, 12.55", "1 orders, nan"]
    nothing = SimpleNamespace(hudi_rows=lambda path, columns: pd.DataFrame(columns=columns))
    assert BOARD.rows(nothing).empty


def test_the_output_of_12_3_has_all_customers():
    sends = sent([event(1, "o-1", "new", 100, "a")])
    stage = SimpleNamespace(
        sends=lambda: sends, hudi_rows=lambda path, columns: pd.DataFrame(columns=columns)
    )
    assert TOTALS.rows(stage)[["key", "event"]].to_numpy().tolist() == [["a", "0.00"]]


def test_the_rungs_of_14_4_have_new_orders_only():
    assert {rung.deliveries for rung in rungs.RUNGS["14.4"]} == {new_orders}


TASK = Task("kafka:1", "attacked", "s3a://lake/attack", 1, {})
CONFLICT = "Caused by: org.apache.hudi.exception.HoodieWriteConflictException: two writes"


@pytest.mark.parametrize(
    "exercise", ["06.3", "11.2", "11.3", "11.4", "15.2", "17.2", "17.3", "18.1"]
)
def test_a_function_travels_without_the_variables_that_it_is_given(exercise):
    target, function = target_of(exercise), find_answer(exercise, ENDPOINTS, "reference")
    there = unpack(pack(bound=True, answer=function), "the session")["answer"]
    assert not set(target.given) & set(there.__globals__)
    assert set(target.variables(MagicMock(), TASK)) == set(target.given)


def test_a_module_that_the_notebook_wrote_travels_with_the_function(home, monkeypatch):
    path = folder("lessons") / "lesson-99"
    path.mkdir()
    (path / "shop_made.py").write_text("NUMBER = 7\n\n\ndef number():\n    return NUMBER\n")
    monkeypatch.syspath_prepend(path)
    names = {"__name__": "__main__"}
    exec("from shop_made import number\ndef answer(): return number()", names)
    job = pack(answer=names["answer"])
    monkeypatch.delitem(sys.modules, "shop_made")
    (path / "shop_made.py").unlink()
    assert unpack(job, "the session")["answer"]() == 7


def test_the_lessons_module_is_made_from_its_cells():
    shop = l17.shop_writer()
    assert shop.ORDERS["hoodie.datasource.write.recordkey.field"] == "order_id"
    assert all(callable(getattr(shop, name)) for name in l17.SHOP if name != "ORDERS")


def test_the_topic_of_15_2_is_the_attacks():
    kafka = l15.TARGETS["15.2"].variables(None, TASK)["KAFKA"]
    assert kafka == {"kafka.bootstrap.servers": "kafka:1", "subscribe": "attacked"}


def test_a_batch_above_the_limit_is_said():
    l15.check_limit([])
    l15.check_limit([l15.BOUND, l15.BOUND + 1, 3])
    with pytest.raises(Unreadable, match=f"=20, .* called `apply` with {l15.BOUND * 3}"):
        l15.check_limit([3, l15.BOUND * 3])


def test_the_output_of_15_2_is_all_finished_files(monkeypatch):
    def parquet(*offsets):
        file = io.BytesIO()
        pd.DataFrame({"partition": 0, "offset": offsets}).to_parquet(file)
        return file.getvalue()

    files = {
        "attack/applied/0/part-0.parquet": parquet(0, 1),
        "attack/applied/0/_SUCCESS": b"",
        "attack/applied/1/part-0.parquet": parquet(2),
        "attack/applied/2/_temporary/0/part-0.parquet": parquet(3),
    }
    monkeypatch.setattr(
        l15.store,
        "list_objects",
        lambda at, prefix: map(lambda key: SimpleNamespace(key=key), files),
    )
    monkeypatch.setattr(l15.store, "read", lambda at, key: files[key])
    stage = SimpleNamespace(endpoints=ENDPOINTS, folder="attack")
    assert list(l15.TARGETS["15.2"].rows(stage)["key"]) == ["0:0", "0:1", "0:2"]
    files.clear()
    assert l15.TARGETS["15.2"].rows(stage).empty


def test_a_stream_that_still_runs_is_stopped_and_said():
    stopped = []
    query = SimpleNamespace(stop=lambda: stopped.append(1))
    check_ended(SimpleNamespace(streams=SimpleNamespace(active=[])))
    with pytest.raises(Unreadable, match="was still running"):
        check_ended(SimpleNamespace(streams=SimpleNamespace(active=[query])))
    assert stopped


def test_the_old_stream_has_the_first_delivery_for_itself():
    def fail(table, checkpoint):
        raise AssertionError

    worker = LadderWorker(None)
    worker.functions["answer"] = fail
    assert worker.run("17.2", asdict(TASK)) == {}


@pytest.mark.parametrize("seed", range(30))
def test_each_of_two_jobs_changes_orders_of_the_first_day_that_the_other_could_lose(seed):
    parts = late_and_twice(seed)
    before = [send for part in parts[: DISTURBED - 1] for send in part]
    now = parts[DISTURBED - 1]
    assert {_day(send) for send in before} >= {"2026-01-05"}
    for job in range(len(l18.JOBS)):
        own = [send for send in now if _job(send) == job and _day(send) == "2026-01-05"]
        assert _shown(before) != _shown(before + own)


def _job(send: Send) -> int:
    return crc32(send.order_id.encode()) % len(l18.JOBS)


def _day(send: Send) -> str:
    return json.loads(send.value)["partition_date"]


def _shown(sends: list[Send]) -> dict[str, str]:
    newest = {send.order_id: send for send in sorted(sends, key=lambda send: send.order_ts)}
    return {order: send.event_id for order, send in newest.items() if send.op != "erase"}


def test_a_write_is_repeated_after_a_conflict_only(monkeypatch):
    errors = [CONFLICT, CONFLICT]
    written = []

    def write(rows, table, options):
        if errors:
            raise RuntimeError(errors.pop())
        written.append(table)

    monkeypatch.setattr(checks, "write", write)
    l18._write("stream", None, "t", {})
    assert written == ["t"]
    errors += [CONFLICT] * l18.TRIES
    with pytest.raises(Unreadable, match="The stream had a conflict 3 times: HoodieWriteConf"):
        l18._write("stream", None, "t", {})
    errors += ["Caused by: java.io.FileNotFoundException: no file"]
    with pytest.raises(Unreadable, match="not because of a conflict: FileNotFoundException"):
        l18._write("stream", None, "t", {})


DAY = 86_400_000_000  # microseconds


def test_each_exercise_of_the_ladder_exists_and_its_function_can_be_called():
    for exercise_id in RUNGS:
        assert registry.exercise(exercise_id).id == exercise_id
        assert target_of(exercise_id).promise


def test_for_each_wrong_answer_the_table_says_where_it_falls():
    assert FALLS.keys() == RUNGS.keys()
    for exercise_id, falls in FALLS.items():
        assert len(falls) == len(registry.exercise(exercise_id).wrong), exercise_id
        assert all(IN_NOTEBOOK <= rung <= len(RUNGS[exercise_id]) for rung in falls)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_rung_has_late_events_resends_and_erasures_across_its_deliveries(seed):
    parts = late_and_twice(seed)
    assert sum(map(len, parts)) == SENDS and len(parts) > DISTURBED
    seen: dict[str, int] = {}
    late = erased = 0
    for part in parts:
        late += sum(s.kind == "late" and seen.get(s.order_id, 0) > s.order_ts for s in part)
        erased += sum(s.op == "erase" and s.order_id in seen for s in part)
        for send in part:
            seen[send.order_id] = max(seen.get(send.order_id, 0), send.order_ts)
    assert late and erased
    newest = max(send.order_ts for part in parts[:-1] for send in part)
    (very_late,) = {s.order_id for s in parts[-1] if s.order_ts < newest - 3_600_000_000}
    assert len({s.event_id for part in parts for s in part if s.order_id == very_late}) == 1
    sends = [send for part in parts for send in part]
    assert any(send.kind == "resend" for send in sends)
    days = {(send.order_id, send.order_ts // DAY) for send in sends}
    assert len(days) > len({order for order, _ in days}), "no order has events on two days"


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_of_an_order_follows_its_erasure(seed):
    for deliveries in (late_and_twice(seed), malformed_between(seed)):
        sends = [send for part in deliveries for send in part]
        gone: set[str] = set()
        for send in sends:
            assert send.order_id not in gone or send.kind.startswith("malformed")
            if send.op == "erase" and not send.kind.startswith("malformed"):
                gone.add(send.order_id)


@pytest.mark.parametrize("seed", SEEDS)
def test_between_good_messages_comes_a_delivery_of_malformed_ones_alone(seed):
    first, alone, last = malformed_between(seed)
    assert alone and all(s.kind.startswith("malformed") for s in alone)
    for part in (first, last):
        assert any(not send.kind.startswith("malformed") for send in part)
    assert any(send.kind.startswith("malformed") for send in (*first, *last))


def test_a_seed_gives_the_same_events_again():
    assert late_and_twice(17) == late_and_twice(17) != late_and_twice(18)


def test_a_rung_with_fewer_events_has_as_many_deliveries_and_none_is_empty():
    rung = RUNGS["04.2"][1]
    first, alone, last = rung.deliveries(17)
    small = with_only(rung, {last[0].send_id}).deliveries(17)
    assert [len(part) for part in small] == [1, 1, 1] and small[2] == [last[0]]
    assert small[0][0] in first and not small[0][0].kind.startswith("malformed")
    assert small[1] == [alone[0]]


def test_a_new_field_comes_after_the_first_delivery_and_changes_nothing_else():
    before, after = late_and_twice(3), with_new_field(3)
    assert after[0] == before[0]
    for old, new in zip(before[1] + before[2], after[1] + after[2], strict=True):
        assert json.loads(new.value) == json.loads(old.value) | {"coupon": "SPRING"}
        assert replace(new, value=old.value) == old
