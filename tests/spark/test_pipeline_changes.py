"""Every message of a database's topic becomes a changed row, a tombstone or a dead letter."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from kafka_rows import frame_of, streamed
from pyspark.sql import functions as F

from lab_env.pipeline import changes, sinks
from lab_env.pipeline.envelopes import UNAVAILABLE
from lab_env.pipeline.options import CHANGES, COMPACTION_OFF, DEMO_OPTIONS
from lab_env.pipeline.writer import ProgressLog
from lab_env.platform.errors import LabError

ORDER = {
    "order_id": "O-17",
    "customer_id": "C-1",
    "amount": "129.90",
    "status": "paid",
    "partition_date": "2026-11-21",
    "updated_at": "2026-11-21T02:14:15.5Z",
    "not taken over": 1,
}


def change(
    op: str = "u", lsn: int | None = 500, before=ORDER, after=ORDER, sequence=None, ts_ms: int = 1
) -> bytes:
    """Return a change event as Debezium's JSON converter writes it without schemas."""
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "ts_ms": ts_ms}
    source |= {"lsn": lsn, "sequence": sequence}
    images = {"before": before, "after": after}
    return json.dumps({**images, "source": source, "op": op, "ts_ms": 1}).encode()


def parsed(spark, values: list, key: bytes | None = b'{"order_id":"O-17"}'):
    return changes.parse(frame_of(spark, values, [key] * len(values), "shop.public.orders"))


def test_an_image_becomes_a_typed_row_in_the_order_of_the_log(spark):
    ops = ("r", "c", "u", "d")
    found = changes.rows(parsed(spark, [change(op, lsn=n) for n, op in enumerate(ops)])).collect()
    told = [(row["op"], row["lsn"], row["_hoodie_is_deleted"]) for row in found]
    assert told == [("r", 0, False), ("c", 1, False), ("u", 2, False), ("d", 3, True)]
    assert {row["amount"] for row in found} == {Decimal("129.90")}
    assert {row["updated_at"].replace(tzinfo=UTC).microsecond for row in found} == {500_000}
    assert "not taken over" not in found[0].asDict()


def test_a_delete_is_the_row_before_it(spark):
    gone = ORDER | {"partition_date": "2026-11-20"}
    (row,) = changes.rows(parsed(spark, [change("d", before=gone, after=None)])).collect()
    assert row["_hoodie_is_deleted"] and row["partition_date"] == "2026-11-20"


def test_transactions_are_ordered_by_their_commits_also_what_an_incremental_snapshot_reads(spark):
    values = [
        change("u", lsn=90, sequence='["120","90"]'),  # open while a snapshot read at 100
        change("r", lsn=None, sequence='["110","100"]'),  # an incremental snapshot
        change("c", lsn=80, sequence='[null,"80"]'),  # before any commit was seen
        change("c", lsn=70),
    ]
    found = changes.rows(parsed(spark, values)).orderBy(F.desc("log_position"))
    in_order = [(row["commit_lsn"], row["lsn"]) for row in found.collect()]
    assert in_order == [(120, 90), (110, 100), (80, 80), (70, 70)]


def test_a_row_that_changes_its_partition_leaves_the_old_one(spark):
    before = ORDER | {"partition_date": "2026-11-20"}
    found = changes.rows(parsed(spark, [change("u", before=before)])).collect()
    told = [(row["partition_date"], row["_hoodie_is_deleted"]) for row in found]
    assert told == [("2026-11-20", True), ("2026-11-21", False)]


def test_a_row_whose_old_values_cannot_be_read_is_deleted_all_the_same(spark):
    before = ORDER | {"amount": "NaN", "status": UNAVAILABLE}
    (row,) = changes.rows(parsed(spark, [change("d", before=before, after=None)])).collect()
    assert row["_hoodie_is_deleted"] and row["order_id"] == "O-17"


def without(name: str) -> dict:
    return {column: value for column, value in ORDER.items() if column != name}


IN_BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
KEY_ONLY = dict.fromkeys(ORDER, None) | {"order_id": "O-17"}
EMPTY_FILLED = KEY_ONLY | {"customer_id": "", "partition_date": "", "amount": "0"}


