"""Draws a stream's checkpoint and batches; looks up orders in the shop's ledger."""

import json
from decimal import Decimal
from itertools import islice

import pandas as pd

from lab_env.pipeline.checkpoint import Batch
from lab_env.platform.display.chart import INK, new_chart, new_panels, svg
from lab_env.platform.display.palette import AMBER, BLUE, GREEN, PINK, SKY, VERMILION
from lab_env.shop.events import MALFORMED_KINDS
from lab_env.shop.ledger.book import Ledger
from lab_env.shop.record import recording

# Batches take these colours in turn; a batch without a commit is an empty, hatched block.
BATCH_COLOURS = (SKY, GREEN, PINK)  # black letters read well on each
OPEN_COLOUR = VERMILION


def draw_batches(batches: list[Batch], title: str) -> str:
    """Draw one or more batches as blocks of offsets, next to the checkpoint's files."""
    partitions = sorted(batches[-1].end)
    height = 1.0 + 0.5 * len(partitions)
    figure, (lanes, files) = new_panels([title, ""], width=8.4, height=height, one_unit=False)
    lanes.get_gridspec().set_width_ratios([2, 1])
    lanes.set_xlabel("offset")
    _draw_lanes(lanes, batches, partitions)
    _draw_files(files, batches)
    return svg(figure)


def _draw_lanes(axes, batches: list[Batch], partitions: list[int]) -> None:
    """Draw one lane per topic partition; narrow blocks are not numbered."""
    narrowest = 0.025 * max(batches[-1].end.values())
    for batch in batches:
        for lane, partition in enumerate(partitions):
            start = batch.start.get(partition, 0)
            width = batch.end[partition] - start
            axes.barh(lane, width, 0.62, left=start, **_style(batch))
            if width > narrowest:
                colour = "black" if batch.committed else INK
                axes.text(
                    start + width / 2, lane, batch.number, ha="center", va="center",
                    fontsize=8, color=colour,
                )  # fmt: skip
    axes.set_yticks(range(len(partitions)), [f"partition {number}" for number in partitions])
    axes.invert_yaxis()
    axes.grid(visible=False)


def _draw_files(axes, batches: list[Batch]) -> None:
    """Draw a square for each file `offsets/N` and `commits/N`; empty squares are missing files."""
    for position, batch in enumerate(batches):
        style = {"marker": "s", "s": 90, "linewidths": 1.6}
        filled = {"color": BATCH_COLOURS[batch.number % len(BATCH_COLOURS)]}
        empty = {"facecolors": "none", "edgecolors": OPEN_COLOUR}
        axes.scatter(position, 0, **filled, **style)
        axes.scatter(position, 1, **(filled if batch.committed else empty), **style)
        if not batch.committed:
            axes.text(position, 1, "?", ha="center", va="center", fontsize=9, color=INK)
    axes.set_yticks([0, 1], ["offsets/N (plan)", "commits/N (done)"])
    axes.set_xticks(range(len(batches)), [batch.number for batch in batches])
    axes.set(xlabel="N", xlim=(-0.7, len(batches) - 0.3), ylim=(1.7, -0.7))
    axes.grid(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _style(batch: Batch) -> dict:
    if batch.committed:
        colour = BATCH_COLOURS[batch.number % len(BATCH_COLOURS)]
        return {"color": colour, "edgecolor": "white", "linewidth": 0.8}
    return {"color": "none", "edgecolor": OPEN_COLOUR, "linewidth": 1.6, "hatch": "////"}


def one_of_each(ledger: Ledger) -> pd.DataFrame:
    """Return one malformed message of each kind, as `kind`, `partition` and `offset`."""
    sends = ledger.frame()
    malformed = sends[sends["kind"].str.startswith("malformed")]
    malformed = malformed.assign(kind=malformed["kind"].str.partition(":")[2])
    found = malformed.drop_duplicates("kind").set_index("kind")[["partition", "offset"]]
    return found.loc[[kind for kind in MALFORMED_KINDS if kind in found.index]].reset_index()


def draw_rates(batches: pd.DataFrame) -> str:
    """Draw the rates at which rows arrived and were written, a pair of bars per batch.

    `batches` has the columns of Spark's progress reports, and the batch as index.
    """
    title = "How fast rows arrive, how fast they are written"
    figure, axes = new_chart(title, "batch", "rows/s")
    places = range(len(batches))
    for shift, name, colour, label in (
        (-0.2, "inputRowsPerSecond", AMBER, "arrive"),
        (0.2, "processedRowsPerSecond", BLUE, "are written"),
    ):
        axes.bar([x + shift for x in places], batches[name], 0.4, color=colour, label=label)
    axes.set_xticks(places, batches.index)
    axes.legend()
    return svg(figure)


def books(n: int) -> pd.DataFrame:
    """Return orders and revenue (a Decimal) by status after the recording's first `n` sends.

    `n` includes malformed sends; erased orders are not counted.
    """
    orders: dict[str, dict] = {}
    for send in islice(recording(), n):
        if not send.kind.startswith("malformed"):
            event = json.loads(send.value, parse_float=Decimal)
            known = orders.get(event["order_id"])
            if known is None or event["order_ts"] > known["order_ts"]:
                orders[event["order_id"]] = event
    rows = pd.DataFrame(event for event in orders.values() if event["op"] != "erase")
    rows["amount"] = rows["amount"].map(lambda amount: Decimal(amount).quantize(Decimal("0.01")))
    by_status = rows.groupby("status", as_index=False)
    return by_status.agg(orders=("order_id", "size"), revenue=("amount", "sum"))
