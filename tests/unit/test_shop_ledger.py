"""The ledger records every send's fate, and lists the keys that are wrong in a table."""

import time

import pandas as pd
import pytest

from lab_env.platform.errors import LabError
from lab_env.shop.ledger.book import Arrival, Ledger, LedgerWriter, ledger_directory
from lab_env.shop.model import Send, generate

ORDER_TIME = 1_800_000_000_000_000


def a_send(n, order, op="create", ts=0, kind="event", event=None):
    event = event or f"e-{n}"
    return Send(f"s-{n}", event, order, order, b"{}", kind, op, ORDER_TIME + ts, 0)


# The story of a small shop: o-1 lives in its second version, o-2 is erased, o-3 lives as created.
STORY = [
    a_send(1, "o-1", ts=1),
    a_send(2, "o-2", ts=2),
    a_send(3, "o-1", "update", ts=5),
    a_send(4, "o-1", "update", ts=4, kind="late"),
    a_send(5, "o-1", "update", ts=5, kind="resend", event="e-3"),
    a_send(6, "o-3", ts=6),
    a_send(7, "o-3", "update", ts=7, kind="malformed:unknown_op"),
    a_send(8, "o-2", "erase", ts=8),
]
DEAD = [{"partition": 0, "offset": 6, "reason": "unknown_op"}]
LIVE = [("o-1", "e-3", 5), ("o-3", "e-6", 6)]
LOG = ["e-1", "e-2", "e-3", "e-4", "e-3", "e-6", "e-8"]


def a_table(rows):
    frame = pd.DataFrame(rows, columns=["order_id", "event_id", "order_ts"])
    return frame.assign(order_ts=frame["order_ts"] + ORDER_TIME)


def write(directory, sends, unacked=()):
    writer = LedgerWriter(directory, "w")
    writer.handed(sends)
    for offset, send in enumerate(sends):
        if send.send_id not in unacked:
            writer.acked(send.send_id, 0, offset)
    writer.close()
    return Ledger(directory)


@pytest.fixture
def ledger(tmp_path):
    return write(tmp_path, STORY)


def test_each_send_has_one_row_with_its_place_in_the_topic(ledger):
    frame = ledger.frame()
    assert list(frame["send_id"]) == [send.send_id for send in STORY]
    assert list(frame["offset"]) == list(range(8))
    assert set(frame["state"]) == {"acked"}
    assert list(frame["order_ts"]) == [send.order_ts for send in STORY]


def test_the_surest_fate_of_each_send_counts(tmp_path):
    writer = LedgerWriter(tmp_path, "w")
    writer.handed(STORY)
    assert len(Ledger(tmp_path).frame()) == 8  # before the client has them
    writer.failed("s-1")
    writer.unknown("s-2")
    writer.acked("s-4", 2, 40)
    writer.unknown("s-4")
    writer.close()
    rows = Ledger(tmp_path).frame().set_index("send_id")
    assert rows.loc["s-1", "state"] == "failed"
    assert rows.loc["s-2", "state"] == "unknown"  # timed out
    assert rows.loc["s-3", "state"] == "unknown"  # its process was killed
    assert rows.loc["s-4", ["state", "partition", "offset"]].tolist() == ["acked", 2, 40]


def test_the_frame_follows_the_files(tmp_path):
    ledger = write(tmp_path, STORY[:1])
    assert len(ledger.frame()) == 1
    write(tmp_path, STORY[1:3])
    assert len(ledger.frame()) == 3


def test_a_line_that_a_killed_process_left_unfinished_is_counted_and_skipped(ledger):
    [fates] = ledger.directory.glob("*.fates.tsv")
    with open(fates, "r+b") as file:
        file.truncate(fates.stat().st_size - 5)
    frame = ledger.frame()
    assert ledger.partial_lines == 1
    assert list(frame["state"]) == ["acked"] * 7 + ["unknown"]
    assert "1 unfinished" in str(ledger)


def test_an_empty_ledger_says_so(tmp_path):
    assert len(Ledger(tmp_path).frame()) == 0
    assert Ledger(tmp_path).reconcile_table(a_table([])).expected == 0
    with pytest.raises(LabError, match="no acknowledged send"):
        Ledger(tmp_path).check_not_empty()


def test_the_summary_counts_by_kind_and_state(ledger):
    summary = ledger.summary()
    kinds = ["event", "late", "resend", "malformed"]
    assert summary.loc[kinds, "acked"].tolist() == [5, 1, 1, 1]
    assert summary.loc["total", "total"] == 8


def assert_only(found, category, keys):
    """Check that a sink differs in this category only, and by exactly these keys."""
    wrong = {name: getattr(found, name) for name in found.categories if getattr(found, name)}
    assert wrong == {category: 1} and not found.ok
    assert found.examples == {category: keys}


