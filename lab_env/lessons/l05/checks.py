"""Checks of lesson 05: what the learner's writes left in small tables, and the bytes of the sweep.

A table that several answers change is written once per lesson and copied for each of them.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow.parquet as pq

from lab_env import store
from lab_env.course.answers import Unreadable, as_choice
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.table_copies import overlay_table, scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS, METADATA

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
TABLE = {
    **DEMO_OPTIONS,
    **METADATA,
    **KEYS,
    "hoodie.metadata.enable": "true",
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.table.type": MOR,
    "hoodie.compact.inline": "false",
    "hoodie.index.bloom.num_entries": "1000",
}


@dataclass(frozen=True)
class TwoUpserts:
    """A table after two upserts: of O-1 to O-3, then of O-3 and O-4.

    Args:
        types: of the tables that the answer made, by the type that it was asked for.
        first: rows that the first upsert wrote, as its commit records.
        second: statuses of each order after the second one, which pays O-3 and brings O-4.
    """

    types: dict[str, str]
    first: int
    second: dict[str, list[str]]


@check_of("05.1")
class WritesUpserts:
    """A function that upserts into a table of either type."""

    @staticmethod
    def observe(lab, answer: Callable) -> TwoUpserts:
        """Upsert twice into a Merge-on-Read table, and once into a Copy-on-Write table."""
        mor, cow = lab.scratch("upsert-mor"), lab.scratch("upsert-cow")
        answer(_orders(lab, "id <= 3", "new", "10:00"), mor, MOR)
        table = lab.xray(mor)
        types, first = {MOR: table.table_type}, table.commit().records_written
        if types[MOR] != MOR:
            return TwoUpserts(types, first, {})  # more writes would not make it right
        answer(_orders(lab, "id IN (3, 4)", "paid", "11:00"), mor, MOR)
        second = _statuses(lab, mor)
        if "O-1" in second:
            answer(_orders(lab, "id = 1", "new", "10:00"), cow, COW)
            types[COW] = lab.xray(cow).table_type
        return TwoUpserts(types, first, second)

    @staticmethod
    def judge(facts: TwoUpserts) -> Passed | NotYet:
        """Both types as asked; one row per order, the newest."""
        for asked, made in facts.types.items():
            if made != asked:
                return NotYet(f"Asked for {asked}, your function made a {made} table.")
        if facts.first != 3:
            return NotYet(f"Given O-1 to O-3, your function wrote {facts.first} rows.")
        if "O-1" not in facts.second:
            return NotYet(
                f"The second upsert replaced what the first one had written: the table has "
                f"{_named(facts.second)}. Which mode adds to a table?"
            )
        twice = [order for order, statuses in facts.second.items() if len(statuses) > 1]
        if twice:
            return NotYet(f"{_named(twice)} is there twice. Which operation replaces a row by key?")
        if facts.second.get("O-3") != ["paid"] or "O-4" not in facts.second:
            return NotYet(
                f"O-3 was paid and O-4 is new; the table says O-3 is {facts.second.get('O-3')} "
                f"and has {_named(facts.second)}."
            )
        return Passed("One row per order in both types. The writer's code differs in one option.")


@dataclass(frozen=True)
class Deleted:
    """Orders of a table from which O-2, O-3 and O-5 were to be deleted.

    Args:
        left: ids of the orders that the table still has.
    """

    left: frozenset[str]


@check_of("05.2")
class DeletesByKey:
    """A function that deletes rows by key."""

    @staticmethod
    def observe(lab, answer: Callable) -> Deleted:
        """Have three of six orders deleted from a copy of a table."""
        path = scratch_copy(lab, _six_orders(lab), "delete")
        answer(_orders(lab, "id IN (2, 3, 5)", "erased", "12:00"), path, MOR)
        return Deleted(frozenset(_statuses(lab, path)))

    @staticmethod
    def judge(facts: Deleted) -> Passed | NotYet:
        """These three are gone, and no other."""
        still = facts.left & {"O-2", "O-3", "O-5"}
        if still:
            return NotYet(f"Still there: {_named(still)}. Your write changed rows, or added some.")
        gone = {"O-1", "O-4", "O-6"} - facts.left
        if gone:
            return NotYet(f"Other orders are gone as well: {_named(gone)}. Delete by key only.")
        return Passed("Three keys, three rows fewer.")


@dataclass(frozen=True)
class Forgotten:
    """The files of a table from which O-3 was deleted, after the learner's function.

    Args:
        files: base files that are left.
        holding: those of them that hold O-3.
        compacted: whether a compaction is complete.
        orders: ids of the orders that the table has.
    """

    files: int
    holding: int
    compacted: bool
    orders: frozenset[str]


@check_of("05.3")
class Forgets:
    """A function after which no file holds a deleted row."""

    @staticmethod
    def observe(lab, answer: Callable) -> Forgotten:
        """Run it on a copy of a table with an insert and a delete."""
        path = scratch_copy(lab, _without_o3(lab), "forget")
        name = "forget_" + path.rpartition("-")[2]
        lab.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
        answer(path, name)
        keys = [file.key for file in lab.files(path) if "/.hoodie/" not in file.key]
        base_files = [key for key in keys if key.endswith(".parquet")]
        return Forgotten(
            files=len(base_files),
            holding=sum("O-3" in _order_ids(lab, key) for key in base_files),
            compacted=any(i.action == "compaction" for i in lab.xray(path).instants),
            orders=frozenset(_statuses(lab, path)),
        )

    @staticmethod
    def judge(facts: Forgotten) -> Passed | NotYet:
        """No base file holds O-3, and the table lost nothing else."""
        if facts.holding and not facts.compacted:
            return NotYet(
                "A base file still holds O-3, because nothing was compacted: the delete is in a "
                "log, "
                "and the base file below it is the current one. How many deltacommits does a plan "
                "wait for?"
            )
        if facts.holding:
            return NotYet(
                f"The compaction wrote a base file without O-3, but the cleaning kept the version "
                f"before it: {facts.holding} of {facts.files} base files still hold the row."
            )
        if facts.orders != {"O-1", "O-2", "O-4", "O-5", "O-6"}:
            return NotYet(
                f"O-3 is gone, but the table should keep five orders; it has "
                f"{_named(facts.orders)}."
            )
        return Passed("No file holds O-3, and the table still has the other five orders.")


@dataclass(frozen=True)
class Sizes:
    """Bytes of data files that the lesson's writes made, by table type.

    Args:
        answer: the type that the learner chose for each workload.
        insert: the first write of 1,000 orders.
        ten: an upsert of 10 of them.
        all: an upsert of all.
    """

    answer: dict[str, str]
    insert: dict[str, int]
    ten: dict[str, int]
    all: dict[str, int]

    def workloads(self) -> dict[str, dict[str, int]]:
        """Bytes that each workload writes on each type, compaction included."""
        base = self.insert[COW]
        return {
            "archive": self.insert,
            "status feed": {COW: 20 * self.ten[COW], MOR: 20 * self.ten[MOR] + base},
            "repricing": {COW: self.all[COW], MOR: self.all[MOR] + base},
        }


@check_of("05.4")
class TypeForAWorkload:
    """The type that writes fewer bytes, for three workloads."""

    @staticmethod
    def observe(lab, answer) -> Sizes:
        """What the sweep's four writes recorded: the insert, ten orders, a hundred, all."""
        pictures = {COW: lab.xray(lab.path("sweep_cow")), MOR: lab.xray(lab.path("sweep_mor"))}
        writes = [
            {
                kind: picture.commit(picture.instants[number].requested).bytes_written
                for kind, picture in pictures.items()
            }
            for number in range(4)
        ]
        if not hasattr(answer, "items"):
            raise Unreadable("A dictionary with a table type for each workload is expected.")
        choices = {str(name): as_choice(kind, (COW, MOR)) for name, kind in answer.items()}
        return Sizes(choices, insert=writes[0], ten=writes[1], all=writes[3])

    @staticmethod
    def judge(facts: Sizes) -> Passed | NotYet:
        """Fewer bytes win; within 5 percent Copy-on-Write does."""
        reasons = {
            "archive": "An insert makes base files on both types, so Merge-on-Read saves nothing, "
            "and "
            "has a compaction to watch.",
            "status feed": "Each minute Copy-on-Write copies 990 orders that did not change.",
            "repricing": "When all rows change, the log alone is larger than the base file, and "
            "the "
            "compaction writes the base file as well.",
        }
        for name, cost in facts.workloads().items():
            better = MOR if cost[MOR] < 0.95 * cost[COW] else COW
            if name not in facts.answer:
                return NotYet(f"There is no choice for {name!r}.")
            if facts.answer[name] != better:
                return NotYet(
                    f"{name}: Copy-on-Write writes {cost[COW]:,} bytes, Merge-on-Read "
                    f"{cost[MOR]:,}. {reasons[name]}"
                )
        feed = facts.workloads()["status feed"]
        return Passed(
            f"Copy-on-Write writes {feed[COW] / feed[MOR]:.1f} times as many bytes for the status "
            "feed. "
            "The share of a file that one write changes decides, not whether data arrives as a "
            "stream."
        )


