"""The slides of a demo in a browser: one file, nothing asked of any network, notes included."""

import shutil
import subprocess

import pytest
from test_jupyterlab import CHROMIUM, REPOSITORY, SCREENSHOTS, SWITCHES, pytestmark  # noqa: F401

HEADINGS = "[...Reveal.getCurrentSlide().querySelectorAll('h2')].map(h => h.firstChild.textContent)"


@pytest.fixture(scope="module")
def slides(services, tmp_path_factory):
    """The HTML file that `lab demo` makes, alone in a folder."""
    command = [REPOSITORY / ".venv" / "bin" / "lab", "demo", "snapshot", "--slides"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return shutil.copy(done.stdout.strip(), tmp_path_factory.mktemp("slides"))


def test_the_slides_show_every_cell_and_ask_for_nothing(slides):
    from playwright.sync_api import sync_playwright

    asked, errors = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"file://{slides}")
        page.wait_for_function("Reveal.isReady()")
        titles = []
        for _ in range(page.evaluate("Reveal.getTotalSlides()")):
            titles += page.evaluate(HEADINGS)
            picture = page.locator("section.present:not(.stack) .xray:visible")
            if picture.count():
                SCREENSHOTS.mkdir(parents=True, exist_ok=True)
                page.screenshot(path=SCREENSHOTS / "slides.png")
                assert picture.bounding_box()["width"] > 700  # an X-ray that the last row can read
            page.keyboard.press("Space")
        notes = page.locator("aside.notes").all_text_contents()
        browser.close()
    assert titles == [
        "Prepare",
        "The question",
        "The decisive moment",
        "The twist",
        "In one sentence",
    ]
    assert "Common error:" in " ".join(notes)
    assert [url.partition(":")[0] for url in asked] == ["file"] and errors == []