NO_CHANGES = [
    (b"\x00 no json", "not_json"),
    (b"", "empty"),
    (change() + b"x", "not_json"),
    (change().replace(b'"op"', b'"op": "d", "op"'), "duplicate_key"),
    (b'{"order_id": "O-17", "status": "paid"}', "not_an_envelope"),
    (b'{"schema": {"type": "struct"}, "payload": ' + change() + b"}", "schemas_enabled"),
    (change().replace(b'"orders"', b'"order_items"'), "other_table"),
    (change("t", before=None, after=None), "truncate"),
    (change("m"), "unknown_op"),
    (change("u", lsn=None), "no_log_position"),
    (change("u", after=None), "no_row_image"),
    (change("d", before=None), "no_row_image"),
    (change("d", before=KEY_ONLY), "key_only"),
    (change("d", before=EMPTY_FILLED), "key_only"),
    (change("d", before={"order_id": "O-17"}), "key_only"),
    (change("u", after=without("amount")), "missing_column"),
    (change("u", after=without("amount") | {"total": "129.90"}), "missing_column"),
    (change("u", after=ORDER | {"order_id": None}), "null_key"),
    (change("u", after=ORDER | {"partition_date": "2026-11-21\n"}), "wrong_partition"),
    (change("u", after=ORDER | {"amount": 129.9}), "wrong_type"),
    (change("u", after=ORDER | {"customer_id": ["C-1"]}), "wrong_type"),
    (change("u", after=ORDER | {"updated_at": 1_795_219_201_000}), "wrong_type"),
    (change("u", after=ORDER | {"updated_at": "infinity"}), "impossible_timestamp"),
    *(
        (change("u", after=ORDER | {"status": value}), "unavailable_value")
        for value in (UNAVAILABLE, [UNAVAILABLE], {UNAVAILABLE: UNAVAILABLE}, IN_BASE64)
    ),
]


def test_what_is_no_change_of_a_row_is_a_dead_letter_with_its_reason(spark):
    found = parsed(spark, [value for value, _ in NO_CHANGES])
    letters = changes.dead_letters(found).orderBy("offset").collect()
    assert [(bytes(letter["value"]), letter["reason"]) for letter in letters] == NO_CHANGES
    assert changes.rows(found).count() == changes.tombstones(found).count() == 0


def test_a_record_without_a_key_is_a_dead_letter_and_a_tombstone_is_neither(spark):
    (letter,) = changes.dead_letters(parsed(spark, [change()], key=None)).collect()
    assert letter["reason"] == "no_key"
    found = parsed(spark, [change("d"), None])
    assert [row["offset"] for row in changes.tombstones(found).collect()] == [1]
    assert changes.rows(found).count() == 1 and changes.dead_letters(found).count() == 0


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_first_and_the_last_time_can_be_read_from_a_table(spark, tmp_path, kind):
    """By default Spark refuses to read a table with a time before 1900."""
    table = CHANGES | DEMO_OPTIONS
    table |= {"hoodie.table.name": "changes", "hoodie.datasource.write.table.type": kind}
    table |= COMPACTION_OFF
    first, last = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"
    for lsn, at in ((1, ORDER["updated_at"]), (2, last), (3, first)):
        order = ORDER | {"order_id": f"O-{max(lsn, 2)}", "updated_at": at}
        written = changes.rows(parsed(spark, [change(lsn=lsn, before=None, after=order)]))
        written.write.format("hudi").options(**table).mode("append").save(str(tmp_path / kind))
    rows = spark.read.format("hudi").load(str(tmp_path / kind)).orderBy("order_id")
    assert rows.count() == 2
    texts = [row[0] for row in rows.selectExpr("CAST(updated_at AS STRING)").collect()]
    assert texts == ["9999-12-31 23:59:59.999999", "0001-01-01 00:00:00"]
    times = [row["updated_at"] for row in rows.collect()]
    assert times == [datetime.max, datetime.min]
    assert rows.where("updated_at < '1900-01-01'").count() == 1


def test_a_database_that_was_restored_ends_the_writer(spark, tmp_path):
    """Otherwise its changes would silently lose against existing rows with higher log positions."""
    minute = 60_000
    batches = [
        [change(lsn=100, ts_ms=10 * minute), change(lsn=200, ts_ms=11 * minute)],
        [change(lsn=100, ts_ms=10 * minute)],  # the connector sends it again
        [b"no change"],
        [change(lsn=199, ts_ms=12 * minute)],  # a clock was set back
        [change(lsn=150, ts_ms=13 * minute)],
    ]
    *healthy, restored = streamed(
        spark, tmp_path, batches, lambda rows: sinks.change_rows(changes.parse(rows)), "changes"
    )
    diary = ProgressLog(tmp_path)
    for progress in healthy:
        diary.note(progress)
    for again in (diary, ProgressLog(tmp_path)):  # a restart knows how far the log went
        with pytest.raises(LabError, match="has gone back: a change committed 120 s later"):
            again.note(restored)
    # A new stream, into a new table, has nothing to lose.
    new = restored | {"batchId": 0, "timestamp": healthy[0]["timestamp"]}
    ProgressLog(tmp_path).note(new)
    ProgressLog(tmp_path).note(restored)
