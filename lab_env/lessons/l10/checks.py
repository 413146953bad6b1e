"""Checks of lesson 10: time travel, the board at a moment, a restore, a replay, a cleaning."""

import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache

from lab_env.course.answers import Unreadable, as_number, as_pair, as_rows, as_text
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.hudi.timeline import Instant, from_seconds, to_seconds
from lab_env.lessons.boards import Board, Orders, as_board, board_of, board_text
from lab_env.lessons.l10.shop import compare_rows, make_changes
from lab_env.lessons.table_copies import copy_table, scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.xray.captions import clock

WITH_THE_BAD = ("O-21", "O-22")  # good orders that came in the bad batch
TABLE = (
    KEYS | DEMO_OPTIONS | {"hoodie.table.name": "kept", "hoodie.index.bloom.num_entries": "1000"}
)


@dataclass(frozen=True)
class Travelled:
    """What the learner's function returned as of one write of the table.

    Args:
        number: of the write, from 1.
        moment: its requested time.
        found: what was returned.
        true: what the table says as of that moment.
        newest: what it says now.
        unchanged: the orders that no later write has changed.
        copied: whether a copy that lacks the newest write was asked.
    """

    number: int
    moment: str
    found: Orders
    true: Orders
    newest: Orders
    unchanged: frozenset[str]
    copied: bool = False


@check_of("10.1")
class TravelsInTime:
    """A function that opens a table as of a moment."""

    @staticmethod
    def observe(lab, answer: Callable) -> Travelled:
        """Ask for each write of the lesson's table until one is wrong, at last an older copy."""
        path = lab.path("orders")
        writes = _writes(lab, path)
        states = _states(lab, writes)
        newest = states[-1]
        last_written = {
            row["order_id"]: row["_hoodie_commit_time"] for row in _rows(lab, writes[-1])
        }
        for number, (write, true) in reversed(list(enumerate(zip(writes, states, strict=True), 1))):
            found = _orders_of(answer(path, write.requested))
            unchanged = frozenset(
                order for order, last in last_written.items() if last <= write.requested
            )
            facts = Travelled(number, write.requested, found, true, newest, unchanged)
            if found != true:
                return facts
        copy = lab.scratch("older")
        copy_table(lab, path, copy, hidden=writes[-1:])
        found = _orders_of(answer(copy, writes[-1].requested))
        if found != states[-2]:
            true, moment = states[-2], writes[-1].requested
            return Travelled(len(writes), moment, found, true, newest, frozenset(), copied=True)
        return facts

    @staticmethod
    def judge(facts: Travelled) -> Passed | NotYet:
        """The table's rows as of each write."""
        when = f"As of write {facts.number}, {clock(facts.moment)},"
        if facts.copied:
            return NotYet(
                "Asked for a copy that lacks the newest write, your function returns other rows "
                "than the copy has. It is given the path of the table: read that one."
            )
        if facts.found == facts.true:
            return Passed(
                f"{when} the table had {len(facts.true)} orders, each as it was then. No copy was "
                "made for it: the files of that time are still there."
            )
        lost = facts.true.keys() - facts.found.keys()
        if lost and facts.found.keys() == facts.unchanged:
            return NotYet(
                f"{when} the table had {len(facts.true)} orders; your function returns "
                f"{len(facts.found)}. {_some(lost)} had rows then, too, and have been changed "
                "since: a filter of today's rows finds no older version. Open the table as of the "
                "moment."
            )
        if facts.found == facts.newest:
            order = min(
                (key for key in facts.true if facts.true[key] != facts.newest.get(key)),
                default=None,
            )
            if order is None:
                return NotYet(f"{when} your function returns today's rows.")
            return NotYet(
                f"{when} {order} cost {facts.true[order][1]}; your function says "
                f"{facts.newest[order][1]}, which is what the table says now. Which option of the "
                "reader takes the moment?"
            )
        return NotYet(
            f"{when} the table had {len(facts.true)} orders; your function returns "
            f"{len(facts.found)} rows, or others. Return the table as it was opened."
        )


