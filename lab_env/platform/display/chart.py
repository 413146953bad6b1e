"""Charts as inline SVG that follow the colours of the page, in its light and its dark theme.

They are made without pyplot, whose backend and open figures belong to the learner.
"""

import io

import matplotlib
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from lab_env.platform.display.palette import AMBER, BLUE, GREEN, PINK

# A sink has the same colour and name everywhere.
COLOURS = {"json": AMBER, "cow": BLUE, "mor": GREEN, "dead": PINK}
NAMES = {"json": "JSON files", "cow": "Hudi COW", "mor": "Hudi MOR", "dead": "dead letters"}
INK = "#010203"  # stands for the page's text colour until the SVG is written


def new_chart(title: str, x: str, y: str, width: float = 6.4, height: float = 3.0):
    """Matplotlib's figure and axes of an empty chart in the course's style; sizes are in inches.

    `x` and `y` are the axis labels, including units.
    """
    figure, panels = new_panels([title], width=width, height=height)
    panels[0].set(xlabel=x, ylabel=y)
    return figure, panels[0]


def new_panels(
    titles: list[str],
    rows: int = 1,
    width: float = 8.0,
    height: float = 2.8,
    one_unit: bool = True,
):
    """Figure and axes of several empty charts, row by row, one per title; sizes are in inches.

    Charts in a column share the horizontal scale; with `one_unit`, those in a row the vertical one.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    sharey = "row" if one_unit else False
    columns = len(titles) // rows
    grid = figure.subplots(rows, columns, squeeze=False, sharex="col", sharey=sharey)
    panels = list(grid.flat)
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)
        axes.tick_params(which="both", colors=INK)
        axes.xaxis.label.set_color(INK)
        axes.yaxis.label.set_color(INK)
        axes.set_axisbelow(True)
        axes.grid(alpha=0.25, color=INK, linewidth=0.5)
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_edgecolor(INK)
    return figure, panels


def note(axes, text: str, place: tuple, shift: tuple[float, float], **look) -> None:
    """Write a small text next to a point in a chart; `shift` is in typographic points.

    `look` is passed to Matplotlib's `annotate`, for example `ha="center"`.
    """
    look = {"fontsize": 9, "color": INK} | look
    axes.annotate(text, place, shift, textcoords="offset points", **look)


def plot_freshness(axes, quantiles: dict[str, list[float]]) -> None:
    """Plot the share of events that are visible, over the seconds since each was sent.

    `quantiles` has, for each sink, the seconds at evenly spaced shares from 0 to 100 %.
    """
    for sink, seconds in quantiles.items():
        share = [100 * place / (len(seconds) - 1) for place in range(len(seconds))]
        axes.plot(seconds, share, color=COLOURS[sink], label=NAMES[sink])
    axes.set_xlim(left=0)
    if quantiles:
        axes.legend(loc="lower right", fontsize="small")


def svg(figure) -> str:
    """The chart as an `<svg>` element whose text follows the page's text colour."""
    for legend in figure.findobj(Legend):  # of the figure, too
        legend.get_frame().set_alpha(0)
        for text in legend.get_texts():
            text.set_color(INK)
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lab"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    element = text[text.index("<svg") :]
    return element.replace(INK, "var(--jp-content-font-color1, currentColor)")
