"""Draws the trace of one order: the events that arrived, and which of them each sink shows as rows.

A green circle is the newest event, an orange cross an older one. Each sink's label has the ledger's
verdict.
"""

import pandas as pd

from lab_env.display.chart import new_chart, svg
from lab_env.display.palette import GREEN, VERMILION
from lab_env.shop.reconcile import Reconciliation

NEWEST, OLDER = ("o", GREEN), ("X", VERMILION)


class OrderTrace:
    """The drawing; each sink becomes a column.

    Args:
        order_id: the order to follow.
        arrived: one row per event in the order of arrival: event_id, kind, status, order_ts
            (microseconds since 1970 UTC).
    """

    def __init__(self, order_id: str, arrived: pd.DataFrame):
        self.order_id = order_id
        self.arrived = arrived
        self.sinks: dict[str, tuple[list[str], Reconciliation]] = {}

    def add(self, name: str, rows, verdict: Reconciliation) -> "OrderTrace":
        """Add a sink.

        Args:
            name: its label.
            rows: a Spark DataFrame with order_id and event_id.
            verdict: the ledger's, on the whole sink.

        Returns:
            This trace.
        """
        shown = rows.where(f"order_id = '{self.order_id}'").select("event_id").collect()
        self.sinks[name] = ([row.event_id for row in shown], verdict)
        return self

    def rows(self) -> dict[str, int]:
        """How many rows each sink has for this order."""
        return {name: len(shown) for name, (shown, _) in self.sinks.items()}

    def marks(self, name: str) -> list[str]:
        """What a sink shows of each event, in the order of arrival.

        Returns:
            For each event `newest` or `older`; empty if the sink has no row for it.
        """
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
    """The ledger's verdict on a whole sink: `reconciles`, or one line per kind of difference."""
    differences = {name: getattr(verdict, name) for name in verdict.categories}
    return "\n".join(f"{n:,} {name}" for name, n in differences.items() if n) or "reconciles"


def _label(event) -> str:
    kind = "" if event.kind == "event" else f"{event.kind}: "
    clock = pd.Timestamp(event.order_ts, unit="us").strftime("%H:%M:%S.%f")[:-4]
    return f"{kind}{event.status} {clock}"
