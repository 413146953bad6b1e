"""Draws the shards of a Kinesis stream as ranges of hash values, with the load of each."""

import matplotlib
import pandas as pd

from lab_env.display.chart import COLOURS

HASHES = 2**128


def draw_ranges(
    axes, shards: dict[str, tuple[int, int]], share: pd.Series, keys: dict[str, int]
) -> None:
    """Draw each shard as its range of hash values; a darker one carries more events.

    Args:
        axes: of matplotlib.
        shards: shard to its first and last hash.
        share: shard to its part of the events, 0 to 1; a shard without events may be absent.
        keys: keys to mark, each with its hash.
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
