"""Draws a checkpoint: which offsets each batch read, and which batches are committed."""

from lab_env.display.chart import INK, new_chart, svg
from lab_env.display.palette import BLUE, GREEN, SKY, VERMILION
from lab_env.pipeline.checkpoint import Batch

# Batches take these colours in turn; a batch without a commit is an empty, hatched block.
BATCH_COLOURS = (BLUE, SKY, GREEN)
OPEN_COLOUR = VERMILION


def draw_batches(batches: list[Batch], title: str) -> str:
    """Draw the batches as blocks of offsets, and beside them the files of the checkpoint.

    Args:
        batches: from `read_checkpoint`, at least one.
        title: stands above the drawing.

    Returns:
        An `<svg>` element.
    """
    partitions = sorted(batches[-1].end)
    figure, axes = new_chart(title, "offset", "", width=8.4, height=1.0 + 0.5 * len(partitions))
    grid = figure.add_gridspec(1, 2, width_ratios=[2, 1])
    axes.set_subplotspec(grid[0])
    _draw_lanes(axes, batches, partitions)
    _draw_files(figure.add_subplot(grid[1]), batches)
    return svg(figure)


def _draw_lanes(axes, batches: list[Batch], partitions: list[int]) -> None:
    """One lane per partition; a block too narrow for its number has none."""
    narrowest = 0.025 * max(batches[-1].end.values())
    for batch in batches:
        for lane, partition in enumerate(partitions):
            start = batch.start.get(partition, 0)
            width = batch.end[partition] - start
            axes.barh(lane, width, 0.62, left=start, **_style(batch))
            if width > narrowest:
                colour = "white" if batch.committed else INK
                axes.text(
                    start + width / 2, lane, batch.number, ha="center", va="center",
                    fontsize=8, color=colour,
                )  # fmt: skip
    axes.set_yticks(range(len(partitions)), [f"partition {number}" for number in partitions])
    axes.invert_yaxis()
    axes.grid(visible=False)


def _draw_files(axes, batches: list[Batch]) -> None:
    """Draw a square for each file `offsets/N` and `commits/N`, an empty one if it is missing."""
    axes.patch.set_alpha(0)
    for position, batch in enumerate(batches):
        style = {"marker": "s", "s": 90, "linewidths": 1.6}
        axes.scatter(position, 0, color=BATCH_COLOURS[batch.number % 3], **style)
        if batch.committed:
            axes.scatter(position, 1, color=BATCH_COLOURS[batch.number % 3], **style)
        else:
            axes.scatter(position, 1, facecolors="none", edgecolors=OPEN_COLOUR, **style)
            axes.text(position, 1, "?", ha="center", va="center", fontsize=9, color=OPEN_COLOUR)
    axes.set_yticks([0, 1], ["offsets/N (plan)", "commits/N (done)"])
    axes.set_xticks(range(len(batches)), [batch.number for batch in batches])
    axes.set_xlabel("N", color=INK)
    axes.set_xlim(-0.7, len(batches) - 0.3)
    axes.set_ylim(1.7, -0.7)
    axes.tick_params(colors=INK, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _style(batch: Batch) -> dict:
    if batch.committed:
        colour = BATCH_COLOURS[batch.number % len(BATCH_COLOURS)]
        return {"color": colour, "edgecolor": "white", "linewidth": 0.8}
    return {"color": "none", "edgecolor": OPEN_COLOUR, "linewidth": 1.6, "hatch": "////"}
