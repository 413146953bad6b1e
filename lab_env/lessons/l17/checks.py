"""Checks of lesson 17: what a restart does, what a new stream repairs, what a sink delivers."""

import secrets
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import chdir, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import CellType, FunctionType
from typing import Any

import pandas as pd
from pyspark.sql import functions as F

from lab_env.course.answers import Unreadable, as_choice, as_int, as_list
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.hudi_rs import rows_of
from lab_env.lessons.l17.damage import RIGHT
from lab_env.lessons.l17.receipts import IDENTIFIER, NONE, read_receipts, receipts_in
from lab_env.lessons.streams import own_streams_stopped
from lab_env.lessons.table_copies import copy_table, scratch_copy
from lab_env.pipeline.checkpoint import FIRST_OFFSETS, read_checkpoint
from lab_env.platform import store
from lab_env.tables.hudi.timeline import Instant, parse_data_name

STREAM_TIMEOUT_S = 120  # for the stream of 17.2, which takes some seconds
WITH_A_GAP = "orders_with_a_gap"  # a copy of the table from before the lesson repairs it
DEEDS = ("write", "skip")
SHOWN_FIRST = ((7, 6, 6), (7, 6, 7), (7, 7, 7), (NONE, NONE, 9), (NONE, NONE, NONE))


@dataclass(frozen=True)
class Restart:
    """One set of receipts, and what the learner's function says of it.

    Args:
        offsets: newest batch in `offsets`; -1 for none.
        commits: newest in `commits`.
        table: newest in a complete commit of the table.
        batch: the batch that the function says Spark runs first.
        messages: `again` for those of an old plan, or `new`.
        does: `write` or `skip`.
    """

    offsets: int
    commits: int
    table: int
    batch: int
    messages: str
    does: str

    @property
    def right_batch(self) -> int:
        """A planned batch without a commit, else the next one."""
        return self.offsets if self.offsets > self.commits else self.commits + 1

    @property
    def right_messages(self) -> str:
        """A planned batch keeps its messages."""
        return "again" if self.offsets > self.commits else "new"

    @property
    def right_does(self) -> str:
        """The sink writes a batch only above the one in the table."""
        return "write" if self.right_batch > self.table else "skip"

    @property
    def right(self) -> bool:
        """Whether all three are those of the restart."""
        said = (self.batch, self.messages, self.does)
        return said == (self.right_batch, self.right_messages, self.right_does)


@check_of("17.1")
class WhatARestartDoes:
    """The batch that a restart runs first, where its messages come from, and what the sink does."""

    @staticmethod
    def observe(lab, answer) -> Restart:
        """Ask the function about known and random receipts; the first wrong answer is kept."""
        if not callable(answer):
            raise Unreadable("A function of three numbers is expected.")
        cases = [*SHOWN_FIRST, *(_random_receipts() for _ in range(12))]
        for case in cases:
            returned = answer(*case)
            if returned is None:
                offsets, commits, table = case
                raise Unreadable(
                    f"For offsets {offsets}, commits {commits}, table {table} your function "
                    "returns nothing."
                )
            said = as_list(returned)
            if len(said) != 3:
                raise Unreadable(
                    'Three things are expected: the batch, "again" or "new", "write" or "skip".'
                )
            messages, does = as_choice(said[1], ("again", "new")), as_choice(said[2], DEEDS)
            facts = Restart(*case, batch=as_int(said[0]), messages=messages, does=does)
            if not facts.right:
                break
        return facts

    @staticmethod
    def judge(facts: Restart) -> Passed | NotYet:
        """The batch first, then its messages, then what the sink does with it."""
        asked = f"offsets {facts.offsets}, commits {facts.commits}, table {facts.table}"
        said = f'batch {facts.batch}, "{facts.messages}", "{facts.does}"'
        answered = f"For {asked} you say {said}. "
        wanted = facts.right_batch
        if facts.right:
            return Passed("Right for every set of receipts.")
        if facts.batch != wanted and facts.offsets > facts.commits:
            return NotYet(
                f"{answered}Batch {wanted} has offsets and no commit: Spark runs it again."
            )
        if facts.batch != wanted:
            return NotYet(
                f"{answered}The newest planned batch is committed, so Spark plans the next one: "
                f"{wanted}."
            )
        if facts.right_messages == "again" != facts.messages:
            return NotYet(
                f"{answered}`offsets/{wanted}` is there: the batch gets the messages of that plan."
            )
        if facts.right_messages != facts.messages:
            return NotYet(f"{answered}Batch {wanted} has no plan yet: Spark makes one now.")
        if facts.right_does == "skip":
            return NotYet(
                f"{answered}The table knows batch {facts.table}; for a number that is not above it "
                "the sink returns without reading."
            )
        return NotYet(
            f"{answered}The table knows no batch from {wanted} on, so the sink has to write it."
        )


