"""`lab status --watch`: shows services and pipelines, refreshed until Ctrl-C.

A terminal display is updated in place. A file or a pipe gets a few plain lines per refresh.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from lab_env.lab.monitor.metrics import Sample
from lab_env.platform import services
from lab_env.platform.errors import LabError
from lab_env.platform.services import ServiceStatus
from lab_env.platform.settings import Endpoints

StatusTable = Callable[[list[ServiceStatus]], Table]

# Columns of the pipelines table: title, metric and number format.
COLUMNS = (
    ("unread", "pipeline_lag_messages", "{:,.0f}"),
    ("oldest unread", "pipeline_oldest_unread_seconds", "{:.1f} s"),
    ("newest read", "pipeline_newest_message_seconds", "{:.1f} s"),
    ("last commit", "pipeline_last_commit_seconds", "{:.1f} s"),
    ("pending", "pipeline_oldest_pending_seconds", "{:.1f} s"),
    ("logs per slice", "pipeline_log_files_per_slice_max", "{:.0f}"),
)


class PipelineRow(dict):
    """One pipeline's values by metric; `down` lists the parts that cannot be read."""

    down: tuple[str, ...] = ()


def pipeline_rows(samples: Iterable[Sample]) -> dict[tuple[str, str], PipelineRow]:
    """Return one row per pipeline, by namespace and name; lag is summed over topic partitions."""
    rows: dict[tuple[str, str], PipelineRow] = {}
    for sample in samples:
        if "pipeline" not in sample.labels:
            continue
        row = rows.setdefault(
            (sample.labels["namespace"], sample.labels["pipeline"]), PipelineRow()
        )
        if sample.metric == "pipeline_up":
            if not sample.value:
                row.down = (*row.down, sample.labels["part"])
        else:
            # A recreated topic partition is behind its checkpoint; that must not hide the others'
            # lag.
            row[sample.metric] = row.get(sample.metric, 0) + max(0, sample.value)
    return rows


def watch(console: Console, seconds: float, status_table: StatusTable) -> None:
    """Show services and pipelines until Ctrl-C; print plain lines if there is no terminal."""
    look = Look()
    try:
        if console.is_terminal:
            _in_place(console, seconds, status_table, look)
        else:
            while True:
                for line in plain_lines(*look.now()):
                    print(line, flush=True)
                time.sleep(seconds)
    except KeyboardInterrupt:
        pass  # the user has seen enough
    except BrokenPipeError:  # so has `head`; without this Python would write again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_place(console: Console, seconds: float, status_table: StatusTable, look: "Look") -> None:
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while True:
            rows, samples = look.now()
            shown = f"{datetime.now():%H:%M:%S}, every {seconds:g} s, Ctrl-C ends it"
            parts: list[RenderableType] = [status_table(rows), "", _pipelines(samples), shown]
            live.update(Group(*parts), refresh=True)
            time.sleep(seconds)


class Look:
    """Reads the state of services and pipelines repeatedly over the same connections."""

    def __init__(self) -> None:
        self._endpoints: Endpoints | None = None
        self._collector = None

    def now(self) -> tuple[list[ServiceStatus], list[Sample] | None]:
        """Return services and pipeline samples; samples are None if the services are down."""
        rows = services.status()
        try:
            endpoints = services.endpoints()
        except LabError:
            return rows, None
        if endpoints != self._endpoints or self._collector is None:
            # a second of imports, not needed while the lab is down
            from lab_env.lab.monitor.collector import Collector
            from lab_env.platform.settings import settings

            if self._collector is not None:
                self._collector.close()
            self._collector = Collector(Path(settings().home), endpoints)
            self._endpoints = endpoints
            return rows, self._collector.samples(seconds=10)  # connecting takes time
        return rows, self._collector.samples(seconds=2)


def _pipelines(samples: list[Sample] | None) -> RenderableType:
    if samples is None:
        return "The pipelines cannot be measured. Run: lab up"
    rows = pipeline_rows(samples)
    if not rows:
        return "No pipeline is watched: no writer runs, or it was stopped."
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("pipeline", no_wrap=True)
    for title, _, _ in COLUMNS:
        table.add_column(title, justify="right")
    table.add_column("not readable", style="yellow")
    for (namespace, name), row in rows.items():
        numbers = [_number(row, metric, form) for _, metric, form in COLUMNS]
        table.add_row(escape(f"{namespace}/{name}"), *numbers, ", ".join(row.down))
    return table


def plain_lines(rows: list[ServiceStatus], samples: list[Sample] | None) -> list[str]:
    """Return one line per service and per pipeline, each with the time."""
    at = f"{datetime.now():%H:%M:%S}"
    lines = [f"{at} service {row.name}: {row.state}" for row in rows]
    if samples is None:
        return [*lines, f"{at} pipelines: the services are not running"]
    for (namespace, name), row in pipeline_rows(samples).items():
        known = [
            f"{title} {_number(row, metric, form)}"
            for title, metric, form in COLUMNS
            if metric in row
        ]
        down = [f"{part} not readable" for part in row.down]
        lines.append(f"{at} pipeline {namespace}/{name}: {', '.join([*known, *down])}")
    return lines


def _number(row: PipelineRow, metric: str, form: str) -> str:
    return form.format(row[metric]) if metric in row else "-"
