"""Shows how a table's schema changes: by commit, in its current files, and write by write.

Also sends the lesson's events, and computes the right board from them.
"""

import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from html import escape

import pandas as pd
import pyarrow.parquet as parquet
from confluent_kafka import Producer

from lab_env.course.answers import Unreadable, as_frame, as_int, as_text, plain
from lab_env.platform import store
from lab_env.platform.brokers.topics import ensure_topic
from lab_env.platform.display import heat
from lab_env.platform.display.palette import AMBER, BLUE, VERMILION
from lab_env.platform.errors import LabError

REFUSED, ADDED, CHANGED, CONVERTED = "refused", "added", "changed", "as before"
TINTS = {REFUSED: (VERMILION, 0.22), ADDED: (BLUE, 0.18), CHANGED: (AMBER, 0.45)}
HATCHED = (
    "background:repeating-linear-gradient(45deg,transparent,transparent 4px,"
    "rgba(128,128,128,.45) 4px,rgba(128,128,128,.45) 6px)"
)
# Avro's names, as a commit records them, in SQL's words.
SQL_NAMES = {"long": "bigint", "timestamp-micros": "timestamp", "record": "struct"}
MAX_REASON_LENGTH = 150  # characters of a refusal that the grid shows; the hover text has all
TIMEOUT_S = 20.0


