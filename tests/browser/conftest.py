"""Chromium, for the tests of one module."""

import pytest
from chromium import chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser
