"""Checks of lesson 09: what a reader of the learner's returns from a table with half a commit.

All four use one small Merge-on-Read table, written once per lesson. Its second commit changes one
order's amount, another one's status, erases a third (three rows of one log), and brings a new order
in a base file. Which orders these are is drawn by chance. Another table has a new order in a log.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from lab_env.course.answers import as_list, as_number, as_rows, as_text
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.boards import Board, Orders, as_board, board_of, board_text
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
TYPES = ("snapshot", "read_optimized")
COLUMNS = ("order_id", "status", "amount")
NEW_ORDER, LOGGED_ORDER = "O-1002", "O-2"


@dataclass(frozen=True)
class States:
    """What the table says, by the way in which it is asked.

    Args:
        before: before its second commit.
        snapshot: after it.
        read_optimized: after it, from the base files alone.
        all_files: number of rows in all Parquet files, also those of older file slices.
    """

    before: Orders
    snapshot: Orders
    read_optimized: Orders
    all_files: int

    @property
    def stale(self) -> set[str]:
        """The orders that both queries do not show alike."""
        known = {*self.snapshot, *self.read_optimized}
        return {key for key in known if self.snapshot.get(key) != self.read_optimized.get(key)}

    @property
    def changed(self) -> str:
        """The order whose amount changes."""
        (order,) = (
            key
            for key, (_, amount) in self.snapshot.items()
            if key in self.before and amount != self.before[key][1]
        )
        return order

    @property
    def repaid(self) -> str:
        """The order of which only the status changes."""
        (order,) = (
            key
            for key, (status, amount) in self.snapshot.items()
            if key in self.before
            and (status, amount) != self.before[key]
            and amount == self.before[key][1]
        )
        return order

    @property
    def erased(self) -> str:
        """The order that is erased."""
        (order,) = self.before.keys() - self.snapshot.keys()
        return order


@dataclass(frozen=True)
class Opened:
    """What the learner's function returned for each query type.

    Args:
        rows: order, status and amount of each row, by query type.
        states: what the table says.
        session_type: the query type that the session is left with; empty if it has none.
    """

    rows: Mapping[str, list[tuple]]
    states: States
    session_type: str = ""


@check_of("09.1")
class OpensByQueryType:
    """A function that opens a table by the query type that it is given."""

    @staticmethod
    def observe(lab, answer: Callable) -> Opened:
        """Open a table with a log by both types."""
        path = lab.path("exercise/after")
        states = _states(lab)
        try:
            rows = {kind: as_rows(answer(path, kind), COLUMNS) for kind in TYPES}
            left = lab.spark.conf.get(QUERY_TYPE, "")
        finally:
            lab.spark.conf.unset(QUERY_TYPE)
        return Opened(rows, states, left)

    @staticmethod
    def judge(facts: Opened) -> Passed | NotYet:
        """Each type returns its own rows, and the session is as it was."""
        if facts.session_type:
            return NotYet(
                f"Your function leaves the session with {QUERY_TYPE} = {facts.session_type}: every "
                "later query of this session that does not name its type gets that one. Give the "
                "option to the reader."
            )
        order = facts.states.changed
        expected = {kind: getattr(facts.states, kind) for kind in TYPES}
        for kind, rows in facts.rows.items():
            if len(rows) == facts.states.all_files:
                return NotYet(
                    f"Asked for {kind}, your function returns {len(rows)} rows; the table has "
                    f"{len(expected[kind])}. Those are all Parquet files, old ones too, and no "
                    'log. Open it as a table: `format("hudi")`.'
                )
            other = TYPES[1 - TYPES.index(kind)]
            if _orders(rows) == expected[other] != expected[kind]:
                return NotYet(
                    f"Asked for {kind}, your function says that {order} costs "
                    f"{expected[other][order][1]}; that is the answer of a {other} query. A {kind} "
                    f"query says {expected[kind][order][1]}. Which option names the query type?"
                )
            if _orders(rows) != expected[kind]:
                return NotYet(
                    f"Asked for {kind}, your function returns {len(rows)} rows; the query has "
                    f"{len(expected[kind])}. Return the table as it was opened, with all rows."
                )
        cheap, true = (expected[kind][order][1] for kind in reversed(TYPES))
        return Passed(
            f"The same table, opened twice: {order} costs {true} by snapshot, and {cheap} by "
            "read-optimised. Both answers are Hudi's."
        )


@dataclass(frozen=True)
class Newest:
    """The rows that the learner's function returned for a name, after a commit.

    Args:
        rows: order, status and amount of each.
        states: what the table says.
    """

    rows: list[tuple]
    states: States


@check_of("09.2")
class NewestRowsByName:
    """The rows of the newest commit, of a name that the session has read before."""

    @staticmethod
    def observe(lab, answer: Callable) -> Newest:
        """Read a name, let a commit arrive, then call the function."""
        states, path, name = _states(lab), lab.scratch("named"), f"named_{secrets.token_hex(3)}"
        overlay_table(lab, lab.path("exercise/before"), path)
        lab.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
        lab.spark.table(name).select("order_id").first()
        overlay_table(lab, lab.path("exercise/after"), path)
        try:
            return Newest(as_rows(answer(name), COLUMNS), states)
        finally:
            lab.spark.sql(f"DROP TABLE {name}")

    @staticmethod
    def judge(facts: Newest) -> Passed | NotYet:
        """The snapshot after the second commit."""
        states, found = facts.states, _orders(facts.rows)
        order = states.changed
        true, old = states.snapshot[order][1], states.before[order][1]
        if found == states.snapshot:
            return Passed(
                f"{order} costs {true}: your function shows the commit that arrived after the "
                "session had read the name."
            )
        if len(facts.rows) == states.all_files:
            return NotYet(
                f"{len(facts.rows)} rows; the table has {len(states.snapshot)}. Those are all "
                "Parquet files below its path, without the logs. Let Hudi open the table."
            )
        if found == states.before:
            return NotYet(
                f"{order} costs {old} by your function. That was right before the last commit; now "
                f"it costs {true}. The session remembers what it found when it first read the name."
            )
        if found == states.read_optimized:
            return NotYet(
                f"{order} costs {old} by your function, and {NEW_ORDER}, of the same commit, is "
                "there: a read-optimised query. Ask a snapshot query."
            )
        return NotYet(
            f"Your function returns {len(facts.rows)} rows; the newest commit has "
            f"{len(states.snapshot)}. Return all of them."
        )


@dataclass(frozen=True)
class Found:
    """The orders that the learner's function found stale in a read-optimised query.

    Args:
        orders: what it returned.
        states: what the table says.
        logged: what it returned for a table whose only stale order is new, and in a log.
    """

    orders: frozenset[str]
    states: States
    logged: frozenset[str] = frozenset({LOGGED_ORDER})


@check_of("09.3")
class FindsStaleOrders:
    """The orders that a read-optimised query does not show as the snapshot does."""

    @staticmethod
    def observe(lab, answer: Callable) -> Found:
        """Call the function on a table with half a commit, and on one with a new order in a log."""
        states = _states(lab)
        after, logged = (
            frozenset(as_text(order) for order in as_list(answer(path)))
            for path in (lab.path("exercise/after"), _logged(lab))
        )
        return Found(after, states, logged)

    @staticmethod
    def judge(facts: Found) -> Passed | NotYet:
        """All stale orders and no other."""
        states, missed = facts.states, facts.states.stale - facts.orders
        given = _named(facts.orders)
        if NEW_ORDER in facts.orders:
            return NotYet(
                f"You return {given}. {NEW_ORDER} is new, and both queries show it alike: the "
                "commit put it into a base file. Compare what the two queries return."
            )
        if missed == {states.erased}:
            return NotYet(
                f"You return {given}. {states.erased} is not among them: it was erased, so the "
                "snapshot does not have it, and a read-optimised query still shows it."
            )
        if states.repaid in missed and states.changed not in missed:
            return NotYet(
                f"You return {given}. {states.repaid} is not among them: its amount is the same in "
                f"both, and its status is {states.snapshot[states.repaid][0]} in one and "
                f"{states.before[states.repaid][0]} in the other."
            )
        if missed:
            return NotYet(
                f"You return {given}. {_named(missed)} is shown differently by a read-optimised "
                "query: another amount, another status, or a row that one of the two lacks."
            )
        if facts.orders - states.stale:
            return NotYet(
                f"You return {given}. Of these {_named(facts.orders - states.stale)} is the same "
                "in both: same status, same amount."
            )
        if facts.logged != {LOGGED_ORDER}:
            return NotYet(
                f"{given} is right. In another table, whose index sends new orders to logs, you "
                f"return {_named(facts.logged)}, and {LOGGED_ORDER} alone is right: the snapshot "
                "has it, and a read-optimised query lacks it. Look in both directions."
            )
        return Passed(
            f"{given}: an amount, a status, and an erased customer's order that the read-optimised "
            f"query still shows. {NEW_ORDER} came in the same commit, and both show it."
        )


@dataclass(frozen=True)
class Boards:
    """What the learner's function returned.

    Args:
        plain: for the table's own name.
        suffixed: for the name that ends in `_ro`.
        states: what the table says.
        session_type: the query type that the session is left with.
    """

    plain: Board
    suffixed: Board
    states: States
    session_type: str = TYPES[1]


@check_of("09.4")
class BoardOfATrueState:
    """The same revenue by status for both names of a table: of its newest commit, whole."""

    @staticmethod
    def observe(lab, answer: Callable) -> Boards:
        """Read both names, add a commit, set the session's type, then call the function."""
        states = _states(lab)
        path, name = lab.scratch("board"), f"board_{secrets.token_hex(3)}"
        names = {name: "", f"{name}_ro": "TBLPROPERTIES ('hoodie.query.as.ro.table' = 'true')"}
        overlay_table(lab, lab.path("exercise/before"), path)
        for each, properties in names.items():
            lab.spark.sql(f"CREATE TABLE {each} USING hudi {properties} LOCATION '{path}'")
            lab.spark.table(each).select("order_id").first()
        overlay_table(lab, lab.path("exercise/after"), path)
        lab.spark.conf.set(QUERY_TYPE, TYPES[1])
        try:
            boards = [as_board(answer(each)) for each in names]
            return Boards(*boards, states, lab.spark.conf.get(QUERY_TYPE, ""))
        finally:
            lab.spark.conf.unset(QUERY_TYPE)
            for each in names:
                lab.spark.sql(f"DROP TABLE {each}")

    @staticmethod
    def judge(facts: Boards) -> Passed | NotYet:
        """The newest committed revenue for both."""
        states = facts.states
        true = board_of(states.snapshot)
        if facts.session_type != TYPES[1]:
            return NotYet(
                f"Your function changes {QUERY_TYPE} for the whole session: it was {TYPES[1]} "
                f"before, and is {facts.session_type or 'unset'} now. Other queries of this "
                "session count on it. Give the option to your own reader."
            )
        if facts.plain == facts.suffixed == true:
            return Passed(
                f"{board_text(true)}, for both names: the newest commit, and all of it. Whichever "
                "name a board was given, it shows a state that the table really had."
            )
        name, found = (
            ("the table", facts.plain) if facts.plain != true else ("its _ro name", facts.suffixed)
        )
        difference = (
            f"For {name} your board says {board_text(found)}; the table says {board_text(true)}. "
        )
        if found == board_of(states.before):
            return NotYet(
                f"{difference}That was right before the last commit. This session read the name at "
                "that time and remembers what it found: REFRESH the name, or load the path."
            )
        if found == board_of(states.read_optimized):
            return NotYet(
                f"{difference}Yours mixes two commits: it comes from a read-optimised query. A "
                "name registered with hoodie.query.as.ro.table always means such a query. So does "
                "a query that does not name its type while the session's setting says "
                "read_optimized."
            )
        if sum(found.values()) > sum(true.values()) and found.keys() <= _statuses(states):
            return NotYet(
                f"{difference}If you added up all Parquet files: an older base file counts beside "
                "the newer one, and the log is left out. The timeline says which files belong to "
                "the table."
            )
        return NotYet(f"{difference}One row per status, with the sum of `amount`.")


