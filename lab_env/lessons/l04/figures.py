"""Sample events, a compaction, tables side by side, and the trace of one order.

The drawing, an order's trace, has the events in the order of arrival, and a mark in a sink's column
for each event that the sink shows as a row: a green circle for the newest event, an orange cross
for an older one. Each sink's label has the ledger's verdict.
"""

from collections.abc import Iterable, Iterator, Mapping

import pandas as pd

from lab_env.platform.display.chart import new_chart, svg
from lab_env.platform.display.palette import GREEN, VERMILION
from lab_env.shop.ledger.book import Ledger
from lab_env.shop.ledger.reconcile import Reconciliation

# Values of `COLUMNS`, in the order of arrival; days and times are of one month.
SAMPLE = (
    ("e-1", "O-31", "create", "new", "20 23:58", "20 23:58", "20", "20"),
    ("e-3", "O-32", "create", "new", "20 10:00", "20 10:00", "20", "20"),
    ("e-5", "O-32", "update", "shipped", "20 10:05", "20 10:06", "20", "20"),
    ("e-4", "O-32", "update", "paid", "20 10:02", "20 12:30", "20", "20"),
    ("e-2", "O-31", "update", "paid", "21 00:03", "21 00:04", "20", "21"),
)
COLUMNS = (
    "event_id", "order_id", "op", "status", "order_ts", "sent_at", "partition_date", "changed_on"
)  # fmt: skip
NEWEST, OLDER = ("o", GREEN), ("X", VERMILION)


def sample_events() -> pd.DataFrame:
    """Return the events of two orders in the order of arrival, with the columns `COLUMNS`."""
    return pd.DataFrame(with_month(SAMPLE), columns=list(COLUMNS))


def with_month(events: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield the events with their days and times as dates of November 2026."""
    for event in events:
        yield (*event[:4], *(f"2026-11-{when}" for when in event[4:]))


def changed_after_midnight(ledger: Ledger) -> int:
    """Count the orders that have events on more than one day, except erased orders."""
    sends = ledger.frame()
    valid = sends[(sends["state"] == "acked") & ~sends["kind"].str.startswith("malformed")]
    valid = valid.assign(day=valid["order_ts"] // (24 * 3600 * 1_000_000))
    orders = valid.groupby("order_id").agg(days=("day", "nunique"), ops=("op", set))
    return int(((orders["days"] > 1) & ~orders["ops"].map(lambda ops: "erase" in ops)).sum())


def compact(spark, path: str) -> None:
    """Merge the logs of a Merge-on-Read table without a metadata table into new base files."""
    options = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"
    spark.sql(f"""
        CALL run_compaction(op => 'scheduleandexecute', path => '{path}', options => '{options}')
    """)


def side_by_side(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the status of O-18 and O-19 (rows) in each table (columns); `no row` if missing."""
    statuses = [rows.set_index("order_id")["status"] for rows in tables.values()]
    together = pd.concat(statuses, axis="columns", keys=list(tables))
    return together.reindex(["O-18", "O-19"]).fillna("no row")


class OrderTrace:
    """The trace of one order, shown as a drawing with one column per sink.

    Args:
        arrived: one row per event in the order of arrival: event_id, kind, status, order_ts
            (microseconds since 1970 UTC).
    """

    @classmethod
    def of(cls, order_id: str, ledger: Ledger, events) -> "OrderTrace":
        """Make the trace of an order from the ledger and from `events` (event_id and status)."""
        sends = ledger.frame()
        sent = sends[sends["order_id"] == order_id].sort_values("offset")
        rows = events.where(f"order_id = '{order_id}'").select("event_id", "status").distinct()
        return cls(order_id, sent.merge(rows.toPandas(), on="event_id", how="left"))

    def __init__(self, order_id: str, arrived: pd.DataFrame):
        self.order_id = order_id
        self.arrived = arrived
        self.sinks: dict[str, tuple[list[str], Reconciliation]] = {}

    def add(self, name: str, rows, verdict: Reconciliation) -> "OrderTrace":
        """Add a sink and the ledger's verdict on all of its rows; return this trace."""
        shown = rows.where(f"order_id = '{self.order_id}'").select("event_id").collect()
        self.sinks[name] = ([row.event_id for row in shown], verdict)
        return self

    def rows(self) -> dict[str, int]:
        """Return the number of rows that each sink has for this order."""
        return {name: len(shown) for name, (shown, _) in self.sinks.items()}

    def marks(self, name: str) -> list[str]:
        """Return `newest` or `older` for each event with a row in the sink; empty for others."""
        left = list(self.sinks[name][0])
        newest = self.arrived["order_ts"].max()
        marks = []
        for event in self.arrived.itertuples():
            if event.event_id in left:
                left.remove(event.event_id)  # a resend has a mark only if it is a second row
                marks.append("newest" if event.order_ts == newest else "older")
            else:
                marks.append("")
        return marks

    def _repr_html_(self) -> str:
        width, lines = max(6.4, 2.6 + 1.6 * len(self.sinks)), len(self.arrived)
        title = f"{self.order_id}: which events are rows?"
        figure, axes = new_chart(title, "", "", width, 1.3 + 0.4 * lines)
        for x, name in enumerate(self.sinks):
            for y, mark in enumerate(self.marks(name)):
                if mark:
                    marker, colour = NEWEST if mark == "newest" else OLDER
                    axes.scatter(x, y, s=170, marker=marker, color=colour)
        axes.set_yticks(range(lines), [_label(event) for event in self.arrived.itertuples()])
        axes.set_xticks(range(len(self.sinks)), [self._heading(name) for name in self.sinks])
        axes.set_xlim(-0.6, len(self.sinks) - 0.4)
        axes.set_ylim(lines - 0.4, -0.6)
        return svg(figure)

    def _heading(self, name: str) -> str:
        shown, verdict = self.sinks[name]
        rows = "1 row" if len(shown) == 1 else f"{len(shown)} rows"
        return f"{name}\n{rows}\n{summarize(verdict)}"

    def __repr__(self) -> str:
        lines = [f"Order {self.order_id}"]
        lines += [_label(event) for event in self.arrived.itertuples()]
        for name in self.sinks:
            heading = self._heading(name).replace("\n", "; ")
            lines.append(f"{heading}; {', '.join(mark or '-' for mark in self.marks(name))}")
        return "\n".join(lines)


def summarize(verdict: Reconciliation) -> str:
    """Return the ledger's verdict on a sink: `reconciles`, or a line per kind of difference."""
    differences = {name: getattr(verdict, name) for name in verdict.categories}
    return "\n".join(f"{n:,} {name}" for name, n in differences.items() if n) or "reconciles"


def _label(event) -> str:
    kind = "" if event.kind == "event" else f"{event.kind}: "
    clock = pd.Timestamp(event.order_ts, unit="us").strftime("%H:%M:%S.%f")[:-4]
    return f"{kind}{event.status} {clock}"
