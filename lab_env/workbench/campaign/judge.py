"""Compares a table with the ledger without Spark, while the table's writer is dead or idle.

A table's newest commit names its batch, and the checkpoint has that batch's end offsets. So the
expected messages are known even in the middle of a stream: exactly those below the offsets.
"""

import time
from dataclasses import dataclass, field

import pandas as pd

from lab_env.pipeline.checkpoint import offsets_in
from lab_env.pipeline.guard import table_receipt
from lab_env.pipeline.sinks import checkpoint_path, table_path
from lab_env.platform import store
from lab_env.platform.settings import Endpoints
from lab_env.shop.ledger.book import Ledger, reconcile
from lab_env.tables.hudi_rs import KEYS, META, read_rows

# All must be zero; `ghost` is an erased order that has returned.
CATEGORIES = ("missing", "duplicate", "stale", "altered", "ghost", "unexpected")
TRIES = 5


@dataclass(frozen=True)
class Judgement:
    """Result of comparing a table with the ledger."""

    sink: str
    reader: str
    batch: int | None  # newest in the table; None if the table must contain everything sent
    rows: int
    expected: int
    # By category; those without wrong keys are left out.
    wrong: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    # What ledger and table record about up to five wrong keys.
    biographies: dict[str, list[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.wrong

    def __str__(self) -> str:
        until = "" if self.batch is None else f" up to batch {self.batch}"
        counts = ", ".join(f"{n} {name}" for name, n in self.wrong.items()) or "equal"
        return f"{self.sink}{until} by {self.reader}: {self.rows:,} rows, {counts}"


def sends_below(sends: pd.DataFrame, ends: dict[int, int] | None) -> pd.DataFrame:
    """Select the sends in a ledger's frame that a table must reflect.

    Args:
        ends: by topic partition, the offset after the last expected message; None for all messages.

    Returns:
        Acknowledged sends below the offsets, and sends without a known result, whose orders are not
        judged.
    """
    if ends is None:
        return sends
    end = sends["partition"].map(ends).fillna(0)
    acked = sends["state"] == "acked"
    return sends[(acked & (sends["offset"] < end)) | (sends["state"] == "unknown")]


def judge_rows(
    sends: pd.DataFrame,
    rows: pd.DataFrame,
    sink: str,
    reader: str = "hudi-rs",
    batch: int | None = None,
) -> Judgement:
    """Compare rows with the sends that they must reflect.

    The rows have the columns `KEYS` and, for the biographies, optionally `META`.
    """
    found = reconcile.table(sends, rows[list(KEYS)], sink)
    wrong = {name: n for name in CATEGORIES if (n := getattr(found, name))}
    keys = list(dict.fromkeys(key for names in found.examples.values() for key in names))[:5]
    told = {key: biography(key, sends, rows) for key in keys}
    examples = {name: found.examples[name] for name in wrong}
    return Judgement(sink, reader, batch, found.rows, found.expected, wrong, examples, told)


def biography(order: str, sends: pd.DataFrame, rows: pd.DataFrame) -> list[str]:
    """Describe what is known about an order: its events with their offsets, and its rows."""
    events = [
        f"{s.op} {s.event_id} at {s.order_ts}, {s.kind}, {s.state}, offset {s.partition}:{s.offset}"
        for s in sends[sends["order_id"] == order].sort_values("order_ts").itertuples()
    ]
    shown = []
    for row in rows[rows["order_id"] == order].to_dict("records"):
        where = f" of {row[META[0]]} in {row[META[1]]}" if META[0] in row else ""
        shown.append(f"shown: {row['event_id']} at {row['order_ts']}{where}")
    return [*events, *(shown or ["not shown"])]


def judge_table(
    endpoints: Endpoints, base: str, sink: str, ledger: Ledger, whole: bool = False
) -> Judgement:
    """Read a table with hudi-rs and compare it with its expected content.

    Args:
        whole: whether the table must contain everything sent, regardless of its newest batch.

    Raises:
        TimeoutError: the table changed during every attempt to read it.
    """
    table = table_path(base, sink)
    for _ in range(TRIES):
        before = table_receipt(endpoints, table)
        empty = pd.DataFrame(columns=[*KEYS, *META])
        rows = read_rows(endpoints, table) if before else empty
        if table_receipt(endpoints, table) == before:
            break
        time.sleep(0.5)
    else:
        raise TimeoutError(f"{table} changed during each of {TRIES} readings")
    if whole:
        return judge_rows(ledger.frame(), rows, sink)
    ends: dict[int, int] = {}
    if before:
        key = f"{store.key_of(checkpoint_path(base, sink))}/offsets/{before.batch}"
        ends = offsets_in(store.read(endpoints, key))
    sends = sends_below(ledger.frame(), ends)
    return judge_rows(sends, rows, sink, batch=before.batch if before else -1)


def planted_losses(sends: pd.DataFrame, rows: pd.DataFrame) -> dict[str, bool]:
    """Test the judge: falsify correct rows in several ways, and check that it reports each one.

    For each kind, return whether the judge reported it in the right category and no other.
    """
    first, second = rows.iloc[[0]], rows.iloc[[1]]
    planted = {
        "missing": rows.iloc[1:],
        "duplicate": pd.concat([rows, first]),
        "stale": pd.concat([first.assign(event_id="an-older-one"), rows.iloc[1:]]),
        "unexpected": pd.concat([rows, second.assign(order_id="never-sent")]),
    }
    return {
        name: judge_rows(sends, changed.reset_index(drop=True), "planted").wrong == {name: 1}
        for name, changed in planted.items()
    }
