"""Shows which files a write searched for its rows, as counts and as a grid.

A Parquet file is read from its end: one request for the last eight bytes, which contain the
footer's length, and one for the footer. Any other request reads rows.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd
from matplotlib.patches import Rectangle

from lab_env.lab.handle import Lab
from lab_env.platform import store
from lab_env.platform.display.chart import INK, new_panels, svg
from lab_env.platform.display.palette import AMBER, GREY, SKY
from lab_env.tables.hudi.table import Snapshot
from lab_env.tables.probes.reads import Reads, watch

FOOTER_PLACES = 2
LABELS = {"rewritten": "rewritten", "rows": "rows read", "footer": "footer read", "none": "–"}
# From dark to light as the work gets less; black letters read well on each.
FILLS = {"rewritten": AMBER, "rows": SKY, "footer": "#CFE8F7", "none": "none"}


@dataclass
class Lookup:
    """One write, and the files that it searched for its rows."""

    picture: Snapshot | None = None  # the table after the write; `since` is the one before
    reads: Reads = field(default_factory=Reads)
    seconds: float = 0.0

    @property
    def after(self) -> Snapshot:
        """The table after the write."""
        assert self.picture
        return self.picture

    @property
    def before(self) -> Snapshot:
        """The table before the write."""
        assert self.after.since
        return self.after.since

    @cached_property
    def files(self) -> pd.DataFrame:
        """One row per file that was current before the write.

        Columns: partition, group, bytes (read from the file) and found: `rewritten`, `rows` (some
        rows were read), `footer` (only the footer was read) or `none` (not opened). In each table
        partition, the files with the most work come first.
        """
        read = self.reads.frame()
        prefix = store.key_of(self.after.path)
        renewed = {(file.partition, file.group) for file in self.after.new_files}
        rows = []
        for base in (found.base for found in self.before.current if found.base):
            key = f"{prefix}/{base.key}"
            places, size = read.loc[key] if key in read.index else (0, 0)
            found = "rows" if places > FOOTER_PLACES else "footer" if places else "none"
            if (base.partition, base.group) in renewed:
                found = "rewritten"
            rows.append((base.partition, base.group, int(size), found))
        rows.sort(key=lambda row: (row[0], list(LABELS).index(row[3])))
        return pd.DataFrame(rows, columns=["partition", "group", "bytes", "found"])

    @property
    def figures(self) -> dict[str, int]:
        """The number of data files that the write opened, read beyond the footer, and rewrote.

        Also the number of metadata files that it read and wrote.
        """
        count = self.files["found"].value_counts()
        opened = int((self.files["found"] != "none").sum())
        written = self.after - self.before
        return {
            "files opened": opened,
            "rows read in": opened - int(count.get("footer", 0)),
            "rewritten": int(count.get("rewritten", 0)),
            "metadata files read": int(
                self.reads.frame().index.str.contains("/.hoodie/metadata/", regex=False).sum()
            ),
            "metadata files written": int(
                ((written["part"] == "metadata") & (written["change"] == "new")).sum()
            ),
        }


@contextmanager
def watch_lookup(lab: Lab, path: str) -> Generator[Lookup]:
    """Record which files the write in the body searches for its rows."""
    found = Lookup()
    before = lab.xray(path)
    began = time.perf_counter()
    with watch(lab) as found.reads:
        yield found
    found.seconds = time.perf_counter() - began
    found.picture = lab.xray(path, since=before)


def metadata_parts(table: Snapshot) -> pd.Series:
    """Return the number of objects in each partition of a table's metadata table."""
    names = table.frame().query("part == 'metadata'")["name"]
    parts = names.str.extract(r"\.hoodie/metadata/([a-z_]+)/")[0].dropna()
    return parts.value_counts().sort_index().rename("objects").rename_axis("part")


def lookup_table(lookups: dict[str, Lookup]) -> pd.DataFrame:
    """Return the `figures` of several writes, one row per write."""
    return pd.DataFrame({name: lookup.figures for name, lookup in lookups.items()}).T


def lookup_chart(lookups: dict[str, Lookup]) -> str:
    """Draw a grid with one row per write and one cell per file, and each write's duration."""
    figure, (grid, times) = new_panels(
        ["what the write did with each file", "seconds"], width=8.4, height=0.6 + 0.5 * len(lookups)
    )
    for line, lookup in enumerate(lookups.values()):
        for column, file in enumerate(lookup.files.itertuples()):
            place = (column + 0.04 - 0.5, line - 0.42)
            fill = FILLS[file.found]
            grid.add_patch(Rectangle(place, 0.92, 0.84, fc=fill, ec=INK, lw=0.4))
            label = LABELS[file.found].replace(" ", "\n")
            colour = INK if file.found == "none" else "black"
            grid.text(column, line, label, ha="center", va="center", fontsize=7.5, color=colour)
    partitions = [file.partition.rpartition("=")[2] for file in lookup.files.itertuples()]
    middles = {
        name: (partitions.index(name) + len(partitions) - 1 - partitions[::-1].index(name)) / 2
        for name in partitions
    }
    grid.set_xlim(-0.6, len(partitions) - 0.4)
    grid.set_xticks(list(middles.values()), list(middles))
    grid.set_yticks(range(len(lookups)), list(lookups))
    grid.set_ylim(len(lookups) - 0.5, -0.5)
    grid.grid(False)
    times.barh(range(len(lookups)), [found.seconds for found in lookups.values()], color=GREY)
    for axes in (grid, times):
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    grid.get_gridspec().set_width_ratios([4, 1])
    return svg(figure)
