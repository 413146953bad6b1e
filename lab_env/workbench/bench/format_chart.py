"""Draws a bar chart of the table formats as SVG, readable in light and dark themes."""

from collections.abc import Mapping
from html import escape

from lab_env.lessons.recorded.contenders import CONTENDERS, DELTA, HUDI, ICEBERG
from lab_env.platform.display.html import number
from lab_env.tables.probes.verdict import Spread

COLOURS = {HUDI: "#3b8ac4", DELTA: "#d98a00", ICEBERG: "#2a9d74"}
WIDTH, LABELS, BARS, ROW, TOP = 760, 235, 430, 22, 40  # pixels
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 13px; }
.paper { fill: #fff; stroke: #d1d9e0; }
.range { stroke: #1f2328; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .paper { fill: #151b23; stroke: #3d444d; }
  .range { stroke: #e6edf3; }
}"""


def chart(title: str, figures: Mapping[str, Spread], alt: str) -> str:
    """Return the SVG: for each table, a bar for the median and a line for the range over rounds.

    Args:
        figures: figures by contender; the bars are in the order of `CONTENDERS`.
        alt: alternative text for screen readers.
    """
    height = TOP + ROW * len(figures) + 10
    scale = BARS / max(spread.high for spread in figures.values())
    rows = []
    for place, key in enumerate(key for key in CONTENDERS if key in figures):
        spread, y = figures[key], TOP + ROW * place
        low, middle, high = (
            round(LABELS + value * scale, 1) for value in (spread.low, spread.median, spread.high)
        )
        rows.append(
            f'<text x="{LABELS - 8}" y="{y + 13}" text-anchor="end">'
            f"{escape(CONTENDERS[key].title)}</text>\n"
            f'<rect x="{LABELS}" y="{y + 2}" width="{middle - LABELS:.1f}" height="14"'
            f' fill="{COLOURS[CONTENDERS[key].format]}"/>\n'
            f'<path class="range" d="M{low} {y + 9}H{high}"/>\n'
            f'<text x="{max(high, middle) + 7:.1f}" y="{y + 13}">{number(spread.median)}</text>'
        )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" \
viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(alt)}">
<style>{STYLE}
</style>
<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>
<text class="title" x="14" y="24">{escape(title)}</text>
{chr(10).join(rows)}
</svg>
"""
