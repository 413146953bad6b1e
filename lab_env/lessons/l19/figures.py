"""Draws metrics over time and the shop's board; computes the accountants' totals."""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from html import escape
from urllib.request import urlopen

import pandas as pd
import psutil
import yaml

from lab_env.platform.display.card import styled
from lab_env.platform.display.chart import new_panels, svg
from lab_env.platform.display.palette import BLUE, GREEN, SKY, VERMILION
from lab_env.platform.errors import LabError
from lab_env.shop.model import Send

# What an alert shows of a pipeline: ages, and nothing of the cause.
PAGER = (
    "pipeline_oldest_unread_seconds",
    "pipeline_newest_message_seconds",
    "pipeline_last_commit_seconds",
)


def jvm_of_session() -> int:
    """Return the process id of this notebook's Spark JVM."""
    # Kafka's is a child of this kernel, too, if the kernel has started the services.
    children = psutil.Process(os.getpid()).children(recursive=True)
    found = [
        child.pid
        for child in children
        if "java" in child.name() and any("SparkSubmit" in part for part in child.cmdline())
    ]
    if len(found) != 1:
        raise LabError(
            f"This notebook has {len(found)} JVMs of Spark, and one is expected.",
            "restart the kernel and run the lesson from its start.",
        )
    return found[0]


def wait_until(condition: Callable[[], object], what: str, seconds: float) -> None:
    """Wait until a condition holds, checking five times a second.

    Raises:
        LabError: the condition did not hold in time; the message contains `what`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(
                f"After {seconds:.0f} s this had not happened: {what}.",
                "ask Prometheus for the alert's expression: lab.prometheus.query(...)",
            )
        time.sleep(0.2)


def scrape_config(pages: Mapping[str, str], namespace: str) -> str:
    """Return the part of `prometheus.yml` (YAML) by which pages are scraped once a second.

    Args:
        pages: URL of each metrics page, by job.
        namespace: added as a label, so that resetting the lesson can delete the metrics.
    """
    jobs = []
    for job, page in pages.items():
        host, _, path = page.removeprefix("http://").partition("/")
        jobs.append(
            {
                "job_name": job,
                "metrics_path": f"/{path}",
                "scrape_interval": "1s",
                "scrape_timeout": "1s",
                "static_configs": [{"targets": [host], "labels": {"namespace": namespace}}],
            }
        )
    return yaml.safe_dump({"scrape_configs": jobs}, sort_keys=False)


def show_numbers(numbers: pd.DataFrame):
    """Return rows of `lab.pipeline_metrics()` as a table with one column per pipeline."""
    extra = [name for name in ("partition", "part", "recorded_in") if name in numbers.columns]
    which = numbers[extra].astype(object).where(numbers[extra].notna(), "")
    label = which.astype(str).agg(" ".join, axis=1).str.strip()
    table = numbers.assign(of=label).pivot_table(
        index=["metric", "of"], columns="pipeline", values="value", aggfunc="first"
    )
    return styled(table.map(lambda value: "" if pd.isna(value) else f"{value:,.0f}"))


def draw_over_time(
    panels: Mapping[str, Mapping[str, pd.DataFrame]], frozen: Sequence[tuple[float, float]]
) -> str:
    """Draw metrics over time as steps; times in which Spark was frozen are shaded.

    Args:
        panels: by panel title, results of `query_range` (`time`, `value`) by line name. A gap in
            a line means that Prometheus got no sample.
        frozen: begin and end of each freeze, seconds since 1970.
    """
    height = 1.2 + 1.3 * len(panels)
    figure, axes = new_panels(
        list(panels), rows=len(panels), width=8.6, height=height, one_unit=False
    )
    found = [line for lines in panels.values() for line in lines.values() if len(line)]
    begin = min(line["time"].min() for line in found)
    whole = range(int(begin), int(max(line["time"].max() for line in found)) + 1)
    for panel, lines in zip(axes, panels.values(), strict=True):
        for begun, ended in frozen:
            panel.axvspan(begun - begin, ended - begin, color=SKY, alpha=0.25, linewidth=0)
        styles = ((BLUE, "-"), (VERMILION, "--"))
        for (name, line), (colour, style) in zip(lines.items(), styles, strict=False):
            seconds = line.assign(second=line["time"].astype(int)).groupby("second")["value"]
            values = seconds.last().reindex(whole)
            since = [second - begin for second in whole]
            panel.plot(since, values, style, color=colour, drawstyle="steps-post", label=name)
        panel.margins(y=0.2)
        top = max(1.2, panel.get_ylim()[1])
        panel.set_ylim(-top / 20, top)  # a line at 0 stays visible
        if len(lines) > 1:
            panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes[-1].set_xlabel("seconds; shaded: the JVM is frozen")
    return svg(figure)


def draw_witnesses(lab, freeze: tuple[float, float]) -> str:
    """Draw what three witnesses said of the lesson's stream before, during and after a freeze."""
    begin, end = freeze
    lag = f'pipeline_lag_messages{{namespace="{lab.namespace}", pipeline="orders"}}'
    asked = {
        "The process: does Spark's page answer? 1 is yes": 'up{job="spark"}',
        "Its last report: messages behind": "shop_messages_behind",
        "From outside: unread messages": f"sum(last_over_time({lag}[5s]))",
    }
    panels = {}
    for title, promql in asked.items():
        found = lab.prometheus.query_range(promql, time.time() - begin + 8)
        panels[title] = {title: found[found["time"].astype(float) < end + 8]}
    return draw_over_time(panels, [freeze])


