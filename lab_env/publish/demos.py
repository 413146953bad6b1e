"""`lab demo`: prepares a demo, so that it can be shown at once: data written, Spark warm.

It starts JupyterLab and runs the cells under "Prepare" in the kernel of the notebook's page.
"""

import json
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import nbformat
from jupyter_client import BlockingKernelClient
from jupyter_core.paths import jupyter_runtime_dir

from lab_env.course import copies
from lab_env.errors import LabError
from lab_env.install.cache import Progress
from lab_env.install.wheels import reveal
from lab_env.jupyterlab.server import Server, jupyterlab
from lab_env.lab import known_demos
from lab_env.processes.state import folder
from lab_env.settings import REPOSITORY, settings

FOLDER = "demos"
QUESTION = "## The question"


def notebook_of(name: str) -> str:
    """The path of a demo's notebook in its folder.

    Args:
        name: for example `time-travel`.

    Raises:
        LabError: there is no such demo.
    """
    if f"demo-{name}" not in known_demos():
        known = ", ".join(demo.removeprefix("demo-") for demo in known_demos())
        raise LabError(f"There is no demo {name!r}.", f"choose from: {known}")
    return f"{FOLDER}/{name}.ipynb"


@dataclass(frozen=True)
class RunningDemo:
    """A demo that is open in a running JupyterLab.

    Args:
        process: JupyterLab.
        address: the demo's page.
        notes: path in the repository of the notebook with the speaker's notes.
    """

    process: subprocess.Popen
    address: str
    notes: str

    def wait(self) -> int:
        """Wait until JupyterLab ends, by Ctrl-C, its own menu or SIGTERM to this process.

        Returns:
            Its exit status.
        """
        previous = signal.signal(signal.SIGTERM, lambda *_: self.process.terminate())
        try:
            while True:
                try:
                    return self.process.wait()
                except KeyboardInterrupt:
                    continue  # JupyterLab received it too, and asks for confirmation
        finally:
            signal.signal(signal.SIGTERM, previous)


def show(name: str, report_progress: Progress) -> RunningDemo:
    """Start JupyterLab with a fresh copy of a demo, and run the cells that prepare it.

    Args:
        name: of the demo.
        report_progress: receives lines of progress.

    Raises:
        LabError: JupyterLab does not answer, or a cell that prepares the demo fails.
    """
    copy = copies.take(notebook_of(name))
    path = str(copy.relative_to(settings().work.parent))
    server = jupyterlab(path, browser=False)
    process = subprocess.Popen(server.command, env=server.environment)
    try:
        report_progress("JupyterLab starts")
        _wait_for(server, process)
        report_progress("Spark starts, and the table is written")
        prepare(server, copy, path)
    except BaseException:
        process.terminate()
        process.wait(30)
        raise
    return RunningDemo(process, server.address(path), f"solutions/{notebook_of(name)}")


def prepare(server: Server, copy: Path, path: str) -> None:
    """Run the cells before the question in the notebook's own kernel, and store their outputs.

    Args:
        server: a running JupyterLab.
        copy: the notebook.
        path: its path in the folder that JupyterLab shows.

    Raises:
        LabError: a cell fails.
    """
    session = {"path": path, "name": copy.name, "type": "notebook", "kernel": {"name": "python3"}}
    answer = _request(server, "/api/sessions", session)
    notebook = nbformat.read(copy, as_version=4)
    with kernel_client(answer["kernel"]["id"]) as client:
        for cell in notebook.cells:
            if QUESTION in cell.source:
                break
            if cell.cell_type == "code":
                _run(client, cell)
    nbformat.write(notebook, copy)


@contextmanager
def kernel_client(kernel: str):
    """A client of a kernel that runs on this machine.

    Args:
        kernel: its id in JupyterLab's API.

    Raises:
        LabError: it does not answer.
    """
    connection = Path(jupyter_runtime_dir()) / f"kernel-{kernel}.json"
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels()
    try:
        _wait_until_it_answers(client)
        yield client
    finally:
        client.stop_channels()


def _wait_until_it_answers(client: BlockingKernelClient, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return client.wait_for_ready(timeout=seconds)
        except RuntimeError:  # also raised while the kernel is still starting
            if time.monotonic() > deadline:
                raise LabError("The demo's kernel does not answer.", "run: lab doctor") from None


def slides(name: str, report_progress: Progress) -> Path:
    """Run a demo and build its slides, with the speaker's notes.

    Args:
        name: of the demo.
        report_progress: receives lines of progress.

    Returns:
        The HTML file.

    Raises:
        LabError: a cell fails, or reveal.js is missing.
    """
    from lab_env.publish.slides import make_slides

    report_progress(f"{name}: the demo runs")
    target = folder("slides") / f"{name}.html"
    make_slides(REPOSITORY / "solutions" / notebook_of(name), reveal(), target)
    return target


def _run(client, cell) -> None:
    """Run one cell and store its outputs in it."""
    cell.outputs = []

    def keep(message) -> None:
        if message["msg_type"] in ("stream", "display_data", "execute_result", "error"):
            cell.outputs.append(nbformat.v4.output_from_msg(message))

    reply = client.execute_interactive(cell.source, timeout=300, output_hook=keep)
    cell.execution_count = reply["content"]["execution_count"]
    if reply["content"]["status"] != "ok":
        what = f"{reply['content']['ename']}: {reply['content']['evalue']}"
        raise LabError("A cell that prepares the demo fails.", "run: lab doctor", what)


def _wait_for(server: Server, process: subprocess.Popen, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            _request(server, "/api/status")
            return
        except (URLError, ConnectionError, TimeoutError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise LabError("JupyterLab does not answer.", "run: lab doctor") from None
            time.sleep(0.3)


def _request(server: Server, path: str, body: dict | None = None) -> dict:
    """Call JupyterLab's API."""
    request = Request(
        server.url + path,
        data=json.dumps(body).encode() if body else None,
        headers={"Authorization": f"token {server.token}", "Content-Type": "application/json"},
    )
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)
