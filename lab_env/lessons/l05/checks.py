"""Checks of lesson 05: rows and files after the learner's writes, and the cheaper table type.

Tables that answers change are written once per lesson and copied for each answer.
"""

import io
import random
from dataclasses import dataclass

import pyarrow.parquet as pq

from lab_env.course.answers import as_choice
from lab_env.course.checking import check, expect
from lab_env.lessons.rows import expect_rows, expect_type, keys_of, named, rows_at
from lab_env.lessons.table_copies import named_table, overlay_table, scratch_copy
from lab_env.lessons.timelines import completed_instants, expect_added
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS, METADATA
from lab_env.platform import store
from lab_env.tables.hudi.table import Snapshot

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
ERASED = "true AS _hoodie_is_deleted"
QUICK_BASE_BYTES = 100_000  # with the default bloom filter a base file of one row has 440,000
TABLE = {
    **DEMO_OPTIONS,
    **METADATA,
    **KEYS,
    "hoodie.metadata.enable": "true",
    "hoodie.table.name": "orders",
    "hoodie.compact.inline": "false",
    "hoodie.index.bloom.num_entries": "1000",
}


@check("05.1")
def upserts(lab, upsert):
    """Let the function upsert into a Merge-on-Read table twice, and into a Copy-on-Write table."""
    mor, cow = lab.scratch("upsert-mor"), lab.scratch("upsert-cow")
    upsert(_orders(lab, "id <= 4", "new", "10:00"), mor, MOR)
    table = expect_type(lab, mor, MOR)
    rows = table.commit().records_written
    expect(rows == 4, "Given O-1 to O-4, your function wrote {} rows.", rows)

    paid = _orders(lab, "id IN (3, 5)", "paid", "11:00")
    older = _orders(lab, "id IN (2, 5)", "late", "09:00")
    erased = _orders(lab, "id = 4", "erased", "11:00").selectExpr(*paid.columns[:-1], ERASED)
    mor = scratch_copy(lab, mor, "upsert-mor")  # a table that this kernel has not written
    upsert(paid.union(older).union(erased).coalesce(1), mor, MOR)
    found = rows_at(lab, mor)
    left = keys_of(found)
    expect(
        "O-1" in left,
        "The second upsert replaced what the first one had written: the table has {}. "
        "Which mode adds to a table?",
        named(left),
    )
    expect("O-4" not in left, "O-4 came with `_hoodie_is_deleted`, and the table still has it.")
    late = found.where("status = 'late'").count()
    expect(
        not late,
        "{} orders show the version of 09:00, and a newer one had come. Did the write get "
        "`ORDERS`, and every row?",
        late,
    )
    expect_rows(found, _orders(lab, "id <= 2", "new", "10:00").union(paid))
    expect_added(lab, mor, (), writes=2)

    upsert(_orders(lab, "id = 1", "new", "10:00"), cow, COW)
    expect_type(lab, cow, COW)
    expect(
        _is_quick(table) and _is_quick(lab.xray(mor)),
        "The rows are right. But the files are not as the options of `QUICK` make them, and the "
        "lesson's figures need these. Give each write both dictionaries.",
    )
    return "One row per order in both types. The writer's code differs in one option."


def _is_quick(table: Snapshot) -> bool:
    """True if a table has the small bloom filters and the small metadata table of `QUICK`."""
    largest = max((file.size for file in table.files if file.kind == "base"), default=0)
    return largest < QUICK_BASE_BYTES and list(table.metadata_partitions.index) == ["files"]


@check("05.2")
def deletes_by_key(lab, erase):
    """Let the function delete some of six orders from a table of each type."""
    for kind, gone in ((MOR, "id IN (2, 3, 5)"), (COW, "id IN (1, 3)")):
        path = scratch_copy(lab, _six_orders(lab, kind), "delete")
        rows, before = _orders(lab, gone, "erased", "12:00"), completed_instants(lab, path)
        erase(rows, path, kind)
        left = rows_at(lab, path)
        still = keys_of(left) & keys_of(rows)
        expect(not still, "Still there: {}. Your write changed rows, or added some.", named(still))
        expect_rows(left, _orders(lab, f"NOT {gone}", "new", "10:00"))
        expect_added(lab, path, before)
    return "A row fewer for each key, and no other row changed."


@check("05.3")
def forgets(lab, forget):
    """Let the function remove O-3, a deleted order, from all base files of a table's copy."""
    path = scratch_copy(lab, _without_o3(lab), "forget")
    before = completed_instants(lab, path)
    with named_table(lab, path) as name:
        forget(path, name)
    keys = [file.key for file in lab.files(path) if "/.hoodie/" not in file.key]
    base_files = [key for key in keys if key.endswith(".parquet")]
    holding = sum("O-3" in _order_ids(lab, key) for key in base_files)
    expect(
        not holding or any(i.action == "compaction" for i in lab.xray(path).instants),
        "A base file still holds O-3, because nothing was compacted: the delete is in a log, and "
        "the base file below it is the current one. How many deltacommits does a plan wait for?",
    )
    expect(
        not holding,
        "The compaction wrote a base file without O-3, but the cleaning kept the version before "
        "it: {} of {} base files still hold the row.",
        holding,
        len(base_files),
    )
    expect_rows(rows_at(lab, path), _orders(lab, "id <> 3", "new", "10:00"))
    expect_added(lab, path, before, writes=2, services={"clean"})  # one may be a job's own
    return "No file holds O-3, and the table still has the other five orders."