def _statuses(states: States) -> set[str]:
    known = (states.before, states.snapshot)
    return {status for orders in known for status, _ in orders.values()}


def _orders(rows: list[tuple]) -> Orders:
    return {as_text(key): (as_text(status), as_number(amount)) for key, status, amount in rows}


def _named(orders) -> str:
    return ", ".join(sorted(orders, key=lambda key: (len(key), key))) or "no order"


@cache  # nothing changes these two tables
def _states(lab) -> States:
    """What the table of the checks says; written, with a copy from between its commits, if new."""
    before, after = lab.path("exercise/before"), lab.path("exercise/after")
    if not lab.files(after):
        _write(lab, after, "id <= 20 OR id = 1001")
        overlay_table(lab, after, before)
        amount, status, erase = secrets.SystemRandom().sample(range(1, 21), 3)
        _write(lab, after, f"id IN ({amount}, {status}, {erase}, 1002)", amount, status, erase)
    reader = lab.spark.read.format("hudi")
    found = [
        _orders(reader.option(QUERY_TYPE, kind).load(path).select(*COLUMNS).collect())
        for kind, path in (("snapshot", before), *((kind, after) for kind in TYPES))
    ]
    return States(*found, lab.spark.read.parquet(f"{after}/partition_date=*/*.parquet").count())