def send_events(lab, topic: str, events: Iterable[dict]) -> None:
    """Send events as JSON to a one-partition topic; raise LabError if one is not acknowledged."""
    ensure_topic(lab.endpoints.kafka_bootstrap, topic, partitions=1)
    producer = Producer(
        {
            "bootstrap.servers": lab.endpoints.kafka_bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": int(TIMEOUT_S * 1000),
            "log_level": 2,
        }
    )
    failed = []
    for event in events:
        producer.produce(
            topic,
            json.dumps(event),
            event["order_id"],
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    if producer.flush(TIMEOUT_S) or failed:
        raise LabError("Not every event was acknowledged.", "look at `lab status`, then run again.")


def board_of(events: Iterable[dict]) -> pd.DataFrame:
    """Compute the right board: status, coupon (yes or no) and revenue (a Decimal), sorted.

    An order has its newest event's status and amount, and the last coupon of any of its events.
    """
    orders: dict[str, dict] = {}
    for event in sorted(events, key=lambda event: event["order_ts"]):
        coupon = event.get("coupon") or orders.get(event["order_id"], {}).get("coupon")
        orders[event["order_id"]] = {**event, "coupon": coupon}
    revenue: dict[tuple[str, str], Decimal] = {}
    for order in orders.values():
        key = order["status"], "yes" if order["coupon"] else "no"
        revenue[key] = revenue.get(key, Decimal(0)) + Decimal(f"{order['amount']:.2f}")
    rows = [(*key, amount) for key, amount in sorted(revenue.items())]
    return pd.DataFrame(rows, columns=["status", "coupon", "revenue"])


def counts_of(answer) -> dict[str, int]:
    """Convert an answer, a two-column table or a dictionary, to numbers by name.

    Raises `Unreadable` if it is neither, or has a name twice.
    """
    if isinstance(answer, pd.DataFrame) and len(answer.columns) == 1:  # the names are its index
        answer = answer.iloc[:, 0]
    plain_mapping = isinstance(answer, Mapping) and not any(map(callable, answer.values()))
    if isinstance(answer, pd.Series) or plain_mapping:
        pairs = [(as_text(name), as_int(count)) for name, count in answer.items()]
    else:
        frame = as_frame(answer)
        if len(frame) and len(frame.columns) != 2:
            raise Unreadable(
                "Two columns are expected, the field and its count; you return "
                f"{len(frame.columns)}."
            )
        pairs = [_name_and_count(row) for row in frame.itertuples(index=False)]
    counts = dict(pairs)
    if len(counts) < len(pairs):
        raise Unreadable("One row per field is expected; one of yours is there several times.")
    return counts


def _name_and_count(row: Iterable) -> tuple[str, int]:
    row = list(row)
    numbers = [value for value in row if isinstance(plain(value), int)]
    texts = [value for value in row if isinstance(value, str)]
    if len(numbers) != 1 or len(texts) != 1:
        raise Unreadable("Each row is expected to have a field's name and a number of events.")
    return texts[0], as_int(numbers[0])


def columns_of(schema) -> dict[str, str]:
    """Return the columns and types of a Spark schema, without Hudi's own columns."""
    return {
        field.name: field.dataType.simpleString()
        for field in schema.fields
        if not field.name.startswith("_hoodie_")
    }


def reason_of(error: BaseException) -> str:
    """Return an error on one line: Hudi's exception class and its message."""
    found = re.search(r"org\.apache\.hudi\.exception\.(\w+): ([^\n]*)", str(error))
    if found:
        details = re.search(r"\{(.*)\}", found[2])  # what stands before it is the same each time
        return f"{found[1]}: {details[1] if details else found[2].strip()}"
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"


@dataclass(frozen=True, repr=False)
class SchemaTrials:
    """The results of writes with other schemas, each into its own copy of a table."""

    before: Mapping[str, str]  # column types before any of the writes
    results: Mapping[str, Mapping[str, str] | BaseException]  # types after it, or the error

    def verdict(self, name: str) -> str:
        """Return a write's effect on the table's schema: refused, added, changed, or unchanged."""
        after = self.results[name]
        if isinstance(after, BaseException):
            return REFUSED
        new = after.keys() - self.before.keys()
        other = [column for column in self.before if after.get(column) != self.before[column]]
        if any(not _only_added_to(self.before[c], after.get(c, "")) for c in other):
            return CHANGED
        return ADDED if new or other else CONVERTED

    def outcome(self, name: str) -> str:
        """Return the columns that differ after a write, or the reason why it was refused."""
        after = self.results[name]
        if isinstance(after, BaseException):
            return reason_of(after)
        differing = {c: t for c, t in after.items() if self.before.get(c) != t}
        return ", ".join(f"{column}: {kind}" for column, kind in differing.items()) or "-"

    def frame(self) -> pd.DataFrame:
        """Return each write with its verdict and outcome."""
        rows = {name: (self.verdict(name), self.outcome(name)) for name in self.results}
        return pd.DataFrame.from_dict(rows, orient="index", columns=["schema", "outcome"])

    def __repr__(self) -> str:
        return self.frame().to_string()

    def _repr_html_(self) -> str:
        titles = ("what was written", "the table's schema", "in the table now, or why not")
        rows = ["".join(heat.heading(title, "left") for title in titles)]
        for name in self.results:
            verdict, outcome = self.verdict(name), self.outcome(name)
            tint = f";{heat.tint(*TINTS[verdict])}" if verdict in TINTS else ""
            style = heat.STYLE.format("left")
            short = _shortened(outcome, MAX_REASON_LENGTH)
            rows.append(
                heat.cell(escape(name), "left")
                + f"<td style='{style}{tint}'>{verdict}</td>"
                + f"<td style='{style};max-width:34em' title='{escape(outcome, quote=True)}'>"
                + f"<small>{escape(short)}</small></td>"
            )
        return heat.table(
            rows,
            "Red: refused. Blue: something was added. Amber: a type changed. "
            "No colour: the schema is as before; the values need not be.",
        )


def _only_added_to(before: str, after: str) -> bool:
    """True if a struct has gained fields and kept all others."""
    return before.startswith("struct<") and after.startswith(f"{before[:-1]},")


def ask_readers(
    questions: Mapping[str, Callable[[], pd.DataFrame]], columns: Iterable[str]
) -> pd.DataFrame:
    """Run readers, and count the rows in which each column has a value.

    The result has a row per reader: `rows`; for each column the number of rows with a value
    (`3 of 600`) or `no column`; and `error`, shortened, or empty.
    """
    replies = {}
    for reader, question in questions.items():
        try:
            rows = question()
        except Exception as error:
            replies[reader] = {"rows": "", **dict.fromkeys(columns, ""), "error": brief(error)}
            continue
        shown = {name: f"{rows[name].notna().sum()} of {len(rows)}" for name in rows}
        shown = {name: shown.get(name, "no column") for name in columns}
        replies[reader] = {"rows": len(rows), **shown, "error": ""}
    return pd.DataFrame.from_dict(replies, orient="index")


def brief(error: BaseException) -> str:
    """Return an error's essential part, without ids and lists of columns."""
    text = " ".join(str(error).split())
    found = re.search(r"terminated with exception: (.*)", text)
    text = (found[1] if found else text).split(" _hoodie_")[0].rstrip(":")
    return _shortened(text, 60)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


@dataclass(frozen=True, repr=False)
class SchemaHistory:
    """A table's columns by commit, and the columns of each current base file."""

    commits: tuple[tuple[str, Mapping[str, str]], ...]  # operation, and type by column
    files: tuple[frozenset[str], ...]  # the columns of each current base file

    @property
    def columns(self) -> list[str]:
        """All columns that the table has or had, in the sequence in which they were added."""
        return list(dict.fromkeys(column for _, columns in self.commits for column in columns))

    def lacking(self, column: str) -> int:
        """Return the number of current files that lack a column."""
        return sum(column not in file for file in self.files)

    def changed(self, column: str, commit: int) -> bool:
        """Return True if a commit, given by index, added, removed or retyped a column.

        False for the first commit.
        """
        if commit == 0:
            return False
        (_, before), (_, after) = self.commits[commit - 1 : commit + 1]
        return before.get(column) != after.get(column)

    def __repr__(self) -> str:
        rows = {
            column: [columns.get(column, "") for _, columns in self.commits]
            + [f"{len(self.files) - self.lacking(column)} of {len(self.files)}"]
            for column in self.columns
        }
        titles = [f"{place} {name}" for place, (name, _) in enumerate(self.commits, 1)]
        frame = pd.DataFrame.from_dict(rows, orient="index", columns=[*titles, "current files"])
        return frame.to_string()

    def _repr_html_(self) -> str:
        titles = [f"{place} · {name}" for place, (name, _) in enumerate(self.commits, 1)]
        rows = ["".join(map(heat.heading, ("", *titles, "current files that have it")))]
        for column in self.columns:
            cells = [heat.cell(f"<b>{escape(column)}</b>", "left")]
            for place, (_, columns) in enumerate(self.commits):
                tint = f";{heat.tint(AMBER, 0.45)}" if self.changed(column, place) else ""
                cells.append(_cell(escape(columns.get(column) or "-"), tint))
            lacking, count = self.lacking(column), len(self.files)
            cells.append(_cell(f"{count - lacking} of {count}", f";{HATCHED}" if lacking else ""))
            rows.append("".join(cells))
        return heat.table(
            rows,
            "Amber: changed by this commit. Hatched: current files lack the column; "
            "what a reader shows there is the reader's choice.",
        )


def _cell(text: str, style: str) -> str:
    return f"<td style='{heat.STYLE.format('center')}{style}'>{text}</td>"


def schema_history(lab, path: str) -> SchemaHistory:
    """Read the schemas of a table's commits, from its timeline, and current files, from footers."""
    table = lab.xray(path)
    commits = [table.commit(instant.requested) for instant in table.instants if instant.writes]
    schemas = [
        (
            commit.operation.lower().replace("_", " "),
            {
                column: SQL_NAMES.get(kind, kind)
                for column, kind in commit.schema.items()
                if not column.startswith("_hoodie_")
            },
        )
        for commit in commits
    ]
    folder = store.key_of(path)
    footers = [
        parquet.read_schema(io.BytesIO(store.read(lab.endpoints, f"{folder}/{found.base.key}")))
        for found in table.current
        if found.base
    ]
    return SchemaHistory(tuple(schemas), tuple(frozenset(footer.names) for footer in footers))
