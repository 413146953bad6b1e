"""Starts or finds the lab's JupyterLab; calls its API and connects to its kernels."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError

import psutil

from lab_env.course.jupyterlab.server import jupyterlab, page, runtime_folder
from lab_env.platform.errors import LabError
from lab_env.platform.processes.state import read_state
from lab_env.platform.services import request_json
from lab_env.platform.settings import settings

if TYPE_CHECKING:  # it takes a quarter of a second, which `lab` does not need
    from jupyter_client import BlockingKernelClient

START_TIMEOUT_S = 90
ANSWER_TIMEOUT_S = 10  # of one that is well
KERNEL_TIMEOUT_S = 60
REQUEST_TIMEOUT_S = 90  # JupyterLab itself waits 60 s for a kernel that it starts anew


@dataclass(frozen=True)
class RunningJupyterLab:
    """This lab's running JupyterLab; `process` is set if this program started it."""

    url: str
    token: str
    process: subprocess.Popen | None = None

    def page(self, notebook: str) -> str:
        """Return a notebook's URL, given its path below JupyterLab's root folder."""
        return page(self.url, notebook, self.token)

    def request(self, path: str, body: dict | None = None, timeout: float = REQUEST_TIMEOUT_S):
        """Call the API, with POST if there is a body; return the JSON reply, or raise OSError."""
        method = "GET" if body is None else "POST"
        headers = {"Authorization": f"token {self.token}"}
        return request_json(method, self.url + path, body, headers, timeout)

    def kernel_of(self, notebook: str) -> str | None:
        """Return the id of a notebook's kernel; None if none is running."""
        running = self.request("/api/sessions")
        return next((s["kernel"]["id"] for s in running if s["path"] == notebook), None)

    def fresh_kernel(self, notebook: str) -> str:
        """Start or restart a notebook's kernel, and return its id."""
        if kernel := self.kernel_of(notebook):
            self.request(f"/api/kernels/{kernel}/restart", {})
            return kernel
        name = notebook.rpartition("/")[2]
        session = {"path": notebook, "name": name, "type": "notebook"}
        answer = self.request("/api/sessions", session | {"kernel": {"name": "python3"}})
        return answer["kernel"]["id"]

    def interrupt(self, kernel: str) -> None:
        self.request(f"/api/kernels/{kernel}/interrupt", {})

    def wait(self) -> int:
        """Wait until JupyterLab exits (Ctrl-C, its menu, SIGTERM); return its exit status."""
        process = self.process
        assert process  # only whoever has started it waits
        previous = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            while True:
                try:
                    return process.wait()
                except KeyboardInterrupt:
                    continue  # JupyterLab received it too, and asks for confirmation
        finally:
            signal.signal(signal.SIGTERM, previous)


def open_notebooks() -> list[str]:
    """Return the paths of the notebooks that have a kernel in this lab's JupyterLab."""
    server = running_jupyterlab()
    if server is None:
        return []
    with suppress(OSError, ValueError):  # it may be ending
        return sorted(found["path"] for found in server.request("/api/sessions"))
    return []


def running_jupyterlab() -> RunningJupyterLab | None:
    """Return this lab's running JupyterLab, such as one from `lab jupyter`; None if none runs."""
    shown = settings().work.parent.resolve()
    own = read_state().get("jupyter", {}).get("token")  # none before the first JupyterLab
    for file in runtime_folder().glob("jpserver-*.json"):
        # A killed one leaves its file, and another program may listen on its port by now.
        with suppress(OSError, ValueError, HTTPException):
            found = json.loads(file.read_text())
            here = Path(found["root_dir"]).resolve() == shown and psutil.pid_exists(found["pid"])
            if here and own and found["token"] == own:
                host = "127.0.0.1" if found["hostname"] == "0.0.0.0" else found["hostname"]
                server = RunningJupyterLab(f"http://{host}:{found['port']}", own)
                server.request("/api/status", timeout=ANSWER_TIMEOUT_S)
                return server
    return None


@contextmanager
def started_jupyterlab(notebook: str) -> Generator[RunningJupyterLab]:
    """Start JupyterLab without a browser, and wait until it responds."""
    with starting_jupyterlab(notebook, browser=False) as server:
        _wait_for(server)
        yield server


@contextmanager
def starting_jupyterlab(notebook: str, browser: bool) -> Generator[RunningJupyterLab]:
    """Start JupyterLab on a notebook, and run the body without waiting until it responds.

    JupyterLab keeps running after the body, unless the body fails.
    """
    server = jupyterlab(notebook, browser)
    # A SIGTERM that ended this process at once would leave JupyterLab and its kernel behind.
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    process = subprocess.Popen(server.command, env=server.environment)
    try:
        yield RunningJupyterLab(server.url, server.token, process)
    except BaseException:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)


def _wait_for(server: RunningJupyterLab) -> None:
    process = server.process
    assert process  # only whoever has started it waits
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            server.request("/api/status")
            return
        except (URLError, ConnectionError, TimeoutError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise LabError("JupyterLab does not answer.", "run: lab doctor") from None
            time.sleep(0.3)


@contextmanager
def kernel_client(kernel: str) -> Generator["BlockingKernelClient"]:
    """Connect to a kernel on this machine by its id; raise a LabError if it does not respond."""
    from jupyter_client import BlockingKernelClient

    connection = runtime_folder() / f"kernel-{kernel}.json"
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels()
    try:
        _wait_until_it_answers(client)
        yield client
    finally:
        client.stop_channels()


def _wait_until_it_answers(client: "BlockingKernelClient") -> None:
    deadline = time.monotonic() + KERNEL_TIMEOUT_S
    while True:
        try:
            return client.wait_for_ready(timeout=KERNEL_TIMEOUT_S)
        except RuntimeError:  # also raised while the kernel is still starting
            if time.monotonic() > deadline:
                what = "The notebook's kernel does not answer."
                raise LabError(what, "run: lab doctor") from None
