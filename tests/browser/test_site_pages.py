"""A reader's browser on the site, straight from its files: search, links, a phone, both themes."""

import os

import pytest
from small_site import course
from test_jupyterlab import CHROMIUM, SWITCHES, contrast

from lab_env.publish.site.build import build_site

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="NOT RUN: no Chromium on PATH"
)


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> str:
    """The address of a small course's site."""
    return build_site(course(tmp_path_factory.mktemp("a course"))).index.as_uri()


@pytest.fixture(scope="module")
def browser():
    """Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)


def test_a_term_is_found_and_its_link_leads_to_the_lesson(browser, index):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(index)
    page.wait_for_url("**/docs/README.html")
    page.get_by_label("Search all lessons and guides").fill("zebrafish")
    page.keyboard.press("Enter")
    page.locator("#search-results").get_by_role("link", name="02 · Two?").first.click()
    page.wait_for_url("**/solutions/02_two.html*")
    assert "zebrafish" in page.locator("article").inner_text()
    page.go_back()
    page.goto(index.replace("index.html", "solutions/01_one.html"))
    page.get_by_role("link", name="group").click()
    page.wait_for_url("**/docs/glossary.html#file-group")
    assert page.locator("#file-group").get_by_role("heading").is_visible()


@pytest.mark.parametrize("name", ["docs/README", "docs/glossary", "solutions/01_one", "search"])
def test_no_page_scrolls_sideways_from_a_phone_to_a_wide_screen(browser, index, name):
    page = browser.new_page()
    for width in (360, 800, 1200, 1400, 1600, 1660, 1900):
        page.set_viewport_size({"width": width, "height": 740})
        page.goto(index.replace("index", name))
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_phone_a_drawing_keeps_a_size_to_read_and_scrolls_in_its_cell(browser, index):
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.goto(index.replace("index", "solutions/01_one"))
    drawing = page.locator(".cell_output svg").first
    assert drawing.bounding_box()["width"] >= 600
    assert drawing.evaluate("e => e.closest('.output').scrollWidth") > 600


@pytest.mark.parametrize("wish", ["light", "dark"])
def test_outputs_read_in_both_themes_and_follow_the_switch(browser, index, wish):
    page = browser.new_page(color_scheme=wish)
    page.goto(index.replace("index", "solutions/01_one"))

    def colours():
        return page.locator(".cell_output svg text").first.evaluate(
            "e => [getComputedStyle(e).fill, getComputedStyle(document.body).backgroundColor]"
        )

    by_wish = colours()
    assert contrast(*by_wish) > 7
    switch = page.locator(".theme-toggle-content .theme-toggle")
    for _ in range(2):  # from the system's wish to one theme, then to the other
        switch.click()
        assert contrast(*colours()) > 7
        if colours() != by_wish:
            break
    assert colours() != by_wish
