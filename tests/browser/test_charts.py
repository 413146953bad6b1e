"""In both JupyterLab themes, every text in a chart contrasts with its background.

Needs Chromium on PATH, and no services.
"""

import sys
from itertools import pairwise

import pandas as pd
import pytest
from chromium import contrast, needs_chromium

from lab_env.lab.ladder.picture import draw
from lab_env.lessons import recorded
from lab_env.lessons.l03.figures import draw_batches
from lab_env.lessons.l05.figures import draw_sweep
from lab_env.lessons.l15.figures import draw_versions
from lab_env.lessons.recorded import growth
from lab_env.pipeline.checkpoint import Batch
from lab_env.platform.settings import REPOSITORY

sys.path.append(str(REPOSITORY / "tests" / "unit"))
from test_ladder_picture import HISTORIES

pytestmark = needs_chromium
# JupyterLab's text colours and what they stand on.
THEMES = {
    "light": ("rgba(0, 0, 0, 0.87)", "rgba(0, 0, 0, 0.7)", "#fff"),
    "dark": ("rgba(255, 255, 255, 1)", "rgba(255, 255, 255, 0.7)", "#111"),
}

# Each text with its colour and the colour below its middle; each tick, whose path stands in `defs`.
MEASURE = r"""() => {
  const rgba = (colour, alpha) => {
    const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
    return [r, g, b, a * alpha];
  };
  const over = (top, low) => low.map((below, n) => top[3] * top[n] + (1 - top[3]) * below);
  const paint = e => {
    const {fill, fillOpacity, opacity, backgroundColor} = getComputedStyle(e);
    if (!(e instanceof SVGGeometryElement)) return rgba(backgroundColor, 1);
    return fill.startsWith('rgb') ? rgba(fill, fillOpacity * opacity) : [0, 0, 0, 0];
  };
  const css = colour => `rgb(${colour.map(Math.round)})`;
  const seen = (words, colour, below) => [words, css(over(rgba(colour, 1), below)), css(below)];
  const page = rgba(getComputedStyle(document.body).backgroundColor, 1).slice(0, 3);
  const texts = [...document.querySelectorAll('svg text')].map(e => {
    const {left, right, top, bottom} = e.getBoundingClientRect();
    const all = document.elementsFromPoint((left + right) / 2, (top + bottom) / 2);
    const below = all.filter(other => !(other instanceof SVGTextContentElement)).reverse()
      .reduce((low, other) => over(paint(other), low), page);
    return seen(e.textContent, getComputedStyle(e).fill, below);
  });
  const ticks = [...document.querySelectorAll('svg [id*=tick] defs path')].map(
    e => seen('a tick', getComputedStyle(e).stroke, page));
  return [...texts, ...ticks];
}"""


def batches() -> str:
    """Return a chart of batches with a block of each colour."""
    bounds = [{0: 1000 * number} for number in range(5)]
    return draw_batches(
        [
            Batch(number, start=start, end=end, committed=number < 3)
            for number, (start, end) in enumerate(pairwise(bounds))
        ],
        "",
    )


def versions() -> str:
    """Return a chart of versions with a block of each colour."""
    states = ["new", "paid", "packed", "shipped", "cancelled", "erased"]
    rows = [
        {"order_id": f"O-{n}", "status": state, "amount": 1, "valid_from": n, "valid_to": None}
        for n, state in enumerate(states)
    ]
    return draw_versions(pd.DataFrame(rows))


CHARTS = {
    "a legend of the figure": lambda: growth.growth_chart(recorded.delivered("growth")),
    "logarithmic axes": lambda: draw_sweep(
        pd.DataFrame({"COPY_ON_WRITE": [2e4, 3e4], "MERGE_ON_READ": [3e3, 2e5]}, index=[10, 1000])
    ),
    "numbers on blocks": batches,
    "words on blocks": versions,
    "a fall after a kill": lambda: draw(HISTORIES["fifteen"]),
    "a fall with long names": lambda: draw(HISTORIES["long_names"]),
}


@pytest.fixture(scope="module")
def page(browser):
    return browser.new_page(viewport={"width": 1200, "height": 800})


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", CHARTS)
def test_every_text_and_tick_of_a_chart_reads(page, name, theme):
    ink, faint, paper = THEMES[theme]
    page.set_content(
        f"<body style='--jp-content-font-color1: {ink}; --jp-content-font-color2: {faint};"
        f" --jp-layout-color0: {paper}; background: {paper}'>{CHARTS[name]()}"
    )
    seen = page.evaluate(MEASURE)
    assert len(seen) > 10
    assert [mark for mark in seen if contrast(*mark[1:]) < 4.5] == []
