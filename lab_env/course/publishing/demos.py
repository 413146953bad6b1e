"""`lab demo`: prepares a demo in advance, so that its data is written and Spark is warm.

It starts JupyterLab and runs the cells under "Prepare" in the kernel of the open notebook.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import nbformat

from lab_env.course import copies
from lab_env.course.copies import known_demos
from lab_env.course.jupyterlab.cells import run_cell, write_trusted
from lab_env.course.jupyterlab.running import (
    RunningJupyterLab,
    kernel_client,
    running_jupyterlab,
    started_jupyterlab,
)
from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import Progress
from lab_env.platform.install.wheels import reveal
from lab_env.platform.processes.state import folder
from lab_env.platform.settings import REPOSITORY, settings

FOLDER = "demos"
QUESTION = "## The question"


def notebook_of(name: str) -> str:
    """Return a demo's path below `notebooks` or `solutions`; raise a LabError if there is none."""
    if f"demo-{name}" not in known_demos():
        known = ", ".join(demo.removeprefix("demo-") for demo in known_demos())
        raise LabError(f"There is no demo {name!r}.", f"choose from: {known}")
    return f"{FOLDER}/{name}.ipynb"


@dataclass(frozen=True)
class RunningDemo:
    """A demo open in JupyterLab; `address` and `notes` are URLs, `notes` with speaker notes."""

    jupyterlab: RunningJupyterLab
    address: str
    notes: str


def show(name: str, report_progress: Progress) -> RunningDemo:
    """Run a fresh copy of a demo up to its question, in the running JupyterLab or a new one."""
    copy = copies.take(notebook_of(name))
    path = str(copy.relative_to(settings().work.parent))
    server = running_jupyterlab()
    with nullcontext(server) if server else started_jupyterlab(path) as server:
        report_progress("starting Spark and writing the table")
        prepare(server, copy, path)
    address = f"{server.page(path)}#heading=The-question"
    return RunningDemo(server, address, f"solutions/{notebook_of(name)}")


def prepare(server: RunningJupyterLab, copy: Path, path: str) -> None:
    """Run the cells before the question in the notebook's kernel, and store their outputs."""
    notebook = nbformat.read(copy, as_version=4)
    with kernel_client(server.fresh_kernel(path)) as client:
        for cell in notebook.cells:
            if QUESTION in cell.source:
                break
            if cell.cell_type == "code":
                run_cell(client, cell, timeout_s=300)
    write_trusted(notebook, copy)


def slides(name: str, report_progress: Progress) -> Path:
    """Run a demo and build slides with speaker notes; return the HTML file's path."""
    from lab_env.course.publishing.slides import make_slides

    report_progress(f"{name}: running the demo")
    target = folder("slides") / f"{name}.html"
    make_slides(REPOSITORY / "solutions" / notebook_of(name), reveal(), target)
    return target
