"""`lab demo`: a demo that is ready to be shown: services up, data written, Spark warm.

JupyterLab is started, and the cells under "Prepare" are run in the kernel that the notebook's page
will use. Whoever opens the page goes on at the question.
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
from lab_env.install.wheels import reveal
from lab_env.jupyterlab.server import Server, jupyterlab
from lab_env.lab import known_demos
from lab_env.processes.state import folder
from lab_env.settings import REPOSITORY, settings

FOLDER = "demos"
QUESTION = "## The question"


def notebook_of(name: str) -> str:
    """The notebook of a demo, as a path below its folder.

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
    """A demo in a JupyterLab that runs.

    Args:
        process: JupyterLab.
        address: the demo's page.
        notes: the notebook with the speaker's notes, below the repository.
    """

    process: subprocess.Popen
    address: str
    notes: str

    def wait(self) -> int:
        """Wait until JupyterLab ends, as Ctrl-C or its own menu tell it to.

        Returns:
            Its exit status.
        """
        signal.signal(signal.SIGTERM, lambda *_: self.process.terminate())
        while True:
            try:
                return self.process.wait()
            except KeyboardInterrupt:
                continue  # JupyterLab had it too, and asks


def show(name: str, say) -> RunningDemo:
    """Start JupyterLab with a fresh copy of a demo, and run the cells that prepare it.

    Args:
        name: of the demo.
        say: receives one line of progress at a time.

    Raises:
        LabError: JupyterLab does not answer, or a cell that prepares fails.
    """
    copy = copies.take(notebook_of(name))
    path = str(copy.relative_to(settings().work.parent))
    server = jupyterlab(path, browser=False)
    process = subprocess.Popen(server.command, env=server.environment)
    try:
        say("JupyterLab starts")
        _wait_for(server, process)
        say("Spark starts, and the table is written")
        prepare(server, copy, path)
    except BaseException:
        process.terminate()
        process.wait(30)
        raise
    return RunningDemo(process, server.address(path), f"solutions/{notebook_of(name)}")


def prepare(server: Server, copy: Path, path: str) -> None:
    """Run the cells before the question in the notebook's own kernel, and keep what they show.

    Args:
        server: a JupyterLab that answers.
        copy: the notebook.
        path: the same below the folder that JupyterLab shows.

    Raises:
        LabError: a cell fails.
    """
    session = {"path": path, "name": copy.name, "type": "notebook", "kernel": {"name": "python3"}}
    answer = _ask(server, "/api/sessions", session)
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
        kernel: its id, as JupyterLab's API has it.

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
        except RuntimeError:  # a kernel that is still starting counts as dead, too
            if time.monotonic() > deadline:
                raise LabError("The demo's kernel does not answer.", "run: lab doctor") from None


def slides(name: str, say) -> Path:
    """Run a demo and make its slides, with the speaker's notes.

    Args:
        name: of the demo.
        say: receives one line of progress at a time.

    Returns:
        The HTML file.

    Raises:
        LabError: a cell fails, or reveal.js is missing.
    """
    from lab_env.publish.slides import make_slides

    say(f"{name}: the demo runs")
    target = folder("slides") / f"{name}.html"
    make_slides(REPOSITORY / "solutions" / notebook_of(name), reveal(), target)
    return target


def _run(client, cell) -> None:
    """Run one cell and keep its outputs in it."""
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
            _ask(server, "/api/status")
            return
        except (URLError, ConnectionError, TimeoutError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise LabError("JupyterLab does not answer.", "run: lab doctor") from None
            time.sleep(0.3)


def _ask(server: Server, path: str, body: dict | None = None) -> dict:
    """What JupyterLab's API answers."""
    request = Request(
        server.url + path,
        data=json.dumps(body).encode() if body else None,
        headers={"Authorization": f"token {server.token}", "Content-Type": "application/json"},
    )
    with urlopen(request, timeout=60) as answer:
        return json.load(answer)