def _orders(lab, which: str, status: str, at: str):
    """Orders O-1 to O-6 of one day, those for which the condition on `id` holds."""
    return lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, 'C-1' AS customer_id, CAST(5 AS DECIMAL(12,2)) AS amount,
               '{status}' AS status, to_timestamp('2026-11-20 {at}') AS order_ts,
               '2026-11-20' AS partition_date, false AS _hoodie_is_deleted
        FROM range(1, 7) WHERE {which}
    """)


def _six_orders(lab) -> str:
    """The path of a Merge-on-Read table with O-1 to O-6, written at the first call."""
    path = lab.path("exercise/six")
    if not lab.files(path):
        _write(_orders(lab, "true", "new", "10:00"), path)
    return path


def _without_o3(lab) -> str:
    """The path of a copy of it from which O-3 was deleted, made at the first call."""
    path = lab.path("exercise/deleted")
    if not lab.files(path):
        overlay_table(lab, _six_orders(lab), path)
        delete = {"hoodie.datasource.write.operation": "delete"}
        _write(_orders(lab, "id = 3", "erased", "12:00"), path, delete)
    return path


def _write(rows, path: str, options: dict[str, str] | None = None) -> None:
    rows.write.format("hudi").options(**TABLE, **(options or {})).mode("append").save(path)


def _statuses(lab, path: str) -> dict[str, list[str]]:
    """The statuses of each order in a table."""
    found: dict[str, list[str]] = {}
    for row in lab.spark.read.format("hudi").load(path).select("order_id", "status").collect():
        found.setdefault(row.order_id, []).append(row.status)
    return found


def _order_ids(lab, key: str) -> list[str]:
    content = io.BytesIO(store.read(lab.endpoints, key))
    return pq.read_table(content, columns=["order_id"])["order_id"].to_pylist()


def _named(orders) -> str:
    return ", ".join(sorted(orders)) or "no order"
