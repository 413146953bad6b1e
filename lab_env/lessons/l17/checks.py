"""Checks of lesson 17: what a restart does, what a replay brings back, what a sink delivers."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

import pandas as pd
import pyarrow as pa
from hudi import HudiTableBuilder
from pyspark.sql import functions as F

from lab_env import store
from lab_env.course.answers import Unreadable, as_int, as_list, as_text
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.hudi.timeline import parse_data_name
from lab_env.lessons.l17.receipts import NONE, read_receipts
from lab_env.lessons.table_copies import scratch_copy
from lab_env.pipeline.checkpoint import FIRST_OFFSETS, read_checkpoint

WITH_A_GAP = "orders_with_a_gap"  # a copy of the table from before the lesson repairs it
SHOWN_FIRST = ((7, 6, 6), (7, 6, 7), (7, 7, 7), (NONE, NONE, 9), (NONE, NONE, NONE))


@dataclass(frozen=True)
class Restart:
    """One set of receipts, and what the learner's function says of it.

    Args:
        offsets: newest batch in `offsets`; -1 for none.
        commits: newest in `commits`.
        table: newest in a complete commit of the table.
        batch: the batch that the function says Spark runs first.
        does: `write` or `skip`.
    """

    offsets: int
    commits: int
    table: int
    batch: int
    does: str

    @property
    def right_batch(self) -> int:
        """A planned batch without a commit, else the next one."""
        return self.offsets if self.offsets > self.commits else self.commits + 1

    @property
    def right_does(self) -> str:
        """The sink writes a batch only above the one in the table."""
        return "write" if self.right_batch > self.table else "skip"

    @property
    def right(self) -> bool:
        """Whether batch and deed are those of the restart."""
        return (self.batch, self.does) == (self.right_batch, self.right_does)


@check_of("17.1")
class WhatARestartDoes:
    """The batch that a restarted query runs first, and whether the sink writes or skips it."""

    @staticmethod
    def observe(lab, answer) -> Restart:
        """Ask the function about known and random receipts; the first wrong answer is kept."""
        if not callable(answer):
            raise Unreadable("A function of three numbers is expected.")
        cases = [*SHOWN_FIRST, *(_random_receipts() for _ in range(12))]
        for case in cases:
            said = as_list(answer(*case))
            if len(said) != 2:
                raise Unreadable('Two things are expected: the batch, and "write" or "skip".')
            facts = Restart(*case, batch=as_int(said[0]), does=as_text(said[1]).casefold())
            if not facts.right:
                break
        return facts

    @staticmethod
    def judge(facts: Restart) -> Passed | NotYet:
        """The batch first, then what the sink does with it."""
        asked = f"offsets {facts.offsets}, commits {facts.commits}, table {facts.table}"
        answered = f'For {asked} you say batch {facts.batch}, "{facts.does}". '
        wanted = facts.right_batch
        if facts.right:
            return Passed(
                "Right for every set of receipts, also for a deleted checkpoint, whose batch 0 "
                "the table skips."
            )
        if facts.batch != wanted and facts.offsets > facts.commits:
            return NotYet(
                f"{answered}Batch {wanted} has offsets and no commit: Spark runs it again."
            )
        if facts.batch != wanted:
            return NotYet(
                f"{answered}The newest planned batch is committed, so Spark plans the next one: "
                f"{wanted}."
            )
        if facts.right_does == "skip":
            return NotYet(
                f"{answered}The table knows batch {facts.table}; for a number that is not above it "
                "its sink returns without reading."
            )
        return NotYet(
            f"{answered}The table knows no batch from {wanted} on, so the sink has to write it."
        )


def _random_receipts() -> tuple[int, int, int]:
    offsets = secrets.randbelow(40)
    return offsets, offsets - secrets.randbelow(2), secrets.randbelow(42) - 1


@dataclass(frozen=True)
class Replayed:
    """What the learner's function made of a copy of the table with the gap.

    Args:
        before: orders that were missing, stale or not erased.
        missing: orders that are missing afterwards.
        wrong: orders that are stale, doubled or not erased afterwards.
        commits: writes that were added to the copy.
        planned: messages that the function's new checkpoints planned to read; None without a new
            checkpoint.
        known: newest batch that the copy knew under the default identifier.
        elsewhere: whether the lesson's own table was written instead.
    """

    before: int = 0
    missing: int = 0
    wrong: int = 0
    commits: int = 0
    planned: int | None = None
    known: int = NONE
    elsewhere: bool = False


@check_of("17.2")
class BroughtBack:
    """Whether a replay brings back all events that a lost checkpoint made the table skip."""

    @staticmethod
    def observe(lab, answer) -> Replayed:
        """Let the function repair a copy of the table, and hold that against the ledger."""
        if not callable(answer):
            raise Unreadable("A function that gets the path of a table is expected.")
        source = lab.path(WITH_A_GAP)
        if not lab.files(source):
            raise Unreadable("Run the cell that deletes the checkpoint first.")
        own = len(lab.xray(lab.path("orders")).completed_writes)
        path = scratch_copy(lab, source, "replayed")
        before, missing, wrong = len(lab.xray(path).completed_writes), *_differences(lab, path)
        known, checkpoints = read_receipts(lab, path, lab.path("none")).table, _checkpoints(lab)
        answer(path)
        new = _checkpoints(lab) - checkpoints
        left = _differences(lab, path)
        return Replayed(
            before=missing + wrong,
            missing=left[0],
            wrong=left[1],
            commits=len(lab.xray(path).completed_writes) - before,
            planned=sum(_planned(lab, found) for found in new) if new else None,
            known=known,
            elsewhere=len(lab.xray(lab.path("orders")).completed_writes) != own,
        )

    @staticmethod
    def judge(facts: Replayed) -> Passed | NotYet:
        """Nothing missing and nothing wrong; else the reason why nothing came."""
        if facts.elsewhere:
            return NotYet("Your function wrote into the lesson's table. Write to the path it gets.")
        if not facts.missing and not facts.wrong:
            return Passed(
                f"{facts.before} orders were missing or old; now the copy agrees with the ledger."
            )
        left = f"{facts.missing} orders are missing and {facts.wrong} wrong"
        if not facts.commits and facts.planned is None:
            return NotYet(
                f"Nothing was written, and no stream was started with a new checkpoint: {left}. "
                "The old checkpoint says that everything is read."
            )
        if facts.planned == 0:
            return NotYet(
                f"Nothing was replayed: {left}. Your stream began at the end of the topic. Leave "
                "`startingOffsets` at `earliest`."
            )
        if not facts.commits:
            return NotYet(
                f"Exit 0, and {left}. Your stream planned {facts.planned:,} messages as batch 0. "
                f"0 is not above {facts.known}, the batch that the table knows under the same "
                "identifier, so it was skipped."
            )
        return NotYet(f"After the replay {left}. Did it read the topic from its beginning?")


def _differences(lab, path: str) -> tuple[int, int]:
    """Missing orders, and wrong ones, against the ledger."""
    found = lab.ledger(lab.topic("orders")).reconcile_table(_read(lab, path))
    return found.missing, found.stale + found.duplicate + found.ghost + found.altered


def _checkpoints(lab) -> set[str]:
    """The paths of all checkpoints of the lesson."""
    bucket = f"s3a://{lab.endpoints.bucket}/"
    keys = (found.key for found in lab.files(lab.base))
    return {
        bucket + key.removesuffix(f"/{FIRST_OFFSETS}")
        for key in keys
        if key.endswith(FIRST_OFFSETS)
    }


def _planned(lab, checkpoint: str) -> int:
    """The messages that the batches of a checkpoint planned to read."""
    batches = read_checkpoint(lab.endpoints, checkpoint)
    return sum(sum(batch.end.values()) - sum(batch.start.values()) for batch in batches)


@dataclass(frozen=True)
class Delivered:
    """What a sink left after it died twice in batch 0 and delivered batch 1.

    Args:
        sent: messages of batch 0.
        once: messages of batch 0 in the table after the process died before its write, and a new
            one got the same batch.
        again: rows of batch 0 after the process died right after the commit and a new one got it
            again; None if it did not come to that.
        next_sent: messages of batch 1.
        next_rows: rows of batch 1 after all; None if it did not come to that.
        outside: whether the sink kept something beside the table, in the store or in a file.
    """

    sent: int = 40
    once: int = 40
    again: int | None = 40
    next_sent: int = 35
    next_rows: int | None = 35
    outside: bool = False


@check_of("17.3")
class DeliveredOnce:
    """Whether a sink delivers each message once, wherever its process dies."""

    @staticmethod
    def observe(lab, answer) -> Delivered:
        """Call the sink as a new process would, before and after crashes, on a table of its own."""
        if not isinstance(answer, FunctionType):
            raise Unreadable("A function `deliver(rows, batch, table)` is expected.")
        table = lab.scratch("delivered")
        sent, next_sent = 30 + secrets.randbelow(20), 20 + secrets.randbelow(9)
        first, second = _messages(lab, 0, sent), _messages(lab, 1, next_sent)
        failing = F.raise_error(F.lit("power failure")).cast("string")
        with suppress(Exception):  # the process dies before it has written the rows
            new_process(answer)(first.withColumn("message", failing), 0, table)
        before = _outside(lab, table)
        new_process(answer)(first, 0, table)
        once, written = _rows(lab, table, 0), _outside(lab, table) - before
        again = next_rows = None
        if once == sent:
            _forget(lab, written)  # the process dies right after the commit of the table
            new_process(answer)(first, 0, table)
            again = _rows(lab, table, 0)
        if again == sent:
            new_process(answer)(second, 1, table)
            next_rows = _rows(lab, table, 1)
        return Delivered(sent, once, again, next_sent, next_rows, bool(written))

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
        if facts.again != facts.sent and facts.outside:
            return NotYet(
                f"Crashed between rows and receipt: {facts.sent} messages, {facts.again} rows. "
                "Two places cannot be written in one step; put the receipt into the commit."
            )
        if facts.again != facts.sent:
            return NotYet(
                f"The batch came again, and {facts.sent} messages are {facts.again} rows. If your "
                "function remembered the batch in a variable: The restart emptied it."
            )
        if facts.next_rows != facts.next_sent:
            return NotYet(
                f"Batch 0 is there once. Of batch 1, {facts.next_sent} messages, the table has "
                f"{facts.next_rows}."
            )
        return Passed(
            f"{facts.sent} and {facts.next_sent} messages, each once: after a crash before the "
            "write, and after one between the commit and the return."
        )


@dataclass(frozen=True)
class Missing:
    """How many messages a table lacks, and what the learner's function says.

    Args:
        answer: what it says.
        missing: offsets that no row has, between the first and the last of each partition.
        doubled: rows too many, of messages that are there more than once.
        partitions: of the topic.
    """

    answer: int
    missing: int = 9
    doubled: int = 4
    partitions: int = 3


@check_of("17.4")
class MissingMessages:
    """The number of messages that a table lacks, by the offsets that it has."""

    @staticmethod
    def observe(lab, answer) -> Missing:
        """Give the function rows of three partitions with known gaps and doubles."""
        if not callable(answer):
            raise Unreadable("A function that gets a DataFrame is expected.")
        partitions, missing, doubled, rows = 3, 0, 0, []
        for partition in range(partitions):
            begin, length = secrets.randbelow(90), 20 + secrets.randbelow(20)
            offsets = list(range(begin, begin + length))
            first_gap, gap = 2 + secrets.randbelow(8), 1 + secrets.randbelow(5)
            del offsets[first_gap : first_gap + gap]
            twice = offsets[: 1 + secrets.randbelow(4)]
            missing, doubled = missing + gap, doubled + len(twice)
            rows += [(partition, offset) for offset in [*offsets, *twice]]
        frame = lab.spark.createDataFrame(rows, "partition INT, offset BIGINT")
        return Missing(as_int(answer(frame)), missing, doubled, partitions)

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
        return NotYet(
            f"{said}Each partition counts from 0 by itself: look at each of the "
            f"{facts.partitions} alone."
        )


def new_process(function: FunctionType) -> Callable:
    """A function as a new process would have it: lists, sets and dictionaries are as they began.

    Copies the variables that it and the functions that it calls use, so that a call changes
    nothing that a later process could see.

    Args:
        function: written in a notebook.
    """
    names: dict = dict(function.__globals__)
    copied: set[str] = set()

    def renew(found: FunctionType) -> FunctionType:
        for name in set(_names_of(found.__code__)) - copied:
            copied.add(name)
            value = names.get(name)
            if type(value) in (list, set, dict):
                names[name] = deepcopy(value)
            elif isinstance(value, FunctionType) and value.__globals__ is function.__globals__:
                names[name] = renew(value)
        made = FunctionType(
            found.__code__, names, found.__name__, deepcopy(found.__defaults__), found.__closure__
        )
        made.__kwdefaults__ = deepcopy(found.__kwdefaults__)
        made.__dict__.update(deepcopy(found.__dict__))
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
    return lab.spark.range(batch * 1000, batch * 1000 + count).selectExpr(
        "concat('payments-0-', id) AS id",
        "0 AS partition",
        "id AS offset",
        "concat('message ', id) AS message",
    )


def _rows(lab, table: str, batch: int) -> int:
    """The rows of one batch in the table; 0 without a table."""
    if not lab.files(f"{table}/.hoodie/timeline") or not lab.xray(table).completed_writes:
        return 0
    return int((_read(lab, table)["offset"] // 1000 == batch).sum())


def _read(lab, table: str) -> pd.DataFrame:
    """The rows of a table, by hudi-rs; the store's keys are in the environment."""
    options = {
        "aws_endpoint": lab.endpoints.s3_endpoint,
        "aws_region": lab.endpoints.s3_region,
        "aws_allow_http": "true",
    }
    address = table.replace("s3a://", "s3://")
    builder = HudiTableBuilder.from_base_uri(address).with_storage_options(options)
    return pa.Table.from_batches(builder.build().read()).to_pandas()


def _outside(lab, table: str) -> set[str]:
    """What the lesson keeps that is not part of the table: keys of the store, and local files."""
    own = store.key_of(table) + "/"
    keys = {found.key for found in lab.files(lab.base) if not _is_part(found.key, own)}
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
            store.client(lab.endpoints).delete_object(Bucket=lab.endpoints.bucket, Key=name)
