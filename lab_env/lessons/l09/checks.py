"""Checks of lesson 09: what a read-optimised query saw of three writes, and a total of two names.

Both tables are written once per lesson. The second check calls its function on a copy, which gets
the newest commit only after the session has read both names.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from lab_env.course.answers import as_bool, as_number
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.table_copies import overlay_table
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
QUERY_TYPE = "hoodie.datasource.query.type"
UPDATE, ERASE, NEW_DAY = "O-17 is shipped", "O-18 is erased", "O-1300 opens a new day"


@dataclass(frozen=True)
class ThreeWrites:
    """Three writes, one after the other, and a read-optimised query at the end.

    Args:
        answer: by write, whether the learner expects the query to see it.
        seen: by write, whether it did.
    """

    answer: Mapping[str, object]
    seen: Mapping[str, bool]


@check_of("09.1")
class SeenByReadOptimised:
    """An update, an erasure and a new day, on a Merge-on-Read table without logs."""

    @staticmethod
    def observe(lab, answer) -> ThreeWrites:
        """Write the table, once per lesson, and run a read-optimised query on it."""
        path = lab.path("exercise/three_writes")
        if not lab.files(path):
            _write(lab, path, "id BETWEEN 1 AND 20", "new", 10)
            _write(lab, path, "id = 17", "shipped", 11)
            _write(lab, path, "id = 18", "erased", 12)
            _write(lab, path, "id = 1300", "new", 13)
        rows = (
            lab.spark.read.format("hudi")
            .option(QUERY_TYPE, "read_optimized")
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
        """A write is seen if it made a base file."""
        expected = {write: as_bool(facts.answer.get(write)) for write in facts.seen}
        if expected == facts.seen:
            return Passed(
                "It shows O-17 as it was, O-18 although it is erased, and O-1300. The age of a "
                "change does not matter: what matters is which kind of file the write made."
            )
        if not any(expected.values()):
            return NotYet(
                "You expect the table as of its last compaction. But O-1300 is in the answer: a "
                "new day has no file group yet, so its first order made a base file, and base "
                "files are read."
            )
        wrong = next(write for write in expected if expected[write] != facts.seen[write])
        return NotYet(
            {
                UPDATE: "The query says that O-17 is new. Its shipping is a change of a known "
                "order, so it went to a log.",
                ERASE: "The query still returns O-18. The erasure is a change of a known order, "
                "too: a log says that the row is deleted, the base file still has it.",
                NEW_DAY: "O-1300 is in the answer. The 22nd had no file group whose logs could "
                "take the order, so it went to a new base file.",
            }[wrong]
        )


# The totals of the second check's table: the right one, and one for each way to be wrong.
BEFORE, NOW = Decimal("210.00"), Decimal("229.00")
READ_OPTIMISED = Decimal("235.00")  # O-17 is still at 10, and O-1002 is already there
ALL_FILES = Decimal("245.00")  # as before, and the rows of an older base file once more


@dataclass(frozen=True)
class Totals:
    """What the function returned.

    Args:
        plain: for the table's own name.
        suffixed: for the name that ends in `_ro`.
    """

    plain: Decimal
    suffixed: Decimal


@check_of("09.2")
class RevenueOfATrueState:
    """The same total for both names of a table: of its newest commit, whole."""

    @staticmethod
    def observe(lab, answer) -> Totals:
        """Read both names, add a commit, set the session's type, then call the function."""
        before, after = _two_states(lab)
        path, name = lab.scratch("dashboard"), f"dashboard_{secrets.token_hex(3)}"
        names = {name: "", f"{name}_ro": "TBLPROPERTIES ('hoodie.query.as.ro.table' = 'true')"}
        overlay_table(lab, before, path)
        for each, properties in names.items():
            lab.spark.sql(f"CREATE TABLE {each} USING hudi {properties} LOCATION '{path}'")
            lab.spark.table(each).select("order_id").first()
        overlay_table(lab, after, path)
        lab.spark.conf.set(QUERY_TYPE, "read_optimized")
        try:
            return Totals(*(as_number(answer(each)) for each in names))
        finally:
            lab.spark.conf.unset(QUERY_TYPE)
            for each in names:
                lab.spark.sql(f"DROP TABLE {each}")

    @staticmethod
    def judge(facts: Totals) -> Passed | NotYet:
        """The newest committed total for both."""
        if facts.plain == facts.suffixed == NOW:
            return Passed(
                f"{NOW} for both names: the total of the newest commit, and of all of it. "
                "Whichever name a dashboard was given, it shows a state that the table really had."
            )
        name = "the table" if facts.plain != NOW else "its _ro name"
        total = facts.plain if facts.plain != NOW else facts.suffixed
        difference = f"For {name} you return {total}; the table says {NOW}. "
        if total == BEFORE:
            return NotYet(
                f"{difference}{BEFORE} was right before the last commit. This session read the "
                "name at that time and remembers what it found: REFRESH the name, or load the path."
            )
        if total == READ_OPTIMISED:
            return NotYet(
                f"{difference}Your total mixes two commits: it comes from a read-optimised query, "
                "so from the newest base file of each group. A name ending in _ro always means "
                "such a query. So does a query that does not name its type while the session's "
                "setting says read_optimized."
            )
        if total == ALL_FILES:
            return NotYet(
                f"{difference}You added up all Parquet files: an older base file counts beside "
                "the newer one, and the log is left out. The timeline says which files belong to "
                "the table."
            )
        return NotYet(f"{difference}Add up `amount` over all rows of the newest state.")


def _two_states(lab) -> tuple[str, str]:
    """Paths of two copies of a table: before and after a commit that made a log and a base file."""
    before, after = lab.path("exercise/before"), lab.path("exercise/after")
    if not lab.files(after):
        _write(lab, after, "id BETWEEN 1 AND 20 OR id = 1001", "new", 10)
        overlay_table(lab, after, before)
        _write(lab, after, "id IN (17, 1002)", "split", 11)
    return before, after


def _write(lab, path: str, which: str, status: str, hour: int) -> None:
    """Upsert orders of 10.00 each: up to 1000 of the 20th, from 1300 of the 22nd, else of the 21st.

    With the status `split`, O-17 gets an amount of 4.00 and every other order 25.00.
    """
    rows = lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, '{status}' AS status,
               '{status}' = 'erased' AS _hoodie_is_deleted,
               CAST(IF('{status}' = 'split', IF(id = 17, 4, 25), 10) AS DECIMAL(12,2)) AS amount,
               to_timestamp('2026-11-22 {hour}:00') AS order_ts,
               CASE WHEN id <= 1000 THEN '2026-11-20' WHEN id < 1300 THEN '2026-11-21'
                    ELSE '2026-11-22' END AS partition_date
        FROM range(1, 1301, 1, 1) WHERE {which}
    """)
    rows.write.format("hudi").options(**TABLE).mode("append").save(path)