def _random_receipts() -> tuple[int, int, int]:
    offsets = secrets.randbelow(40)
    return offsets, offsets - secrets.randbelow(2), secrets.randbelow(42) - 1


@dataclass(frozen=True)
class Continued:
    """What the learner's stream made of a copy of the table with the gap.

    Args:
        before: orders that were missing, stale or not erased.
        missing: orders that are missing afterwards.
        wrong: orders that are stale, doubled or not erased afterwards.
        commits: writes that were added to the copy.
        planned: messages that the function's new checkpoints planned to read; None without a new
            checkpoint.
        skipped: those of batches that the table knew under the stream's identifier.
        known: newest batch that the copy knew under the default identifier.
        kept: whether the stream keeps its checkpoint where it was told to.
        running: whether the function returned while its stream was at work.
        elsewhere: whether the lesson's own table was written instead.
    """

    before: int = 0
    missing: int = 0
    wrong: int = 0
    commits: int = 0
    planned: int | None = None
    skipped: int = 0
    known: int = NONE
    kept: bool = True
    running: bool = False
    elsewhere: bool = False


@check_of("17.2")
class GoesOn:
    """Whether a stream repairs a table that skipped its events, and can go on from there."""

    @staticmethod
    def observe(lab, answer) -> Continued:
        """Let the function repair a copy of the table, and hold that against the ledger."""
        if not callable(answer):
            raise Unreadable("A function of two paths is expected: of a table and of a checkpoint.")
        source = lab.path(WITH_A_GAP)
        if not lab.files(source):
            raise Unreadable("Run the cell that deletes the checkpoint first.")
        own = len(lab.xray(lab.path("orders")).completed_writes)
        path, checkpoint = scratch_copy(lab, source, "continued"), lab.scratch("checkpoint")
        earlier = set(lab.xray(path).completed_writes)
        missing, wrong = _gap(lab, source, max(earlier))
        if not missing + wrong:
            raise Unreadable("The copy of the table has no gap. Run the lesson from its start.")
        known, checkpoints = read_receipts(lab, path, lab.path("none")).table, _checkpoints(lab)
        with own_streams_stopped(lab.spark, STREAM_TIMEOUT_S) as stopped:
            answer(path, checkpoint)
        made = _checkpoints(lab) - checkpoints
        picture = lab.xray(path)
        added = [picture.commit(name) for name in picture.completed_writes if name not in earlier]
        names = {name for commit in added for name in commit.checkpoint or {}}
        planned = [batch for found in made for batch in _planned(lab, found)]
        left = _differences(lab, path)
        for found in made - {checkpoint}:  # the lesson calls the function again
            store.delete_prefix(lab.endpoints, store.key_of(found) + "/")
        return Continued(
            before=missing + wrong,
            missing=left[0],
            wrong=left[1],
            commits=len(added),
            planned=sum(size for _, size in planned) if made else None,
            skipped=sum(size for number, size in planned if number <= known)
            if names <= {IDENTIFIER}
            else 0,
            known=known,
            kept=checkpoint in made,
            running=stopped.at_all,
            elsewhere=len(lab.xray(lab.path("orders")).completed_writes) != own,
        )

    @staticmethod
    def judge(facts: Continued) -> Passed | NotYet:
        """Nothing missing, nothing wrong, and a checkpoint to go on from; else the reason."""
        if facts.running:
            return NotYet(
                "Your stream was still at work when your function returned, or after "
                f"{STREAM_TIMEOUT_S} seconds. Take the trigger that ends, and wait for the end "
                "with `awaitTermination()`."
            )
        if facts.elsewhere:
            return NotYet("Your function wrote into the lesson's table. Write to the path it gets.")
        if not facts.missing and not facts.wrong and not facts.kept:
            return NotYet(
                "The copy agrees with the ledger, but at the path for the checkpoint there is "
                "none: the next call could not go on from here."
            )
        if not facts.missing and not facts.wrong:
            return Passed(
                f"{facts.before} orders were missing or old; now the copy agrees with the ledger, "
                "and the checkpoint for the next call is there."
            )
        left = f"{facts.missing} orders are missing and {facts.wrong} wrong"
        if not facts.commits and facts.planned is None:
            return NotYet(
                f"Nothing was written, and no stream was started with a new checkpoint: {left}. "
                "The old checkpoint says that everything is read."
            )
        if facts.planned == 0:
            return NotYet(
                f"Nothing was read: {left}. Your stream began at the end of the topic. Leave "
                "`startingOffsets` at `earliest`."
            )
        if not facts.commits:
            return NotYet(
                f"Exit 0, and {left}. Your stream planned {facts.planned:,} messages as batch 0. "
                f"0 is not above {facts.known}, the batch that the table knows under the same "
                "identifier, so it was skipped."
            )
        if facts.planned and facts.skipped:
            return NotYet(
                f"{left.capitalize()}. Of the {facts.planned:,} messages that your stream planned, "
                f"{facts.skipped:,} were in batches 0 to {facts.known}, which were skipped: the "
                "table knows these numbers under the same identifier."
            )
        if not facts.missing:
            return NotYet(
                f"Every order is there, and {facts.wrong} are doubled or old. Was it an upsert, "
                "with `ORDERS`?"
            )
        return NotYet(f"Afterwards {left}. Did your stream read the topic from its beginning?")


