"""Pictures of lesson 13: which files each engine reads, its replies, what follows a bookmark."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from html import escape

import pandas as pd

from lab_env.platform.display import heat as shown
from lab_env.platform.display.chart import new_chart, note, svg
from lab_env.platform.display.palette import AMBER, BLUE, GREEN, GREY, VERMILION
from lab_env.tables.hudi.table import FileSlice, Snapshot
from lab_env.tables.hudi.timeline import Instant

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


def draw_reads(
    table: Snapshot, known: Collection[str], taken: Mapping[str, Mapping[str, int]]
) -> str:
    """Return, as HTML, how many orders each engine took from each current file of a table.

    Args:
        known: the partitions that the metastore lists.
        taken: orders by file, by engine; a row from a log has the id of its file group as file.
    """
    places = [
        (part, kind)
        for part in table.current
        for kind in ("base", "log")
        if any(file.kind == kind for file in part.files)
    ]
    days = Counter(part.partition for part, _ in places)
    rows = [
        shown.heading("", span=2)
        + "".join(shown.heading(day.partition("=")[2], span=files) for day, files in days.items()),
        shown.heading("") + shown.heading("finds partitions in", "left"),
    ]
    rows[1] += "".join(
        shown.heading(f"{kind} file" if kind == "base" else kind) for _, kind in places
    )
    listed = "".join(
        f"<td colspan='{files}' style='{shown.STYLE.format('center')}'>"
        f"{'listed' if day in known else '<b>not listed</b>'}</td>"
        for day, files in days.items()
    )
    rows.append(shown.cell("<i>in the metastore</i>", "left") + shown.cell("") + listed)
    first = next(iter(taken))
    for engine in taken:
        row = shown.cell(f"<b>{escape(engine)}</b>", "left")
        row += shown.cell("the metastore" if engine == "Trino" else "the table's folder", "left")
        for part, kind in places:
            here, there = (_orders_from(part, kind, taken[name]) for name in (engine, first))
            tint = shown.tint(GREEN if here == there else AMBER, 0.25)
            style = f"{shown.STYLE.format('right')};{tint};border:3px solid transparent"
            row += f"<td style='{style};background-clip:padding-box'>{here:,}</td>"
        rows.append(row)
    return shown.table(rows, f"Orders taken from each file. Amber: not the orders of {first}.")


def _orders_from(part: FileSlice, kind: str, taken: Mapping[str, int]) -> int:
    """Return how many orders an engine took from the base file, or from the logs, of a slice."""
    if kind == "log":
        return taken.get(part.group, 0)
    return taken.get(part.base.name, 0) if part.base else 0


def draw_bookmarks(commits: Sequence[Instant], delivered: pd.DataFrame) -> str:
    """Draw commits on a line of time, and two bookmarks as flags with what each engine delivers.

    Args:
        commits: the commits that are drawn; the bookmarks are the two times of the last one.
        delivered: a row for each of both bookmarks, requested time first; a column per engine.
    """
    figure, axes = new_chart("What comes after the bookmark?", "", "", width=8.0, height=2.6)
    for place in range(len(commits)):
        axes.plot([3 * place, 3 * place + 2], [0, 0], linewidth=9, color=BLUE, alpha=0.5)
        note(axes, f"commit {place + 1}", (3 * place + 1, 0), (0, -16), ha="center")
    end = 3 * len(commits) - 3
    names = "_hoodie_commit_time\n(requested)", "completion time"
    for (at, look), name, (_, numbers) in zip(
        ((end, "right"), (end + 2, "left")), names, delivered.iterrows(), strict=True
    ):
        axes.plot([at, at], [0, 1.5], color=VERMILION, linewidth=1.5)
        counts = [
            f"{engine}: {'left out' if pd.isna(n) else f'{n:,.0f}'}"
            for engine, n in numbers.items()
        ]
        shift = -6 if look == "right" else 6
        note(axes, "\n".join([name, *counts]), (at, 1.5), (shift, 0), ha=look, va="top")
    axes.set(
        xlim=(-1, end + 5), ylim=(-0.8, 1.7), xticks=[], yticks=[], xlabel="time (not to scale)"
    )
    axes.grid(False)
    axes.spines["left"].set_visible(False)
    return svg(figure)