@dataclass(frozen=True)
class Load:
    """A series of writes to one file group, which Merge-on-Read compacts at the end.

    Args:
        base: size of the base file, bytes.
        log: size of the log that each write adds, bytes.
        writes: number of writes until the compaction.
    """

    base: int
    log: int
    writes: int

    @property
    def bytes_written(self) -> dict[str, int]:
        """Bytes written by each table type, including the compaction."""
        return {COW: self.writes * self.base, MOR: self.writes * self.log + self.base}

    @property
    def cheaper(self) -> str:
        """The cheaper table type: Merge-on-Read if it writes at least 5 percent less."""
        return MOR if self.bytes_written[MOR] <= 0.95 * self.bytes_written[COW] else COW

    def __str__(self) -> str:
        return (
            f"A base file of {self.base:,} bytes, logs of {self.log:,}, writes until the "
            f"compaction: {self.writes}."
        )


@check("05.4")
def type_for_a_load(lab, cheaper_type):
    """Let the function choose the cheaper table type for made-up loads."""
    loads = made_up_loads(random.Random())
    for load in loads:
        said = as_choice(cheaper_type(load.base, load.log, load.writes), (COW, MOR))
        expect(
            said == load.cheaper,
            "{} Your function says {}. {} Copy-on-Write writes {:,} bytes, Merge-on-Read {:,}.",
            load,
            said,
            _reason(load),
            *load.bytes_written.values(),
        )
    return (
        f"Right for {len(loads)} loads. The share of a file that one write changes decides, not "
        "whether data arrives as a stream."
    )


def _reason(load: Load) -> str:
    """Explain why the load's cheaper table type is cheaper."""
    cow, mor = load.bytes_written[COW], load.bytes_written[MOR]
    if load.cheaper == MOR:
        return "Copy-on-Write copies the whole base file at each write."
    if mor < cow:
        return "Merge-on-Read saves less than 5 percent, and has a compaction to watch."
    if mor - load.base < 0.95 * cow:
        return "The logs alone would be less, but the compaction writes the base file as well."
    return "The logs alone are nearly as large as the base files, or larger."


def made_up_loads(chosen: random.Random) -> list[Load]:
    """Return loads of every kind; an answer that ignores the compaction fails on the first."""
    base = chosen.randint(30_000, 900_000)
    few, many = chosen.randint(2, 4), chosen.randint(15, 40)
    return [
        Load(base, 0, 1),  # an insert
        Load(base, int(base * (1.02 - 1 / few)), few),  # less but for the compaction
        Load(base, base // chosen.randint(12, 30), many),
        Load(base, base * chosen.randint(2, 6), 1),  # all rows change
        Load(base, int(base * (0.9515 - 1 / many)), many),  # not quite five percent less
        Load(base, int(base * (0.93 - 1 / many)), many),  # seven percent less
        _tie(chosen),
    ]


def _tie(chosen: random.Random) -> Load:
    """Return a load for which Merge-on-Read writes exactly 5 percent less, even as floats."""
    while True:
        part = chosen.randint(2_000, 40_000)
        load = Load(base=20 * part, log=18 * part, writes=20)
        cow, mor = load.bytes_written.values()
        if mor == 0.95 * cow and mor / cow == 0.95 and cow - mor == 0.05 * cow:
            return load


def _orders(lab, which: str, status: str, at: str):
    """Return those of O-1 to O-5 and O-10, orders of two days, that match a condition on `id`."""
    numbers = "(1), (2), (3), (4), (5), (10)"
    return lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, 'C-1' AS customer_id, CAST(5 AS DECIMAL(12,2)) AS amount,
               '{status}' AS status, to_timestamp(day || ' {at}') AS order_ts,
               day AS partition_date, false AS _hoodie_is_deleted
        FROM (SELECT id, '2026-11-2' || id % 2 AS day FROM VALUES {numbers} AS orders(id))
        WHERE {which}
    """)


def _six_orders(lab, kind: str = MOR) -> str:
    """Return the path of a table with all six orders, written on the first call."""
    path = lab.path(f"exercise/six-{kind[0].lower()}")
    if not lab.files(path):
        _write(_orders(lab, "true", "new", "10:00"), path, kind)
    return path


def _without_o3(lab) -> str:
    """Return the path of a Merge-on-Read table from which O-3 was deleted."""
    path = lab.path("exercise/deleted")
    if not lab.files(path):
        overlay_table(lab, _six_orders(lab), path)
        delete = {"hoodie.datasource.write.operation": "delete"}
        _write(_orders(lab, "id = 3", "erased", "12:00"), path, MOR, delete)
    return path


def _write(rows, path: str, kind: str, options: dict[str, str] | None = None) -> None:
    own = {**TABLE, "hoodie.datasource.write.table.type": kind, **(options or {})}
    rows.write.format("hudi").options(**own).mode("append").save(path)


def _order_ids(lab, key: str) -> list[str]:
    content = io.BytesIO(store.read(lab.endpoints, key))
    return pq.read_table(content, columns=["order_id"])["order_id"].to_pylist()
