"""The ladder's targets judge outputs; the events of its rungs are hard enough on every seed."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from itertools import chain
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
from lab_env.lab.ladder.proof import HOLDS, NOT_TRIED
from lab_env.lab.ladder.stage import Task
from lab_env.lab.ladder.target import Target, Verdict, check_ended, target_of
from lab_env.lab.ladder.worker import LadderWorker
from lab_env.lessons.l03.ladder import BOUND, DEAD_LETTER, ORDER, TARGETS, check_bound
from lab_env.lessons.l06.ladder import pending
from lab_env.lessons.l11.ladder import changes
from lab_env.lessons.l12.ladder import check_others, with_absent
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
KINDS = {"a": "event", "b": "late", "c": "malformed:null_key", "d": "malformed:empty"}
MESSAGES = SPLIT.keyed(
    sent(
        [Send(letter, "", "", "", b"", kind, "update", SECOND, 0) for letter, kind in KINDS.items()]
    ).assign(partition=[0, 1, 0, 1], offset=[0, 0, 1, 1])
)
BAD_ORDER = "malformed, but among your orders (0:1, malformed:null_key)"
RIGHT = {"0:0": ORDER, "1:0": ORDER, "0:1": DEAD_LETTER, "1:1": DEAD_LETTER}


def sides(shown: dict[str, str], *more: tuple[str, str]) -> pd.DataFrame:
    return pd.DataFrame([*shown.items(), *more], columns=["key", "event"])


def test_each_message_is_on_its_side():
    assert SPLIT.judge(MESSAGES, sides(RIGHT)) == Verdict("", ())


@pytest.mark.parametrize(
    ("change", "more", "why"),
    [
        ({"0:1": ORDER}, (), f"1 {BAD_ORDER}"),
        ({"1:0": DEAD_LETTER}, (), "1 valid, but among your dead letters (1:0, late)"),
        ({"1:1": None}, (), "1 in neither of your results (1:1, malformed:empty)"),
        ({}, ("0:0", DEAD_LETTER), "1 in your results more than once (0:0, event)"),
        ({"0:7": ORDER}, (), "1 in your results, but not in the topic (0:7, never sent)"),
        # Of several the first is named.
        ({"0:1": ORDER, "1:1": ORDER}, (), f"2 {BAD_ORDER}"),
    ],
)
def test_messages_on_the_wrong_side_are_counted_and_the_first_is_named(change, more, why):
    verdict = SPLIT.judge(MESSAGES, sides(RIGHT | change, *([more] if more else [])).dropna())
    assert verdict.text == f"Messages: {why}."
    assert verdict.wrong == tuple(change or more[:1])


def test_the_history_of_a_message_names_both_results():
    steps = history("0:1", SPLIT, MESSAGES, [Look(1, sides(RIGHT | {"0:1": ORDER}))]).steps
    assert steps[-1].wrong and steps[-1].text == "an order; it must show a dead letter"


def test_files_must_hold_each_place_once():
    sends, once = LANDED.keyed(MESSAGES), LANDED.keyed(MESSAGES[["partition", "offset"]])
    assert not LANDED.judge(sends, once).wrong
    twice = LANDED.judge(sends, pd.concat([once, once[:1]]))
    assert "1 message is in the output more than once (0:0)" in twice.text
    assert "3 messages are missing" in LANDED.judge(sends, once[:1]).text


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (check_bound, f"has 50 messages; with at_most={BOUND}"),
    ],
)
def test_a_batch_above_its_bound_is_said(check, said):
    check([])
    check([BOUND, BOUND + 1, 3])  # Spark rounds up for a partition with few messages
    with pytest.raises(Unreadable, match=said):
        check([3, 50])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_delivery_of_malformed_messages_has_every_defect(seed):
    first, alone, last = rungs.every_defect_between(seed)
    kinds = [send.kind.partition(":")[2] for send in alone]
    assert all(kinds)
    assert {"duplicate_key", "missing_field", "missing_key", "impossible_timestamp"} <= {*kinds}
    sends = [*first, *alone, *last]
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


def change(number: int, order="o-1", kind="event", op="update", value: bytes = b"{}") -> Send:
    """Return an event; a higher number is a newer one."""
    name = f"{order}-{number}"
    return Send(f"{name}-{kind}", name, order, order, value, kind, op, number * SECOND, 0)


def right(*deliveries: list[Send], target: Target = AUDIT) -> dict[str, list[str]]:
    """Return the events that the output must show for each key."""
    keyed = target.keyed(sent(*deliveries))
    return {key: target.right(own) for key, own in keyed.groupby("key")}


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
    last = [change(4, kind="late"), change(3, "o-2")]
    found = right([change(9), change(1, "o-2")], [change(2)], last)
    assert found["o-1 in delivery 2"] == found["o-1 in delivery 3"] == []
    assert found["o-2 in delivery 3"] == ["o-2-3"]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([("o-1", "o-1-1", 1), ("o-1", "o-1-3", 2)], ""),
        ([("o-1", "o-1-3", 2)], "1 change is missing from the output (o-1 in delivery 1)."),
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


def no_rows(table: str, columns: Sequence[str]) -> pd.DataFrame:
    """Read a table that is not there yet."""
    return pd.DataFrame(columns=list(columns))


@pytest.mark.parametrize("target", [AUDIT, FEED])
def test_there_may_be_no_output_yet(target, monkeypatch):
    monkeypatch.setattr("lab_env.platform.store.list_objects", lambda *where: iter(()))
    rows = target.rows(SimpleNamespace(endpoints=ENDPOINTS, folder="attack", hudi_rows=no_rows))
    assert rows.empty and {"key", "event"} <= set(rows)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_order_changes_in_two_deliveries_and_both_commits_of_each_change_orders(seed):
    found = right(*rungs.late_and_twice(seed))
    changed = [key.split(" in delivery ") for key, shown in found.items() if shown]
    assert len(changed) > len({order for order, _ in changed})
    commits = {(delivery, crc32(order.encode()) % 2) for order, delivery in changed}
    assert len(commits) == 2 * len(rungs.late_and_twice(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_each_delivery_has_a_batch_without_a_new_order(seed):
    known: set[str] = set()
    for part in rungs.late_and_twice(seed):
        known |= {send.order_id for send in part if send.op == "create"}
        others = {send.order_id for send in part if send.op != "create"}
        assert others and others <= known


def test_a_rung_that_kills_a_compaction_watches_the_table_that_is_compacted():
    for name, own in rungs.RUNGS.items():
        is_said = any("compact" in rung.title for rung in own)
        assert bool(target_of(name).compaction) == is_said, name


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
    """Return an event with a customer and an amount."""
    op = {"cancelled": "cancel", "erased": "erase"}.get(status, "update")
    fields = {"customer_id": customer, "status": status, "amount": cents / 100}
    return change(number, order, kind, op, json.dumps(fields).encode())


NEW = event(1, "o-1", "new", 100, "a")
MOVED = event(2, "o-1", "paid", 150, "b")
PAID = event(2, "o-1", "paid", 290, "a")


@pytest.mark.parametrize(
    ("sends", "totals"),
    [
        ([PAID, replace(NEW, kind="late"), replace(PAID, kind="resend")], {"a": "2.90"}),
        ([PAID, event(3, "o-2", "new", 1, "a")], {"a": "2.91"}),
        ([NEW, event(2, "o-1", "cancelled", 100, "a")], {"a": "0.00"}),
        ([NEW, event(2, "o-1", "erased", 100, "a")], {"a": "0.00"}),
        ([NEW, MOVED], {"a": "0.00", "b": "1.50"}),
        ([NEW, change(2, kind="malformed:empty", value=b"  ")], {"a": "1.00"}),  # has no customer
    ],
)
def test_a_total_counts_the_newest_event_of_each_order_once(sends, totals):
    assert right(sends, target=TOTALS) == {key: [total] for key, total in totals.items()}


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
    sends = sent([NEW, event(2, "o-2", "cancelled", 50, "b")])
    assert TOTALS.judge(TOTALS.keyed(sends), rows).text == found


def test_the_history_of_a_customer_has_all_events_of_an_order_that_moved():
    looks = [Look(1, shown(a=100)), Look(2, shown(a=100, b=150))]
    told = as_text(history("a", TOTALS, TOTALS.keyed(sent([NEW], [MOVED])), looks))
    assert "paid at 00:00:02.000, b, 1.50 (" in told
    assert "1.00; it must show 0.00   <-- here" in told


def test_nothing_is_promised_of_a_customer_before_the_first_order():
    rows = pd.DataFrame({"key": ["a"], "event": ["1.00"]})
    looks = [Look(1, rows), Look(2, shown(a=100, b=0))]
    told = as_text(history("b", TOTALS, TOTALS.keyed(sent([NEW], [MOVED])), looks))
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
    for part in rungs.moved_and_cancelled(seed):
        before = dict(newest)
        for send in sorted(part, key=lambda send: send.order_ts):
            if send.order_id not in newest or newest[send.order_id].order_ts <= send.order_ts:
                newest[send.order_id] = send
        for old, new in ((old, newest[order]) for order, old in before.items()):
            counts = {old.op, new.op} <= {"create", "update"}
            moved += counts and rungs.customer_of(old) != rungs.customer_of(new)
            erased += old.op == "cancel" and new.op == "erase"
    assert moved and erased


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_customer_comes_after_the_first_delivery(seed):
    first, *later = rungs.moved_and_cancelled(seed)
    known = {rungs.customer_of(send) for send in first}
    assert any(rungs.customer_of(send) not in known for part in later for send in part)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_order_comes_later_than_the_watermark_of_two_minutes_allows(seed):
    newest, (deliveries,) = 0, {rung.deliveries for rung in rungs.RUNGS["14.4"]}
    for part in deliveries(seed):
        assert {send.op for send in part} == {"create"}
        assert all(send.order_ts > newest - WATERMARK for send in part)
        newest = max(newest, *(send.order_ts for send in part))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_minute_goes_on_in_the_next_delivery_and_another_one_is_over(seed):
    parts = [set(BOARD.keyed(sent(part))["key"]) for part in rungs.new_orders(seed)]
    assert parts[0] & parts[1] and parts[1] & parts[2]
    assert parts[0] - parts[1] - parts[2]
    kinds = {send.kind for send in chain(*rungs.new_orders(seed))}
    assert kinds == {"event", "late", "resend"}


def test_a_minute_shows_its_orders_and_their_sum():
    sends = [event(1, "o-1", "new", 250, "c"), event(59, "o-2", "new", 1005, "c")]
    assert right(sends, target=BOARD) == {"1970-01-01 00:00": ["2 orders, 12.55"]}


def test_the_output_of_14_4_shows_the_same():
    minutes = pd.to_datetime([0, 60 * SECOND], unit="us", utc=True)
    revenue = [Decimal("12.55"), None]
    table = pd.DataFrame({"minute": minutes, "orders": [2, 1], "revenue": revenue})
    rows = BOARD.rows(SimpleNamespace(hudi_rows=lambda path, columns: table))
    assert rows["key"].tolist() == ["1970-01-01 00:00", "1970-01-01 00:01"]
    assert rows["event"].tolist() == ["2 orders, 12.55", "1 orders, nan"]
    assert BOARD.rows(SimpleNamespace(hudi_rows=no_rows)).empty


def test_the_output_of_12_3_has_all_customers():
    stage = SimpleNamespace(sends=lambda: sent([NEW]), hudi_rows=no_rows)
    assert TOTALS.rows(stage)[["key", "event"]].to_numpy().tolist() == [["a", "0.00"]]


TASK = Task("kafka:1", "attacked", "s3a://lake/attack", 1, {})
CONFLICT = "Caused by: org.apache.hudi.exception.HoodieWriteConflictException: two writes"


GIVEN = ("06.3", "11.2", "11.3", "11.4", "17.2", "17.3", "18.1")


@pytest.mark.parametrize("exercise", GIVEN)
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


@pytest.mark.parametrize("seed", SEEDS)
def test_each_of_two_jobs_changes_orders_of_the_first_day_that_the_other_could_lose(seed):
    parts = rungs.late_and_twice(seed)
    before, now = list(chain(*parts[: rungs.DISTURBED - 1])), parts[rungs.DISTURBED - 1]
    assert {_day(send) for send in before} >= {"2026-01-05"}
    for job in range(len(l18.JOBS)):
        of_job = [s for s in now if crc32(s.order_id.encode()) % len(l18.JOBS) == job]
        own = [send for send in of_job if _day(send) == "2026-01-05"]
        assert _shown(before) != _shown(before + own)


def _day(send: Send) -> str:
    return json.loads(send.value)["partition_date"]


def _shown(sends: list[Send]) -> dict[str, str]:
    newest = {send.order_id: send for send in sorted(sends, key=lambda send: send.order_ts)}
    return {order: send.event_id for order, send in newest.items() if send.op != "erase"}


def test_a_write_is_repeated_after_a_conflict_only(monkeypatch):
    errors, written = [CONFLICT, CONFLICT], []

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


DAY = 86_400 * SECOND


def test_each_exercise_of_the_ladder_exists_and_its_function_can_be_called():
    for exercise_id in rungs.RUNGS:
        assert registry.exercise(exercise_id).id == exercise_id
        assert target_of(exercise_id).promise


def test_each_wrong_answer_of_a_ladder_says_where_it_falls():
    for lesson in registry.lessons().values():
        for exercise in lesson.exercises:
            ladder = rungs.RUNGS.get(exercise.id, ())
            known = {f"rung {n}" for n in range(1, len(ladder) + 1)} | {HOLDS, NOT_TRIED}
            said = {answer.falls for answer in exercise.wrong}
            assert said <= (known if ladder else {""}), exercise.id


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_rung_has_late_events_resends_and_erasures_across_its_deliveries(seed):
    parts = rungs.late_and_twice(seed)
    assert sum(map(len, parts)) == rungs.SENDS and len(parts) > rungs.DISTURBED
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
    sends = list(chain(*parts))
    assert len({s.event_id for s in sends if s.order_id == very_late}) == 1
    assert any(send.kind == "resend" for send in sends)
    days = {(send.order_id, send.order_ts // DAY) for send in sends}
    assert len(days) > len({order for order, _ in days}), "no order has events on two days"


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_of_an_order_follows_its_erasure(seed):
    for deliveries in (rungs.late_and_twice(seed), rungs.malformed_between(seed)):
        gone: set[str] = set()
        for send in chain(*deliveries):
            if not send.kind.startswith("malformed"):
                assert send.order_id not in gone
                gone |= {send.order_id} if send.op == "erase" else set()


@pytest.mark.parametrize("seed", SEEDS)
def test_between_good_messages_comes_a_delivery_of_malformed_ones_alone(seed):
    first, alone, last = rungs.malformed_between(seed)
    assert alone and all(s.kind.startswith("malformed") for s in alone)
    for part in (first, last):
        assert any(not send.kind.startswith("malformed") for send in part)
    assert any(send.kind.startswith("malformed") for send in (*first, *last))


def test_a_seed_gives_the_same_events_again():
    assert rungs.late_and_twice(17) == rungs.late_and_twice(17) != rungs.late_and_twice(18)


def test_a_rung_with_fewer_events_has_as_many_deliveries_and_none_is_empty():
    rung = rungs.RUNGS["04.2"][1]
    first, alone, last = rung.deliveries(17)
    small = rungs.with_only(rung, {last[0].send_id}).deliveries(17)
    assert [len(part) for part in small] == [1, 1, 1] and small[2] == [last[0]]
    assert small[0][0] in first and not small[0][0].kind.startswith("malformed")
    assert small[1] == [alone[0]]


def test_a_new_field_comes_after_the_first_delivery_and_changes_nothing_else():
    before, after = rungs.late_and_twice(3), rungs.with_new_field(3)
    assert after[0] == before[0]
    for old, new in zip(before[1] + before[2], after[1] + after[2], strict=True):
        assert json.loads(new.value) == json.loads(old.value) | {"coupon": "SPRING"}
        assert replace(new, value=old.value) == old
