"""Builds the command that opens JupyterLab on a lesson, with a token and no internet access."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lab_env.platform.processes.environment import clean_environment
from lab_env.platform.processes.ports import free_port
from lab_env.platform.processes.state import folder, new_secret, read_state, update_state
from lab_env.platform.processes.system import browser_environment, has_display, is_wsl
from lab_env.platform.settings import settings

SETTINGS = Path(__file__).parent
ENDING = "Ctrl-C ends JupyterLab. The services run until: .venv/bin/lab down"


@dataclass(frozen=True)
class Server:
    """The command that starts JupyterLab, and its address for programs on this machine."""

    command: list[str]
    environment: dict[str, str]
    url: str
    token: str


def jupyterlab(notebook: str, browser: bool) -> Server:
    """Build the command that opens a notebook, given its path below JupyterLab's root folder."""
    port, opened_by = free_port(settings().jupyter_port), token()
    url = f"http://{settings().client_host}:{port}"
    # Kernels run in their notebook's folder, where a relative LAB_HOME would name another folder.
    environment = clean_environment() | settings().places
    environment |= browser_environment() | {
        # The lessons' kernel is that of this environment, whatever other kernels the user has.
        "JUPYTER_PREFER_ENV_PATH": "1",
        # Nor do the user's own settings and start-up files of Jupyter and IPython apply.
        "JUPYTER_CONFIG_DIR": str(_jupyter()),
        "IPYTHONDIR": str(_jupyter()),
        "JUPYTER_RUNTIME_DIR": str(runtime_folder()),
        "JUPYTER_TOKEN": opened_by,
        "PYTHONSTARTUP": str(SETTINGS / "startup.py"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }
    command = [
        sys.executable,
        *("-m", "jupyterlab"),
        f"--ServerApp.ip={settings().bind}",
        f"--ServerApp.port={port}",
        # Jupyter would hide the token in the address that it prints.
        "--ServerApp.log_level=WARN",
        # Else each kernel warns in this terminal that what it sends could be read.
        "--KernelManager.transport_encryption=auto",
        f"--ServerApp.root_dir={settings().work.parent}",
        f"--LabApp.default_url=/lab/tree/{notebook}",
        f"--LabApp.app_settings_dir={SETTINGS}",
        "--LabApp.extension_manager=readonly",
        f"--LabApp.extra_labextensions_path={SETTINGS / 'labextensions'}",
        *_accepted(settings().browser_url(url)),
    ]
    if os.getuid() == 0:
        command.append("--allow-root")
    if is_wsl():
        # Else the browser would get a file that redirects, and Windows' has no such path.
        command.append("--ServerApp.use_redirect_file=False")
    if not (browser and has_display()):
        command.append("--no-browser")
    return Server(command, environment, url, opened_by)


def runtime_folder() -> Path:
    """Return the folder in which JupyterLab describes itself and its kernels."""
    return _jupyter() / "runtime"


def _jupyter() -> Path:
    # A running JupyterLab outlives `lab down --purge`, which spares this folder.
    return folder("run", 0o700) / "jupyter"


def _accepted(page: str) -> list[str]:
    """Return the options that make JupyterLab accept requests from its own pages only."""
    if not settings().public_url:
        return []
    origin = page.lower()  # as a browser sends it
    hosts = ("localhost", urlsplit(origin).hostname)
    named = [f"--ServerApp.local_hostnames={host}" for host in hosts]
    return [f"--ServerApp.allow_origin={origin}", *named]


def page(url: str, notebook: str, opened_by: str) -> str:
    """Return a notebook's URL for a browser, including the token."""
    return settings().browser_url(f"{url}/lab/tree/{notebook}?token={opened_by}")


def token() -> str:
    """Return this lab's token, which never changes, so open pages stay valid after a restart."""
    if "token" not in read_state().get("jupyter", {}):
        update_state("jupyter", token=new_secret())
    return read_state()["jupyter"]["token"]
