"""Lesson 11's measurements and drawings: cost of queries, bookmarks, deliveries of two runs.

Rows have their commit's requested time in `_hoodie_commit_time`. The drawing's axis shows requested
and completion times in sequence, not to scale.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from lab_env.platform import store
from lab_env.platform.display.chart import INK, new_panels, svg
from lab_env.platform.display.palette import BLUE, GREY, VERMILION
from lab_env.tables.hudi.timeline import Instant
from lab_env.tables.probes.scans import rows_and_files_read

FIRST, SECOND, TWICE = GREY, BLUE, VERMILION
KEY = "order_id"
COMMIT = "_hoodie_commit_time"
NOTE = "bookmark.orders"
BEGINNING = "000"


def cost_of(queries: Mapping) -> pd.DataFrame:
    """Run queries; count for each the `rows` returned and the `files read` by its scans."""
    cost = {}
    for name, query in queries.items():
        rows, files = rows_and_files_read(query)
        cost[name] = {"rows": len(rows), "files read": files}
    return pd.DataFrame(cost).T


def kept_bookmark(lab, path: str) -> str:
    """Return the bookmark stored in the newest commit that has one; `000` if there is none.

    Later commits may lack it: a clustering does not store the job's bookmark. The table need not
    exist yet.
    """
    if not lab.files(path):
        return BEGINNING
    table = lab.xray(path)
    for write in reversed((*table.history, *table.instants)):
        if write.writes and write.completed:
            kept = table.commit(write.requested).extra.get(NOTE)
            if kept:
                return kept
    return BEGINNING


def stream_offsets(lab, checkpoint: str) -> list[str]:
    """Return the offsets of a stream on a Hudi table, from its checkpoint, as completion times."""
    s3, bucket = store.client(lab.endpoints), lab.endpoints.bucket
    ends = []
    for found in lab.files(f"{checkpoint}/offsets"):
        text = s3.get_object(Bucket=bucket, Key=found.key)["Body"].read().decode()
        lines = [line for line in text.splitlines() if '"offsetCommitTime"' in line]
        ends += [json.loads(line)["offsetCommitTime"] for line in lines]
    return sorted(ends)


@dataclass(frozen=True)
class Deliveries:
    """The rows that two runs of one reader delivered, with `order_id` and `_hoodie_commit_time`."""

    bookmark: str  # begin of the second run's window, an instant time
    first: pd.DataFrame
    second: pd.DataFrame

    def counts(self, instants: Iterable[Instant]) -> pd.DataFrame:
        """Count each commit's rows delivered by only the first, only the second, or both runs."""
        runs = self.first, self.second
        first, second = (set(map(tuple, run[[COMMIT, KEY]].to_numpy())) for run in runs)
        rows = {
            instant.requested: [
                sum(commit == instant.requested for commit, _ in rows)
                for rows in (first - second, second - first, first & second)
            ]
            for instant in instants
            if instant.writes
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=["first", "second", "twice"])


def draw_deliveries(instants: Iterable[Instant], readers: Mapping[str, Deliveries]) -> str:
    """Draw each reader's commits as bars from request to completion, and the bookmark as a line.

    All instants must be complete. Commits that the second run delivered again are red.
    """
    commits = [instant for instant in instants if instant.writes]
    moments = sorted({time for commit in commits for time in (commit.requested, commit.completed)})
    figure, panels = new_panels(list(readers), width=9.6, height=1.3 + 0.42 * len(commits))
    for axes, reader in zip(panels, readers.values(), strict=True):
        counts = reader.counts(commits)
        for row, commit in enumerate(commits):
            left, right = moments.index(commit.requested), moments.index(commit.completed)
            label, colour = _label(counts.loc[commit.requested])
            axes.barh(row, right - left, 0.55, left=left, color=colour)
            axes.text(len(moments) - 0.3, row, label, va="center", fontsize=9, color=INK)
        axes.axvline(_position(reader.bookmark, moments), color=INK, linewidth=1.6, linestyle="--")
        axes.set_yticks(range(len(commits)), [f"commit {n}" for n in range(1, len(commits) + 1)])
        axes.set_ylim(len(commits) - 0.4, -0.6)
        axes.set_xlim(-0.5, len(moments) + 4.2)
        axes.set_xticks([])
        axes.grid(False)
        axes.set_xlabel("time, not to scale; - - bookmark of the second run")
    return svg(figure)


def _label(counts: pd.Series) -> tuple[str, str]:
    """Return the text next to a commit's bar, and the bar's colour."""
    if counts["twice"]:
        return f"{counts['twice']} rows twice", TWICE
    if counts["second"]:
        return f"{counts['second']} by the second run", SECOND
    if counts["first"]:
        return f"{counts['first']:,} by the first run", FIRST
    return "no row", FIRST


def _position(time: str, moments: list[str]) -> float:
    """Return a time's index among the moments; halfway between two if it is not one of them."""
    if time in moments:
        return moments.index(time)
    return sum(moment < time for moment in moments) - 0.5
