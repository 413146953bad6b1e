"""What operations wrote to the files of two tables, as a table whose colour is the bytes written.

Made from X-rays alone: each picture is compared with the one before it (`since`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from math import log

import pandas as pd

from lab_env.display import guesses as shown
from lab_env.display.text import size_text
from lab_env.hudi.model import Snapshot

HEADINGS = {"cow": "Copy-on-Write", "mor": "Merge-on-Read"}
PARTS = ("base", "log", "metadata", "timeline")
FAINTEST = 1_000  # bytes that get the palest colour; the scale is logarithmic


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
        given = self.guesses.get(kind, {})
        return {op: shown.mark(given.get(op, ...), made) for op, made in self.files(kind).items()}

    def score(self) -> str:
        """How many guesses were right, or nothing when there is none."""
        return shown.score(mark for kind in HEADINGS for mark in self.marks(kind).values())

    def __repr__(self) -> str:
        table = self.frame()
        for kind in HEADINGS:
            if any(self.marks(kind).values()):
                table[kind, "you said"] = pd.Series(self.marks(kind))
        return "\n".join(filter(None, [table.to_string(), self.score()]))

    def _repr_html_(self) -> str:
        sizes = self.frame()
        hottest = max(sizes.to_numpy().max(), 10 * FAINTEST)
        guessed = {kind: any(self.marks(kind).values()) for kind in HEADINGS}
        top, names = shown.heading(""), shown.heading("")
        for kind, name in HEADINGS.items():
            columns = [*PARTS, "you said"] if guessed[kind] else PARTS
            top += shown.heading(name, span=len(columns))
            names += "".join(shown.heading(column, "right") for column in columns)
        rows = [top, names]
        for operation in self.operations:
            row = shown.cell(f"<b>{escape(operation)}</b>", "left")
            for kind in HEADINGS:
                for part in PARTS:
                    heat = _heat(sizes.at[operation, (kind, part)], hottest)
                    row += shown.cell(escape(self._text(operation, kind, part)), heat=heat)
                if guessed[kind]:
                    row += shown.cell(escape(self.marks(kind)[operation]), "left")
            rows.append(row)
        note = "“38 KB in 2”: 38 KB in two new objects. The more bytes, the stronger the colour."
        return shown.table(rows, note, self.score())

    def _text(self, operation: str, kind: str, part: str) -> str:
        """Size and number of the new objects in one part."""
        new = new_objects(self.pictures[operation, kind])
        found = new.loc[new["part"] == part, "bytes"]
        return f"{size_text(found.sum())} in {len(found)}" if len(found) else "·"


def _heat(size: int, hottest: int) -> float | None:
    """From 0 to 1, growing with the logarithm of the bytes; None when there are none."""
    return log(max(size, FAINTEST) / FAINTEST) / log(hottest / FAINTEST) if size else None
