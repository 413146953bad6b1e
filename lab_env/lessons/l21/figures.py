"""Draws lesson 21's processes, each core's tasks over time, and the fitted batch times."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd
import psutil
from matplotlib.patches import Patch

from lab_env.lessons.l21.batches import Batch
from lab_env.lessons.l21.capacity import Fitted
from lab_env.lessons.l21.tasks import MANY, SparkPages
from lab_env.platform import services
from lab_env.platform.display.chart import INK, new_chart, new_panels, svg
from lab_env.platform.display.palette import AMBER, BLUE, GREEN, GREY, SKY, VERMILION
from lab_env.platform.processes import supervisor

READS, WRITES, OTHER = "reads and parses", "combines and writes", "bookkeeping"
COLOUR_OF = {READS: BLUE, WRITES: GREEN, OTHER: GREY}
LOST = "lost with its executor"
BOX, GAP, TOP = (190, 46), (40, 22), 10  # pixels: of a process, between two, above the first

CORE_COUNTS = np.unique(np.geomspace(1, 64, 60).round(1))


@dataclass(frozen=True)
class ProcessBox:
    """One process in the drawing."""

    name: str
    does: str
    pid: int
    column: int  # 0 for processes that start others, 1 for those that they have started
    jvm: bool
    megabytes: int  # resident memory, MiB


def processes(spark) -> list[ProcessBox]:
    """Return the processes of a session on the lab's cluster, children after their parents."""
    pages, cluster = SparkPages(spark), services.Cluster()
    kernel = psutil.Process()
    driver = next(child for child in kernel.children() if "java" in child.name())
    master = supervisor.processes_of(cluster.name)[0]
    found = [
        _box("this notebook", "your Python code", kernel.pid, 0, jvm=False),
        _box("driver", "plans, commits, hands out tasks", driver.pid, 1),
        _box("master", "gives workers to applications", master.pid, 0),
    ]
    for worker in cluster.workers():
        found.append(_box(f"worker {worker.number}", "starts executors", worker.pid, 0))
        for (application, executor), pid in worker.executors.items():
            if application == pages.application:
                found.append(_box(f"executor {executor}", "runs tasks, one at a time", pid, 1))
    return found


def _box(name: str, does: str, pid: int, column: int, jvm: bool = True) -> ProcessBox:
    memory = psutil.Process(pid).memory_info().rss // 2**20
    return ProcessBox(name, does, pid, column, jvm, memory)


def draw_processes(boxes: Sequence[ProcessBox]) -> str:
    """Draw the result of `processes` as SVG; a JVM has a blue frame."""
    width, height = BOX
    step, right = height + GAP[1], width + 2 * GAP[0]
    parts, row = [], -1
    for place, box in enumerate(boxes):
        child = box.column > 0
        row += not (child and place and boxes[place - 1].column == 0)
        x, y = (right if child else 0) + 1, TOP + row * step
        if child:
            middle = y + height / 2
            parts.append(f"<path d='M{width + 1} {middle}H{x}' stroke='{GREY}'/>")
        colour = BLUE if box.jvm else AMBER
        parts.append(
            f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='5' fill='none'"
            f" stroke='{colour}' stroke-width='1.6'/>"
            f"<text x='{x + 10}' y='{y + 19}' font-weight='bold'>{escape(box.name)}</text>"
            f"<text x='{x + width - 10}' y='{y + 19}' text-anchor='end' opacity='.75'>"
            f"{box.megabytes} MB</text>"
            f"<text x='{x + 10}' y='{y + 36}' font-size='12'>{escape(box.does)}</text>"
        )
    total = TOP + (row + 1) * step
    return (
        f"<svg viewBox='0 0 {right + width + 4} {total}' width='{right + width + 4}'"
        " style='max-width:100%' font-family='sans-serif' font-size='13'"
        " fill='var(--jp-content-font-color1, #333)'"
        f" xmlns='http://www.w3.org/2000/svg'>{''.join(parts)}</svg>"
    )


def kind_of(task) -> str:
    """Classify a task as `READS`, `WRITES` or `OTHER`."""
    if task.rows_read and not task.bytes_cached:
        return READS
    return WRITES if task.rows_fetched >= MANY else OTHER


def draw_tasks(runs: dict[str, pd.DataFrame]) -> str:
    """Draw each core's work over time: one row per executor, one bar per attempt of a task.

    A lost attempt is hatched in red. `runs` has results of `SparkPages.tasks` by title.
    """
    lanes = [max(1, tasks["executor"].nunique()) for tasks in runs.values()]
    height = 0.6 * len(runs) + 0.36 * sum(lanes) + 0.9
    figure, panels = new_panels(list(runs), rows=len(runs), width=8.0, height=height)
    shown: dict[str, str] = {}
    for axes, tasks in zip(panels, runs.values(), strict=True):
        names = sorted(tasks["executor"].unique(), key=lambda name: int(name))
        for task in tasks.itertuples():
            lane, lost = names.index(task.executor), task.status != "SUCCESS"
            label = LOST if lost else kind_of(task)
            colour = VERMILION if lost else COLOUR_OF[label]
            shown[label] = colour
            axes.barh(
                lane,
                max(task.end - task.start, 0.01),
                left=task.start,
                height=0.7,
                color="none" if lost else colour,
                edgecolor=colour if lost else INK,
                linewidth=1.2 if lost else 0.4,
                hatch="////" if lost else None,
            )
        axes.set_yticks(range(len(names)), [f"executor {name}" for name in names])
        axes.set_ylim(len(names) - 0.4, -0.6)
    panels[-1].set_xlim(0, 1.02 * max(tasks["end"].max() for tasks in runs.values()))
    panels[-1].set_xlabel("seconds since the first task")
    patches = [
        Patch(
            facecolor="none" if label == LOST else colour,
            edgecolor=colour,
            hatch="////" if label == LOST else None,
            label=label,
        )
        for label, colour in shown.items()
    ]
    figure.legend(
        handles=patches, ncols=len(patches), fontsize=9, loc="outside lower left", frameon=False
    )
    return svg(figure)


