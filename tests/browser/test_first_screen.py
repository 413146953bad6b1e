"""The README as a code host shows it: its beginning fits one screen, and no picture is cut.

Needs Chromium on PATH, and no services. Screenshots are kept in `.lab/screenshots`.
"""

import pytest
from chromium import SCREENSHOTS, chromium, contrast, needs_chromium

from lab_env.course.publishing.pictures import pictures
from lab_env.lab.handle import ARCHITECTURE
from lab_env.platform.settings import REPOSITORY

pytestmark = needs_chromium
# A code host's column for a README in a window of 1280 by 800 pixels, and its type. With the fonts
# that it asks for some 50 pixels are left, for the host's bar.
COLUMN, HEIGHT = 838, 800
STYLE = """
  :root { color-scheme: light dark; }
  body { margin: 0 auto; padding: 32px; font: 16px/1.5 "Segoe UI", Helvetica, Arial, sans-serif;
         background: light-dark(#fff, #0d1117); color: light-dark(#1f2328, #f0f6fc); }
  h1, h2 { margin: 24px 0 16px; padding-bottom: .3em; font-weight: 600; line-height: 1.25;
           border-bottom: 1px solid light-dark(#d1d9e0, #3d444d); }
  h1 { margin-top: 0; font-size: 2em; } h2 { font-size: 1.5em; }
  p, pre, ul, table { margin: 0 0 16px; }
  a { color: light-dark(#0969da, #4493f8); }
  pre { padding: 16px; overflow: auto; border-radius: 6px; font-size: 85%; line-height: 1.45;
        background: light-dark(#f6f8fa, #151b23); }
  table { display: block; overflow: auto; } p, li { overflow-wrap: break-word; }
  img { max-width: 100%; box-sizing: content-box; }
"""


@pytest.fixture(scope="module")
def browser():
    """Chromium."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def readme(tmp_path_factory) -> str:
    """The address of the README as a page."""
    from markdown_it import MarkdownIt

    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    body = MarkdownIt("commonmark").enable("table").render(text)
    page = tmp_path_factory.mktemp("host") / "README.html"
    base = f'<base href="{REPOSITORY.as_uri()}/"><meta charset="utf-8">'
    page.write_text(f"<!doctype html>{base}<style>{STYLE}</style>{body}", encoding="utf-8")
    return page.as_uri()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_it_is_and_costs_and_what_to_type_fits_one_screen(browser, readme, theme):
    page = browser.new_page(viewport={"width": COLUMN + 64, "height": HEIGHT}, color_scheme=theme)
    page.goto(readme)
    page.screenshot(path=SCREENSHOTS / f"readme-{theme}.png")
    needs = page.locator("pre + p").first.bounding_box()
    assert needs["y"] + needs["height"] <= HEIGHT
    page.set_viewport_size({"width": 390, "height": 844})
    page.screenshot(path=SCREENSHOTS / f"readme-{theme}-phone.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


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
