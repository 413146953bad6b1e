"""Checks of lesson 09: the rows that the learner's queries return from a table with a log.

The small Merge-on-Read table has two commits. In a log, the second one changes three orders and
erases one; it also adds a new order in a base file. The orders are chosen at random.
"""

import random
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from threading import Event, Thread

from pyspark.sql import DataFrame

from lab_env.course.answers import as_list, as_rows, as_text, kind_of
from lab_env.course.checking import check, expect
from lab_env.lessons.rows import expect_rows, keys_of, named, without_hudis
from lab_env.lessons.streams import spark_settings
from lab_env.lessons.table_copies import overlay_table, scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.platform import store

TABLE = {
    **KEYS,
    **DEMO_OPTIONS,
    "hoodie.table.name": "scratch",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
    "hoodie.index.bloom.num_entries": "1000",
}
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
QUERY_TYPE = "hoodie.datasource.query.type"
CHANGED = ("order_id", "status", "amount", "order_ts")  # what the second commit changes
FIRST, NEW_ORDER, LOGGED = "id <= 20 OR id = 1001", "O-1002", ["O-2", "O-3", "O-4"]
MISTAKES = {  # by what a board then says of new orders
    210: "That was right before the last commit. This session read the name at that time and "
    "remembers what it found: REFRESH the name, or load the path.",
    235: "That mixes two commits: it comes from a read-optimised query. A name registered with "
    "hoodie.query.as.ro.table always means such a query. So does a query that does not name its "
    "type while the session's setting says read_optimized.",
    245: "If you added up all Parquet files: an older base file counts as well as the newer one, "
    "and the log is left out. The timeline says which files belong to the table.",
}


@dataclass(frozen=True)
class TwoCommits:
    """A table, a copy with its first commit only, and the orders that the second commit changes.

    Args:
        before: path of the copy.
        after: path of the table.
        amount: number of the order whose amount becomes 4.00 instead of 10.00.
        status: number of the order that becomes paid.
        touched: number of the order whose time alone changes.
        erased: number of the order that is erased.
    """

    before: str
    after: str
    amount: int
    status: int
    touched: int
    erased: int


@check("09.1")
def opens_by_query_type(lab, read_orders):
    """Let the function open a table before its second commit, and with each query type after it."""
    table, path = _two_commits(lab), scratch_copy(lab, _two_commits(lab).before, "opened")
    with _session_left_alone(lab):
        first = _table(read_orders(path, "snapshot"))
        expect_rows(first, _read(lab, path).select(*CHANGED), may_have_more=True)
        overlay_table(lab, table.after, path)
        opened = {kind: read_orders(path, kind) for kind in ("snapshot", "read_optimized")}
    right = {"snapshot": (4, "read_optimized"), "read_optimized": (10, "snapshot")}
    for kind, rows in opened.items():
        said, (cost, other) = _cost(rows, table.amount), right[kind]
        expect(
            said == cost,
            "Asked for {}, your function says that O-{} costs {}; that is the answer of a {} "
            "query, or of an earlier one. Which option names the query type?",
            kind,
            table.amount,
            said,
            other,
        )
        expect_rows(rows, _read(lab, path, kind))
    with spark_settings(lab.spark, {QUERY_TYPE: "read_optimized"}):
        said = _cost(read_orders(path, "snapshot"), table.amount)
    expect(
        said == 4,
        "In a session whose query type is set to read_optimized, your function answers so when it "
        "is asked for snapshot: give your reader the type each time.",
    )
    return (
        f"The same table, opened twice: O-{table.amount} costs 4.00 by snapshot, and 10.00 by "
        "read-optimised. Both answers are Hudi's."
    )


@check("09.2")
def newest_rows_by_name(lab, newest_rows):
    """Let the function query a table name before and after another job's commit, in one session."""
    table = _two_commits(lab)
    path = scratch_copy(lab, table.before, "named")
    with _names(lab, path) as (name, _):
        expect_rows(_table(newest_rows(name)), _read(lab, path))
        overlay_table(lab, table.after, path)
        _begin_a_write(lab, path)
        found = newest_rows(name)
        said = _cost(found, table.amount)
        expect(
            said == 4,
            "O-{} costs {} by your function. {}",
            table.amount,
            said,
            f"{NEW_ORDER}, of the same commit, is there: ask a snapshot query."
            if NEW_ORDER in keys_of(found)
            else "That was right before the last commit. The session remembers what it found when "
            "it first read the name.",
        )
        expect_rows(found, _read(lab, path))
    return (
        f"O-{table.amount} costs 4.00: your function shows the commit that arrived after the "
        "session had read the name."
    )


