"""Figures of lesson 09: query results with the files that were read, and two sums over time."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

import pandas as pd

from lab_env.lab.handle import Lab
from lab_env.platform.display import heat as shown
from lab_env.platform.display.chart import new_chart, svg
from lab_env.platform.display.palette import BLUE, VERMILION
from lab_env.platform.display.units import size_text
from lab_env.tables.hudi.timeline import parse_data_name
from lab_env.tables.probes.inputs import InputBytes
from lab_env.tables.probes.reads import watch


@dataclass(frozen=True)
class Answer:
    """The result of one query, and what its tasks read."""

    row: Mapping[str, object]  # by column
    base: int  # number of base files that were opened
    logs: int  # number of log files that were opened
    bytes: int  # input of the tasks, as the Spark UI shows it

    @property
    def files(self) -> str:
        """The number of files as text, for example `2 base + 1 log`."""
        return f"{self.base} base" + (f" + {self.logs} log" if self.logs else "")


def run_query(lab: Lab, question) -> Answer:
    """Run a query in the lab's session, and record which data files its tasks read.

    Reads by executors on a cluster and reads during planning are not counted. Planning reads the
    timeline to list the files, and one of the newest commit's files to get the schema, possibly a
    log that no task reads.
    """
    question._jdf.queryExecution().executedPlan()  # plan now: the DataFrame keeps its plan
    with watch(lab) as reads, InputBytes(lab.spark, lab.base) as read:
        row = question.first()
    data = [key.rpartition("/")[2] for key in reads.frame().index if "/.hoodie/" not in key]
    kinds = Counter(name.kind for name in map(parse_data_name, data) if name)
    return Answer(row.asDict(), kinds["base"], kinds["log"], read.bytes)


@dataclass(frozen=True, repr=False)
class QueryGrid:
    """Query results and their cost: a row per table type and query type, a column per moment."""

    answers: Mapping[tuple[str, str, str], Answer]  # by moment, table type and query type
    column: str  # of the answers' rows

    @property
    def moments(self) -> list[str]:
        """The moments, in order."""
        return list(dict.fromkeys(moment for moment, _, _ in self.answers))

    @property
    def queries(self) -> list[tuple[str, str]]:
        """The table type and query type of each row."""
        return list(dict.fromkeys((kind, query) for _, kind, query in self.answers))

    def answers_of(self, kind: str) -> dict[str, list]:
        """Return the results by query type, moment by moment, for one table type."""
        return {
            query: [self.answers[moment, kind, query].row[self.column] for moment in self.moments]
            for of, query in self.queries
            if of == kind
        }

    def frame(self, what: str = "") -> pd.DataFrame:
        """Return the grid as a table of the results, or of their `base`, `logs` or `bytes`."""
        rows = [
            [
                getattr(found, what) if what else found.row[self.column]
                for found in (self.answers[moment, kind, query] for moment in self.moments)
            ]
            for kind, query in self.queries
        ]
        index = pd.MultiIndex.from_tuples(self.queries)
        return pd.DataFrame(rows, index=index, columns=self.moments)

    def __repr__(self) -> str:
        return f"{self.frame().to_string()}\n{self.frame('bytes').to_string()}"

    def _repr_html_(self) -> str:
        most = max(answer.bytes for answer in self.answers.values()) or 1
        rows = [shown.heading("", span=2) + "".join(map(shown.heading, self.moments))]
        for kind, query in self.queries:
            row = shown.cell(f"<b>{escape(kind.upper())}</b>", "left")
            row += shown.cell(f"<b>{escape(query)}</b>", "left")
            answers = (self.answers[moment, kind, query] for moment in self.moments)
            rows.append(row + "".join(_cell(found, self.column, most) for found in answers))
        note = (
            f"Each cell: {self.column} by that query, the files that it read, and their bytes. "
            "The more bytes, the stronger the colour."
        )
        return shown.table(rows, note)


def _cell(answer: Answer, column: str, most: int) -> str:
    value = f"<b style='font-size:120%'>{escape(str(answer.row[column]))}</b>"
    cost = f"{answer.files}, {size_text(answer.bytes)}"
    return shown.cell(f"{value}<br><small>{escape(cost)}</small>", "center", answer.bytes / most)


def draw_totals(totals: pd.DataFrame) -> str:
    """Draw the sum of all amounts at each moment (row) for both query types (columns)."""
    figure, axes = new_chart("What each query says is the sum of all amounts", "", "", 6.8, 2.6)
    lines = {
        "snapshot": (BLUE, "-", "snapshot: what was committed"),
        "read_optimized": (VERMILION, "--", "read-optimised"),
    }
    for query, (colour, dashes, label) in lines.items():
        sums = [*map(float, totals[query]), float(totals[query].iloc[-1])]
        places = range(len(sums))
        axes.step(places, sums, dashes, where="post", color=colour, linewidth=2.5, label=label)
    levels = sorted(set(totals.to_numpy().flat))
    axes.set_yticks([float(level) for level in levels], [f"{level:,}" for level in levels])
    axes.set_xticks([at + 0.5 for at in range(len(totals))], list(totals.index))
    axes.margins(y=0.25)
    axes.legend(loc="upper left")
    return svg(figure)
