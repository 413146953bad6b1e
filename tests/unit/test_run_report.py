"""A test run talks: failures at once, a line per minute, and what each file has cost."""

import subprocess
import sys
import time

import end_of_run
import pytest
from linux import needs_linux
from processor_time import ProcessorTime
from run_report import again

from lab_env.course.authoring import times
from lab_env.platform.errors import LabError
from lab_env.platform.settings import REPOSITORY

BUSY = "import time\nwhile time.process_time() < 0.6: pass"


@pytest.mark.parametrize(
    ("nodeid", "command"),
    [
        ("solutions/05_a.ipynb::05_a.ipynb", "--nbmake solutions/05_a.ipynb"),
        ("tests/unit/test_a.py::test_b[1 2]", "'tests/unit/test_a.py::test_b[1 2]'"),
    ],
)
def test_a_failure_names_the_command_that_repeats_it(nodeid, command):
    assert again(nodeid) == f".venv/bin/python -m pytest {command}"


def test_a_failure_is_printed_when_it_happens_and_the_costs_are_kept(tmp_path):
    (tmp_path / "test_two.py").write_text(
        "import os\n"
        "def test_one():\n    assert {1: 2} == {1: 3}, 'a reason'\n"
        "def test_two():\n    os.write(2, b'the next test runs')\n"
    )
    # A run of its own, with this run's conftest but without a lab: nothing here asks for services.
    ini = tmp_path / "pytest.ini"
    ini.write_text(f"[pytest]\npythonpath = {REPOSITORY / 'tests'} {REPOSITORY}\n")
    plugins = ("-p", "lab_env.course.authoring.pytest_plugin", "-p", "conftest", "-s")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", ini, *plugins, "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    failed = done.stdout.index("FAILED test_two.py::test_one (call)")
    repeat = done.stdout.index(
        "To repeat it alone: .venv/bin/python -m pytest test_two.py::test_one"
    )
    assert failed < done.stdout.index("a reason") < repeat < done.stdout.index("== FAILURES ==")


@needs_linux
def test_the_time_of_children_and_of_orphans_counts(tmp_path, monkeypatch):
    mark = str(tmp_path)
    monkeypatch.setenv(end_of_run.VARIABLE, mark)
    used = ProcessorTime(mark)
    before = used.seconds()
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    assert used.seconds() - before > 0.5
    # Its parent ends first, as that of a server which goes on in the background.
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BUSY!r}])"
    before = used.seconds()
    subprocess.run([sys.executable, "-c", orphan], check=True)
    deadline = time.monotonic() + 60
    while used.seconds() - before < 0.5:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def run_of(*notebooks: str) -> times.Run:
    parts = {times.START: times.Cost(4, 6), times.CELLS: times.Cost(40, 50)}
    run = times.Run(600, 3, {}, {}, "2 cores", "2026-11-28")
    run.files = {name: times.Cost(60, 90, 1) for name in (*notebooks, "tests/unit/test_a.py")}
    run.notebooks = {name: times.NotebookCosts(parts, {"05.1": 2.5}) for name in notebooks}
    return run


def test_a_saved_run_is_read_back_and_its_table_replaces_that_of_the_page(tmp_path):
    run = run_of("solutions/05_a.ipynb", "notebooks/05_a.ipynb", "notebooks/demos/b.ipynb")
    run.save(tmp_path / "times.json")
    assert times.read(tmp_path / "times.json") == run
    page = times.page("a\n<!-- times -->\nold\n<!-- /times -->\nb", run)
    assert page.startswith("a\n<!-- times -->\n| 2 cores, 3 test processes |") and "old" not in page
    assert "| worked notebooks | 1.0 | 1.5 | 1 |" in page and "| `tests/unit` | 1.0 " in page
    assert "| **the whole, elapsed: 10 minutes** | **4** | 6 | 4 |" in page
    assert (
        "2.5 s in the median of 1, beside the other test processes. Longer than 6 s: none." in page
    )


def test_without_a_run_or_with_a_part_of_one_nothing_is_recorded(tmp_path):
    with pytest.raises(LabError, match="No test run has been measured"):
        times.read(tmp_path / "none.json")
    with pytest.raises(LabError, match="left out 00_welcome"):
        times.record(run_of("solutions/05_cow_and_mor.ipynb"))


def test_contributing_has_the_table_of_the_recorded_run():
    text = times.PAGE.read_text(encoding="utf-8")
    assert times.page(text, times.read(times.RECORDED)) == text
    minutes = round(times.read(times.RECORDED).elapsed / 60)
    assert f"`make test` took **{minutes} minutes**" in text
