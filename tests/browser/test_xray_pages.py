"""The X-ray's drawing in a browser: nothing overlaps or is cut off, at page and slide width.

Needs Chromium on PATH, and no services.
"""

import sys
from itertools import combinations

import pytest
from chromium import needs_chromium

from lab_env.platform.settings import REPOSITORY

sys.path.append(str(REPOSITORY / "tests" / "unit"))
from xray_pictures import TABLES

pytestmark = needs_chromium
SLACK = 2  # pixels: lines of text are higher than their letters

# Visible texts that are not turned, as their reader sees them, boxes of files, and marks.
MEASURE = """root => {
  const rectangle = r => ({left: r.left, right: r.right, top: r.top, bottom: r.bottom});
  const all = selector => [...root.querySelectorAll(selector)].map(e => ({
    ...rectangle(e.getBoundingClientRect()), column: getComputedStyle(e).gridColumnStart,
    words: e.textContent}));
  const texts = [], walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest('style')) continue;
    if (getComputedStyle(parent).rotate !== 'none') continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const seen = rectangle(range.getBoundingClientRect());
    for (let e = parent; e !== root; e = e.parentElement) {
      if (getComputedStyle(e).overflowX !== 'hidden') continue;
      const frame = e.getBoundingClientRect();
      seen.left = Math.max(seen.left, frame.left);
      seen.right = Math.min(seen.right, frame.right);
      seen.top = Math.max(seen.top, frame.top);
      seen.bottom = Math.min(seen.bottom, frame.bottom);
    }
    if (seen.right - seen.left < 1 || seen.bottom - seen.top < 1) continue;
    const box = parent.closest('.file, .tile, .chip');
    texts.push({...seen, words: node.data.trim(), cut: parent.closest('.file, .group span') !== null
      && seen.right - seen.left + 1 < range.getBoundingClientRect().width,
      box: box && rectangle(box.getBoundingClientRect())});
  }
  return {root: rectangle(root.getBoundingClientRect()), texts, files: all('.file[title]'),
    tiles: all('.partitions .tile'), slices: all('.grid .slice'), marks: all('.grid .line'),
    scroll: document.documentElement.scrollWidth};
}"""


@pytest.fixture(scope="module")
def page(browser):
    return browser.new_page()


def overlapping(shapes: list[dict]) -> list[tuple[str, str]]:
    """Return the texts of each pair of shapes that share more than an edge."""
    return [
        (a["words"], b["words"])
        for a, b in combinations(shapes, 2)
        if min(a["right"], b["right"]) - max(a["left"], b["left"]) > SLACK
        and min(a["bottom"], b["bottom"]) - max(a["top"], b["top"]) > SLACK
    ]


@pytest.mark.parametrize("width", [700, 1000])
@pytest.mark.parametrize("name", TABLES)
def test_nothing_overlaps_or_is_cut_and_files_are_below_their_instants(page, name, width):
    picture = TABLES[name]()
    page.set_viewport_size({"width": width, "height": 600})
    page.set_content(picture._repr_html_())
    seen = page.locator(".xray").evaluate(MEASURE)
    assert seen["scroll"] <= width
    for kind in ("texts", "files", "tiles", "slices"):
        assert overlapping(seen[kind]) == [], kind
    for text in seen["texts"]:
        assert not text["cut"], text
        for frame in (seen["root"], text["box"] or seen["root"]):
            assert frame["left"] - SLACK <= text["left"] < text["right"] <= frame["right"] + SLACK
    middle = {mark["column"]: mark["left"] + mark["right"] for mark in seen["marks"]}
    for file in seen["files"]:
        assert abs(file["left"] + file["right"] - middle[file["column"]]) < 1
    assert bool(seen["files"] or seen["tiles"]) == bool(picture.files)
    words = " ".join(text["words"] for text in seen["texts"])
    assert picture.table_type in words or name == "long names"
