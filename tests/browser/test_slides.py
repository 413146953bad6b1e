"""A demo's slides in a browser: one file, no network access, notes included."""

import shutil
import subprocess

import pytest
from chromium import SCREENSHOTS, chromium, needs_chromium

from lab_env.platform.settings import REPOSITORY

pytestmark = [pytest.mark.services, needs_chromium]
HEADINGS = "[...Reveal.getCurrentSlide().querySelectorAll('h2')].map(h => h.firstChild.textContent)"


@pytest.fixture(scope="module")
def slides(services, tmp_path_factory):
    """The HTML file that `lab demo` creates, in a folder of its own."""
    command = [REPOSITORY / ".venv" / "bin" / "lab", "demo", "snapshot", "--slides"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return shutil.copy(done.stdout.strip(), tmp_path_factory.mktemp("slides"))


def test_the_slides_show_every_cell_and_ask_for_nothing(slides):
    asked, errors = [], []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"file://{slides}")
        page.wait_for_function("Reveal.isReady()")
        titles, pictures = [], 0
        for _ in range(page.evaluate("Reveal.getTotalSlides()")):
            titles += page.evaluate(HEADINGS)
            picture = page.locator("section.present:not(.stack) .xray:visible")
            if picture.count():
                pictures += 1
                page.screenshot(path=SCREENSHOTS / "slides.png")
                assert picture.bounding_box()["width"] > 700  # an X-ray that the last row can read
            page.keyboard.press("ArrowRight")
        assert page.evaluate("Reveal.isLastSlide()") and pictures
        number, arrows = page.locator(".slide-number"), page.locator(".navigate-right")
        right = number.bounding_box()["x"] + number.bounding_box()["width"]
        assert right < arrows.bounding_box()["x"]
        notes = page.locator("aside.notes").all_text_contents()
    assert titles == [
        "Prepare",
        "The question",
        "The decisive moment",
        "The twist",
        "In one sentence",
    ]
    assert "Common error:" in " ".join(notes)
    assert [url.partition(":")[0] for url in asked] == ["file"] and errors == []
