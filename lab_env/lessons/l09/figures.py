"""What queries answer, and which data files they read for it: a grid by query, table type and moment."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

import pandas as pd

from lab_env.display import guesses as shown
from lab_env.display.text import size_text
from lab_env.hudi.timeline import parse_data_name
from lab_env.lab import Lab
from lab_env.probes.inputs import InputBytes
from lab_env.probes.reads import watch


@dataclass(frozen=True)
class Answer:
    """What one query answered, and what its tasks read.

    Args:
        row: the answer, by the names of its columns.
        base: number of base files that were opened.
        logs: number of log files that were opened.
        bytes: input of the tasks, as the Spark UI shows it.
    """

    row: Mapping[str, object]
    base: int
    logs: int
    bytes: int

    @property
    def files(self) -> str:
        """The files in words, for example `2 base + 1 log`."""
        return f"{self.base} base" + (f" + {self.logs} log" if self.logs else "")


def run_query(lab: Lab, question) -> Answer:
    """Run a query and note which data files its tasks read.

    Planning is not counted, only what the tasks do. The plan takes the files from the timeline, and the
    schema from the head of a file of the newest commit, which may be a log that no task reads.

    Args:
        lab: whose session; the reads of executors on a cluster are not seen.
        question: a Spark DataFrame of one row.

    Returns:
        The row, and what was read.
    """
    question._jdf.queryExecution().executedPlan()  # the table remembers what it has read for it
    with watch(lab) as reads, InputBytes(lab.spark, lab.base) as read:
        row = question.first()
    data = [key.rpartition("/")[2] for key in reads.frame().index if "/.hoodie/" not in key]
    kinds = Counter(name.kind for name in map(parse_data_name, data) if name)
    return Answer(row.asDict(), kinds["base"], kinds["log"], read.bytes)


@dataclass(frozen=True, repr=False)
class QueryGrid:
    """A row for each table type and query type, a column for each moment: the answer, and its price.

    Args:
        answers: by moment, table type and query type.
        column: which column of the answers' rows the grid shows.
        guesses: for each table type and query type what the learner expects at each moment, in the
            order of the moments; `...` is no guess.
    """

    answers: Mapping[tuple[str, str, str], Answer]
    column: str
    guesses: Mapping[str, Mapping[str, list]] = field(default_factory=dict)

    @property
    def moments(self) -> list[str]:
        """The moments, in the order in which they came."""
        return list(dict.fromkeys(moment for moment, _, _ in self.answers))

    @property
    def queries(self) -> list[tuple[str, str]]:
        """Table type and query type of each row."""
        return list(dict.fromkeys((kind, query) for _, kind, query in self.answers))

    def told(self, kind: str) -> dict[str, list]:
        """What each query type answered on one table type, moment by moment.

        Args:
            kind: the table type.
        """
        return {
            query: [self.answers[moment, kind, query].row[self.column] for moment in self.moments]
            for of, query in self.queries
            if of == kind
        }

    def marks(self, kind: str, query: str) -> list[str]:
        """The learner's guesses for one row, marked as `guesses.mark` does."""
        given = list(self.guesses.get(kind, {}).get(query, ()))
        told = self.told(kind)[query]
        given += [...] * (len(told) - len(given))
        return [shown.mark(guess, truth) for guess, truth in zip(given, told, strict=False)]

    def score(self) -> str:
        """How many guesses were right, or nothing when there is none."""
        return shown.score(mark for row in self.queries for mark in self.marks(*row))

    def frame(self, what: str = "") -> pd.DataFrame:
        """The grid as a table, moments as columns.

        Args:
            what: `base`, `logs` or `bytes`; the answers when not given.
        """
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
        lines = [self.frame().to_string(), self.frame("bytes").to_string()]
        lines += [
            f"{kind} {query}: {', '.join(self.marks(kind, query))}" for kind, query in self.queries
        ]
        return "\n".join([*lines, self.score()])

    def _repr_html_(self) -> str:
        most = max(answer.bytes for answer in self.answers.values()) or 1
        rows = [shown.heading("", span=2) + "".join(map(shown.heading, self.moments))]
        for kind, query in self.queries:
            row = shown.cell(f"<b>{escape(kind.upper())}</b>", "left")
            row += shown.cell(f"<b>{escape(query)}</b>", "left")
            for moment, mark in zip(self.moments, self.marks(kind, query), strict=True):
                row += _cell(self.answers[moment, kind, query], self.column, mark, most)
            rows.append(row)
        guess = " your guess," if self.score() else ""
        note = (
            f"Each cell: {self.column} by that query,{guess} the files that it read and their bytes. "
            "The more bytes, the stronger the colour."
        )
        return shown.table(rows, note, self.score())


def _cell(answer: Answer, column: str, mark: str, most: int) -> str:
    """One cell of the grid; its colour grows with the bytes read."""
    told = f"<b style='font-size:120%'>{escape(str(answer.row[column]))}</b>"
    if mark:
        told += f"&emsp;{escape(mark)}"
    price = f"{answer.files}, {size_text(answer.bytes)}"
    return shown.cell(f"{told}<br><small>{escape(price)}</small>", "center", answer.bytes / most)
