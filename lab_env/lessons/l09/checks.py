"""Checks of lesson 09: what a read-optimised query saw of three writes, and a total of two names.

Both tables are written once in a lesson. The second check lets its function work on a copy, which gets
the newest commit only after a session has read both names.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from lab_env import store
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

TABLE = (
    KEYS
    | DEMO_OPTIONS
    | {
        "hoodie.table.name": "scratch",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "false",
        "hoodie.index.bloom.num_entries": "1000",
    }
)
UPDATE, ERASE, NEW_DAY = "O-17 is shipped", "O-18 is erased", "O-1300 opens a new day"


@dataclass(frozen=True)
class ThreeWrites:
    """Three writes, one after the other, and a read-optimised query at the end.

    Args:
        answer: for each write whether the learner expects the query to see it.
        seen: whether it did.
    """

    answer: Mapping[str, object]
    seen: Mapping[str, bool]


@check_of("09.1")
class SeenByReadOptimised:
    """An update, an erasure and a new day, on a Merge-on-Read table without logs."""

    @staticmethod
    def observe(lab, answer) -> ThreeWrites:
        """Write the table, once in a lesson, and ask it read-optimised."""
        path = lab.path("exercise/three_writes")
        if not lab.files(path):
            _write(lab, path, "id BETWEEN 1 AND 20", "new", 10)
            _write(lab, path, "id = 17", "shipped", 11)
            _write(lab, path, "id = 18", "erased", 12)
            _write(lab, path, "id = 1300", "new", 13)
        rows = (
            lab.spark.read.format("hudi")
            .option("hoodie.datasource.query.type", "read_optimized")
            .load(path)
            .select("order_id", "status")
            .collect()
        )
        status = {row.order_id: row.status for row in rows}
        seen = {
            UPDATE: status.get("O-17") == "shipped",
            ERASE: "O-18" not in status,
            NEW_DAY: "O-1300" in status,
        }
        return ThreeWrites(dict(answer), seen)

    @staticmethod
    def judge(facts: ThreeWrites) -> Passed | NotYet:
        """Only what made a base file."""
        said = {write: facts.answer.get(write) for write in facts.seen}
        for write, answer in said.items():
            if not isinstance(answer, bool):
                return NotYet(f"For {write!r} give True or False, not {answer!r}.")
        if said == facts.seen:
            return Passed(
                "It shows O-17 as it was, O-18 although it is erased, and O-1300. Not what is new or old "
                "decides, but which kind of file the write made."
            )
        if not any(said.values()):
            return NotYet(
                "You have the table as of its last compaction. But O-1300 is in the answer: a new day has "
                "no file group yet, so its first order made a base file, and base files are read."
            )
        wrong = next(write for write in said if said[write] != facts.seen[write])
        return NotYet(
            {
                UPDATE: "The query says that O-17 is new. Its shipping is a change of a known order, so it "
                "stands in a log.",
                ERASE: "The query still returns O-18. The erasure is a change of a known order, too: a log "
                "says that the row is deleted, the base file still has it.",
                NEW_DAY: "O-1300 is in the answer. New orders go to base files, and the 22nd had no file "
                "group whose logs could take it.",
            }[wrong]
        )


# What the second check's table sums up to, in each of the wrong ways and in the right one.
BEFORE, NOW = Decimal("210.00"), Decimal("229.00")
READ_OPTIMISED = Decimal("235.00")  # O-17 still at 10, O-1002 already there
ALL_FILES = Decimal("245.00")  # and the rows of an older base file once more


@dataclass(frozen=True)
class Totals:
    """What the function returned.

    Args:
        plain: for the table's own name.
        suffixed: for the name that ends in `_ro`.
    """

    plain: object
    suffixed: object


@check_of("09.2")
class RevenueOfATrueState:
    """The same total for both names of a table: of its newest commit, whole."""

    @staticmethod
    def observe(lab, answer) -> Totals:
        """Read both names, let another commit arrive, and only then call the function."""
        before, after = _two_states(lab)
        path, name = lab.scratch("dashboard"), f"dashboard_{secrets.token_hex(3)}"
        names = {name: "", f"{name}_ro": "TBLPROPERTIES ('hoodie.query.as.ro.table' = 'true')"}
        _copy(lab, before, path)
        for each, properties in names.items():
            lab.spark.sql(f"CREATE TABLE {each} USING hudi {properties} LOCATION '{path}'")
            lab.spark.table(each).select("order_id").first()
        _copy(lab, after, path)
        try:
            return Totals(*(answer(each) for each in names))
        finally:
            for each in names:
                lab.spark.sql(f"DROP TABLE {each}")

    @staticmethod
    def judge(facts: Totals) -> Passed | NotYet:
        """The newest committed total for both."""
        if facts.plain == facts.suffixed == NOW:
            return Passed(
                f"{NOW} for both names: the total of the newest commit, and of all of it. Whichever "
                "name a dashboard was given, it shows a state that the table really had."
            )
        called = "the table" if facts.plain != NOW else "its _ro name"
        total = facts.plain if facts.plain != NOW else facts.suffixed
        told = f"For {called} you say {total}; the table says {NOW}. "
        if total == BEFORE:
            return NotYet(
                f"{told}{BEFORE} was right before the last commit. This session read the name then, and "
                "keeps the list of files that it found: the name needs a REFRESH, or the path a new load."
            )
        if total == READ_OPTIMISED:
            return NotYet(
                f"{told}Your total mixes two commits: read-optimised means the newest base file of each "
                "group, not the table at some moment."
            )
        if total == ALL_FILES:
            return NotYet(
                f"{told}You added up all Parquet files: an older base file counts beside the newer one, "
                "and the log is left out. Which files are the table, its timeline says."
            )
        return NotYet(f"{told}Add up `amount` over all rows of the newest state.")


def _two_states(lab) -> tuple[str, str]:
    """Paths of one table before and after a commit that makes a log and a base file."""
    before, after = lab.path("exercise/before"), lab.path("exercise/after")
    if not lab.files(after):
        _write(lab, after, "id BETWEEN 1 AND 20 OR id = 1001", "new", 10)
        _copy(lab, after, before)
        _write(lab, after, "id IN (17, 1002)", "split", 11)
    return before, after


def _write(lab, path: str, which: str, status: str, hour: int) -> None:
    """Upsert orders of 10.00 each: up to 1000 of the 20th, from 1300 of the 22nd, else of the 21st.

    A status `split` moves 6.00 of O-17 away, and gives 25.00 to the others.
    """
    rows = lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, '{status}' AS status, '{status}' = 'erased' AS _hoodie_is_deleted,
               CAST(IF('{status}' = 'split', IF(id = 17, 4, 25), 10) AS DECIMAL(12,2)) AS amount,
               to_timestamp('2026-11-22 {hour}:00') AS order_ts,
               CASE WHEN id <= 1000 THEN '2026-11-20' WHEN id < 1300 THEN '2026-11-21'
                    ELSE '2026-11-22' END AS partition_date
        FROM range(1, 1301, 1, 1) WHERE {which}
    """)
    rows.write.format("hudi").options(**TABLE).mode("append").save(path)


def _copy(lab, source: str, target: str) -> None:
    """Copy a table; its files name no absolute path, so the copy is a table, too."""
    prefixes = (f"{store.key_of(path)}/" for path in (source, target))
    store.copy_prefix(lab.endpoints, *prefixes)