@pytest.mark.parametrize(
    ("rows", "category", "keys"),
    [
        (LIVE[:1], "missing", ["o-3"]),
        ([*LIVE, LIVE[0]], "duplicate", ["o-1"]),
        ([("o-1", "e-4", 4), LIVE[1]], "stale", ["o-1"]),
        ([("o-1", "e-1", 1), LIVE[1]], "stale", ["o-1"]),
        ([("o-1", "e-3", 4), LIVE[1]], "altered", ["o-1"]),
        ([*LIVE, ("o-2", "e-2", 2)], "ghost", ["o-2"]),
        ([*LIVE, ("o-9", "e-9", 9)], "unexpected", ["o-9"]),
        ([*LIVE, (None, "e-9", 9)], "unexpected", ["(null)"]),
        ([LIVE[0], ("o-3", "e-7", 7)], "stale", ["o-3"]),  # a malformed event was let in
    ],
)
def test_a_wrong_table_is_found_out(ledger, rows, category, keys):
    found = ledger.reconcile_table(a_table(rows))
    assert_only(found, category, keys)
    assert category in str(found) and keys[0] in found._repr_html_()


def test_a_doubled_key_with_the_winner_among_its_rows_is_not_stale_too(ledger):
    found = ledger.reconcile_table(a_table([*LIVE, ("o-1", "e-1", 1)]))
    assert (found.duplicate, found.stale) == (1, 0)


@pytest.mark.parametrize("form", ["micros", "datetime", "zone", "text"])
def test_event_times_are_compared_in_every_form_that_a_table_gives_them(ledger, form):
    table = a_table(LIVE)
    times = pd.to_datetime(table["order_ts"], unit="us")
    table["order_ts"] = {
        "micros": table["order_ts"],
        "datetime": times,
        "zone": times.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"),
        "text": times.dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }[form]
    found = ledger.reconcile_table(table, "cow")
    assert found.ok and (found.sink, found.rows, found.expected) == ("cow", 2, 2)


def test_a_failed_send_is_not_expected(tmp_path):
    ledger = write(tmp_path, STORY, unacked={"s-6"})
    writer = LedgerWriter(tmp_path, "w")
    writer.failed("s-6")
    writer.close()
    assert ledger.reconcile_table(a_table(LIVE[:1])).ok


def test_an_unknown_send_is_judged_in_no_category_but_keeps_the_account_open(tmp_path):
    ledger = write(tmp_path, STORY, unacked={"s-6"})
    for rows in (LIVE, LIVE[:1]):
        found = ledger.reconcile_table(a_table(rows))
        assert found.unknown == 1 and not found.ok
        assert not any(getattr(found, name) for name in found.categories)
    account = ledger.account(a_table(LIVE), pd.DataFrame(DEAD))
    assert account.unknown == 1 and not account.ok


def test_a_log_of_every_message_reconciles_and_counts_resends_apart(ledger):
    found = ledger.reconcile_log(pd.DataFrame({"event_id": LOG}))
    assert found.ok
    assert (found.rows, found.expected, found.resends) == (7, 7, 1)


@pytest.mark.parametrize(
    ("events", "category", "keys"),
    [
        (LOG[1:], "missing", ["e-1"]),
        ([*LOG, "e-1"], "duplicate", ["e-1"]),
        ([e for e in LOG if e != "e-3"] + ["e-3"], "short", ["e-3"]),
        ([*LOG, "e-9"], "unexpected", ["e-9"]),
        ([*LOG, "e-7"], "unexpected", ["e-7"]),  # a malformed event was let in
    ],
)
def test_a_wrong_log_is_found_out(ledger, events, category, keys):
    found = ledger.reconcile_log(pd.DataFrame({"event_id": events}))
    assert_only(found, category, keys)


@pytest.mark.parametrize(
    ("rows", "category", "key"),
    [
        ([], "missing", "0:6"),
        (DEAD * 2, "duplicate", "0:6"),
        ([DEAD[0] | {"reason": "not_json"}], "wrong_reason", "0:6"),
        ([*DEAD, {"partition": 0, "offset": 1, "reason": "empty"}], "unexpected", "0:1"),
    ],
)
def test_wrong_dead_letters_are_found_out(ledger, rows, category, key):
    found = ledger.reconcile_dead(pd.DataFrame(rows, columns=["partition", "offset", "reason"]))
    assert_only(found, category, [key])


def test_every_acknowledged_send_is_accounted_for(ledger):
    account = ledger.account(a_table(LIVE), pd.DataFrame(DEAD))
    assert account.as_dict() == {
        "acked": 8,
        "applied": 3,  # e-3, e-6 and the erase e-8
        "superseded": 3,  # e-1, e-2 and the late e-4
        "duplicate": 1,
        "dead": 1,
        "unknown": 0,
        "unaccounted": 0,
        "ok": True,
    }


@pytest.mark.parametrize(
    ("rows", "dead", "unaccounted"),
    [
        (LIVE[:1], DEAD, 1),  # an order is lost
        ([("o-1", "e-4", 4), LIVE[1]], DEAD, 1),  # an older version is shown
        ([("o-1", "e-1", 1), LIVE[1]], DEAD, 2),
        ([*LIVE, ("o-2", "e-2", 2)], DEAD, 1),  # the erase was undone
        (LIVE, [], 1),  # a dead letter is lost
        ([LIVE[0], ("o-3", "e-7", 7)], DEAD, 1),  # shows an event that was never good
    ],
)
def test_the_account_shows_what_the_table_does_not_explain(ledger, rows, dead, unaccounted):
    dead_letters = pd.DataFrame(dead, columns=["partition", "offset", "reason"])
    account = ledger.account(a_table(rows), dead_letters)
    assert account.unaccounted == unaccounted and not account.ok


def test_a_long_stream_reconciles_with_what_its_rules_leave(tmp_path):
    ledger = write(tmp_path, list(generate(20_000, seed=3, late=0.2, erase=0.05)))
    frame = ledger.frame()
    log, table, dead = [], {}, []
    for row in frame.itertuples():
        if row.kind.startswith("malformed"):
            dead.append((row.partition, row.offset, row.kind.partition(":")[2]))
            continue
        log.append(row.event_id)
        if row.op == "erase":
            del table[row.order_id]
        elif row.order_id not in table or table[row.order_id][1] < row.order_ts:
            table[row.order_id] = (row.event_id, row.order_ts)
    table = pd.DataFrame(
        [(key, *version) for key, version in table.items()],
        columns=["order_id", "event_id", "order_ts"],
    )
    dead = pd.DataFrame(dead, columns=["partition", "offset", "reason"])
    assert ledger.reconcile_table(table).ok
    assert ledger.reconcile_log(pd.DataFrame({"event_id": log})).ok
    assert ledger.reconcile_dead(dead).ok
    assert ledger.account(table, dead).ok


LATER_US = 3_600_000_000


def arrivals(*send_ids):
    return [Arrival(send_id, 0, offset, ORDER_TIME) for offset, send_id in enumerate(send_ids)]


def now():
    return time.time_ns() // 1000


@pytest.mark.parametrize(
    ("held", "later_us", "count", "state"),
    [
        (("s-1", "s-2"), 0, "found", "acked"),
        (("s-1",), 0, "waiting", "unknown"),  # it may still come
        (("s-1",), LATER_US, "failed", "failed"),
    ],
)
def test_the_topic_decides_an_unknown_send(tmp_path, held, later_us, count, state):
    ledger = write(tmp_path, STORY[:2], unacked={"s-2"})
    settled = ledger.decide(arrivals(*held), now() + later_us)
    counts = {name: getattr(settled, name) for name in ("found", "waiting", "failed", "lost")}
    assert counts == dict.fromkeys(counts, 0) | {count: 1}
    assert settled.ok == (count != "waiting")
    row = Ledger(tmp_path).frame().set_index("send_id").loc["s-2"]
    place = (1, ORDER_TIME) if state == "acked" else (-1, 0)
    assert (row["state"], row["offset"], row["acked_at"]) == (state, *place)


def test_messages_that_the_ledger_never_saw_are_reported(tmp_path):
    ledger = write(tmp_path, STORY[:1])
    settled = ledger.decide(arrivals("s-1", "", "s-99", "s-1"), now())
    assert (settled.messages, settled.unrecorded, settled.repeated) == (4, 2, 1)
    assert settled.examples == ["0:1", "0:2"] and not settled.ok


def test_an_acknowledged_send_that_the_topic_lacks_is_reported_as_lost(ledger):
    settled = ledger.decide(arrivals(*(send.send_id for send in STORY[1:])), now())
    assert settled.lost == 1 and not settled.ok
    assert "1 lost" in str(settled)


def test_settling_twice_decides_nothing_twice(tmp_path):
    ledger = write(tmp_path, STORY[:2], unacked={"s-2"})
    ledger.decide(arrivals("s-1", "s-2"), now())
    assert ledger.decide(arrivals("s-1", "s-2"), now()).found == 0
    assert len(ledger.frame()) == 2


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "a\n", "bestellungen-ä", "a" * 250])
def test_a_name_that_no_topic_can_have_is_refused_before_it_becomes_a_folder(name):
    with pytest.raises(LabError, match="not a valid name of a Kafka topic"):
        ledger_directory(name)


@pytest.mark.parametrize("name", ["lab.orders", "a", "...", "Orders_2-x", "a" * 249])
def test_a_ledger_is_called_like_its_topic(name):
    assert ledger_directory(name).name == name