def draw_batches(batches: Mapping[str, Batch]) -> str:
    """Draw the tasks of batches by title: the full part of a bar is processor time.

    A line marks the end of the batch.
    """
    figure, panels = new_panels([*batches], rows=len(batches) // 2, width=8.4, height=5.6)
    for axes, batch in zip(panels, batches.values(), strict=True):
        for task in batch.tasks.itertuples():
            lane, colour = int(task.executor), COLOUR_OF[kind_of(task)]
            lasts = task.end - task.start
            axes.barh(lane, lasts, 0.7, task.start, color=colour, alpha=0.3)
            axes.barh(lane, task.cpu, 0.7, task.start, color=colour)
            axes.barh(lane, lasts, 0.7, task.start, color="none", edgecolor=INK, linewidth=0.5)
        axes.axvline(batch.seconds, color=INK, linewidth=1)
        axes.set_yticks([0, 1], ["executor 1", "executor 2"])
        axes.set_ylim(1.6, -0.6)
    for axes in panels[-2:]:
        axes.set_xlim(0, 1.02 * max(batch.seconds for batch in batches.values()))
        axes.set_xlabel("seconds; the line is the end of the batch")
    patches = [Patch(facecolor=COLOUR_OF[kind], label=kind) for kind in (READS, WRITES)]
    figure.legend(handles=patches, ncols=2, fontsize=9, loc="outside lower left", frameon=False)
    return svg(figure)


def draw_line(runs: pd.DataFrame, fitted: Fitted) -> str:
    """Draw batch times over rows per core: measured, fitted, and the range over the rounds."""
    figure, axes = new_chart("How long a batch takes", "rows per core", "seconds", width=6.6)
    places = np.linspace(0, 1.05 * (runs["rows"] / runs["cores"]).max(), 40)
    every = np.array([[line.seconds(x, 1) for x in places] for line in fitted.allowed])
    low, high = every.min(axis=0), every.max(axis=0)
    axes.fill_between(places, low, high, color=SKY, alpha=0.3, label="what rounds allow")
    axes.plot(places, [fitted.line.seconds(x, 1) for x in places], color=BLUE, label="fitted")
    styles = (("o", AMBER), ("s", GREEN))
    for (cores, group), (marker, colour) in zip(runs.groupby("cores"), styles, strict=False):
        label, per_core = f"{cores} core" + "s" * (cores > 1), group["rows"] / group["cores"]
        axes.plot(per_core, group["seconds"], marker, color=colour, label=label)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
    return svg(figure)


def draw_reach(fitted: Fitted, sizes: Iterable[int]) -> str:
    """Draw the speed-up that the line predicts for batches of several sizes, up to 64 cores.

    A band shows the range over the measured rounds.
    """
    figure, axes = new_chart(
        "What more cores promise", "cores", "times as fast as one core", width=6.6
    )
    axes.plot(CORE_COUNTS, CORE_COUNTS, "--", color=GREY, linewidth=1, label="ideal")
    for size, colour in zip(sizes, (AMBER, BLUE, GREEN, VERMILION), strict=False):
        found = [fitted.speedup(size, cores) for cores in CORE_COUNTS]
        axes.plot(CORE_COUNTS, [f.middle for f in found], color=colour, label=f"{size:,} rows")
        low, high = [f.low for f in found], [f.high for f in found]
        axes.fill_between(CORE_COUNTS, low, high, color=colour, alpha=0.2)
    axes.axvspan(1, 2, color=GREY, alpha=0.15)
    ticks = [1, 2, 4, 8, 16, 32, 64]
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.set_ylim(0.5, 70)
    axes.legend(fontsize=8)
    return svg(figure)


def draw_unlucky_event() -> str:
    """Draw three batches, and the event that waits longest until readers see it."""
    figure, axes = new_chart("The unluckiest event", "intervals", "", width=7.2, height=2.3)
    for number in range(3):
        axes.barh(0, 0.97, 0.5, number, color=SKY, alpha=0.3, edgecolor=INK, linewidth=0.4)
        axes.text(number + 0.48, 0, f"batch {number + 1} runs", ha="center", va="center", color=INK)
    moments = ((0.03, "sent: batch 1 has just begun"), (1.0, "batch 2 takes it"), (1.97, "visible"))
    for at, says in moments:
        axes.plot([at, at], [0.25, 0.75], color=VERMILION)
        axes.text(at, 0.82, says, color=VERMILION, fontsize=9)
    axes.annotate(
        "", (1.97, 0.55), (0.03, 0.55), arrowprops={"arrowstyle": "->", "color": VERMILION}
    )
    axes.set_yticks([])
    axes.set_ylim(-0.35, 1.15)
    axes.set_xlim(0, 3)
    return svg(figure)
