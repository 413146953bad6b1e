"""The ledger: every event handed to the broker and its outcome, in files outside Kafka and Spark.

Each sending process appends to its own two files: a line before a send is handed to the client, and
a line when its outcome is known. So if the process is killed, a send may have an unknown outcome,
but it is never missing from the ledger.
"""

import io
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv

from lab_env.platform.brokers import Arrival, broker, check_topic_name
from lab_env.platform.display.card import card
from lab_env.platform.errors import LabError
from lab_env.platform.settings import settings
from lab_env.shop.ledger import reconcile
from lab_env.shop.model import Send

SENDS = {
    "send_id": pa.string(),
    "event_id": pa.string(),
    "order_id": pa.string(),
    "op": pa.dictionary(pa.int32(), pa.string()),
    "order_ts": pa.int64(),
    "kind": pa.dictionary(pa.int32(), pa.string()),
    "sent_at": pa.int64(),
}
DELIVERY_REPORTS = {
    "send_id": pa.string(),
    "fate": pa.dictionary(pa.int32(), pa.string()),
    "partition": pa.int32(),
    "offset": pa.string(),  # a sequence number of Kinesis has 56 digits
    "acked_at": pa.int64(),
}
FLUSH_EVERY_S = 0.1
# A request that already left the client may still be appended shortly after its timeout.
GRACE_S = 2.0


def ledger_directory(topic: str) -> Path:
    """Folder of a topic's ledger, under `LAB_HOME`; it need not exist yet.

    Raises:
        LabError: the topic's name is not allowed.
    """
    return _ledgers() / check_topic_name(topic)


def known_ledgers() -> list[str]:
    """Topics that have a ledger."""
    return sorted(path.name for path in _ledgers().glob("*") if path.is_dir())


def _ledgers() -> Path:
    return settings().home / "ledger"


def _whole_numbers(column: pd.Series) -> pd.Series:
    """Convert the column to int64, or to Python's integers if these are too large for that."""
    try:
        return column.astype("int64")
    except OverflowError:
        return column.map(int).astype(object)


class LedgerWriter:
    """Writes the ledger of one process into the topic's ledger folder, created if missing."""

    def __init__(self, directory: Path, name: str):
        directory.mkdir(parents=True, exist_ok=True)
        stem = directory / f"{name}-{os.getpid()}-{time.time_ns()}"
        # Sends go to the operating system unbuffered: a killed process must not forget one.
        self._sends = io.FileIO(f"{stem}.sends.tsv", "x")
        self._fates = io.BufferedWriter(io.FileIO(f"{stem}.fates.tsv", "x"), 1 << 20)
        self._flushed = time.monotonic()

    def handed(self, sends: Iterable[Send]) -> None:
        """Record sends that are about to be handed to the client."""
        now = time.time_ns() // 1000
        self._sends.write(
            "".join(
                [
                    f"{s.send_id}\t{s.event_id}\t{s.order_id}\t{s.op}\t{s.order_ts}\t{s.kind}\t{now}\n"
                    for s in sends
                ]
            ).encode()
        )

    def acked(self, send_id: str, partition: int, offset: int, at: int | None = None) -> None:
        """Record that the broker acknowledged a send; `at` is in microseconds since 1970 UTC."""
        at = at or time.time_ns() // 1000
        self._fates.write(f"{send_id}\tacked\t{partition}\t{offset}\t{at}\n".encode())

    def failed(self, send_id: str) -> None:
        """Record that a send certainly did not reach the topic."""
        self._fates.write(f"{send_id}\tfailed\t-1\t-1\t0\n".encode())

    def unknown(self, send_id: str) -> None:
        """Record that a send may or may not have reached the topic."""
        self._fates.write(f"{send_id}\tunknown\t-1\t-1\t0\n".encode())

    def tick(self) -> None:
        """Flush if the last flush was more than a tenth of a second ago; call it often."""
        if time.monotonic() - self._flushed > FLUSH_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Flush everything to the operating system."""
        self._fates.flush()
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Flush and close the files."""
        self._sends.close()
        self._fates.close()


