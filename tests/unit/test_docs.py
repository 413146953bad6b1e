"""The guides, the README among them: their commands exist, and who is lost has one page to read."""

import re

import pytest
from typer.main import get_command

from lab_env.cli import app
from lab_env.settings import REPOSITORY

DOCS = REPOSITORY / "docs"
LOST = ("thirty_minutes.md", "teach_on_friday.md", "broken.md")
GUIDES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
PAGE_WORDS = 450  # of text and tables, on a page of A4


def named(pattern: str) -> set[str]:
    """What a pattern finds in any of the guides."""
    texts = (guide.read_text(encoding="utf-8") for guide in GUIDES)
    return {name for text in texts for name in re.findall(pattern, text, re.MULTILINE)}


def test_every_make_target_that_a_guide_names_exists():
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert {"lab", "test", "clean"} <= named(r"(?:^|`)make ([a-z]+)") <= targets


def test_every_lab_command_that_a_guide_names_exists():
    commands = set(get_command(app).commands)
    found = named(r"(?:`|\.venv/bin/)lab (?!in trouble`)([a-z]+)")  # that is no command
    assert {"up", "logs", "author"} <= found <= commands


@pytest.mark.parametrize("name", LOST)
def test_a_way_in_for_who_is_lost_is_one_page_and_two_pages_lead_to_it(name):
    assert len((DOCS / name).read_text(encoding="utf-8").split()) <= PAGE_WORDS
    first_screen = GUIDES[0].read_text(encoding="utf-8").partition("\n## ")[0]
    assert f"](docs/{name})" in first_screen
    assert f"]({name})" in (DOCS / "README.md").read_text(encoding="utf-8")


def test_the_front_page_has_a_part_for_each_audience():
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    assert parts[::2] == ["Learn", "Teach", "Demonstrate", "Read"]
    assert all("\n- [" in part for part in parts[1::2])
