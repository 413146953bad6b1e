"""The judge reports every kind of loss, and expects only messages up to the newest batch."""

from itertools import count
from types import SimpleNamespace

import pandas as pd
import pytest

from lab_env.lessons.recorded.verdicts import verdicts
from lab_env.pipeline.guard import Checkpoint, Receipt
from lab_env.platform.settings import Endpoints
from lab_env.workbench.campaign import judge
from lab_env.workbench.campaign.clones import why
from lab_env.workbench.campaign.faults import FAULTS, outcome_of
from lab_env.workbench.campaign.group import state_in_words
from lab_env.workbench.campaign.judge import (
    biography,
    judge_rows,
    judge_table,
    planted_losses,
    sends_below,
)
from lab_env.workbench.campaign.rival import Attempt
from lab_env.workbench.campaign.rivals import differences

HERE = Endpoints("http://127.0.0.1:1", "key", "secret", "us-east-1", "lakehouse", "127.0.0.1:1")
COLUMNS = ["send_id", "event_id", "order_id", "op", "order_ts", "kind", "state"]
COLUMNS += ["partition", "offset", "sent_at", "acked_at"]


def sends(*rows: tuple) -> pd.DataFrame:
    """Return a ledger's frame of (order, operation, time, partition, offset or None if unknown)."""
    lines = [
        (f"s{n}", f"e{n}", order, op, ts, "event", "unknown" if offset is None else "acked",
         partition, -1 if offset is None else offset, 1, 1)
        for n, (order, op, ts, partition, offset) in enumerate(rows)
    ]  # fmt: skip
    return pd.DataFrame(lines, columns=COLUMNS)


SENDS = sends(
    ("O-1", "create", 10, 0, 0),
    ("O-2", "create", 11, 1, 0),
    ("O-1", "update", 20, 0, 1),
    ("O-3", "create", 21, 0, 2),
    ("O-2", "erase", 30, 1, 1),
    ("O-4", "create", 31, 1, 2),
)


def rows(*shown: tuple[str, str, int]) -> pd.DataFrame:
    return pd.DataFrame(shown, columns=["order_id", "event_id", "order_ts"])


ALL = [("O-1", "e2", 20), ("O-3", "e3", 21), ("O-4", "e5", 31)]
RIGHT = rows(*ALL)


def test_a_table_that_equals_the_ledger_passes():
    judged = judge_rows(SENDS, RIGHT, "cow")
    assert judged.ok and (judged.rows, judged.expected) == (3, 3)
    assert str(judged) == "cow by hudi-rs: 3 rows, equal"


@pytest.mark.parametrize(
    ("category", "shown"),
    [
        ("missing", ALL[1:]),
        ("duplicate", [*ALL, ALL[0]]),
        ("stale", [("O-1", "e0", 10), *ALL[1:]]),
        ("ghost", [*ALL, ("O-2", "e1", 11)]),
        ("unexpected", [*ALL, ("O-9", "e9", 9)]),
        ("altered", [ALL[0], ("O-3", "e3", 99), ALL[2]]),
    ],
)
def test_each_kind_of_loss_is_reported_with_its_key_and_its_life(category, shown):
    judged = judge_rows(SENDS, rows(*shown), "mor")
    assert judged.wrong == {category: 1} and not judged.ok
    (key,) = judged.examples[category]
    assert key in judged.biographies


def test_only_messages_below_the_ends_of_the_newest_batch_count():
    below = sends_below(SENDS, {0: 2, 1: 1})
    assert judge_rows(below, rows(("O-1", "e2", 20), ("O-2", "e1", 11)), "cow").ok
    # What lies beyond it must not be there yet, and an unplanned partition has nothing.
    assert judge_rows(below, RIGHT, "cow").wrong == {"missing": 1, "unexpected": 2}
    assert sends_below(SENDS, {}).empty and sends_below(SENDS, None) is SENDS


def test_an_order_with_a_send_of_unknown_fate_is_not_judged():
    unknown = pd.concat([SENDS, sends(("O-3", "update", 40, 0, None))], ignore_index=True)
    for shown in (RIGHT, rows(ALL[0], ("O-3", "e0", 40), ALL[2])):
        assert judge_rows(sends_below(unknown, {0: 9, 1: 9}), shown, "cow").ok


def test_a_biography_tells_events_offsets_and_what_is_shown():
    shown = RIGHT.assign(_hoodie_commit_time="2026", _hoodie_file_name="f.parquet")
    first, second, last = biography("O-1", SENDS, shown)
    assert first == "create e0 at 10, event, acked, offset 0:0"
    assert "0:1" in second and last == "shown: e2 at 20 of 2026 in f.parquet"
    assert biography("O-2", SENDS, RIGHT)[-1] == "not shown"


def test_the_judge_reports_losses_that_are_planted_in_true_rows():
    kinds = ("missing", "duplicate", "stale", "unexpected")
    assert planted_losses(SENDS, RIGHT) == dict.fromkeys(kinds, True)


LEDGER = SimpleNamespace(frame=lambda: SENDS)


def test_a_table_is_held_against_the_offsets_of_its_newest_batch(monkeypatch):
    offsets = b'v1\n{}\n{"t":{"0":2,"1":1}}'
    seen = []
    monkeypatch.setattr(judge, "table_receipt", lambda *_: Receipt("id", 7, "2026"))
    monkeypatch.setattr(judge.store, "read", lambda _, key: seen.append(key) or offsets)
    at_7 = rows(("O-1", "e2", 20), ("O-2", "e1", 11))
    monkeypatch.setattr(judge, "read_rows", lambda *_: at_7)
    judged = judge_table(HERE, "s3a://lakehouse/x", "cow", LEDGER)
    assert judged.ok and judged.batch == 7 and seen == ["x/_checkpoints/cow/offsets/7"]
    whole = judge_table(HERE, "s3a://lakehouse/x", "cow", LEDGER, whole=True)
    assert whole.wrong == {"missing": 2, "ghost": 1}


def test_a_table_without_a_commit_must_show_nothing(monkeypatch):
    monkeypatch.setattr(judge, "table_receipt", lambda *_: None)
    judged = judge_table(HERE, "s3a://lakehouse/x", "cow", LEDGER)
    assert judged.ok and (judged.batch, judged.rows, judged.expected) == (-1, 0, 0)


def test_a_table_that_changes_while_it_is_read_is_read_again(monkeypatch):
    receipts = (Receipt("id", batch, "2026") for batch in count())
    monkeypatch.setattr(judge, "table_receipt", lambda *_: next(receipts))
    monkeypatch.setattr(judge, "read_rows", lambda *_: RIGHT)
    monkeypatch.setattr(judge.time, "sleep", lambda _: None)
    with pytest.raises(TimeoutError, match="changed during each"):
        judge_table(HERE, "s3a://lakehouse/x", "cow", LEDGER)


@pytest.mark.parametrize(
    ("readers", "outcome"),
    [
        ({"hudi-rs": "error: x", "check of the files": "found: y"}, "loud"),
        ({"hudi-rs": "wrong: 1 stale", "check of the files": "found: y"}, "guarded"),
        ({"hudi-rs": "wrong: 1 stale", "check of the files": "nothing found"}, "wrong"),
        ({"hudi-rs": "error: x", "Spark": "wrong: 1 stale", "check of": "nothing found"}, "wrong"),
        ({"hudi-rs": "right", "check of the files": "nothing found"}, "survived"),
        ({"hudi-rs": "right", "check of the files": "found: y"}, "guarded"),
    ],
)
def test_one_silent_reader_makes_a_damage_wrong_unless_a_check_finds_it(readers, outcome):
    assert outcome_of(readers) == outcome


def test_an_error_is_told_by_its_last_cause():
    java = "An error occurred while calling o1.x.\n: E1\n\tat a.b\nCaused by: E2: short log\n\tat c"
    assert why(RuntimeError(java)) == "E2: short log"
    assert why(ValueError("plain")) == "ValueError: plain" and why(ValueError()) == "ValueError: "


def test_the_receipts_say_where_a_kill_came():
    assert state_in_words(Checkpoint("id", 7, 6), 6) == "batch 7 planned, not in the table"
    assert state_in_words(Checkpoint("id", 7, 6), 7) == "batch 7 in the table, not in commits"
    assert state_in_words(Checkpoint("id", 7, 7), 7) == "between batches, 7 is done"


def test_every_fault_has_a_function():
    assert set(verdicts()) == set(FAULTS)


def test_a_rival_write_that_failed_after_its_commit_may_be_there_as_a_whole():
    done, unknown = [Attempt("08", 1)], [Attempt("04", 2, "E: the clean failed")]
    without = [("first-1", "first-1"), ("08-1", "08-1")]
    both = [*without, ("04-2", "04-2")]
    assert differences(done, unknown, [*without, ("contested-0", "08-1")]) == {}
    assert differences(done, unknown, [*both, ("contested-0", "04-2")]) == {}
    half = differences(done, unknown, [*both, ("contested-0", "08-1")])
    assert set(half) == {"missing", "unexpected"}


def test_of_rival_writers_the_table_holds_those_that_succeeded_and_no_others():
    done = [Attempt("04", 3), Attempt("08", 1), Attempt("01", 2)]
    right = [(key, key) for key in ("first-1", "04-3", "08-1", "01-2")]
    # Of the contested key the latest order_ts, whoever committed last.
    right += [("contested-0", "04-3"), ("contested-1", "01-2")]
    assert differences(done, [], right) == {}
    assert differences(done, [], right[1:]) == {"missing": {right[0]}}
    failed = ("08-2", "08-2")
    assert differences(done, [], [*right, failed]) == {"unexpected": {failed}}
    assert differences(done, [], [*right, right[0]]) == {"doubled": {right[0]}}
    older = ("contested-0", "08-1")
    found = differences(done, [], [*right[:4], older, right[5]])
    assert found == {"missing": {right[4]}, "unexpected": {older}}
