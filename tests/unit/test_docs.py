"""All commands and settings mentioned in the README and the guides exist."""

import re

from typer.main import get_command

from lab_env.cli import app
from lab_env.course.authoring import reference
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


def test_the_commands_page_has_each_command_and_option():
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    named = get_command(app).commands
    named |= {
        f"{group} {name}": command
        for group, of in named.items()
        for name, command in getattr(of, "commands", {}).items()
    }
    for name, command in named.items():
        _, _, part = page.partition(f"\n### lab {name}\n")
        part = part.partition("\n### ")[0]
        options = [
            param.opts[0]
            for param in command.params
            if param.opts[0][0] == "-" and not param.hidden
        ]
        assert [option for option in options if f"`{option}" not in part] == [], name


def test_the_settings_page_has_each_setting_with_its_default_on_any_machine(monkeypatch, tmp_path):
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    for name in Settings.model_fields:
        assert page.count(f"\n| `LAB_{name.upper()}` | ") == 1, name
    assert "| `LAB_MINIO_PORT` | `9000` | S3 API of MinIO |" in page
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LAB_MINIO_PORT", "9999")
    assert reference.pages(get_command(app))[DOCS / "settings.md"] == page
