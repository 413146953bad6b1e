"""Draws the load of partitions and consumers, and the shards of a Kinesis stream."""

import json
from collections.abc import Iterable

import matplotlib
import pandas as pd
from confluent_kafka import Message

from lab_env.platform.display.chart import COLOURS, new_chart, new_panels, svg

HASHES = 2**128


def draw_ranges(
    axes, shards: dict[str, tuple[int, int]], share: pd.Series, keys: dict[str, int]
) -> None:
    """Draw each shard as its range of hash values; the darker, the more events it carries.

    Args:
        share: each shard's share of the events, 0 to 1; a shard without events may be absent.
        keys: hash of each key to mark.
    """
    for name, (first, last) in shards.items():
        load = share.get(name, 0)
        left, width = first / HASHES, (last - first) / HASHES
        colour = matplotlib.colormaps["cividis_r"](min(1, 0.1 + 1.6 * load))
        axes.barh(0, width, left=left, color=colour, edgecolor="white")
        ink = "white" if load > 0.25 else "black"
        axes.text(left + width / 2, 0, f"{load:.0%}", ha="center", va="center", color=ink)
    for key, value in keys.items():
        position = value / HASHES
        axes.plot([position], [0.52], marker="v", color=COLOURS["dead"], markersize=9)
        axes.text(position + 0.012, 0.55, key, va="center", color=axes.xaxis.label.get_color())
    axes.set(yticks=[], xlim=(0, 1), ylim=(-0.45, 0.8))
    axes.grid(False)


def placed(receipts: Iterable[Message]) -> pd.DataFrame:
    """Return acknowledged events as rows of order_id, key, partition and bytes."""
    rows = []
    for message in receipts:
        key, value = message.key(), message.value()
        text = None if key is None else key.decode()
        rows.append((json.loads(value)["order_id"], text, message.partition(), len(value)))
    return pd.DataFrame(rows, columns=["order_id", "key", "partition", "bytes"])


def draw_busy(read: pd.DataFrame) -> str:
    """Draw the number of events that each consumer (row) read, one bar per key (column)."""
    title, label = "Work of six consumers", "consumer, one for each partition"
    figure, axes = new_chart(title, label, "events", height=3.2)
    for shift, key, colour in zip((-0.2, 0.2), read, ("json", "cow"), strict=False):
        axes.bar(read.index + shift, read[key], 0.4, color=COLOURS[colour], label=f"key {key}")
    axes.axhline(read.iloc[:, 0].sum() / len(read), color="#999999", linestyle="--")
    axes.legend()
    return svg(figure)


def draw_measures(measures: pd.DataFrame) -> str:
    """Draw two measures of several keys side by side, with their values.

    Args:
        measures: one row per key: the hottest partition's load divided by the mean, and the number
            of orders spread over several partitions.
    """
    figure, panels = new_panels(list(measures.columns))
    for axes, column, colour, form in zip(
        panels, measures, ("json", "dead"), ("{:.2f}", "{:,.0f}"), strict=True
    ):
        bars = axes.barh(measures.index, measures[column], color=COLOURS[colour])
        ink = axes.xaxis.label.get_color()
        labels = [form.format(value) for value in measures[column]]
        axes.bar_label(bars, labels, padding=3, color=ink)
        axes.margins(x=0.18)
    panels[0].axvline(1, color="#999999", linestyle="--")
    panels[0].invert_yaxis()
    return svg(figure)
