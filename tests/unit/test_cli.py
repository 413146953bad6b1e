"""A mistake gets one sentence and the next step; each command's help fits 80 columns."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import psutil
import pytest
from own_lab import allowed
from typer.main import get_command
from typer.testing import CliRunner

from lab_env.cli import _explained, _show, app
from lab_env.platform.errors import LabError
from lab_env.platform.processes.environment import MARK
from lab_env.platform.processes.system import environment_of
from lab_env.platform.services import SERVICES
from lab_env.platform.settings import REPOSITORY, settings


def lab(*arguments: str, home="/nonexistent", **more: str) -> subprocess.CompletedProcess:
    """Run a `lab` command in a separate process, as a user does."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LAB_")}
    environment |= {"LAB_HOME": str(home), "LAB_CACHE": str(settings().cache), **more}
    command = [sys.executable, "-I", "-m", "lab_env.cli", *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=allowed(60)
    )


def left_running(home) -> list[psutil.Process]:
    return [p for p in psutil.process_iter() if environment_of(p).get(MARK) == str(home)]


@pytest.mark.parametrize(
    ("arguments", "variables", "status", "sentence", "next_step"),
    [
        (("up", "kafak"), {}, 1, "There is no service 'kafak'.", "choose from: minio, kafka"),
        (("bench", "lode"), {}, 1, "The benchmark has no part lode", "choose from: set-up, sta"),
        (("logs", "kafka"), {}, 1, "There is no log of 'kafka'.", "lab up"),
        (("status",), {"LAB_KAFKA_PROT": "1"}, 1, "LAB_KAFKA_PROT is not a setting", "LAB_KAFKA_P"),
        (("status",), {"LAB_KAFKA_PORT": "99999"}, 1, "LAB_KAFKA_PORT='99999'", "set LAB_KAFKA_P"),
        (("up",), {"LAB_MINIO_BINARY": "/no/minio"}, 1, "is not a program", "set it to a MinIO"),
        (("ledger",), {}, 1, "The services are not running", "lab up"),
        (("reset", "00"), {}, 1, "The services are not running", "lab up"),
        (("reset", "99"), {}, 1, "There is no lesson '99'.", "choose from: 00"),
        (("author", "run", "98"), {}, 1, "Lesson 98 has no source in lab_env/lessons.", ""),
        (("author", "new", "5", "Cow"), {}, 1, "", "lab author new 05 cow_and_mor"),
        (("pu",), {}, 2, "No such command 'pu'", ""),
        (("up", "--fast"), {}, 2, "No such option", ""),
        (("tour", "--rate", "0"), {}, 2, "Invalid value for '--rate'", ""),
    ],
)
def test_a_mistake_gets_one_sentence_and_a_next_step(
    lab_command, tmp_path, arguments, variables, status, sentence, next_step
):
    done = lab_command(*arguments, LAB_HOME=str(tmp_path / "lab"), **variables)
    assert done.returncode == status, done.stderr
    assert sentence in done.stderr
    assert next_step in done.stderr
    assert "Traceback" not in done.stderr
    assert left_running(tmp_path / "lab") == []


def test_a_mistyped_command_gets_one_suggestion(lab_command):
    assert lab_command("statsu").stderr.count("Did you mean 'status'?") == 1


def test_a_home_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    done = lab("status", home=tmp_path / "file")
    assert done.returncode == 1
    assert f"LAB_HOME={tmp_path / 'file'} cannot be used" in done.stderr


def test_an_unexpected_error_is_short_and_its_details_are_kept(tmp_path):
    (tmp_path / "run").write_text("a file where the lab needs a folder")
    done = lab("down", home=tmp_path)
    assert done.returncode == 1
    assert "Something unexpected happened: FileExistsError" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in (tmp_path / "logs" / "lab-error.log").read_text()


@pytest.mark.parametrize("error", [LabError("It broke."), ValueError("It broke.")])
def test_a_note_is_shown_after_the_error_itself(home, capsys, error):
    error.add_note("The rest could not be removed.")
    try:
        raise error
    except Exception:
        _show(_explained(error))
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first.endswith("It broke.") and second == "The rest could not be removed."


def test_without_services_status_answers_at_once_and_down_is_fine(tmp_path):
    # Processor seconds, beside those of the help: neither load nor a slow machine must decide.
    def used(*arguments: str) -> tuple[float, subprocess.CompletedProcess]:
        before = os.times()
        done = lab(*arguments, home=tmp_path)
        after = os.times()
        return sum(after[2:4]) - sum(before[2:4]), done

    (by_help, _), (by_status, done) = used("--help"), used("status")
    assert done.returncode == 0, done.stderr
    assert by_status < 2 * by_help
    assert done.stdout.count("stopped") == 2
    assert lab("down", home=tmp_path).returncode == 0


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


@pytest.mark.parametrize("path", [path for path in ALL if path != "lab"])
def test_the_commands_page_has_each_option(path):
    page = (REPOSITORY / "docs" / "commands.md").read_text(encoding="utf-8")
    part = page.partition(f"\n### {path}\n")[2].partition("\n### ")[0]
    options = [p.opts[0] for p in ALL[path].params if p.opts[0].startswith("-") and not p.hidden]
    assert [option for option in options if f"`{option}" not in part] == []


def test_the_help_of_up_names_every_service():
    page = "\n".join(help_page("lab up"))
    assert [name for name in SERVICES if name not in page] == []


def test_make_help_lists_every_target():
    shown = subprocess.check_output(
        ["make", "--no-print-directory", "help"], cwd=REPOSITORY, text=True
    )
    targets = re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"^make ([a-z]+) ", shown, re.MULTILINE)) == set(targets)
