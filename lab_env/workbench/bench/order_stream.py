"""The generated stream of `lab bench formats`, with deletes, and its plain-Python oracle.

The oracle applies the events one by one to a dictionary, without Spark. Every table must end with
the same content as this dictionary.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random

from lab_env.shop.events import FIELDS
from lab_env.workbench.bench.stream import Writer, last_days

DAYS = last_days(4)  # of creation, the table partitions
RECENT = DAYS[-2:]  # days whose orders still change
NEW, ERASED = 0.3, 0.1  # shares of the changes; the others are updates
COLUMNS = tuple(field for field in FIELDS if field != "sent_at")


@dataclass(frozen=True)
class Batch:
    """The events of one commit.

    Args:
        answers: right answers after the commit, by query: `point` and `aggregate` (number of rows,
            and the sum of their cents) and `changes` (number of changed orders still in the table,
            and the sum of their cents).
    """

    file: Path  # contains the events, one line of JSON each
    events: int
    point: str  # id of an order that is in the table afterwards, for the point query
    answers: dict[str, tuple[int, int]]
    days: tuple[str, ...]  # the table partitions that they change


class OrderStream:
    """Generates the same batches on every run, and the rows that the tables must have afterwards.

    The batches are written to files in a folder.
    """

    def __init__(self, folder: Path):
        self._folder, self._rng = folder, Random("formats")
        self._writer = Writer(self._rng, DAYS)
        self._recent: list[str] = []
        self._batches = 0
        self.rows: dict[str, dict] = {}

    def grow(self, orders: int) -> Batch:
        """Return a batch of new orders, spread evenly over the days."""
        sends = [self._writer.create() for _ in range(orders)]
        newest = self._writer.newest
        self._recent += [s.order_id for s in sends if newest[s.order_id][2] in RECENT]
        return self._batch([send.value for send in sends])

    def change(self, events: int) -> Batch:
        """Return a batch of new orders, and of updates and erasures of recent ones."""
        return self._batch([self._change() for _ in range(events)])

    def _change(self) -> bytes:
        chance = self._rng.random()
        if chance < NEW:
            send = self._writer.create(DAYS[-1])
            self._recent.append(send.order_id)
            return send.value
        place = int(self._rng.random() * len(self._recent))
        if chance >= NEW + ERASED:
            return self._writer.update(self._recent[place]).value
        order = self._recent[place]
        self._recent[place] = self._recent[-1]
        self._recent.pop()
        return self._writer.erase(order).value

    def _batch(self, lines: list[bytes]) -> Batch:
        file = self._folder / f"{self._batches:03d}.json"
        file.write_bytes(b"\n".join(lines))
        self._batches += 1
        touched = apply(self.rows, lines)
        left = [self.rows[order] for order in touched if order in self.rows]
        point = self._recent[0]
        return Batch(
            file,
            len(lines),
            point,
            {
                "point": summed([self.rows[point]]),
                "aggregate": summed(list(self.rows.values())),
                "changes": summed(left),
            },
            tuple(sorted(set(touched.values()))),
        )


def apply(rows: dict[str, dict], lines: list[bytes]) -> dict[str, str]:
    """Apply events (JSON, sorted by time) to `rows`, a dictionary by order id, in place.

    An order's newest event becomes its row; an erasure deletes the row.

    Returns:
        The table partition of each changed order, by order id.
    """
    touched = {}
    for line in lines:
        event = json.loads(line)
        order = event["order_id"]
        touched[order] = event["partition_date"]
        if event["op"] == "erase":
            rows.pop(order, None)
        else:
            rows[order] = event
    return touched


def summed(rows: list[dict]) -> tuple[int, int]:
    """Return the number of rows, and the sum of their cents."""
    return len(rows), sum(round(row["amount"] * 100) for row in rows)


def as_lines(rows: dict[str, dict]) -> set[str]:
    """Return the rows as lines of text, for comparison with a table's rows."""
    texts = [row | {"amount": f"{row['amount']:.2f}"} for row in rows.values()]
    return {"|".join(text[column] for column in COLUMNS) for text in texts}


def difference(title: str, found: list[str], right: set[str]) -> str:
    """Describe the difference between a table's rows and those of `as_lines`; empty if none."""
    rows = set(found)
    doubled, missing, others = len(found) - len(rows), right - rows, rows - right
    if not (doubled or missing or others):
        return ""
    examples = ", ".join(sorted(missing | others)[:2])
    return (
        f"{title}: {doubled} doubled, {len(missing)} missing, {len(others)} wrong or left over"
        f" rows, for example {examples}"
    )
