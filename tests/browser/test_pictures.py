"""Every picture of the README is complete, and readable on a page of any colour.

Needs Chromium on PATH, and no services.
"""

import pytest
from chromium import contrast, needs_chromium

from lab_env.course.publishing.pictures import pictures
from lab_env.lab.handle import ARCHITECTURE

pytestmark = needs_chromium


@pytest.mark.parametrize("picture", pictures(), ids=lambda picture: picture.name)
def test_no_picture_is_cut(browser, picture):
    page = browser.new_page(viewport={"width": picture.width, "height": picture.height})
    page.goto(picture.path.as_uri())
    cut = page.evaluate("""() => [...document.querySelectorAll('.picture, .picture .grid')]
      .filter(e => e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1)
      .map(e => [e.className, e.scrollWidth, e.clientWidth, e.scrollHeight, e.clientHeight])""")
    assert cut == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", [ARCHITECTURE, *(picture.path for picture in pictures())])
def test_a_picture_reads_on_a_page_of_any_colour(browser, path, theme):
    page = browser.new_page(color_scheme=theme)
    page.goto(path.as_uri())
    # What is transparent counts as black here, on which the light theme's text does not read.
    colours = page.evaluate("""() => {
      const drawing = document.querySelector('.picture') ?? document.documentElement;
      const {color, backgroundColor} = getComputedStyle(drawing);
      return [color, backgroundColor];
    }""")
    assert contrast(*colours) > 7