def _logged(lab) -> str:
    """The path of a table with O-1 in a base file and O-2 in a log; written at the first call."""
    path = lab.path("exercise/logged")
    if not lab.files(path):
        index = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
        for which in ("id = 1", "id = 2"):
            _write(lab, path, which, **index)
    return path


def _write(lab, path: str, which: str, amount=0, status=0, erase=0, **options: str) -> None:
    """Upsert orders of 10.00 each: up to 1000 of the 20th, above of the 21st.

    Args:
        lab: whose session.
        path: of the table.
        which: the condition on `id`.
        amount: the order that costs 4.00, a new one costs 25.00.
        status: the order that is paid.
        erase: the order that is erased.
        options: further options of the write.
    """
    rows = lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, IF(id = {status}, 'paid', 'new') AS status,
               id = {erase} AS _hoodie_is_deleted,
               CAST(CASE id WHEN {amount} THEN 4 WHEN 1002 THEN 25 ELSE 10 END AS DECIMAL(12,2))
                   AS amount,
               to_timestamp('2026-11-22 {10 + bool(amount)}:00') AS order_ts,
               IF(id <= 1000, '2026-11-20', '2026-11-21') AS partition_date
        FROM range(1, 1301, 1, 1) WHERE {which}
    """)
    rows.write.format("hudi").options(**TABLE, **options).mode("append").save(path)
