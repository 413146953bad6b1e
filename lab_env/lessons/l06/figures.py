"""Draws the costs of compaction: writes, the queries after them, and when compactions ran."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd
from matplotlib.ticker import MaxNLocator

from lab_env.platform.display.chart import INK, new_panels, svg
from lab_env.platform.store import StoredObject
from lab_env.tables.hudi.table import Snapshot
from lab_env.tables.hudi.timeline import parse_timeline_key, to_seconds
from lab_env.tables.xray.colours import ACTION, FILE

# The X-ray's colours of log and base files, and of a compaction.
LOG, BASE, PAID = FILE["log"], FILE["base"], ACTION["compaction"]
KB = 1024


@dataclass(frozen=True)
class Step:
    """A write and the query after it; times are seconds since 1970."""

    batch: int  # number of the write
    began: float  # when the write was called
    ended: float  # when the call returned; then the query was asked
    answered: float  # when the query had its answer
    bytes_read: int  # by the query
    answer: object
    table: Snapshot  # after the write; its `since` is the table before

    @property
    def logs(self) -> int:
        """The largest number of logs in a current file slice."""
        return max(len(found.logs) for found in self.table.current)

    @property
    def compacted(self) -> bool:
        """True if a compaction was completed since the previous X-ray."""
        known = self.table.since.instants if self.table.since else ()
        return any(
            instant.action == "compaction" and instant.completed and instant not in known
            for instant in self.table.instants
        )

    def written(self, kind: str) -> int:
        """Return the bytes of the new files of one kind, `base` or `log`."""
        files = self.table.new_files if self.table.since else self.table.files
        return sum(file.size for file in files if file.kind == kind)


def as_table(steps: Iterable[Step]) -> pd.DataFrame:
    """Return the steps as a table by batch; `compacted` is omitted if no write compacted."""
    rows = [
        {
            "batch": step.batch,
            "logs": step.logs,
            "KB read by query": round(step.bytes_read / KB),
            "KB log written": round(step.written("log") / KB),
            "KB base written": round(step.written("base") / KB),
            "s to write": round(step.ended - step.began, 1),
            "s to query": round(step.answered - step.ended, 1),
            "compacted": "yes" if step.compacted else "",
        }
        for step in steps
    ]
    table = pd.DataFrame(rows).set_index("batch")
    return table if table["compacted"].any() else table.drop(columns="compacted")


def draw_costs(runs: Mapping[str, list[Step]]) -> str:
    """Draw three charts for each run: bytes read by the query, bytes written, and times.

    The first write's time is omitted, because it includes the session's start.
    """
    rows = ("KB read\nby the query", "KB written\nby the write", "seconds")
    titles = [name if row == rows[0] else "" for row in rows for name in runs]
    figure, panels = new_panels(titles, rows=3, width=4.4 * len(runs), height=6.0)
    for column, steps in enumerate(runs.values()):
        read, wrote, took = panels[column :: len(runs)]
        _draw_read(read, steps)
        _draw_written(wrote, steps)
        _draw_times(took, steps[1:])
        took.set_xlabel("write")
        took.xaxis.set_major_locator(MaxNLocator(integer=True))
    for row, label in enumerate(rows):
        panels[row * len(runs)].set_ylabel(label)
    return svg(figure)


def _draw_read(axes, steps: list[Step]) -> None:
    read = {step.batch: step.bytes_read / KB for step in steps}
    axes.plot(list(read), list(read.values()), color=INK, linewidth=1)
    for step in steps:
        colour = PAID if step.compacted else BASE
        axes.plot(step.batch, read[step.batch], "o", color=colour, markersize=7)
    axes.set_ylim(bottom=0)


def _draw_written(axes, steps: list[Step]) -> None:
    logs = {step.batch: step.written("log") / KB for step in steps}
    axes.bar(list(logs), list(logs.values()), color=LOG, label="log file")
    labels = {False: (BASE, "base file"), True: (PAID, "base file by compaction")}
    for compacted, (colour, label) in labels.items():
        chosen = [step for step in steps if step.compacted == compacted and step.written("base")]
        if chosen:
            batches = [step.batch for step in chosen]
            sizes = [step.written("base") / KB for step in chosen]
            below = [logs[batch] for batch in batches]
            axes.bar(batches, sizes, bottom=below, color=colour, label=label)
    axes.margins(y=0.6)  # room for the legend
    axes.legend(fontsize=8, ncols=3, loc="upper center")


def _draw_times(axes, steps: list[Step]) -> None:
    for step in steps:
        axes.bar(step.batch, step.ended - step.began, color=PAID if step.compacted else LOG)
    seconds = [step.answered - step.ended for step in steps]
    axes.plot([step.batch for step in steps], seconds, "o-", color=INK, markersize=4, label="query")
    axes.margins(y=0.3)
    axes.legend(fontsize=8, loc="upper right")


@dataclass(frozen=True)
class Compaction:
    """The times of one compaction, in seconds since 1970."""

    planned: float  # its requested time, when its plan was made
    began: float | None  # when its execution began; None while the plan waits
    ended: float | None  # when it was complete; None before


def compactions_of(objects: Iterable[StoredObject]) -> list[Compaction]:
    """Return the compactions on a table's timeline, sorted by requested time.

    No file name contains the start of an execution; it is the `.inflight` file's modification time.
    """
    planned, began, ended = set(), {}, {}
    for found in objects:
        instant = parse_timeline_key(found.key)
        if instant is None:
            continue
        if instant.action == "compaction" and instant.state == "requested":
            planned.add(instant.requested)
        elif instant.action == "compaction":
            began[instant.requested] = found.modified.timestamp()
        elif instant.action == "commit" and instant.completed:
            ended[instant.requested] = to_seconds(instant.completed)
    return [
        Compaction(to_seconds(at), began.get(at), ended.get(at) if at in began else None)
        for at in sorted(planned)
    ]


@dataclass(frozen=True)
class Work:
    """A period in which the writer worked: one write, or one batch of a stream."""

    label: str  # text in its bar
    began: float  # seconds since 1970, like `ended`
    ended: float


def batches_of(progress: Iterable[dict]) -> list[Work]:
    """Return the batches in a `recentProgress` that read rows."""
    work = []
    for batch in progress:
        if batch["numInputRows"]:
            began = pd.Timestamp(batch["timestamp"]).timestamp()
            took = batch["durationMs"]["triggerExecution"] / 1000
            work.append(Work(str(batch["batchId"]), began, began + took))
    return work


def during(works: Iterable[Work], compaction: Compaction) -> list[str]:
    """Return the labels of the writes that overlapped with a compaction."""
    began, ended = compaction.began, compaction.ended
    if began is None or ended is None:
        return []
    return [work.label for work in works if work.began < ended and began < work.ended]


def draw_lanes(runs: Mapping[str, tuple[list[Work], list[Compaction]]]) -> str:
    """Draw two lanes for each run: the writer's work, and the compactions.

    A small triangle marks the time of a compaction plan.
    """
    figure, panels = new_panels(list(runs), width=9.0, height=1.7)
    for axes, (works, compactions) in zip(panels, runs.values(), strict=True):
        began = [work.began for work in works] + [found.planned for found in compactions]
        zero = min(began, default=0)
        for work in works:
            axes.barh(0, work.ended - work.began, 0.6, left=work.began - zero, color=LOG)
            middle = (work.began + work.ended) / 2 - zero
            axes.text(middle, 0, work.label, ha="center", va="center", fontsize=8, color="white")
        for found in compactions:
            axes.plot(found.planned - zero, 0.42, "v", color=PAID, markersize=6)
            if found.began and found.ended:
                width = found.ended - found.began
                axes.barh(1, width, 0.6, left=found.began - zero, color=PAID)
        axes.set_yticks([0, 1], ["writes", "compaction"])
        axes.set_ylim(1.6, -0.6)
        axes.set_xlabel("seconds")
    return svg(figure)
