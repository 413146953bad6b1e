"""The code host's workflows: nothing that moves under its name, and no right that is not needed."""

import re

import pytest
import yaml

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


def test_each_platform_takes_a_learners_first_steps():
    text = (REPOSITORY / ".github" / "workflows" / "platforms.yml").read_text()
    steps = ("lab up", "notebooks/00_welcome.ipynb", "lab tour", "lab down")
    script = text.partition("FIRST_STEPS: |")[2].partition("jobs:")[0]
    assert [script.find(step) for step in steps] == sorted(script.find(step) for step in steps)
    assert min(script.find(step) for step in steps) > 0
    # The job of each kind of machine runs them; each notebook and option that they name is there.
    assert text.count("$FIRST_STEPS") == text.count("runs-on:") == 2
    assert {"macos-15", "ubuntu-24.04-arm"} <= set(re.findall(r"machine: (\S+)", text))
    assert (REPOSITORY / "notebooks" / "00_welcome.ipynb").exists()


def test_the_site_is_what_the_tests_executed_and_only_the_job_that_publishes_it_may_write():
    text = (REPOSITORY / ".github" / "workflows" / "site.yml").read_text()
    build, publish = (yaml.safe_load(text)["jobs"][name] for name in ("build", "publish"))
    steps = [step.get("run") or step["uses"].partition("@")[0] for step in build["steps"]]
    assert steps[-3:] == ["make test", "make site", "actions/upload-pages-artifact"]
    assert build["steps"][-1]["with"] == {"path": "build/site"}
    assert publish["needs"] == "build" and "permissions" not in build
    assert [step["uses"].partition("@")[0] for step in publish["steps"]] == ["actions/deploy-pages"]
    assert publish["permissions"] == {"pages": "write", "id-token": "write"}