def _orders_of(answer) -> Orders:
    """Status and amount of each order that the learner's function returned."""
    rows = as_rows(answer, ("order_id", "status", "amount"))
    return {as_text(key): (as_text(what), as_number(cost)) for key, what, cost in rows}


@dataclass(frozen=True)
class Wall:
    """What the board showed at a moment, and what the learner's function says of it.

    Args:
        moment: digits, year to millisecond.
        going_on: whether a write was requested then and not yet complete.
        found: what was returned.
        true: of the last write that was complete at that moment.
        as_of: of the last write that was requested by then.
        newest: of the table now.
        rows_then: of the rows whose `_hoodie_commit_time` is not after the moment.
    """

    moment: str
    going_on: bool
    found: Board
    true: Board
    as_of: Board
    newest: Board
    rows_then: Board


@check_of("10.2")
class BoardAtAMoment:
    """Revenue by status as readers saw it at a moment."""

    @staticmethod
    def observe(lab, answer: Callable) -> Wall:
        """Ask for three moments until one is wrong."""
        path = lab.path("orders")
        writes = _writes(lab, path)
        states = _states(lab, writes)
        boards = [board_of(state) for state in states]
        rows = _rows(lab, writes[-1])
        for moment in _moments(writes):
            complete = max(n for n, write in enumerate(writes) if write.completed <= moment)
            requested = max(n for n, write in enumerate(writes) if write.requested <= moment)
            old = {
                row["order_id"]: (row["status"], row["amount"])
                for row in rows
                if row["_hoodie_commit_time"] <= moment
            }
            facts = Wall(
                moment=moment,
                going_on=requested > complete,
                found=as_board(answer(path, moment)),
                true=boards[complete],
                as_of=boards[requested],
                newest=boards[-1],
                rows_then=board_of(old),
            )
            if facts.found != facts.true:
                break
        return facts

    @staticmethod
    def judge(facts: Wall) -> Passed | NotYet:
        """The board of the last write that was complete."""
        if facts.found == facts.true:
            return Passed(
                "Right after a write, in the millisecond of its completion, and while it went on: "
                f"at {clock(facts.moment)} the board said {board_text(facts.true)}, and a query "
                f"as of that moment says {board_text(facts.as_of)}."
            )
        says = (
            f"At {clock(facts.moment)} your board says {board_text(facts.found)}. The one on the "
            f"wall said {board_text(facts.true)}. "
        )
        if facts.going_on and facts.found == facts.as_of:
            return NotYet(
                f"{says}A write was going on: requested, and not yet complete. Time travel to the "
                "moment itself takes it; nobody could read it. Which write was the last to be "
                "complete?"
            )
        if facts.found == facts.rows_then:
            return NotYet(
                f"{says}You added up the rows whose _hoodie_commit_time is not after the moment. "
                "Of an order that was changed later today's table has only the later row."
            )
        if facts.found == facts.newest:
            return NotYet(f"{says}Yours is the board of now, whatever the moment.")
        return NotYet(
            f"{says}Which write was the last to be complete then, and when was it requested?"
        )


def _moments(writes: tuple[Instant, ...]) -> list[str]:
    """After the last completion, at an earlier one drawn by chance, and within a write.

    The completion is not the last one: there, rows filtered by their commit time are still right.
    """
    write = secrets.choice(writes[1:])
    begin, end = to_seconds(write.requested), to_seconds(write.completed)
    within = from_seconds(begin + (end - begin) * (0.2 + 0.6 * secrets.randbelow(100) / 100))
    later = from_seconds(to_seconds(writes[-1].completed) + 60)
    return [later, secrets.choice(writes[:-1]).completed, within]


def _some(orders) -> str:
    named = sorted(orders, key=lambda key: (len(key), key))
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return ", ".join(named[:3]) + more


def _writes(lab, path: str) -> tuple[Instant, ...]:
    """The complete writes of a table, in their order."""
    return tuple(i for i in lab.xray(path).instants if i.writes and i.completed)


def _states(lab, writes: tuple[Instant, ...]) -> list[Orders]:
    """The lesson's table as of each of its writes."""
    return [
        {row["order_id"]: (row["status"], row["amount"]) for row in _rows(lab, write)}
        for write in writes
    ]


