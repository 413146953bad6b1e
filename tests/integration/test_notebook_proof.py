"""In pytest, a notebook also fails on an unchecked exercise, false proof, full JVM or overtime."""

import os
import re
import subprocess
import sys

import nbformat
import pytest

from lab_env.platform.settings import REPOSITORY


@pytest.mark.parametrize(
    ("budget", "seconds", "entered", "processes", "status"),
    [
        ("strict", 67.0, 61.0, "1", 1),  # 1.6 times the budget
        ("strict", 59.0, 61.0, "0", 0),  # 1.4 times
        ("strict", 50.0, 95.0, "0", 1),
        ("", 67.0, 95.0, "0", 0),
    ],
)
def test_a_strict_budget_fails_the_run_and_says_why(
    tmp_path, budget, seconds, entered, processes, status
):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "test_slow.py").write_text(
        "def test_slow(record_property):\n"
        f"    record_property('processor_seconds', {seconds})\n"
        f"    record_property('entry_seconds', {{'06.4': {entered}}})\n"
    )
    options = [
        "-p",
        "lab_env.course.authoring.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        tmp_path,
    ]
    options += ["-n", processes]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, tmp_path],
        capture_output=True, text=True, cwd=tmp_path, timeout=120,
        env=os.environ | {"NOTEBOOK_BUDGET": budget},
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    assert f"over budget: The average of notebooks is {seconds} s; 42 s is the most." in done.stdout
    assert f"over budget: Section 06.4 begins after {entered:.0f} s" in done.stdout


def run_notebook(folder, name, *cells, kind="notebooks") -> subprocess.CompletedProcess:
    """Run pytest on a notebook with these cells, saved in a folder named by its `kind`."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "P", "language": "python"}
    path = folder / kind / name
    path.parent.mkdir()
    nbformat.write(notebook, path)
    command = [sys.executable, "-m", "pytest", "--nbmake", "-c", REPOSITORY / "pyproject.toml"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir", folder, path],
        capture_output=True, text=True, cwd=folder, timeout=120,
    )  # fmt: skip


def test_a_lesson_whose_notebook_skips_its_checks_fails_in_pytest(tmp_path):
    done = run_notebook(tmp_path, "00_nothing.ipynb", "print(1)")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "exercise 00.1 is not checked" in done.stdout


@pytest.mark.parametrize(("kind", "goes_on"), [("notebooks", True), ("solutions", False)])
def test_a_planted_false_result_fails_in_pytest_and_stops_only_the_worked_notebook(
    tmp_path, kind, goes_on
):
    done = run_notebook(
        tmp_path, "77_planted.ipynb",
        "from lab_env.course.proofs import proof\nrows = 4",
        "with proof('Three rows are left.'):\n    assert rows == 3",
        f"open({str(tmp_path / 'later')!r}, 'w').close()",
        kind=kind,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Three rows are left. Expected `rows == 3`, but `rows` is `4`." in done.stdout
    assert (tmp_path / "later").exists() == goes_on


def test_a_notebook_whose_jvm_is_nearly_full_fails_although_every_cell_ran(tmp_path):
    code = (
        "import os, sys\n"
        "os.environ['PYSPARK_PYTHON'] = sys.executable\n"
        "from pyspark.sql import SparkSession\n"
        "spark = (SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')\n"
        "    .config('spark.driver.host', '127.0.0.1').config('spark.driver.memory', '600m')\n"
        "    .getOrCreate())\n"
        # Many, because one as large needs a hole of its size, which a heap in use may not have.
        "allocate = spark._jvm.java.nio.ByteBuffer.allocate\n"
        "kept = [allocate(4_000_000) for _ in range(120)]\n"
    )
    done = run_notebook(tmp_path, "77_full.ipynb", code)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "The heap of the JVM holds" in done.stdout


def test_the_processor_seconds_of_a_notebook_are_its_own_and_its_childrens(tmp_path):
    # A second in the kernel and one in a child of it; one in a daemon that is not counted.
    code = (
        "import subprocess, sys, time\n"
        "work = 'import time\\nwhile time.process_time() < 1.5: pass\\ntime.sleep(1)'\n"
        "subprocess.Popen([sys.executable, '-c', work], start_new_session=True)\n"
        "subprocess.run([sys.executable, '-c', work])\n"
        "exec(work)\n"
    )
    done = run_notebook(tmp_path, "77_work.ipynb", code)
    used = re.search(r"([\d.]+) s +[\d.]+ s  notebooks/77_work.ipynb", done.stdout)
    assert used, done.stdout + done.stderr
    assert 2.5 < float(used[1]) < 4.3
