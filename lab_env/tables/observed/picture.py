"""Draws what readers of a table saw: time to the right, a row each, broken rules in red."""

from matplotlib.patches import Patch

from lab_env.platform.display.chart import INK, new_chart, svg
from lab_env.platform.display.html import frame_table, render
from lab_env.platform.display.palette import AMBER, BLUE, GREY, PINK, VERMILION
from lab_env.tables.observed.judge import FRESH, RULES
from lab_env.tables.observed.watching import Observed

WRITES, SERVICES = "writes", "services"
# Of a read, by what happened; the first that fits.
COLOURS = {"right": INK, "stale": AMBER, "wrong": VERMILION, "error": GREY}


def picture(observed: Observed) -> str:
    """Return the reads of a table below its writes and services, as an `<svg>` element.

    Stale reads lack a commit that was complete before they began; wrong ones broke another rule.
    """
    readers = list(observed.verdicts.index)
    rows = [WRITES, SERVICES, *readers]
    figure, axes = new_chart("", "seconds", "", width=9, height=1.2 + 0.32 * len(rows))
    start = min((read.begin for read in observed.reads), default=0.0)
    end = max((read.end for read in observed.reads), default=1.0)
    shortest = 0.003 * (end - start)  # that can be seen

    def bar(row: str, begin: float, stop: float, colour: str, thick: float) -> None:
        width = max(stop - begin, shortest)
        place = rows.index(row), width, thick, begin - start
        axes.barh(*place, color=colour, linewidth=0)

    writes = [(WRITES, commit.began, commit.completed) for commit in observed.commits]
    services = [(SERVICES, began, completed) for _, began, completed in observed.services]
    for row, began, completed in writes + services:
        if completed >= start:
            bar(row, max(began, start), completed, BLUE if row == WRITES else PINK, 0.6)
    kinds = _kinds(observed)
    for read in observed.reads:
        kind = kinds[id(read)]
        bar(read.reader, read.begin, read.end, COLOURS[kind], 0.5 if kind == "wrong" else 0.25)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, end - start)
    axes.grid(visible=False, axis="y")
    found = [kind for kind in COLOURS if kind in kinds.values()]
    patches = [Patch(color=COLOURS[kind], label=kind) for kind in found]
    axes.legend(handles=patches, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False)
    return svg(figure)


def _kinds(observed: Observed) -> dict[int, str]:
    """Return what happened to each read, by its `id`: a key of `COLOURS`."""
    kinds = {id(read): "error" if read.error else "right" for read in observed.reads}
    for broken in observed.broken:
        stale = broken.rule == FRESH and kinds[id(broken.read)] in ("right", "stale")
        kinds[id(broken.read)] = "stale" if stale else "wrong"
    return kinds


def shown(observed: Observed) -> str:
    """Return picture, table of verdicts and what the rules mean, as HTML."""
    rules = "".join(f"<li><b>{rule}</b>: {text}</li>" for rule, text in RULES.items())
    return f"{picture(observed)}{frame_table(observed.shown)}<ul>{rules}</ul>"


def proofs(observed: Observed) -> list[str]:
    """Return a sentence for the first read of each reader that broke a rule, or that failed."""
    found: dict[tuple[str, str], str] = {}
    for broken in observed.broken:
        other = broken.proof if broken.proof and broken.proof.reader != broken.read.reader else None
        shows = f" Seen by: {other.reader}." if other else ""
        found.setdefault((broken.read.reader, broken.rule), f"{broken.rule}: {broken}{shows}")
    for read in observed.reads:
        if read.error:
            found.setdefault((read.reader, ""), f"error: {read.reader}: {read.error}")
    return list(found.values())


def page(observed: Observed) -> str:
    """Return a page of its own with all that was seen."""
    return render(
        "tables/observed/page.html.j2",
        title=f"What the readers of {observed.path} saw",
        problems=proofs(observed),
        failed="Some reads broke a rule.",
        passed="No read broke a rule.",
        shown=shown(observed),
    )