@cache  # no later write changes what the table was
def _rows(lab, write: Instant) -> list:
    """The rows of the lesson's table as of one of its writes; as of the newest, those of now."""
    reader = lab.spark.read.format("hudi").option("as.of.instant", write.requested)
    return reader.load(lab.path("orders")).collect()


@dataclass(frozen=True)
class WentBack:
    """A table of four writes after the learner's savepoint and restore.

    Args:
        wanted: number of the write that was to be marked, from 1.
        writes: number of writes that the table had.
        marked: numbers of the writes that have a savepoint.
        left: number of writes on the timeline after the restore.
        restored: whether the timeline has a restore.
        rows_then: whether the table has the rows of the marked write.
        any_time: whether it was restored by the time of a write that has no savepoint.
    """

    wanted: int
    writes: int
    marked: tuple[int, ...]
    left: int
    restored: bool = False
    rows_then: bool = False
    any_time: bool = False


@check_of("10.3")
class GoesBack:
    """A savepoint on a given write, and the restore that goes back to it."""

    @staticmethod
    def observe(lab, answer) -> WentBack:
        """Mark a write of a copy of a table, and if it is the right one, go back to it."""
        mark, go_back = as_pair(answer, "The two functions are expected: `[mark, go_back]`")
        path = scratch_copy(lab, _four_writes(lab), "went_back")
        writes = [write.requested for write in _writes(lab, path)]
        wanted = secrets.choice([2, 3])
        with _named(lab, path) as name:
            mark(name, writes[wanted - 1])
            saved = {i.requested for i in lab.xray(path).instants if i.action == "savepoint"}
            marked = tuple(n for n, requested in enumerate(writes, 1) if requested in saved)
            if marked != (wanted,):
                return WentBack(wanted, len(writes), marked, left=len(writes))
            with suppress(Exception):  # Hudi refuses: this write has no savepoint
                go_back(name, writes[0])
            if any(instant.action == "restore" for instant in lab.xray(path).instants):
                return WentBack(wanted, len(writes), marked, left=wanted, any_time=True)
            go_back(name, writes[wanted - 1])
        timeline = lab.xray(path).instants
        # The amount of O-n is n and the number of writes before this one.
        amounts = lab.spark.read.format("hudi").load(path).select("order_id", "amount").collect()
        before = sorted(amount - int(order[2:]) for order, amount in amounts)
        return WentBack(
            wanted=wanted,
            writes=len(writes),
            marked=marked,
            left=sum(instant.writes for instant in timeline),
            restored=any(instant.action == "restore" for instant in timeline),
            rows_then=before == [wanted - 1] * 25,
        )

    @staticmethod
    def judge(facts: WentBack) -> Passed | NotYet:
        """A savepoint on this write only, then a restore that left no later one."""
        asked = f"Asked to mark write {facts.wanted} of {facts.writes}, "
        if not facts.marked:
            return NotYet(f"{asked}your `mark` left no savepoint on the timeline.")
        if facts.marked != (facts.wanted,):
            found = " and ".join(map(str, facts.marked))
            return NotYet(
                f"{asked}and the savepoint is on write {found}. `mark` gets the requested time of "
                "the write."
            )
        if facts.any_time:
            return NotYet(
                "Given the time of a write without a savepoint, your `go_back` restored the table. "
                "Without a time Hudi takes the newest savepoint: pass `requested` on."
            )
        if not facts.restored:
            why = "The procedure that undoes all of them at once leaves a restore."
            if facts.left == facts.writes:
                why = "The table is as it was. (Time travel only looks back.)"
            if facts.left > facts.writes:
                why = "Rows that are written again make one more write, and take none away."
            return NotYet(
                f"The savepoint is right. But after `go_back` the timeline has {facts.left} "
                f"writes, of {facts.writes} before, and no restore. {why}"
            )
        if facts.left != facts.wanted:
            return NotYet(
                f"There was a restore, but {facts.left} writes are left, where write "
                f"{facts.wanted} should be the last one."
            )
        if not facts.rows_then:
            return NotYet(
                f"There was a restore, but the table has other rows than it had after write "
                f"{facts.wanted}."
            )
        return Passed(
            f"A savepoint on write {facts.wanted} of {facts.writes}. After the restore it is the "
            "last one, and the table has its rows."
        )