def answer_of(page: str, seconds: float = 3) -> str:
    """Return what somebody sees who waits some seconds for a web page."""
    try:
        with urlopen(page, timeout=seconds) as answer:
            return f"status {answer.status}"
    except OSError:
        return f"no answer within {seconds:g} s"


def books_of(sends: Iterable[Send]) -> list[tuple]:
    """Compute the accountants' daily totals from the valid events as sent, not from a table.

    Returns:
        Per day of creation: day, number of orders that are not erased, their revenue, and the time
        of the newest change.
    """
    newest = {send.order_id: send for send in sorted(sends, key=lambda send: send.order_ts)}
    events = [json.loads(send.value) for send in newest.values() if send.op != "erase"]
    frame = pd.DataFrame(events)
    frame["cents"] = (frame["amount"].astype(float) * 100).round().astype("int64")
    frame["changed"] = pd.to_datetime(frame["order_ts"], utc=True)
    days = frame.groupby("partition_date").agg(
        orders=("order_id", "nunique"), cents=("cents", "sum"), changed=("changed", "max")
    )
    return [
        (day, int(row.orders), Decimal(int(row.cents)) / 100, row.changed.to_pydatetime())
        for day, row in days.iterrows()
    ]


def draw_board(rows: pd.DataFrame, lamp: tuple[str, str] | None = None) -> str:
    """Draw the shop's board as it is read now.

    Args:
        rows: orders with the columns `status` and `amount`.
        lamp: colour and text of the board's lamp; None for a board that has none.
    """
    figure, (axes,) = new_panels(["Revenue by status"], width=6.4, height=2.4)
    revenue = rows.groupby("status")["amount"].sum().astype(float).sort_values()
    axes.barh(revenue.index, revenue, color=BLUE)
    axes.set_xlabel("euro")
    colour, text = lamp or ("", "")
    light = f"<span style='color:{colour};font-size:1.6em'>●</span> <b>{escape(text)}</b> · "
    return (
        f"<div>{svg(figure)}<div style='font-family:sans-serif'>{light if lamp else ''}"
        f"<small>{len(rows)} orders · {datetime.now(UTC):%H:%M:%S} UTC</small></div></div>"
    )


def lamp_of(oldest_unread: float, firing: bool) -> tuple[str, str]:
    """Return colour and text of the lamp: is a customer waiting, and for how many seconds?"""
    said = "late: somebody is called" if firing else "fresh"
    return VERMILION if firing else GREEN, f"{said}, oldest unread message {oldest_unread:.0f} s"
