"""Enters every section of a lesson in a fresh kernel, and measures how long that takes.

One kernel can enter all sections in order, because each needs the cells of the previous ones.
Like `lab goto`, it skips the proofs to save time. The last section is run with its proofs, which
must hold: this shows that no section depends on a skipped proof.
"""

import json
import os
import time
from datetime import date

from lab_env.course.authoring.kernel import observed_kernel
from lab_env.course.authoring.pytest_plugin import failed_proofs
from lab_env.course.copies import LESSONS
from lab_env.course.jupyterlab.cells import CELL_TIMEOUT_S, run_cell
from lab_env.course.sections import RECORDED, notebook_of, sections
from lab_env.platform.errors import LabError


def enter_all(lesson: str) -> dict[str, float]:
    """Enter each section of a lesson, and run the last one with its proofs, which must hold.

    Returns the seconds from the kernel's start until each section is ready, by section name.
    """
    notebook, entered = notebook_of(lesson), sections(lesson)
    seconds: dict[str, float] = {}
    began, done = time.monotonic(), 0
    with observed_kernel(LESSONS) as (client, facts):
        for section in entered:
            cells = section.cells_above(notebook)
            for cell in cells[done:]:
                run_cell(client, cell, CELL_TIMEOUT_S)
            seconds[section.name] = round(time.monotonic() - began, 1)
            done = len(cells)
        for cell in notebook.cells[entered[-1].cell :]:
            if cell.cell_type == "code":
                run_cell(client, cell, CELL_TIMEOUT_S)
    if different := failed_proofs(facts):
        raise LabError(f"{entered[-1].name}, entered without the proofs: {'; '.join(different)}")
    return seconds


def record(lesson: str, seconds: dict[str, float]) -> None:
    runs = json.loads(RECORDED.read_text(encoding="utf-8"))
    runs[lesson] = {"on": date.today().isoformat(), "cores": os.cpu_count(), "seconds": seconds}
    RECORDED.write_text(json.dumps(dict(sorted(runs.items())), indent=1) + "\n", encoding="utf-8")
