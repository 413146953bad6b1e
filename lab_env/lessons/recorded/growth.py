"""Draws how costs grow with a table's size, as recorded by `lab bench growth`."""

from lab_env.platform.display.chart import COLOURS, NAMES, new_panels, svg

VARIANTS = tuple((kind, index) for index in ("bucket", "bloom") for kind in ("cow", "mor"))
# Metric, title of its panel, and the divisor from the metric's unit to the title's.
PANELS = (
    ("commit s", "commit, s", 1),
    ("bytes written", "written by a commit, MB", 1e6),
    ("aggregate s", "sum over all orders, s", 1),
)


def of(run: dict, kind: str, index: str, metric: str) -> list[dict]:
    """Return a metric's spreads by table size, smallest first, for one of `VARIANTS`."""
    wanted = {"type": kind, "index": index, "metric": metric}
    rows = [row for row in run["rows"] if wanted.items() <= row.items()]
    return sorted(rows, key=lambda row: row["factor"])


def growth_chart(run: dict) -> str:
    """Return a chart (SVG) of commit time, bytes written and query time over table size.

    There is one line per table type and index; thin lines go from the lowest to the highest round.
    """
    figure, panels = new_panels(
        [title for _, title, _ in PANELS], width=9.6, height=3.4, one_unit=False
    )
    factors = sorted({row["factor"] for row in run["rows"]})
    sizes = [factor * run["size"]["orders"] for factor in factors]
    for panel, (metric, _, scale) in zip(panels, PANELS, strict=True):
        for kind, index in VARIANTS:
            rows = of(run, kind, index, metric)
            style = "-" if index == "bucket" else "--"
            panel.plot(
                sizes, [row["median"] / scale for row in rows], f"o{style}", color=COLOURS[kind],
                label=f"{NAMES[kind]}, {index} index",
            )  # fmt: skip
            low, high = ([row[end] / scale for row in rows] for end in ("low", "high"))
            panel.vlines(sizes, low, high, color=COLOURS[kind], linewidth=1)
        panel.set_xscale("log")
        panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
        panel.set_xticks([], minor=True)
        panel.set_ylim(bottom=0)
        panel.set_xlabel("orders in the table")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=4, frameon=False
    )
    return svg(figure)


def caption_of(run: dict) -> str:
    """Return a caption with the date, machine and size of a run."""
    size = run["size"]
    return (
        f"Measured {run['made'][:10]} on {run['cores']} cores: {size['changes']:,} changed orders"
        f" per commit, {size['rounds']} commits per point. Lines join medians; thin"
        " lines go from the lowest to the highest."
    )
