"""Commands and settings that a guide names exist, and links to the glossary have a target."""

import re

import pytest
from typer.main import get_command

from lab_env.cli import app
from lab_env.course.authoring import reference
from lab_env.course.source import sources
from lab_env.platform.settings import REPOSITORY, Settings

DOCS = REPOSITORY / "docs"
GUIDES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


def named(pattern: str) -> set[str]:
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


def test_the_settings_page_has_each_setting_with_its_default_on_any_machine(monkeypatch, tmp_path):
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    for name in Settings.model_fields:
        assert page.count(f"\n| `LAB_{name.upper()}` | ") == 1, name
    assert "| `LAB_MINIO_PORT` | `9000` | S3 API of MinIO |" in page
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LAB_MINIO_PORT", "9999")
    assert reference.pages(get_command(app))[DOCS / "settings.md"] == page


def anchor(term: str) -> str:
    """Return the anchor of a heading, as GitHub and JupyterLab generate it."""
    return re.sub(r"[^\w\- ]", "", term.lower()).replace(" ", "-")


@pytest.mark.parametrize("source", sources(), ids=lambda path: path.stem)
def test_every_link_to_the_glossary_arrives(source):
    terms = re.findall(r"^### (.+)$", (DOCS / "glossary.md").read_text("utf-8"), re.MULTILINE)
    links = re.findall(r"\(\.\./docs/glossary\.md#([^)]*)\)", source.read_text("utf-8"))
    assert links, "a lesson explains its terms"
    assert set(links) <= set(map(anchor, terms))