def _differences(lab, path: str) -> tuple[int, int]:
    """Missing orders, and wrong ones, against the ledger."""
    found = lab.ledger(lab.topic("orders")).reconcile_table(rows_of(path).to_pandas())
    return found.missing, found.stale + found.duplicate + found.ghost + found.altered


@lru_cache(maxsize=1)
def _gap(lab, source: str, newest: str) -> tuple[int, int]:
    """The differences of the table with the gap, which stay as they are until it is made anew."""
    return _differences(lab, source)


def _checkpoints(lab) -> set[str]:
    """The paths of all checkpoints of the lesson."""
    bucket = f"s3a://{lab.endpoints.bucket}/"
    keys = (found.key for found in lab.files(lab.base))
    return {
        bucket + key.removesuffix(f"/{FIRST_OFFSETS}")
        for key in keys
        if key.endswith(FIRST_OFFSETS)
    }


def _planned(lab, checkpoint: str) -> list[tuple[int, int]]:
    """The batches of a checkpoint: number, and how many messages it planned to read."""
    return [
        (batch.number, sum(batch.end.values()) - sum(batch.start.values()))
        for batch in read_checkpoint(lab.endpoints, checkpoint)
    ]


@dataclass(frozen=True)
class Delivered:
    """What a sink left after it died in batch 0 and delivered batch 1.

    Args:
        sent: messages of batch 0.
        once: messages of batch 0 in the table after the process died before its write, and a new
            one got the same batch.
        between: the same after the process died between the first commit of its write and the
            second; None if it makes one commit.
        again: rows of batch 0 after the process died right after the commit and a new one got it
            again; None if it did not come to that.
        next_sent: messages of batch 1.
        next_rows: rows of batch 1 after all; None if it did not come to that.
        kept: rows of batch 0 after all.
        messages: distinct messages of both batches after all.
        outside: whether the sink kept something beside the table, in the store or in a file.
        noted: what the commits carry as `_stream_batch` after batch 0 came again.
    """

    sent: int = 40
    once: int = 40
    between: int | None = None
    again: int | None = 40
    next_sent: int = 35
    next_rows: int | None = 35
    kept: int | None = 40
    messages: int | None = 75
    outside: bool = False
    noted: tuple[str, ...] = ()