def _begin_a_write(lab, path: str) -> None:
    """Leave a table as while another job writes: with an instant that is not complete."""
    newest = max(lab.xray(path).completed_writes)
    for state in ("requested", "inflight"):
        key = f"{store.key_of(path)}/.hoodie/timeline/{int(newest) + 1}.deltacommit.{state}"
        store.client(lab.endpoints).put_object(Bucket=lab.endpoints.bucket, Key=key, Body=b"")


@check("09.3")
def finds_stale_orders(lab, find_stale_orders):
    """Call the function for a table with changes in logs, and for one with a new order in a log."""
    table = _two_commits(lab)
    found = [as_text(order) for order in as_list(find_stale_orders(table.after))]
    amount, status, erased = (f"O-{n}" for n in (table.amount, table.status, table.erased))
    missed = {amount, status, erased} - set(found)
    others = set(found) - {amount, status, erased}

    def need(holds: object, sentence: str, *values: object) -> None:
        expect(holds, "You return {}. " + sentence, named(found), *values)

    need(
        NEW_ORDER not in found,
        "{} is new, and both queries show it alike: the commit put it into a base file. Compare "
        "what the two queries return.",
        NEW_ORDER,
    )
    need(
        missed != {erased},
        "{} is not among them: it was erased, so the snapshot does not have it, and a "
        "read-optimised query still shows it.",
        erased,
    )
    need(
        status not in missed or amount in missed,
        "{} is not among them: its amount is the same in both, and its status is paid in one and "
        "new in the other.",
        status,
    )
    need(
        not missed,
        "{} is shown differently by a read-optimised query: another amount, another status, or a "
        "row that one of the two lacks.",
        named(missed),
    )
    need(not others, "Of these {} has the same status and amount in both.", named(others))
    need(len(found) == 3, "Return each order once, although two rows differ.")
    logged = [as_text(order) for order in as_list(find_stale_orders(_logged(lab)))]
    new, no_status, cents = LOGGED
    expect(
        new in logged,
        "That is right. In another table, whose index sends new orders to logs, you return {}, "
        "without {}: the snapshot has it, and a read-optimised query lacks it. Look in both "
        "directions.",
        named(logged),
        new,
    )
    expect(
        sorted(logged) == LOGGED,
        "In another table you return {}. There {} is new, the status of {} has become NULL, and "
        "{} costs 40 cents more.",
        named(logged),
        new,
        no_status,
        cents,
    )
    return (
        f"{named(found)}: an amount, a status, and an erased customer's order that the "
        f"read-optimised query still shows. {NEW_ORDER} came in the same commit, and both show it."
    )


@check("09.4")
def board_of_a_true_state(lab, show_board):
    """Let the function compute the board from each of a table's two names, after a new commit.

    The session has already read both names, and its query type is set to read-optimised.
    """
    table = _two_commits(lab)
    path = scratch_copy(lab, table.before, "board")
    with _names(lab, path) as names:
        read_optimised = spark_settings(lab.spark, {QUERY_TYPE: "read_optimized"})
        with read_optimised, _session_left_alone(lab):
            _expect_board("the table, before the commit,", show_board(names[0]), {"new": 210})
            overlay_table(lab, table.after, path)
            for name, which in zip(names, ("the table", "its _ro name"), strict=True):
                _expect_board(which, show_board(name), {"new": 209, "paid": 10})
    return (
        "Your board shows new 209.00, paid 10.00, for both names: the newest commit, and all of "
        "it. Whichever name it was given, it shows a state that the table really had."
    )


def _expect_board(name: str, answer, right: dict[str, int]) -> None:
    rows = as_rows(answer, ("status", "revenue"))
    found = dict(rows)
    why = MISTAKES.get(found.get("new"), "One row per status, with the sum of `amount`.")
    said = ", ".join(f"{status} {revenue}" for status, revenue in rows) or "nothing"
    expect(found == right, "For {} your board says {}. {}", name, said, why)
    expect(len(rows) == len(right), "For {} your board says {}: a status twice.", name, said)
    others = {kind_of(money) for money in found.values() if not isinstance(money, Decimal)}
    expect(not others, "The sums are right, but each is {}. Money stays decimal.", named(others))


