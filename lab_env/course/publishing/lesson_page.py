"""Takes the README's screenshot of a lesson's page. Needs Chromium on PATH.

Run `.venv/bin/python -m lab_env.course.publishing.lesson_page` after `make site`.
"""

import shutil
from io import BytesIO

from lab_env.course.authoring.build import COURSE
from lab_env.course.publishing.pictures import FOLDER
from lab_env.platform.errors import LabError

PICTURE = FOLDER / "lesson.png"
PAGE = COURSE.site / "solutions" / "05_cow_and_mor.html"
BEGIN, END = 'pictures["update", "COPY_ON_WRITE"]', "and logs ten on Merge-on-Read"
WIDTH, MARGIN = 1280, 12  # pixels
COLOURS = 96  # keeps the file small; the page has fewer but for the smoothing of its letters


def photograph() -> None:
    """Save a screenshot of the page, from the cell that contains `BEGIN` to that with `END`."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not (PAGE.exists() and chromium):
        raise LabError("The picture needs the site, and Chromium on PATH.", "run: make site")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(PAGE.as_uri())
        cells = (page.locator(".cell", has_text=text).last for text in (BEGIN, END))
        first, last = (cell.bounding_box() for cell in cells)
        assert first and last  # both are visible
        photo = page.screenshot(
            full_page=True,
            clip={
                "x": first["x"] - MARGIN,
                "y": first["y"] - MARGIN,
                "width": first["width"] + 2 * MARGIN,
                "height": last["y"] + last["height"] - first["y"] + 2 * MARGIN,
            },
        )
        browser.close()
    Image.open(BytesIO(photo)).quantize(COLOURS).save(PICTURE, optimize=True)


if __name__ == "__main__":
    photograph()
    print(PICTURE)
