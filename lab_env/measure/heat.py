"""What operations wrote to the files of two tables, as a table whose colour is the bytes written.

Made from X-rays alone: each picture is compared with the one before it (`since`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from math import log

import pandas as pd

from lab_env.palette import AMBER
from lab_env.xray import Snapshot
from lab_env.xray.names import size_text

HEADINGS = {"cow": "Copy-on-Write", "mor": "Merge-on-Read"}
PARTS = ("base", "log", "metadata", "timeline")
HEAT = ", ".join(str(part) for part in bytes.fromhex(AMBER.removeprefix("#")))  # red, green, blue
FAINTEST = 1_000  # bytes that get the palest colour; the scale is logarithmic
CELL = "padding:4px 9px;text-align:{};border-bottom:1px solid var(--jp-border-color2,#ccc)"


def new_objects(picture: Snapshot) -> pd.DataFrame:
    """The objects that a picture has and the one before it had not.

    Args:
        picture: an X-ray; without `since` everything in it is new.

    Returns:
        The new rows of `Snapshot.frame()`: part, name, bytes and so on.
    """
    if picture.since is None:
        return picture.frame()
    change = picture - picture.since
    return change[change["change"] == "new"].drop(columns="change")


def data_files(picture: Snapshot) -> str:
    """Which kinds of data file are new: `base`, `log`, `base and log`, or `none`."""
    parts = set(new_objects(picture)["part"])
    return " and ".join(kind for kind in ("base", "log") if kind in parts) or "none"


@dataclass(frozen=True, repr=False)
class WriteHeat:
    """Operations as rows, the parts of each table as columns, bytes written as heat.

    Args:
        pictures: an X-ray of each operation and table type (`cow` or `mor`), taken after the
            operation, with `since` the one before it.
        guesses: for each table type what the learner expects of each operation, in the words of
            `data_files`; `...` is no guess.
    """

    pictures: Mapping[tuple[str, str], Snapshot]
    guesses: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    @property
    def operations(self) -> list[str]:
        """The operations, in the order in which they ran."""
        return list(dict.fromkeys(operation for operation, _ in self.pictures))

    def files(self, kind: str) -> dict[str, str]:
        """Which data files each operation made in a table, in the words of `data_files`.

        Args:
            kind: `cow` or `mor`.
        """
        return {op: data_files(self.pictures[op, kind]) for op in self.operations}

    def frame(self) -> pd.DataFrame:
        """Bytes of the new objects: a row each operation, columns by table type and part."""
        rows = {}
        for operation in self.operations:
            row = {}
            for kind in HEADINGS:
                new = new_objects(self.pictures[operation, kind])
                by_part = new.groupby("part")["bytes"].sum()
                row |= {(kind, part): int(by_part.get(part, 0)) for part in PARTS}
            rows[operation] = row
        return pd.DataFrame.from_dict(rows, orient="index")

    def marks(self, kind: str) -> dict[str, str]:
        """The learner's guesses, marked: `✓ log`, `✗ log`, or nothing where there is no guess.

        Args:
            kind: `cow` or `mor`.
        """
        given, marked = self.guesses.get(kind, {}), {}
        for operation, truth in self.files(kind).items():
            guess = given.get(operation, ...)
            right = guess is not ... and str(guess).strip().casefold() == truth
            marked[operation] = "" if guess is ... else f"{'✓' if right else '✗'} {guess}"
        return marked

    def score(self) -> str:
        """How many guesses were right, or nothing when there is none."""
        marks = [mark for kind in HEADINGS for mark in self.marks(kind).values() if mark]
        right = sum(mark.startswith("✓") for mark in marks)
        return f"You guessed {right} of {len(marks)} right." if marks else ""

    def __repr__(self) -> str:
        table = self.frame()
        for kind in HEADINGS:
            if any(self.marks(kind).values()):
                table[kind, "you said"] = pd.Series(self.marks(kind))
        return "\n".join(filter(None, [table.to_string(), self.score()]))

    def _repr_html_(self) -> str:
        table = self.frame()
        hottest = max(table.to_numpy().max(), 10 * FAINTEST)
        guessed = {kind: any(self.marks(kind).values()) for kind in HEADINGS}
        top = "".join(
            f"<th colspan='{len(PARTS) + guessed[kind]}' style='{CELL.format('center')}'>{name}</th>"
            for kind, name in HEADINGS.items()
        )
        names = "".join(
            f"<th style='{CELL.format('right')}'>{name}</th>"
            for kind in HEADINGS
            for name in [*PARTS, *(["you said"] if guessed[kind] else [])]
        )
        body = ""
        for operation in self.operations:
            body += f"<tr><td style='{CELL.format('left')}'><b>{escape(operation)}</b></td>"
            for kind in HEADINGS:
                for part in PARTS:
                    body += _cell(
                        self._text(operation, kind, part),
                        table.at[operation, (kind, part)],
                        hottest,
                    )
                if guessed[kind]:
                    mark = escape(self.marks(kind)[operation])
                    body += f"<td style='{CELL.format('left')};white-space:nowrap'>{mark}</td>"
            body += "</tr>"
        return (
            "<table style='border-collapse:collapse;background:none;"
            "color:var(--jp-content-font-color1,#222)'>"
            f"<tr><th></th>{top}</tr><tr><th></th>{names}</tr>{body}</table>"
            f"<div style='margin:4px 0'>“38 KB in 2”: 38 KB in two new objects. The more bytes, the stronger the colour. "
            f"<b>{self.score()}</b></div>"
        )

    def _text(self, operation: str, kind: str, part: str) -> str:
        """Size and number of the new objects in one part."""
        new = new_objects(self.pictures[operation, kind])
        found = new.loc[new["part"] == part, "bytes"]
        return f"{size_text(found.sum())} in {len(found)}" if len(found) else "·"


def _cell(text: str, size: int, hottest: int) -> str:
    """One cell; its colour grows with the logarithm of the bytes."""
    style = CELL.format("right") + ";white-space:nowrap"
    if size:
        heat = log(max(size, FAINTEST) / FAINTEST) / log(hottest / FAINTEST)
        style += f";background:rgba({HEAT}, {0.08 + 0.62 * heat:.2f})"
    return f"<td style='{style}'>{escape(text)}</td>"