@contextmanager
def _names(lab, path: str) -> Generator[tuple[str, str]]:
    """Register two names for a table, one of them for read-optimised queries, and read both."""
    name = f"named_{secrets.token_hex(3)}"
    names = name, f"{name}_ro"
    try:
        as_ro = "TBLPROPERTIES ('hoodie.query.as.ro.table' = 'true')"
        for each, properties in zip(names, ("", as_ro), strict=True):
            lab.spark.sql(f"CREATE TABLE {each} USING hudi {properties} LOCATION '{path}'")
            lab.spark.table(each).select("order_id").first()
        yield names
    finally:
        for each in names:
            lab.spark.sql(f"DROP TABLE IF EXISTS {each}")


@contextmanager
def _session_left_alone(lab) -> Generator[None]:
    """Check that the body does not change the session's query type, even briefly."""
    setting, done = lab.spark.conf, Event()
    kept = setting.get(QUERY_TYPE, "")
    seen = {kept}

    def look() -> None:
        while not done.wait(0.01):
            seen.add(setting.get(QUERY_TYPE, ""))

    watcher = Thread(target=look)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        seen.add(setting.get(QUERY_TYPE, ""))
        setting.set(QUERY_TYPE, kept) if kept else setting.unset(QUERY_TYPE)
        expect(
            seen == {kept},
            "Your function changes {} for the whole session, at least for a moment: it was {} "
            "before, and became {}. Other queries of this session count on it. Give the option to "
            "your own reader.",
            QUERY_TYPE,
            kept or "unset",
            " and ".join(kind or "unset" for kind in seen - {kept}),
        )


def _table(answer) -> DataFrame:
    expect(
        isinstance(answer, DataFrame),
        "Your function returns {}. The next cells ask Spark questions of it: return a DataFrame.",
        kind_of(answer),
    )
    return answer


def _cost(rows, number: int) -> object:
    """Return an order's amount in the learner's result, which must have each key once."""
    twice = [key for key, times in keys_of(_table(rows)).items() if times > 1]
    expect(
        not twice,
        "Your function returns {} twice. Those are all Parquet files, old ones too, and no log. "
        'Let Hudi open the table: `format("hudi")`.',
        named(twice),
    )
    found = rows.where(f"order_id = 'O-{number}'").select("amount").first()
    return found[0] if found else "nothing, as it is missing"


def _read(lab, path: str, kind: str = "snapshot") -> DataFrame:
    return without_hudis(lab.spark.read.format("hudi").option(QUERY_TYPE, kind).load(path))


@cache  # nothing changes these tables
def _two_commits(lab) -> TwoCommits:
    drawn = random.SystemRandom().sample(range(1, 21), 4)
    table = TwoCommits(lab.scratch("before"), lab.scratch("after"), *drawn)
    _write(_orders(lab, FIRST), table.after)
    overlay_table(lab, table.after, table.before)
    second = ", ".join(map(str, (*drawn, 1002)))
    _write(_orders(lab, f"id IN ({second})", table), table.after)
    return table


@cache
def _logged(lab) -> str:
    """Return the path of a table, written on the first call: O-2 to O-4 have rows in a log."""
    path = lab.scratch("logged")
    _write(_orders(lab, "id IN (1, 3, 4)"), path, **BUCKET)
    changed = _orders(lab, "id IN (2, 3, 4)").selectExpr(
        "order_id",
        "IF(order_id = 'O-3', NULL, status) AS status",
        "CAST(IF(order_id = 'O-4', 10.40, amount) AS DECIMAL(12,2)) AS amount",
        "_hoodie_is_deleted",
        "order_ts",
        "partition_date",
    )
    _write(changed, path, **BUCKET)
    return path


def _orders(lab, which: str, table: TwoCommits | None = None) -> DataFrame:
    """Return orders of 10.00 (O-1002: 25.00); with `table`, as the second commit changes them."""
    cheap, paid, erased = (table.amount, table.status, table.erased) if table else (0, 0, 0)
    return lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, IF(id = {paid}, 'paid', 'new') AS status,
               id = {erased} AS _hoodie_is_deleted,
               CAST(CASE id WHEN {cheap} THEN 4 WHEN 1002 THEN 25 ELSE 10 END AS DECIMAL(12,2))
                   AS amount,
               to_timestamp('2026-11-22 1{int(bool(table))}:00') AS order_ts,
               IF(id <= 1000, '2026-11-20', '2026-11-21') AS partition_date
        FROM range(1, 1003, 1, 1) WHERE {which}
    """)


def _write(rows: DataFrame, path: str, **options: str) -> None:
    rows.write.format("hudi").options(**TABLE, **options).mode("append").save(path)
