"""`lab goto` enters sections of three lessons, and the sections' own cells then run.

A section is run up to its first proof, which needs the results of the sections before it. All
sections are covered by `lab author enter --all`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import nbformat
import pytest
from instance import Instance, instance_of_this_run

from lab_env.course import copies
from lab_env.course.jupyterlab.cells import run_cell
from lab_env.course.jupyterlab.running import RunningJupyterLab, kernel_client, running_jupyterlab
from lab_env.course.sections import Section, is_proof, notebook_of, section
from lab_env.platform.processes.tree import process_tree, wait_until_ended
from lab_env.platform.settings import settings

pytestmark = pytest.mark.services

MOR, KAFKA, LOCUST = section("06b"), section("03b"), section("01b")


@pytest.fixture(scope="module")
def instance(services, tmp_path_factory) -> Instance:
    """This run's lab; its kernels report their proofs to a file."""
    instance = instance_of_this_run()
    instance.environment["LAB_OUTCOMES"] = str(tmp_path_factory.mktemp("goto") / "outcomes.jsonl")
    return instance


@pytest.fixture(scope="module")
def server(instance) -> Iterator[RunningJupyterLab]:
    """The JupyterLab that the first `lab goto` starts, because none is running."""
    command = instance.begin("goto", MOR.name, "--no-browser")
    said = []
    try:
        for line in command.stdout:
            said.append(line)
            if line.startswith("Ready: "):
                break
        # A full pipe would stop JupyterLab, its kernels and their JVMs.
        Thread(target=command.stdout.read, daemon=True).start()
        found = running_jupyterlab()
        assert found, said
        assert said[-1] == f"Ready: {found.page('work/06_compaction.ipynb')}{MOR.fragment}\n"
        yield found
    finally:
        family = process_tree(command.pid)[1:]
        command.terminate()
        command.wait(60)
    assert wait_until_ended(family, 20) == []


def go_on(server: RunningJupyterLab, entered: Section, outcomes: Path) -> list[dict]:
    """In the page's kernel, run a section up to its first proof; then shut the kernel down.

    Returns:
        The reports that the kernel made during this run.
    """
    page = f"work/{copies.name_of(entered.lesson)}"
    before = len(reports(outcomes))
    with kernel_client(server.kernel_of(page)) as client:
        for cell in notebook_of(entered.lesson).cells[entered.cell :]:
            if cell.cell_type == "code":
                run_cell(client, cell, 120)
                if is_proof(cell):
                    break
        client.shutdown()
    return reports(outcomes)[before:]


def reports(outcomes: Path) -> list[dict]:
    """Return the reports of all kernels so far."""
    return [json.loads(line) for line in outcomes.read_text().splitlines()]


def proven(facts: list[dict]) -> bool:
    """Return True if the reports contain a proof and every proof holds."""
    return {fact["outcome"] for fact in facts if "proof" in fact} == {"holds"}


@pytest.fixture
def outcomes(instance) -> Path:
    """The file of the kernels' reports."""
    return Path(instance.environment["LAB_OUTCOMES"])


def test_a_copy_that_nobody_worked_on_shows_what_the_cells_above_have_put_out(server, outcomes):
    copy = nbformat.read(settings().work / copies.name_of("06"), as_version=4)
    course = notebook_of("06")
    assert [cell.source for cell in copy.cells] == [cell.source for cell in course.cells]
    above = {cell.id for cell in MOR.cells_above(course)}
    assert {cell.id for cell in copy.cells if cell.get("execution_count")} == above
    # Else JupyterLab would take the styles and drawings out of these outputs.
    opened = server.request(f"/api/contents/work/{copies.name_of('06')}")["content"]["cells"]
    assert {cell["metadata"]["trusted"] for cell in opened if cell["cell_type"] == "code"} == {True}
    # No exercise counts as tried; the text of 06b needs the table that the section before made.
    assert {f["outcome"] for f in reports(outcomes) if "exercise" in f} == {"not attempted"}
    assert proven(go_on(server, MOR, outcomes))


@pytest.mark.proof("goto")
def test_a_copy_with_answers_stays_as_it_is_and_is_asked_about(instance, server, outcomes):
    copy = copies.take(copies.name_of(KAFKA.lesson))
    copy.write_text(copy.read_text().replace("# YOUR CODE", "# MY CODE", 1))
    mine = copy.read_bytes()
    refused = instance.lab("goto", KAFKA.name, "--no-browser")
    assert refused.returncode == 1
    assert "You have begun lesson 03" in refused.stderr
    assert "lab goto 03b --yes" in refused.stderr
    assert server.kernel_of("work/03_stream_ingestion.ipynb") is None
    done = instance.lab("goto", KAFKA.name, "--no-browser", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Your copy is as it was" in done.stdout
    assert copy.read_bytes() == mine
    assert proven(go_on(server, KAFKA, outcomes))


@pytest.mark.proof("goto")
def test_a_kernel_that_runs_is_started_anew_after_a_question(instance, server, outcomes):
    page = "work/01_load_with_locust.ipynb"
    first = instance.lab("goto", "01a", "--no-browser")
    assert first.returncode == 0, first.stdout + first.stderr
    kernel = server.kernel_of(page)
    asked = instance.lab("goto", LOCUST.name, "--no-browser")
    assert asked.returncode == 1 and "The kernel of lesson 01 runs" in asked.stderr
    with kernel_client(kernel) as client:
        run_cell(client, nbformat.v4.new_code_cell("mine = 1"), 60)
        assert instance.lab("goto", LOCUST.name, "--no-browser", "--yes").returncode == 0
    assert server.kernel_of(page) == kernel
    with kernel_client(kernel) as client:
        run_cell(client, nbformat.v4.new_code_cell("assert 'mine' not in globals()"), 60)
    assert proven(go_on(server, LOCUST, outcomes))
