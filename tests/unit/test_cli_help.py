"""Every command has a help page that fits 80 columns, and `make help` lists every target."""

import re
import shlex
import subprocess
from collections.abc import Iterator

import click
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from lab_env.cli import app
from lab_env.platform.services import SERVICES
from lab_env.platform.settings import REPOSITORY

ROOT = get_command(app)


def commands(
    command: click.Command = ROOT, path: str = "lab"
) -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its path, such as `lab cloud env`."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{path} {name}")


ALL = dict(commands())


def help_page(path: str) -> list[str]:
    shown = CliRunner().invoke(app, [*path.split()[1:], "--help"], env={"COLUMNS": "80"})
    assert shown.exit_code == 0, shown.output
    return shown.stdout.splitlines()


@pytest.mark.parametrize("path", ALL)
def test_a_help_page_fits_explains_each_parameter_and_has_an_example_that_parses(path):
    assert [line for line in help_page(path) if len(line) > 80] == []
    assert [p.name for p in ALL[path].params if not (p.hidden or p.help)] == []

    given = (ALL[path].epilog or "").removeprefix("Example: ")
    assert given.startswith(path), "it shows no example of this command"
    words = shlex.split(given)
    target = max((name for name in ALL if f"{given} ".startswith(f"{name} ")), key=len)
    arguments = words[len(target.split()) :]
    ALL[target].make_context(target, arguments, parent=click.Context(ROOT)).close()


def test_the_help_of_up_names_every_service():
    page = "\n".join(help_page("lab up"))
    assert [name for name in SERVICES if name not in page] == []


def test_make_help_lists_every_target():
    shown = subprocess.check_output(
        ["make", "--no-print-directory", "help"], cwd=REPOSITORY, text=True
    )
    targets = re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"^make ([a-z]+) ", shown, re.MULTILINE)) == set(targets)