@check_of("17.3")
class DeliveredOnce:
    """Whether a sink delivers each message once, wherever its process dies."""

    @staticmethod
    def observe(lab, answer) -> Delivered:
        """Call the sink as a new process would, before and after crashes, on a table of its own."""
        if not isinstance(answer, FunctionType):
            raise Unreadable("A function `deliver(rows, batch, table)` is expected.")
        with chdir(lab.folder):  # a file of a relative name is found there, too
            return _delivered(lab, answer)

    @staticmethod
    def judge(facts: Delivered) -> Passed | NotYet:
        """All rows of both batches once."""
        if not facts.once:
            return NotYet(
                "Crashed after the receipt: batch 0 is missing. Your receipt was there before the "
                "rows were, and the next process believed it."
            )
        if facts.once != facts.sent:
            return NotYet(f"{facts.once} rows of batch 0, and {facts.sent} messages were sent.")
        if facts.between is not None and facts.between != facts.sent:
            return NotYet(
                f"Your write makes two commits. Crashed between them: {facts.sent} messages, "
                f"{facts.between} rows. Put the receipt into the commit of the rows."
            )
        if facts.again == 0:
            return NotYet("The batch came again, and afterwards none of its rows are left.")
        if facts.again != facts.sent and facts.outside:
            return NotYet(
                f"Crashed between rows and receipt: {facts.sent} messages, {facts.again} rows. "
                "Two places cannot be written in one step; put the receipt into the commit."
            )
        if facts.again != facts.sent and len(facts.noted) > len(set(facts.noted)):
            return NotYet(
                "Both commits carry the receipt, and yet you wrote twice. `receipts_in` gives text "
                f"({list(facts.noted)}); `batch` is a number."
            )
        if facts.again != facts.sent and not facts.noted:
            return NotYet(
                f"{facts.sent} messages are {facts.again} rows, and no commit carries "
                "`_stream_batch`. A receipt in a variable is gone after the restart; one in the "
                "commit stays."
            )
        if facts.again != facts.sent:
            return NotYet(
                f"The batch came again, and {facts.sent} messages are {facts.again} rows."
            )
        if facts.next_rows != facts.next_sent:
            return NotYet(
                f"Batch 0 is there once. Of batch 1, {facts.next_sent} messages, the table has "
                f"{facts.next_rows}."
            )
        if facts.kept != facts.sent:
            return NotYet(
                f"Batch 1 is there, and of the {facts.sent} messages of batch 0 only {facts.kept} "
                "are left. Your write replaces what the table held."
            )
        if facts.messages != facts.sent + facts.next_sent:
            return NotYet(
                f"The number of rows is right, but they are {facts.messages} different messages of "
                f"{facts.sent + facts.next_sent}: some are lost, and others are there twice."
            )
        return Passed(
            f"{facts.sent} and {facts.next_sent} messages, each once: after a crash before the "
            "write, and after one between the commit and the return."
        )


def _delivered(lab, answer: FunctionType) -> Delivered:
    """Two batches through a sink whose process dies at the worst moments."""
    table = lab.scratch("delivered")
    sent, next_sent = 30 + secrets.randbelow(20), 20 + secrets.randbelow(9)
    first, second = _messages(lab, 0, sent), _messages(lab, 1, next_sent)
    failing = F.raise_error(F.lit("power failure")).cast("string")
    with suppress(Exception):  # the process dies before it has written the rows
        new_process(answer)(first.withColumn("message", failing), 0, table)
    before, commits = _outside(lab, table), _commits(lab, table)
    new_process(answer)(first, 0, table)
    once, written = len(_rows(lab, table, 0)), _outside(lab, table) - before
    between = again = next_rows = kept = messages = None
    noted: list[str] = []
    if once == sent:
        _forget(lab, written)  # the process dies before it has written beside the table
        added = [made for name, made in _commits(lab, table).items() if name not in commits]
        if len(added) > 1:
            half = lab.scratch("delivered")
            copy_table(lab, table, half, hidden=sorted(added)[1:])
            new_process(answer)(first, 0, half)
            between = len(_rows(lab, half, 0))
        new_process(answer)(first, 0, table)
        again, noted = len(_rows(lab, table, 0)), receipts_in(lab, table, "_stream_batch")
    if again == sent:
        new_process(answer)(second, 1, table)
        next_rows, kept = len(_rows(lab, table, 1)), len(_rows(lab, table, 0))
        messages = sum(_rows(lab, table, batch)["offset"].nunique() for batch in (0, 1))
    outside, notes = bool(written), tuple(noted)
    return Delivered(
        sent, once, between, again, next_sent, next_rows, kept, messages, outside, notes
    )


