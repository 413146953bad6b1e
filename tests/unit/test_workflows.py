"""The code host's workflows pin actions by digest, need few permissions, and run what exists."""

import re
import shlex
import subprocess

import pytest
import typer
import yaml

from lab_env.cli import app
from lab_env.platform.install import java
from lab_env.platform.settings import REPOSITORY

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_names_its_actions_by_digest_and_reads_unless_a_job_says_otherwise(path):
    text = path.read_text()
    used = re.findall(r"uses: (.+)", text)
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", one) for one in used)
    assert re.search(r"^permissions:\n  contents: read$", text, re.M)
    # Whatever a job may write is listed in its own place.
    assert set(re.findall(r"(\S+): write", text)) <= {"pages", "id-token"}


def test_all_workflows_use_the_same_version_of_an_action():
    used = {one for path in WORKFLOWS for one in re.findall(r"uses: (.+)", path.read_text())}
    assert len({one.split("@")[0] for one in used}) == len(used)


def test_other_platforms_take_a_learners_first_steps():
    platforms = yaml.safe_load((REPOSITORY / ".github/workflows/platforms.yml").read_text())
    lab = platforms["jobs"]["lab"]
    machines = [machine["machine"] for machine in lab["strategy"]["matrix"]["include"]]
    assert [name for name in machines if name.endswith("-arm")] and machines[0].startswith("macos")
    runs = [step["run"] for step in lab["steps"] if "run" in step]
    assert runs[1:] == ["make setup", 'sh -c "$FIRST_STEPS"']
    steps = [shlex.split(line) for line in platforms["env"]["FIRST_STEPS"].splitlines()]
    assert [step[1] for step in steps if step[0] == ".venv/bin/lab"] == ["up", "tour", "down"]
    for step in steps:
        if step[0] == ".venv/bin/lab":
            _parse(step[1:])
        assert all(
            (REPOSITORY / word).exists() for word in step if word.endswith((".py", ".ipynb"))
        )


def test_a_linux_arm64_machine_installs_the_java_that_set_up_asks_for(monkeypatch):
    monkeypatch.setattr(java.sys, "platform", "linux")
    monkeypatch.setattr(java.platform, "machine", lambda: "aarch64")
    with pytest.raises(java.LabError) as asked:
        java._refuse_where_none_can_be_fetched()
    workflow = (REPOSITORY / ".github/workflows/platforms.yml").read_text()
    (package,) = re.findall(r"install -y -qq (\S+)", workflow)
    assert f"apt install {package}," in asked.value.next_step


def test_an_emulated_arm64_machine_takes_the_steps_of_the_workflow():
    script = (REPOSITORY / "tests/arm64.sh").read_text()
    (command,) = re.findall(r"^(sed .+platforms\.yml) >", script, re.M)
    steps = subprocess.check_output(shlex.split(command), text=True, cwd=REPOSITORY)
    platforms = yaml.safe_load((REPOSITORY / ".github/workflows/platforms.yml").read_text())
    assert steps == platforms["env"]["FIRST_STEPS"]


def _parse(arguments: list[str]) -> None:
    """Parse a command of the lab; raise an error if there is none, or no such option."""
    group = typer.main.get_command(app)
    with group.make_context("lab", list(arguments)) as context:
        name, command, rest = group.resolve_command(context, arguments)
        command.make_context(name, rest, parent=context)
