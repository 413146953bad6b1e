"""Draws charts of the table formats as SVG, readable in light and dark themes."""

from collections.abc import Mapping, Sequence
from html import escape

from lab_env.lessons.recorded.contenders import CONTENDERS, DELTA, HUDI, ICEBERG, MOR
from lab_env.platform.display.html import number
from lab_env.tables.probes.verdict import Spread

COLOURS = {HUDI: "#3b8ac4", DELTA: "#d98a00", ICEBERG: "#2a9d74"}
LINES, LEFT = 320, 60  # pixels: height and left edge of a line chart
WIDTH, LABELS, BARS, ROW, TOP = 760, 235, 430, 22, 40  # pixels
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 13px; }
.paper { fill: #fff; stroke: #d1d9e0; }
.range { stroke: #1f2328; stroke-width: 1.5; }
.grid { stroke: #d1d9e0; }
.line { fill: none; stroke-width: 1.8; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .paper { fill: #151b23; stroke: #3d444d; }
  .range { stroke: #e6edf3; }
  .grid { stroke: #3d444d; }
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
    return _svg(title, alt, height, rows)


def line_chart(title: str, figures: Mapping[str, Sequence[float]], alt: str) -> str:
    """Return the SVG: for each table, a line of one figure per commit; dashed if merged on read.

    Args:
        figures: figures by contender, of commits 1, 2 and so on; all positive.
        alt: alternative text for screen readers.
    """
    longest = max(len(values) for values in figures.values())
    highest = max(max(values) for values in figures.values())
    bottom, right = LINES - 40, WIDTH - 190
    across, up = (right - LEFT) / max(longest - 1, 1), (bottom - TOP) / highest
    step = 10 ** (len(str(int(highest))) - 1)
    step = step if highest >= 3 * step else step / 2
    rows = []
    for tick in range(int(highest / step) + 1):
        y = round(bottom - tick * step * up, 1)
        rows += [
            f'<path class="grid" d="M{LEFT} {y}H{right}"/>',
            f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{number(tick * step)}</text>',
        ]
    for commit in (1, *range(10, longest + 1, 10)):
        x = round(LEFT + (commit - 1) * across, 1)
        rows.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{commit}</text>')
    label = bottom + 99.0  # the lowest first: each label stands above the one before
    for key in sorted(figures, key=lambda key: figures[key][-1]):
        values, contender = figures[key], CONTENDERS[key]
        points = " ".join(
            f"{LEFT + place * across:.1f},{bottom - value * up:.1f}"
            for place, value in enumerate(values)
        )
        dashes = ' stroke-dasharray="5 3"' if contender.kind == MOR else ""
        colour = COLOURS[contender.format]
        label = min(label - 15, bottom - values[-1] * up + 4)
        rows += [
            f'<polyline class="line" points="{points}" stroke="{colour}"{dashes}/>',
            f'<text x="{right + 8}" y="{label:.1f}" style="fill: {colour}">'
            f"{escape(contender.title)}</text>",
        ]
    return _svg(title, alt, LINES, rows)


def _svg(title: str, alt: str, height: int, rows: Sequence[str]) -> str:
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" \
viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(alt)}">
<style>{STYLE}
</style>
<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>
<text class="title" x="14" y="24">{escape(title)}</text>
{chr(10).join(rows)}
</svg>
"""
