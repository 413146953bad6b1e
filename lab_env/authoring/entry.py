"""Enters every section of a lesson in a fresh kernel, and measures how long that takes.

The cells above a section begin with those above the section before it, so one kernel passes the
beginnings of all sections, in order. No proof runs before the last section; those of the last one
must hold there. So what is left out to save time is not needed.
"""

import json
import os
import tempfile
import time
from datetime import date
from pathlib import Path
from subprocess import DEVNULL

import nbformat
from jupyter_client.manager import start_new_kernel

from lab_env.authoring.pytest_plugin import failed_proofs
from lab_env.course.copies import LESSONS
from lab_env.course.sections import RECORDED, notebook_of, sections
from lab_env.errors import LabError
from lab_env.jupyterlab.cells import CELL_TIMEOUT_S, run_cell


def enter_all(lesson: str) -> dict[str, float]:
    """Enter each section of a lesson, and run the last one with its proofs.

    Args:
        lesson: two digits.

    Returns:
        Seconds from the start of the kernel until a section can begin, by its name.

    Raises:
        LabError: no such lesson, a cell fails, or a proof of the last section does not hold.
    """
    notebook, entered = notebook_of(lesson), sections(lesson)
    with tempfile.TemporaryDirectory(prefix="lab-enter-") as folder:
        outcomes = Path(folder) / "outcomes.jsonl"
        own = {"LAB_OUTCOMES": str(outcomes), "LAB_PROGRESS": str(Path(folder) / "progress.json")}
        began = time.monotonic()
        manager, client = start_new_kernel(env=os.environ | own, cwd=str(LESSONS), stderr=DEVNULL)
        try:
            seconds: dict[str, float] = {}
            done = 0
            for section in entered:
                cells = section.cells_above(notebook)
                for cell in cells[done:]:
                    run_cell(client, cell, CELL_TIMEOUT_S)
                seconds[section.name] = round(time.monotonic() - began, 1)
                done = len(cells)
            for cell in _code(notebook.cells[entered[-1].cell :]):
                run_cell(client, cell, CELL_TIMEOUT_S)
        finally:
            client.stop_channels()
            manager.shutdown_kernel()
        lines = outcomes.read_text("utf-8").splitlines() if outcomes.exists() else []
    if different := failed_proofs([json.loads(line) for line in lines]):
        raise LabError(f"{entered[-1].name}, entered without the proofs: {'; '.join(different)}")
    return seconds


def record(lesson: str, seconds: dict[str, float], path: Path = RECORDED) -> None:
    """Keep what was measured, in the place of the lesson's earlier run.

    Args:
        lesson: two digits.
        seconds: by section.
        path: of the file.
    """
    runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    runs[lesson] = {"on": date.today().isoformat(), "cores": os.cpu_count(), "seconds": seconds}
    path.write_text(json.dumps(dict(sorted(runs.items())), indent=1) + "\n", encoding="utf-8")


def _code(cells: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    return [cell for cell in cells if cell.cell_type == "code"]
