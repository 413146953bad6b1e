"""The code host's workflows pin actions by digest, and have no unneeded permissions."""

import re

import pytest

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