@dataclass(frozen=True)
class Replayed:
    """A restored table after the learner's replay, compared with the topic's good events.

    Args:
        missing: orders without a row.
        stale: number of orders that show an older version.
        zero: number of rows with an amount of 0.
        commits: number of writes that the replay made into the table.
        checkpoints: number of checkpoints that it began.
        elsewhere: whether it wrote into the lesson's own table instead.
    """

    missing: tuple[str, ...] = ()
    stale: int = 0
    zero: int = 0
    commits: int = 1
    checkpoints: int = 1
    elsewhere: bool = False


@check_of("10.4")
class UndoneWithoutLoss:
    """A replay that brings every good event after the savepoint, and no bad one."""

    @staticmethod
    def observe(lab, answer: Callable) -> Replayed:
        """Copy the lesson's table as it was restored, call the function on the copy, compare."""
        source, path = lab.path("orders"), lab.scratch("restored")
        copy_table(lab, source, path, hidden=_after_the_restore(lab.xray(source).instants))
        writes, checkpoints = len(_writes(lab, path)), _checkpoints(lab)
        own_writes = len(_writes(lab, source))
        answer(path)
        missing, stale, zero = compare_rows(lab, path)
        return Replayed(
            missing=tuple(missing),
            stale=stale,
            zero=zero,
            commits=len(_writes(lab, path)) - writes,
            checkpoints=_checkpoints(lab) - checkpoints,
            elsewhere=len(_writes(lab, source)) != own_writes,
        )

    @staticmethod
    def judge(facts: Replayed) -> Passed | NotYet:
        """Nothing missing, stale, or zero."""
        if not (facts.missing or facts.stale or facts.zero):
            goes_on = (
                "The shop's stream continues with the new checkpoint."
                if facts.checkpoints
                else "You wrote a batch, without a checkpoint: the shop's stream still has its "
                "old one, and its next batch goes on where that ends."
            )
            return Passed(
                "0 missing, 0 stale, 0 zero. The table says what it would say if the bad events "
                f"had never been sent. {goes_on}"
            )
        lost = f"{len(facts.missing)} good orders are missing and {facts.stale} stale"
        if facts.elsewhere:
            return NotYet(
                "Your function wrote into the lesson's own table. Write to the path that it gets."
            )
        if not facts.commits and not facts.checkpoints:
            return NotYet(
                f"Nothing was written: {lost}. Your stream continued from a checkpoint that has "
                "read everything. The restore moves the table, not the stream's checkpoint."
            )
        if not facts.commits:
            return NotYet(
                f"A new checkpoint, but no commit, and no error: {lost}. A new checkpoint counts "
                "its batches from 0, and the table has seen higher numbers under the same "
                "identifier. So it took your batch 0 for one that it has already."
            )
        if facts.zero:
            return NotYet(
                f"{facts.zero} orders have an amount of 0 again: the bad events are still in the "
                "topic, and your stream let them through."
            )
        if set(facts.missing) == set(WITH_THE_BAD):
            return NotYet(
                f"{' and '.join(WITH_THE_BAD)} are missing. They are good orders that stood in the "
                "bad batch. Leave out bad events, not the batch in which they came."
            )
        return NotYet(f"After the replay {lost}. Where did the savepoint's batch end in the topic?")


def _after_the_restore(instants: Sequence[Instant]) -> tuple[Instant, ...]:
    """The instants after the newest restore, such as the learner's replay of the lesson's table."""
    restores = [place for place, found in enumerate(instants) if found.action == "restore"]
    if not restores:
        raise Unreadable("Run the cells of this section first: they restore the table.")
    return tuple(instants[restores[-1] + 1 :])


def _checkpoints(lab) -> int:
    """The number of streams of this lesson that have a checkpoint."""
    return sum(found.key.endswith("/sources/0/0") for found in lab.files(lab.base))