@dataclass(frozen=True)
class Missing:
    """How many messages a table lacks, and what the learner's function says.

    Args:
        answer: what it says.
        missing: offsets that no row has, between the first and the last of each partition.
        doubled: rows too many, of messages that are there more than once.
        partitions: of the topic.
        before_first: offsets before the first one of each partition.
    """

    answer: int
    missing: int = 9
    doubled: int = 4
    partitions: int = 3
    before_first: int = 70


@check_of("17.4")
class MissingMessages:
    """The number of messages that a table lacks, by the offsets that it has."""

    @staticmethod
    def observe(lab, answer) -> Missing:
        """Give the function rows of three partitions with known gaps and doubles."""
        if not callable(answer):
            raise Unreadable("A function that gets a DataFrame is expected.")
        rows = messages_with_gaps()
        values = ", ".join(f"({partition}, {offset}L)" for partition, offset in rows)
        frame = lab.spark.sql(f"SELECT * FROM VALUES {values} AS message(partition, offset)")
        return Missing(as_int(answer(frame)), *count_gaps(rows))

    @staticmethod
    def judge(facts: Missing) -> Passed | NotYet:
        """Exactly the gaps."""
        said = f"You count {facts.answer} missing messages; {facts.missing} are missing. "
        if facts.answer == facts.missing:
            return Passed(
                f"{facts.missing} messages are missing from {facts.partitions} partitions, and "
                f"{facts.doubled} rows too many hide none of them."
            )
        if facts.answer == facts.missing - facts.doubled:
            return NotYet(
                f"{said}{facts.doubled} messages are there twice, and each of them hides one that "
                "is missing. Count different offsets."
            )
        if facts.answer == facts.missing + facts.before_first:
            return NotYet(
                f"{said}You count from offset 0; a topic may begin later. Count from the first row."
            )
        if facts.answer == facts.missing - facts.partitions:
            return NotYet(
                f"{said}From 5 to 7 are three offsets, not two: one is lacking per partition."
            )
        return NotYet(
            f"{said}Offsets are numbered per partition: look at each of the {facts.partitions} "
            "alone."
        )


Counts = tuple[int, int]  # orders, and paid ones among them


@dataclass(frozen=True)
class Noticed:
    """What a reader says of a copy of the table, and of one that lost its base file.

    Args:
        whole: what is in the intact copy.
        left: what is left in the log of the other one.
        said: of the intact copy, with the metadata table.
        listed: of the other one, with the metadata table; None if the read failed.
        found: of the other one, without it; None if the read failed, or nobody asked.
    """

    whole: Counts
    left: Counts
    said: Counts
    listed: Counts | None = None
    found: Counts | None = None


@check_of("17.5")
class WhoMissesAFile:
    """Whether a read with the metadata table fails for a lost file, and one without goes on."""

    @staticmethod
    def observe(lab, answer) -> Noticed:
        """Ask the function about both copies, until an answer is wrong."""
        if not callable(answer):
            raise Unreadable("A function of an address and of True or False is expected.")
        intact, lost, paid = _intact_and_lost(lab)
        facts = Noticed((RIGHT[0], paid), (RIGHT[1], paid), _two_counts(answer(intact, True)))
        if facts.said != facts.whole:
            return facts
        listed = _counts_unless_lost(answer, lost, True)
        if listed is not None:
            return replace(facts, listed=listed)
        return replace(facts, found=_counts_unless_lost(answer, lost, False))

    @staticmethod
    def judge(facts: Noticed) -> Passed | NotYet:
        """The numbers first, then who notices that the file is lost."""
        if facts.said != facts.whole:
            reason = (
                "Nothing is paid there: the log file was not read. A snapshot query merges it."
                if facts.said == (facts.whole[0], 0)
                else "First the orders, then those of them that are paid."
            )
            return NotYet(
                f"The intact copy has {_in_words(facts.whole)}; you say {_in_words(facts.said)}. "
                f"{reason}"
            )
        if facts.listed is not None:
            return NotYet(
                f"Without its base file the copy has {_in_words(facts.left)} left. With "
                f"`metadata=True` you say {_in_words(facts.listed)}, and there was no error. Did "
                "this read list the folders, or did your function catch the error?"
            )
        if facts.found is None:
            return NotYet(
                "With `metadata=False` your read failed: the metadata table named the base file "
                "that is lost. Hudi reads that table unless the option of the read says no."
            )
        if facts.found != facts.left:
            return NotYet(
                f"Without its base file the copy has {_in_words(facts.left)} left. With "
                f"`metadata=False` you say {_in_words(facts.found)}."
            )
        return Passed(
            f"{_in_words(facts.whole)} in the intact copy. Without its base file: an error with "
            f"the metadata table, and {_in_words(facts.left)} without it, as if nothing were lost."
        )