@dataclass(frozen=True)
class Settlement:
    """Result of comparing the ledger with the topic; all fields but `examples` are counts.

    Args:
        found: unknown sends that are in the topic; they now count as acknowledged.
        failed: unknown sends that are missing and can no longer arrive; they now count as failed.
        waiting: unknown sends that are missing but may still arrive; settle again later.
        lost: acknowledged sends that are missing from the topic.
        unrecorded: messages in the topic that this ledger does not contain.
        repeated: messages in the topic with the same send id as an earlier one.
        messages: messages in the topic.
        examples: positions of up to five unrecorded messages, `partition:offset`.
    """

    found: int
    failed: int
    waiting: int
    lost: int
    unrecorded: int
    repeated: int
    messages: int
    examples: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if no send is unknown and the topic has each acknowledged one exactly once."""
        return not (self.waiting or self.lost or self.unrecorded or self.repeated)

    def _repr_html_(self) -> str:
        return card(str(self), self.ok)

    def __str__(self) -> str:
        text = (
            f"topic: {self.messages:,} messages, {self.lost} lost, {self.repeated} repeated, "
            f"{self.unrecorded} unrecorded\nunknown sends: {self.found} found in the topic, "
            f"{self.failed} failed, {self.waiting} still unknown"
        )
        return text + (f" (unrecorded: {', '.join(self.examples)})" if self.examples else "")

    __repr__ = __str__


class Ledger:
    """Reads the ledger of a topic and compares tables with it.

    Attributes:
        partial_lines: lines that a killed process left unfinished, found by the last `frame`.
    """

    def __init__(self, directory: Path):
        self.directory = Path(directory)
        self.partial_lines = 0
        self._read_state: tuple | None = None
        self._frame = pd.DataFrame()

    def frame(self) -> pd.DataFrame:
        """All sends with their state, one row each.

        `state` is acked, failed or unknown; `order_ts`, `sent_at` and `acked_at` are microseconds
        since 1970 UTC. Unless acknowledged, partition and offset are -1 and `acked_at` is 0.
        """
        files = sorted(self.directory.glob("*.tsv"))
        state = tuple((file.name, file.stat().st_size) for file in files)
        if state != self._read_state:
            self.partial_lines = 0
            self._frame = self._read()
            self._read_state = state
        return self._frame

    def _read(self) -> pd.DataFrame:
        sends = self._read_files("*.sends.tsv", SENDS)
        fates = self._read_files("*.fates.tsv", DELIVERY_REPORTS)
        # Of two outcomes the more certain one counts: a send that timed out may be found in the
        # topic.
        sureness = fates["fate"].astype(str).map({"unknown": 0, "failed": 1, "acked": 2})
        fates = (
            fates.assign(sureness=sureness)
            .sort_values("sureness", kind="stable")
            .drop_duplicates("send_id", keep="last")
            .drop(columns="sureness")
        )
        frame = sends.merge(fates, on="send_id", how="left")
        frame["state"] = (
            frame.pop("fate").astype(object).where(lambda fate: fate.notna(), "unknown")
        )
        for name, missing in {"partition": -1, "offset": -1, "acked_at": 0}.items():
            frame[name] = _whole_numbers(frame[name].where(frame[name].notna(), missing))
        frame["op"], frame["kind"] = frame["op"].astype(object), frame["kind"].astype(object)
        return frame[
            [
                *("send_id", "event_id", "order_id", "op", "order_ts", "kind", "state"),
                *("partition", "offset", "sent_at", "acked_at"),
            ]
        ]

    def _read_files(self, pattern: str, columns: dict[str, pa.DataType]) -> pd.DataFrame:
        tables = [pa.schema(list(columns.items())).empty_table()]
        for file in sorted(self.directory.glob(pattern)):
            content = file.read_bytes()
            whole = content.rfind(b"\n") + 1
            self.partial_lines += whole != len(content)
            if whole:
                tables.append(self._parse(content[:whole], columns))
        return pa.concat_tables(tables, promote_options="permissive").to_pandas()

    def _parse(self, content: bytes, columns: dict[str, pa.DataType]) -> pa.Table:
        def skip(row) -> str:
            self.partial_lines += 1
            return "skip"

        return pa.csv.read_csv(
            io.BytesIO(content),
            pa.csv.ReadOptions(column_names=list(columns)),
            pa.csv.ParseOptions(delimiter="\t", quote_char=False, invalid_row_handler=skip),
            pa.csv.ConvertOptions(column_types=columns, strings_can_be_null=False),
        )

    def settle(self, address: str, topic: str) -> Settlement:
        """Read the topic once, and record the outcome of each unknown send that can be decided.

        Call it while no load is running, because a send in flight would look missing.
        """
        asked_at = time.time_ns() // 1000
        # The topic first: sends that the ledger records meanwhile must not look unrecorded.
        arrivals = list(broker.arrivals(address, topic))
        return self.decide(arrivals, asked_at)

    def decide(self, arrivals: Iterable[Arrival], asked_at: int) -> Settlement:
        """Determine the outcome of unknown sends from all messages of the topic; see `settle`.

        `asked_at` is the time just before the topic was read, in microseconds since 1970 UTC.
        """
        first: dict[str, Arrival] = {}
        count, repeated, foreign = 0, 0, []
        for arrival in arrivals:
            count += 1
            if not arrival.send_id:
                foreign.append(arrival)
            elif arrival.send_id in first:
                repeated += 1
            else:
                first[arrival.send_id] = arrival
        frame = self.frame()
        known = set(frame["send_id"])
        foreign += [arrival for send_id, arrival in first.items() if send_id not in known]

        held = frame["send_id"].isin(first.keys())
        unknown = frame["state"] == "unknown"
        overdue = frame["sent_at"] < asked_at - (settings().send_timeout_seconds + GRACE_S) * 1e6
        found = frame.loc[unknown & held, "send_id"]
        failed = frame.loc[unknown & ~held & overdue, "send_id"]
        if len(found) or len(failed):
            writer = LedgerWriter(self.directory, "settled")
            for send_id in found:
                writer.acked(*first[send_id])
            for send_id in failed:
                writer.failed(send_id)
            writer.close()
        return Settlement(
            found=len(found),
            failed=len(failed),
            waiting=int((unknown & ~held & ~overdue).sum()),
            lost=int(((frame["state"] == "acked") & ~held).sum()),
            unrecorded=len(foreign),
            repeated=repeated,
            messages=count,
            examples=[f"{arrival.partition}:{arrival.offset}" for arrival in foreign[:5]],
        )

    def summary(self) -> pd.DataFrame:
        """Number of sends by kind (rows) and state (columns), with totals."""
        frame = self.frame()
        counts = pd.crosstab(
            frame["kind"].str.partition(":")[0].rename("kind"), frame["state"].rename("state")
        )
        kinds, states = ("event", "late", "resend", "malformed"), ("acked", "failed", "unknown")
        counts = counts.reindex(index=kinds, columns=states, fill_value=0).astype(int)
        counts["total"] = counts.sum(axis=1)
        counts.loc["total"] = counts.sum()
        return counts

    def reconcile_table(self, frame, name: str = "table") -> reconcile.Reconciliation:
        """Compare a Hudi table with the ledger; see `reconcile.table`."""
        return reconcile.table(self.frame(), frame, name)

    def reconcile_log(self, frame, name: str = "json") -> reconcile.Reconciliation:
        """Compare a sink that has one row per event with the ledger; see `reconcile.log`."""
        return reconcile.log(self.frame(), frame, name)

    def reconcile_dead(self, frame, name: str = "dead letters") -> reconcile.Reconciliation:
        """Compare the dead letters with the ledger; see `reconcile.dead`."""
        return reconcile.dead(self.frame(), frame, name)

    def account(self, table_frame, dead_frame) -> reconcile.Accounting:
        """Account for every acknowledged send; see `reconcile.account`."""
        return reconcile.account(self.frame(), table_frame, dead_frame)

    def check_not_empty(self) -> None:
        """Raise `LabError` if the ledger has no acknowledged send to compare a table with."""
        if not (self.frame()["state"] == "acked").any():
            raise LabError(
                f"The ledger in {self.directory} has no acknowledged send.",
                "send something first: lab load, or lab replay.",
            )

    def _repr_html_(self) -> str:
        title = f"ledger of {self.directory.name}{self._partial_note()}"
        return card(title, None, self.summary())

    def __str__(self) -> str:
        return f"ledger of {self.directory.name}{self._partial_note()}\n{self.summary()}"

    __repr__ = __str__

    def _partial_note(self) -> str:
        self.frame()
        return f" ({self.partial_lines} unfinished lines skipped)" if self.partial_lines else ""
