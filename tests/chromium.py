"""A headless Chromium for tests, the folder for screenshots, and the contrast of colours."""

import contextlib
import os
import re
import shutil

import pytest

from lab_env.platform.settings import REPOSITORY

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
SCREENSHOTS = REPOSITORY / ".lab" / "screenshots"
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
needs_chromium = pytest.mark.skipif(
    PROGRAM is None and not os.environ.get("CI"), reason="NOT RUN: no Chromium on PATH"
)


@contextlib.contextmanager
def chromium(*switches: str):
    """Start Chromium, and yield it as a Playwright browser.

    Args:
        switches: command-line switches of Chromium, in addition to `SWITCHES`.
    """
    from playwright.sync_api import sync_playwright

    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=[*SWITCHES, *switches])
        yield browser
        browser.close()


def contrast(foreground: str, background: str) -> float:
    """Return the WCAG contrast ratio (1 to 21) of two CSS colours such as `rgb(0, 0, 0)`."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dark = sorted((luminance(foreground), luminance(background)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)