def _intact_and_lost(lab) -> tuple[str, str, int]:
    """Two copies of the table `fragile`, the second without its base file, and the paid orders."""
    source = lab.path("fragile")
    current = list(lab.xray(source).current) if lab.files(source) else []
    if [len(part.logs) for part in current] != [1]:
        raise Unreadable("Run the cell that writes the table `fragile` first, and only once.")
    base, (log,) = current[0].base, current[0].logs
    intact, unpaid = scratch_copy(lab, source, "intact"), 1 + secrets.randbelow(RIGHT[1] - 1)
    # Blocks of a log have no checksum, so other numbers need no other write.
    key = f"{store.key_of(intact)}/{log.key}"
    rows = store.read(lab.endpoints, key).replace(b"paid", b"void", unpaid)
    store.client(lab.endpoints).put_object(Bucket=lab.endpoints.bucket, Key=key, Body=rows)
    lost = scratch_copy(lab, intact, "lost")
    store.delete(lab.endpoints, f"{store.key_of(lost)}/{base.key}")
    return intact, lost, RIGHT[1] - unpaid


def _counts_unless_lost(answer, address: str, metadata: bool) -> Counts | None:
    """What the function says of a table; None if a file is not found."""
    try:
        said = answer(address, metadata)
    except Exception as error:  # Spark's own exception comes through Py4J
        if "FileNotFoundException" not in str(error):
            raise
        return None
    return _two_counts(said)


def _two_counts(answer) -> Counts:
    said: list = []
    with suppress(Unreadable):  # its message names a list, or one column of a table
        said = as_list(answer)
    if len(said) != 2 or isinstance(answer, Mapping):
        raise Unreadable(
            "Two numbers are expected, as a tuple, a list or a row: the orders, and the paid ones "
            "among them."
        )
    return as_int(said[0]), as_int(said[1])


def _in_words(counts: Counts) -> str:
    return f"{counts[0]} orders, {counts[1]} paid"


Messages = list[tuple[int, int]]  # partition and offset of each row


def messages_with_gaps() -> Messages:
    """Rows of three partitions, some missing and some twice, on which no wrong way is lucky."""
    while True:
        rows = [row for partition in range(3) for row in _partition_with_a_gap(partition)]
        missing, doubled, partitions, before_first = count_gaps(rows)
        offsets = [offset for _, offset in rows]
        mixed = max(offsets) - min(offsets) + 1 - len(set(offsets))
        shared = len({*rows}) - len(set(offsets))  # offsets that several partitions have
        mistakes = {-doubled, before_first, -partitions, mixed - missing, shared}
        if len(mistakes) == 5 and 0 not in mistakes:
            return rows


def count_gaps(rows: Messages) -> tuple[int, int, int, int]:
    """Missing messages, rows too many, partitions, and offsets before the first ones."""
    offsets: dict[int, set[int]] = {}
    for partition, offset in rows:
        offsets.setdefault(partition, set()).add(offset)
    missing = sum(max(found) - min(found) + 1 - len(found) for found in offsets.values())
    before_first = sum(map(min, offsets.values()))
    return missing, len(rows) - len({*rows}), len(offsets), before_first


