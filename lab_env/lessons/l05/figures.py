"""Figures of lesson 05: bytes written by each operation, bytes by changed rows.

The bytes of an operation are the difference between the X-ray taken after it and the previous one
(`since`).
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from math import log

import pandas as pd
import pyarrow.parquet as pq

from lab_env.platform import store
from lab_env.platform.display import heat as shown
from lab_env.platform.display.chart import COLOURS, NAMES, new_chart, svg
from lab_env.platform.display.units import size_text
from lab_env.tables.hudi.table import Snapshot

HEADINGS = {"COPY_ON_WRITE": "Copy-on-Write", "MERGE_ON_READ": "Merge-on-Read"}
COLOUR_OF = {"COPY_ON_WRITE": "cow", "MERGE_ON_READ": "mor"}  # of every chart of the course
PARTS = ("base", "log", "metadata", "timeline")
FAINTEST = 1_000  # bytes that get the palest colour; the scale is logarithmic


def new_objects(picture: Snapshot) -> pd.DataFrame:
    """Return the rows of `frame()` that are new since the previous X-ray; all if there is none."""
    if picture.since is None:
        return picture.frame()
    change = picture - picture.since
    return change[change["change"] == "new"].drop(columns="change")


def data_files(picture: Snapshot) -> str:
    """Return the kinds of new data files: `base`, `log`, `base and log`, or `none`."""
    parts = set(new_objects(picture)["part"])
    return " and ".join(kind for kind in ("base", "log") if kind in parts) or "none"


def footer_of(lab, path: str) -> dict[str, str]:
    """Return the entries of a Parquet file's footer, with their sizes."""
    content = io.BytesIO(store.read(lab.endpoints, store.key_of(path)))
    entries = pq.read_metadata(content).metadata
    return {name.decode(): f"{len(value):,} bytes" for name, value in entries.items()}


@dataclass(frozen=True, repr=False)
class WriteHeat:
    """A heat map of bytes written: operations as rows, the parts of each table as columns.

    Args:
        pictures: the X-ray taken after each operation, by operation and table type
            (`COPY_ON_WRITE` or `MERGE_ON_READ`); its `since` is the previous X-ray.
    """

    pictures: Mapping[tuple[str, str], Snapshot]

    @property
    def operations(self) -> list[str]:
        """The operations, in the order in which they ran."""
        return list(dict.fromkeys(operation for operation, _ in self.pictures))

    def files(self, kind: str) -> dict[str, str]:
        """Return the kinds of data files that each operation created, for one table type."""
        return {op: data_files(self.pictures[op, kind]) for op in self.operations}

    def frame(self) -> pd.DataFrame:
        """Return the bytes of the new objects: a row per operation, columns by type and part."""
        rows = {}
        for operation in self.operations:
            rows[operation] = {
                (kind, part): int(size)
                for kind in HEADINGS
                for part, size in self._parts(operation, kind)["bytes"].items()
            }
        return pd.DataFrame.from_dict(rows, orient="index")

    def rows(self) -> pd.DataFrame:
        """Return how many rows each commit changed and wrote, by table type; omit compactions."""
        counts = {}
        for kind in HEADINGS:
            for operation in self.operations:
                if operation == "compaction":
                    continue
                write = self.pictures[operation, kind].commit()
                changed = write.inserted + write.updated + write.deleted
                counts[kind, operation] = {"changed": changed, "written": write.records_written}
        return pd.DataFrame(counts).T

    def __repr__(self) -> str:
        return self.frame().to_string()

    def _repr_html_(self) -> str:
        sizes = self.frame()
        hottest = max(sizes.to_numpy().max(), 10 * FAINTEST)
        top, names = shown.heading(""), shown.heading("")
        for name in HEADINGS.values():
            top += shown.heading(name, span=len(PARTS))
            names += "".join(shown.heading(part, "right") for part in PARTS)
        rows = [top, names]
        for operation in self.operations:
            row = shown.cell(f"<b>{escape(operation)}</b>", "left")
            for kind in HEADINGS:
                for size, objects in self._parts(operation, kind).itertuples(index=False):
                    text = f"{size_text(size)} in {objects}" if objects else "·"
                    row += shown.cell(text, heat=_heat(size, hottest))
            rows.append(row)
        note = "“38 KB in 2”: 38 KB in two new objects. The more bytes, the stronger the colour."
        return shown.table(rows, note)

    def _parts(self, operation: str, kind: str) -> pd.DataFrame:
        """Return the bytes and the number of new objects in each of `PARTS`."""
        new = new_objects(self.pictures[operation, kind]).groupby("part")["bytes"]
        return new.agg(bytes="sum", objects="count").reindex(list(PARTS), fill_value=0)


def _heat(size: int, hottest: int) -> float | None:
    """Map a size to a logarithmic scale from 0 to 1; None for 0 bytes."""
    return log(max(size, FAINTEST) / FAINTEST) / log(hottest / FAINTEST) if size else None


def draw_sweep(sweep: pd.DataFrame) -> str:
    """Draw the bytes that an upsert writes to each table type, by number of changed orders."""
    figure, axes = new_chart(
        "One upsert into a file of 1,000 orders", "orders changed", "bytes written"
    )
    for kind, name in COLOUR_OF.items():
        axes.plot(sweep.index, sweep[kind], "o-", color=COLOURS[name], label=NAMES[name])
    axes.set(xscale="log", yscale="log")
    axes.legend()
    return svg(figure)
