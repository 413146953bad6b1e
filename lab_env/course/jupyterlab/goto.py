"""`lab goto`: enters a section or an exercise, with its tables, topics and variables ready.

It runs the cells above, as shipped, in a fresh kernel of the learner's copy. Their exercises are
solved by the reference answers; the learner's own code is not changed.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from lab_env.course import copies
from lab_env.course.jupyterlab.cells import CELL_TIMEOUT_S, run_cell, write_trusted
from lab_env.course.jupyterlab.running import RunningJupyterLab, kernel_client
from lab_env.course.sections import Section, notebook_of
from lab_env.platform.errors import LabError
from lab_env.platform.settings import settings


@dataclass(frozen=True)
class Entered:
    """A section that is ready to start; `cells` is the number of cells that were run."""

    address: str
    cells: int
    seconds: float
    outputs_shown: bool


def page_of(section: Section) -> str:
    """Return the path of the learner's copy of a lesson, relative to JupyterLab's root folder."""
    return f"{settings().work.name}/{copies.name_of(section.lesson)}"


def at_stake(section: Section, server: RunningJupyterLab | None) -> str:
    """Describe in a sentence what entering a section discards; empty if nothing."""
    lesson, anew = section.lesson, "tables and topics are made anew."
    if server and server.kernel_of(page_of(section)):
        return f"The kernel of lesson {lesson} runs: its variables, {anew}"
    if copies.was_worked_on(copies.name_of(lesson)):
        return f"You have begun lesson {lesson}: its {anew}"
    return ""


def enter(
    section: Section, server: RunningJupyterLab, report_progress: Callable[[str], None]
) -> Entered:
    """Run the cells above a section in a fresh kernel of the learner's copy.

    A copy that was worked on or may be open is not changed. Any other copy is replaced by one
    that shows the outputs of these cells.
    """
    began = time.monotonic()
    name, page = copies.name_of(section.lesson), page_of(section)
    kept = copies.was_worked_on(name) or server.kernel_of(page) is not None
    notebook = notebook_of(section.lesson)
    notebook.metadata.update(copies.KERNEL)
    cells = section.cells_above(notebook)
    copy = settings().work / name if kept else copies.take(name)
    kernel = server.fresh_kernel(page)
    try:
        with kernel_client(kernel) as client:
            for number, cell in enumerate(cells, 1):
                seconds = time.monotonic() - began
                done = f"cell {number} of {len(cells)}, {seconds:.0f} s"
                report_progress(f"{section.name}: {done}")
                run_cell(client, cell, CELL_TIMEOUT_S)
    except (KeyboardInterrupt, LabError):
        with suppress(OSError):  # else the kernel would go on without anybody watching
            server.interrupt(kernel)
        raise
    kept = kept or copies.was_worked_on(name)  # opened and saved in the meantime
    if not kept:
        write_trusted(notebook, copy)
    return Entered(
        server.page(page) + section.fragment, len(cells), time.monotonic() - began, not kept
    )