def _partition_with_a_gap(partition: int) -> Messages:
    begin, length = 1 + secrets.randbelow(30), 20 + secrets.randbelow(20)
    offsets = list(range(begin, begin + length))
    first_gap, gap = 2 + secrets.randbelow(8), 1 + secrets.randbelow(5)
    del offsets[first_gap : first_gap + gap]
    twice = offsets[: 2 + secrets.randbelow(4)]
    return [(partition, offset) for offset in [*offsets, *twice]]


def new_process(function: FunctionType) -> Callable:
    """A function as a new process would have it: what it remembers is as it began.

    Copies the collections and the objects of the notebook's own classes that it and the functions
    that it calls use, as variables, closures, defaults or attributes, so that a call changes
    nothing that a later process could see.
    """
    names: dict = dict(function.__globals__)
    copies: dict[int, Any] = {}  # by the identity of the original

    def renewed(value: Any) -> Any:
        if id(value) in copies:
            return copies[id(value)]
        if isinstance(value, FunctionType) and value.__globals__ is function.__globals__:
            return renew(value)
        own = type(value).__module__ == function.__module__
        if own or isinstance(value, list | set | dict | deque):
            copies[id(value)] = value  # where it cannot be copied
            with suppress(Exception):
                copies[id(value)] = deepcopy(value)
            return copies[id(value)]
        return value

    def renew(found: FunctionType) -> FunctionType:
        cells = tuple(CellType() for _ in found.__closure__ or ())
        made = FunctionType(found.__code__, names, found.__name__, None, cells or None)
        copies[id(found)] = made
        for name in _names_of(found.__code__):
            if name in names:
                names[name] = renewed(names[name])
        for cell, old in zip(cells, found.__closure__ or (), strict=True):
            with suppress(ValueError):  # an empty cell
                cell.cell_contents = renewed(old.cell_contents)
        made.__defaults__ = deepcopy(found.__defaults__)
        made.__kwdefaults__ = deepcopy(found.__kwdefaults__)
        made.__dict__.update({name: renewed(value) for name, value in found.__dict__.items()})
        return made

    return renew(function)


def _names_of(code) -> list[str]:
    """The global names that some code uses, its inner functions included."""
    inner = [
        name for part in code.co_consts if hasattr(part, "co_names") for name in _names_of(part)
    ]
    return [*code.co_names, *inner]


def _messages(lab, batch: int, count: int):
    """Rows of one batch, as the lesson's stream has them."""
    return lab.spark.range(batch * 1000, batch * 1000 + count, 1, 1).selectExpr(
        "concat('payments-0-', id) AS id",
        "0 AS partition",
        "id AS offset",
        "concat('message ', id) AS message",
    )


def _commits(lab, table: str) -> dict[str, Instant]:
    """The completed writes of a table, by requested time; none without a table."""
    return lab.xray(table).completed_writes if lab.files(f"{table}/.hoodie/timeline") else {}


def _rows(lab, table: str, batch: int) -> pd.DataFrame:
    """The rows of one batch in the table; none without a table."""
    if not _commits(lab, table):
        return pd.DataFrame({"offset": []})
    rows = rows_of(table).to_pandas()
    return rows[rows["offset"] // 1000 == batch]


def _outside(lab, table: str) -> set[str]:
    """What the lesson keeps that is not part of the table: keys of the store, and local files."""
    own = store.key_of(table) + "/"
    listed = [*lab.files(lab.base), *store.list_objects(lab.endpoints, "warehouse/")]
    keys = {found.key for found in listed if not _is_part(found.key, own)}
    return keys | {str(path) for path in lab.folder.rglob("*") if path.is_file()}


def _is_part(key: str, own: str) -> bool:
    name = key.rpartition("/")[2]
    hudi = key.startswith(f"{own}.hoodie/") or name.startswith(".hoodie_partition_metadata")
    return key.startswith(own) and (hudi or parse_data_name(name) is not None)


def _forget(lab, written: set[str]) -> None:
    """Remove what a sink wrote beside the table, as if it had died before."""
    for name in written:
        if name.startswith("/"):
            Path(name).unlink(missing_ok=True)
        else:
            store.delete(lab.endpoints, name)