@dataclass(frozen=True)
class Kept:
    """What time travel answers after the learner's cleaning.

    Args:
        asked: number of writes that were to stay readable.
        writes: number of writes that the table had.
        answered: numbers of the writes that are answered as before, from 1.
        empty: those that are answered by no rows, without an error.
        cleaned: number of clean actions on the timeline.
    """

    asked: int
    writes: int
    answered: frozenset[int]
    empty: frozenset[int]
    cleaned: int = 1

    @property
    def right(self) -> bool:
        """Whether it answers as of the newest writes, as many as asked, and no other."""
        newest = frozenset(range(self.writes - self.asked + 1, self.writes + 1))
        return bool(self.cleaned) and not self.empty and self.answered == newest


@check_of("10.5")
class KeepsThePast:
    """A cleaning that leaves as many readable writes as it was asked for."""

    @staticmethod
    def observe(lab, answer: Callable) -> Kept:
        """Ask for two writes, and if that is right for one, each on a copy of a table of four.

        For three of four there would be nothing to clean: the cleaner keeps the files of one commit
        more than it retains.
        """
        facts = _after_cleaning(lab, answer, asked=2)
        return _after_cleaning(lab, answer, asked=1) if facts.right else facts

    @staticmethod
    def judge(facts: Kept) -> Passed | NotYet:
        """The newest writes, as many as asked, and no older one."""
        asked = f"Asked to keep {facts.asked} of {facts.writes} writes readable"
        left = len(facts.answered)
        if facts.right:
            return Passed(
                f"{asked}: the table answers as of its last write, and refuses the older ones, "
                "with an error that says why. So it did with two."
            )
        if not facts.cleaned:
            return NotYet(f"{asked}, your function cleaned nothing: the timeline has no clean.")
        if facts.empty:
            return NotYet(
                f"{asked}: as of write {min(facts.empty)} the table now answers with fewer rows, "
                "and without an error. A policy that counts file versions leaves no note of what "
                "it took. Count commits."
            )
        if left < facts.asked:
            return NotYet(f"{asked}, it answers as of {left}: you retain too few commits.")
        return NotYet(
            f"{asked}, it answers as of {left}: you retain more commits than the promise needs, "
            "and pay for their files."
        )


def _after_cleaning(lab, answer: Callable, asked: int) -> Kept:
    """Call the function on a copy of a table of four writes, and read it as of each of them."""
    path = scratch_copy(lab, _four_writes(lab), "cleaned")
    writes = _writes(lab, path)
    with _named(lab, path) as name:
        answer(name, asked)
        found = [_orders_as_of(lab, path, write.requested) for write in writes]
    return Kept(
        asked=asked,
        writes=len(writes),
        answered=frozenset(number for number, rows in enumerate(found, 1) if rows),
        empty=frozenset(number for number, rows in enumerate(found, 1) if rows == 0),
        cleaned=sum(instant.action == "clean" for instant in lab.xray(path).instants),
    )


@contextmanager
def _named(lab, path: str) -> Generator[str]:
    """A table's name in SQL, for as long as it is needed."""
    name = f"c_{secrets.token_hex(3)}"
    lab.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    try:
        yield name
    finally:
        lab.spark.sql(f"DROP TABLE {name}")


@cache  # of a call that was interrupted, nothing is used
def _four_writes(lab) -> str:
    """The path of a table like the lesson's, to be copied; written at the first call."""
    path = lab.scratch("four_writes")
    for number in range(4):
        rows = make_changes(lab, "id BETWEEN 1 AND 25", "new", f"09:{number}0", f"{number} + id")
        rows.write.format("hudi").options(**TABLE).mode("append").save(path)
    return path


def _orders_as_of(lab, path: str, moment: str) -> int | None:
    """1 if all of a table's first 25 orders are there as of a moment, 0 if not, None if refused."""
    reader = lab.spark.read.format("hudi").option("as.of.instant", moment)
    try:
        return int(reader.load(path).count() >= 25)
    except Exception as refusal:  # Hudi's own exception comes through Py4J
        if "Cleaner" in str(refusal):
            return None
        raise
