"""The site in a browser, opened from local files: search, links, phone width, both themes.

axe-core checks accessibility on course pages that contain the lab's drawings.
"""

import os

import nbformat
import pytest
from chromium import contrast, needs_chromium
from nbformat.v4 import new_output
from small_site import course

from lab_env.course.authoring.build import COURSE, Tree
from lab_env.course.authoring.executed import keep
from lab_env.course.publishing.pictures import pictures
from lab_env.course.publishing.recording import recorded_table
from lab_env.course.publishing.site.build import build_site
from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import cache
from lab_env.platform.install.versions import versions
from lab_env.platform.install.wheels import fetch_wheel
from lab_env.tables.xray.player import player

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> str:
    return build_site(course(tmp_path_factory.mktemp("a course"))).index.as_uri()


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


LESSON = "solutions/05_cow_and_mor"
GRAVE = {"serious", "critical"}


@pytest.fixture(scope="module")
def course_index(tmp_path_factory) -> str:
    """Address of the course's site with one lesson, whose outputs are a player and drawings."""

    tree, folder = Tree(), tmp_path_factory.mktemp("the course")
    tree.executed, tree.site = folder / "executed", folder / "site"
    path = COURSE.root / f"{LESSON}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    played = player(recorded_table("after"))._repr_html_()
    bodies = [played, *(drawing for picture in pictures() for _, drawing in picture.parts)]
    for cell, body in zip(code, bodies, strict=False):
        cell.outputs = [new_output("display_data", {"text/html": body})]
    keep(notebook, path, tree)
    return build_site(tree, partial=True).index.as_uri()


def test_a_player_steps_without_a_kernel(browser, course_index):
    page = browser.new_page()
    page.goto(course_index.replace("index", LESSON))  # a file
    step = page.locator(".xray-player .step:not([hidden])")
    assert step.inner_text().startswith("Step 2 of 2")
    page.get_by_role("button", name="Step back").click()
    assert step.inner_text().startswith("Step 1 of 2")
    page.keyboard.press("End")
    assert step.inner_text().startswith("Step 2 of 2")


def test_on_a_phone_the_drawing_of_the_front_page_keeps_a_size_to_read_and_scrolls(
    browser, course_index
):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(course_index.replace("index", "docs/README"))
    drawing = page.locator("p > img").first
    assert drawing.bounding_box()["width"] >= 600
    assert drawing.evaluate("e => e.parentElement.scrollWidth > e.parentElement.clientWidth")
    assert drawing.evaluate("e => e.parentElement.tabIndex") == 0  # the keyboard scrolls it


@pytest.fixture(scope="module")
def axe() -> str:
    """JavaScript source of axe-core, fetched once."""
    pin = versions()["wheels"]["axe"]
    folder = cache() / f"axe-{pin['version']}"
    try:
        fetch_wheel("axe", folder)
    except LabError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NOT RUN: {error.what}")
    return (folder / "axe_playwright_python" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["docs/README", LESSON, "docs/query_sheet"])
def test_axe_finds_nothing_grave_on_a_phone_and_on_a_desk(browser, course_index, axe, name, theme):
    page = browser.new_page(color_scheme=theme)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        page.goto(course_index.replace("index", name))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate(axe)
        assert grave(page) == []


def grave(page) -> list[tuple[str, str]]:
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [(rule["id"], rule["nodes"][0]["html"]) for rule in found if rule["impact"] in GRAVE]
