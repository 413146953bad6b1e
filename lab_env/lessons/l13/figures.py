"""Shows the results of several engines for the same queries, as a matrix of rows and errors.

Also shows the readers whose number of delivered rows is not the number of new rows.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from html import escape

import pandas as pd

from lab_env.platform.display import heat as shown
from lab_env.platform.display.palette import AMBER, GREEN, GREY

SAME, OTHER, NONE = "same", "other", "none"
MAX_ERROR_LENGTH = 90  # characters of an error that a cell shows; the hover text has all of it
_POSITION = re.compile(r"^line \d+:\d+: ")  # Trino's position in the query
COLOURS = {SAME: GREEN, OTHER: AMBER, NONE: GREY}


@dataclass(frozen=True)
class Reply:
    """An engine's reply to one query: rows, or its own error message."""

    rows: pd.DataFrame | None
    error: str = ""

    def summary(self) -> str:
        """Summarize the reply: number of rows and paid orders, changes by kind, or the error."""
        if self.rows is None:
            too_long = len(self.error) > MAX_ERROR_LENGTH
            return f"{self.error[: MAX_ERROR_LENGTH - 1]}…" if too_long else self.error
        if "op" in self.rows:
            counts = self.rows["op"].value_counts().sort_index()
            return ", ".join(f"{count:,} × {op}" for op, count in counts.items()) or "no change"
        paid = (self.rows["status"] == "paid").sum()
        return f"{len(self.rows):,} rows, {paid:,} paid"


def query_engine(ask: Callable[..., pd.DataFrame], *question) -> Reply:
    """Run a query on an engine; return its rows or its error."""
    try:
        return Reply(ask(*question))
    except Exception as refusal:
        return Reply(None, message_of(refusal))


def message_of(refusal: Exception) -> str:
    """Return the first line of an engine's error, without the position in the query text."""
    text = getattr(refusal, "message", None) or getattr(refusal, "desc", None) or str(refusal)
    first = " ".join(_POSITION.sub("", str(text).strip()).split("\n")[0].split())
    name = getattr(refusal, "error_name", None)  # Trino's
    return f"{name}: {first}" if name else first


@dataclass(frozen=True, repr=False)
class EngineMatrix:
    """The replies of all engines: a row per query and table type, a column per engine."""

    replies: Mapping[tuple[str, str, str], Reply]  # by question, table type, engine

    @property
    def engines(self) -> list[str]:
        """The engines, in the order in which they were queried."""
        return list(dict.fromkeys(engine for _, _, engine in self.replies))

    @property
    def questions(self) -> list[tuple[str, str]]:
        """The query and table type of each row."""
        return list(dict.fromkeys((query, kind) for query, kind, _ in self.replies))

    def verdict(self, query: str, kind: str, engine: str) -> str:
        """Return `same` or `other`, compared with the first engine's rows; `none` for an error."""
        reply, first = (self.replies[query, kind, name] for name in (engine, self.engines[0]))
        if reply.rows is None:
            return NONE
        same = first.rows is not None and _in_order(reply.rows) == _in_order(first.rows)
        return SAME if same else OTHER

    def verdicts(self, engine: str, kind: str) -> dict[str, str]:
        """Return the verdict on each query for one engine and table type."""
        return {
            query: self.verdict(query, of, engine) for query, of in self.questions if of == kind
        }

    def frame(self) -> pd.DataFrame:
        """Return the replies' summaries, with engines as columns."""
        rows = {
            (query, kind): {
                engine: self.replies[query, kind, engine].summary() for engine in self.engines
            }
            for query, kind in self.questions
        }
        return pd.DataFrame.from_dict(rows, orient="index")

    def __repr__(self) -> str:
        return self.frame().to_string()

    def _repr_html_(self) -> str:
        rows = [shown.heading("", span=2) + "".join(map(shown.heading, self.engines))]
        for query, kind in self.questions:
            row = shown.cell(f"<b>{escape(query)}</b>", "left")
            row += shown.cell(f"<b>{escape(kind.upper())}</b>", "left")
            rows.append(row + "".join(self._cell(query, kind, engine) for engine in self.engines))
        note = (
            f"Green: the same rows as {self.engines[0]}. Amber: other rows, without an error. "
            "Grey: no rows, in the engine's own words."
        )
        return shown.table(rows, note)

    def _cell(self, query: str, kind: str, engine: str) -> str:
        reply, verdict = self.replies[query, kind, engine], self.verdict(query, kind, engine)
        text = escape(reply.summary())
        text = f"<small><i>{text}</i></small>" if verdict == NONE else text
        tint = shown.tint(COLOURS[verdict], 0.25)
        style = f"{shown.STYLE.format('left')};{tint};max-width:17em"
        return f"<td style='{style}' title='{escape(reply.error)}'>{text}</td>"


def _in_order(rows: pd.DataFrame) -> list[tuple]:
    """Return the rows as sorted text, so that engines' different types compare equal."""
    rows = rows.drop(columns=[name for name in rows if name.startswith("_")])
    rows = rows.reindex(columns=sorted(rows))
    return sorted(tuple(map(_as_text, row)) for row in rows.itertuples(index=False))


def _as_text(value: object) -> str:
    """Convert a value to text; 12.30 and 12.3 give the same text, as do decimal and float."""
    if isinstance(value, float | Decimal) and Decimal(str(value)).is_finite():
        return f"{Decimal(str(value)).normalize():f}"
    return str(value)


def draw_differences(deliveries: pd.DataFrame, expected: str) -> str:
    """Return row counts as an HTML table; those that differ from the column `expected` are amber.

    There is a row per reader and a column per engine; NaN stands for an engine that was left out.
    """
    rows = ["".join(map(shown.heading, ["", *deliveries.columns]))]
    for reader, numbers in deliveries.iterrows():
        row = shown.cell(escape(str(reader)), "left")
        for number in numbers:
            if pd.isna(number):
                row += shown.cell("left out", "left")
            else:
                differs = number != numbers[expected]
                row += shown.cell(f"{number:,.0f}", heat=0.4 if differs else None)
        rows.append(row)
    return shown.table(rows, f"Amber: not the rows that are {expected}.")
