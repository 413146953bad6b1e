"""The shards of a Kinesis stream as pieces of the range of hash values, and what each carries."""

import matplotlib
import pandas as pd

from lab_env.display.chart import COLOURS

HASHES = 2**128


def draw_ranges(
    axes, shards: dict[str, tuple[int, int]], share: pd.Series, keys: dict[str, int]
) -> None:
    """Draw each shard as a piece of all hash values, darker the more it carries.

    Args:
        axes: of matplotlib.
        shards: first and last hash of each shard, by its name.
        share: part of the events, 0 to 1, by shard; a shard without events may be absent.
        keys: keys to point at, each with its hash.
    """
    for name, (first, last) in shards.items():
        load = share.get(name, 0)
        left, width = first / HASHES, (last - first) / HASHES
        colour = matplotlib.colormaps["cividis_r"](min(1, 0.1 + 1.6 * load))
        axes.barh(0, width, left=left, color=colour, edgecolor="white")
        ink = "white" if load > 0.25 else "black"
        axes.text(left + width / 2, 0, f"{load:.0%}", ha="center", va="center", color=ink)
    for key, value in keys.items():
        place = value / HASHES
        axes.plot([place], [0.52], marker="v", color=COLOURS["dead"], markersize=9)
        axes.text(place + 0.012, 0.55, key, va="center", color=axes.xaxis.label.get_color())
    axes.set(yticks=[], xlim=(0, 1), ylim=(-0.45, 0.8))
    axes.grid(False)
