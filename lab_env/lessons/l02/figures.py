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


def draw_both(
    on_kafka: dict[str, pd.DataFrame], on_kinesis: dict[str, pd.DataFrame], shards: list[str]
) -> str:
    """Draw each partition's and each shard's share of the events, a panel per key.

    Args:
        on_kafka: by key, a row per event with its `partition`.
        on_kinesis: by key, a row per event with its `shard`.
        shards: names of the shards, in the order of their hashes; as many as partitions.
    """
    figure, panels = new_panels([f"key {key}" for key in on_kafka])
    numbers = range(len(shards))
    for axes, key in zip(panels, on_kafka, strict=True):
        partition = on_kafka[key]["partition"].value_counts(normalize=True)
        shard = on_kinesis[key]["shard"].value_counts(normalize=True)
        for shift, heights, colour, label in (
            (-0.2, partition.reindex(numbers, fill_value=0), "cow", "Kafka"),
            (0.2, shard.reindex(shards, fill_value=0), "json", "Kinesis"),
        ):
            places = [number + shift for number in numbers]
            axes.bar(places, heights, 0.4, color=COLOURS[colour], label=label)
        axes.axhline(1 / len(shards), color="#999999", linestyle="--", linewidth=1)
        axes.set_xlabel("partition or shard")
    panels[0].set_ylabel("share of the events")
    panels[-1].legend()
    return svg(figure)


def draw_split(before: tuple[dict, pd.Series], after: tuple[dict, pd.Series], keys: dict) -> str:
    """Draw a stream's shards before and after a split, one above the other.

    Args:
        before: range of hashes and share of the events of each shard, as for `draw_ranges`.
        after: the same after the split.
        keys: hash of each key to mark.
    """
    titles = [
        f"Before: {len(before[0])} shards and their share of the events",
        f"After the split of the hot one: {len(after[0])} shards",
    ]
    figure, panels = new_panels(titles, rows=2, height=3)
    for axes, (shards, share) in zip(panels, (before, after), strict=True):
        draw_ranges(axes, shards, share, keys)
    panels[1].set_xlabel("hash of the key, as a part of all hash values")
    return svg(figure)


def draw_capacity(capacity: pd.DataFrame) -> str:
    """Draw the events per second until one shard is full, over the number of shards (the index).

    Args:
        capacity: columns `customer_id` and `order_id`.
    """
    title = "What a stream takes before one shard is full"
    figure, axes = new_chart(title, "shards", "events per second")
    paid = [1000 * shards for shards in capacity.index]
    axes.plot(capacity.index, paid, color="#999999", linestyle="--", label="1,000 × shards")
    for key, colour in (("order_id", "cow"), ("customer_id", "json")):
        axes.plot(capacity[key], color=COLOURS[colour], linewidth=2, label=f"key {key}")
    axes.legend()
    return svg(figure)
