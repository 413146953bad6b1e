"""Checks of lesson 05: what the learner's writes left in small tables, and the bytes of the sweep.

A table that several answers change is written once per lesson and copied for each of them.
"""

import io
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow.parquet as pq

from lab_env import store
from lab_env.course.answers import Unreadable, as_choice
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.hudi.table import Snapshot
from lab_env.lessons.table_copies import overlay_table, scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS, METADATA

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
QUICK_BASE_BYTES = 100_000  # with the default bloom filter a base file of one row has 440,000
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
        quick: whether base files and metadata table are as the options `QUICK` make them.
    """

    types: dict[str, str]
    first: int
    second: dict[str, list[str]]
    quick: bool = True


@check_of("05.1")
class WritesUpserts:
    """A function that upserts into a table of either type."""

    @staticmethod
    def observe(lab, answer: Callable) -> TwoUpserts:
        """Upsert twice into a Merge-on-Read table, and once into a Copy-on-Write table."""
        mor, cow = lab.scratch("upsert-mor"), lab.scratch("upsert-cow")
        answer(_orders(lab, "id <= 3", "new", "10:00"), mor, MOR)
        if not lab.files(mor):
            raise Unreadable("Your function wrote nothing to the path that it was given.")
        table = lab.xray(mor)
        types, first = {MOR: table.table_type}, table.commit().records_written
        if types[MOR] != MOR:
            return TwoUpserts(types, first, {})  # more writes would not make it right
        answer(_orders(lab, "id IN (3, 4)", "paid", "11:00"), mor, MOR)
        second = _statuses(lab, mor)
        if "O-1" in second:
            answer(_orders(lab, "id = 1", "new", "10:00"), cow, COW)
            types[COW] = lab.xray(cow).table_type if lab.files(cow) else "missing"
        return TwoUpserts(types, first, second, _is_quick(table))

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
        if not facts.quick:
            return NotYet(
                "The rows are right. But the files are not as the options of `QUICK` make them, "
                "and the lesson's figures need these. Give the write both dictionaries."
            )
        return Passed("One row per order in both types. The writer's code differs in one option.")


def _is_quick(table: Snapshot) -> bool:
    """Whether a table of a few rows has small bloom filters, and a list of files without more."""
    largest = max((file.size for file in table.files if file.kind == "base"), default=0)
    return largest < QUICK_BASE_BYTES and list(table.metadata_partitions.index) == ["files"]


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
                "log, and the base file below it is the current one. How many deltacommits does a "
                "plan wait for?"
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
class Load:
    """Writes into one file group of which Merge-on-Read then compacts, and a choice for them.

    Args:
        base: bytes of its base file.
        log: bytes of the log of one write.
        writes: until the compaction.
        answer: the type that the function chose.
    """

    base: int
    log: int
    writes: int
    answer: str = ""

    @property
    def bytes_written(self) -> dict[str, int]:
        """What each type writes, compaction included."""
        return {COW: self.writes * self.base, MOR: self.writes * self.log + self.base}

    @property
    def cheaper(self) -> str:
        """Merge-on-Read if it writes at least 5 percent less."""
        return MOR if self.bytes_written[MOR] <= 0.95 * self.bytes_written[COW] else COW

    def __str__(self) -> str:
        return (
            f"A base file of {self.base:,} bytes, logs of {self.log:,}, writes until the "
            f"compaction: {self.writes}."
        )


@check_of("05.4")
class TypeForALoad:
    """A function that chooses the type that writes fewer bytes."""

    @staticmethod
    def observe(lab, answer: Callable) -> tuple[Load, ...]:
        """Ask the function about made-up loads."""
        return tuple(
            replace(load, answer=as_choice(answer(load.base, load.log, load.writes), (COW, MOR)))
            for load in made_up_loads(random.Random())
        )

    @staticmethod
    def judge(facts: tuple[Load, ...]) -> Passed | NotYet:
        """Right for each load."""
        for load in facts:
            if load.answer != load.cheaper:
                cow, mor = load.bytes_written[COW], load.bytes_written[MOR]
                return NotYet(
                    f"{load} Your function says {load.answer}. {_reason(load)} Copy-on-Write "
                    f"writes {cow:,} bytes, Merge-on-Read {mor:,}."
                )
        return Passed(
            f"Right for {len(facts)} loads. The share of a file that one write changes decides, "
            "not whether data arrives as a stream."
        )


def _reason(load: Load) -> str:
    """Why the cheaper type is cheaper, for a load that was judged wrongly."""
    cow, mor = load.bytes_written[COW], load.bytes_written[MOR]
    if load.cheaper == MOR:
        return "Copy-on-Write copies the whole base file at each write."
    if mor < cow:
        return "Merge-on-Read saves less than 5 percent, and has a compaction to watch."
    if mor - load.base < 0.95 * cow:
        return "The logs alone would be less, but the compaction writes the base file as well."
    return "The logs alone are nearly as large as the base files, or larger."


def made_up_loads(chosen: random.Random) -> list[Load]:
    """Loads of every kind. One that leaves the compaction out fails at the first.

    Args:
        chosen: draws the sizes.
    """
    base = chosen.randint(30_000, 900_000)
    few, many = chosen.randint(2, 4), chosen.randint(15, 40)
    return [
        Load(base, 0, 1),  # an insert
        Load(base, int(base * (1.02 - 1 / few)), few),  # less but for the compaction
        Load(base, base // chosen.randint(12, 30), many),
        Load(base, base * chosen.randint(2, 6), 1),  # all rows change
        Load(base, int(base * (0.97 - 1 / many)), many),  # three percent less
        Load(base, int(base * (0.93 - 1 / many)), many),  # seven percent less
    ]


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
