"""Run the lab's programs outside of notebook kernels, under one supervisord per LAB_HOME.

Commands reach it over a Unix socket. Restarting or killing a kernel stops no program, and a service
that dies is restarted.
"""

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import xmlrpc.client
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from lab_env.platform.errors import LabError
from lab_env.platform.jvm import START_MARK
from lab_env.platform.processes import launch
from lab_env.platform.processes.environment import (
    SUPERVISED,
    clean_environment,
    mark,
    marked_processes,
)
from lab_env.platform.processes.state import (
    folder,
    home,
    lab_lock,
    write_private,
)
from lab_env.platform.processes.tree import end_processes, process_tree, wait_until_ended
from lab_env.platform.settings import settings, without_credentials

RUNNING_STATES = ("STARTING", "RUNNING", "BACKOFF", "STOPPING")

# Fault codes of supervisor.xmlrpc.Faults: no such program, and a program that does not run.
BAD_NAME, NOT_RUNNING = 10, 70
STOP_TIMEOUT_S = 120

OUT_OF_REACH = (
    "The servers of this LAB_HOME run, but this terminal does not reach them: it has another /tmp, "
    "or /tmp was cleaned, or the folder was moved."
)


@dataclass(frozen=True)
class Program:
    """A program to run under supervision."""

    name: str  # its log is `LAB_HOME/logs/<name>.log`
    argv: list[str]  # begins with an absolute path
    # Added to the environment; may be secret. Only these give the program the store's credentials.
    env: dict[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None  # LAB_HOME by default
    autorestart: bool = True
    start_seconds: int = 1  # after this time it counts as started
    stop_seconds: int = 15  # after this time it is killed
    stop_signal: str = "TERM"


@dataclass(frozen=True)
class ProgramStatus:
    """Status of a supervised program."""

    name: str
    # RUNNING, STARTING, BACKOFF (ended too early, will be retried), STOPPED, EXITED or FATAL (ended
    # too early too often)
    state: str
    pid: int  # 0 when it does not run
    uptime: float  # seconds since its last start, 0 when it does not run
    restarts: int  # since it was added
    exit_code: int | None = None  # of its last run, None while it runs

    @property
    def alive(self) -> bool:
        """True if the program runs or is about to."""
        return self.state in RUNNING_STATES


def ensure_supervisor() -> None:
    """Start this LAB_HOME's supervisor unless it runs; first end processes left by a dead one."""
    with lab_lock():
        if is_running():
            return
        if unreachable():
            raise LabError(OUT_OF_REACH, "use their terminal, or run: lab down; lab up")
        end_processes(marked_processes(supervised=True))
        for description in _programs().glob("*"):
            description.unlink()
        _write_config()
        _spawn()


def is_running() -> bool:
    """True if this LAB_HOME's supervisor answers."""
    if not _socket().exists():
        return False
    try:
        return _call("getPID") == _known_pid()
    except (OSError, xmlrpc.client.Error):
        return False


def _known_pid() -> int:
    """Process id of the supervisor that this LAB_HOME started last; 0 if none is known."""
    with contextlib.suppress(OSError, ValueError):
        return int((folder("run", 0o700) / "supervisord.pid").read_text())
    return 0


def start(program: Program) -> None:
    """Run a program; a running one of the same name is stopped first."""
    with lab_lock():
        ensure_supervisor()
        remove(program.name)
        _describe(program)
        _write_config()
        try:
            _call("reloadConfig")
            _call("addProcessGroup", program.name)
            _call("startProcess", program.name, False)
        except xmlrpc.client.Fault as fault:
            raise LabError(
                f"{program.name} could not be started: {fault.faultString}.",
                f"run: lab logs {program.name}",
                log_tail(program.name),
            ) from None


def stop(name: str) -> None:
    """Stop a program but keep it listed; do nothing if it is not running."""
    _command("stopped", "stopProcess", name, BAD_NAME, NOT_RUNNING, timeout=STOP_TIMEOUT_S)


def remove(name: str) -> None:
    """Stop a program and remove it from the list; its log stays."""
    with lab_lock():
        stop(name)
        for leftover in (f"{name}.json", f"{name}.starts"):
            (_programs() / leftover).unlink(missing_ok=True)
        if is_running():
            _write_config()
            _call("reloadConfig")
            _command("removed", "removeProcessGroup", name, BAD_NAME)


def _command(done: str, method: str, name: str, *harmless: int, timeout: float = 20) -> None:
    """Send the supervisor a command for a program; do nothing if there is no supervisor."""
    try:
        _call(method, name, timeout=timeout)
    except (FileNotFoundError, ConnectionRefusedError):
        return
    except (xmlrpc.client.Fault, OSError) as error:
        if getattr(error, "faultCode", None) in harmless:
            return
        why = getattr(error, "faultString", None) or error
        raise LabError(
            f"{name} could not be {done}: {why}.", "run: lab down   (it ends every program)"
        ) from None


def status() -> list[ProgramStatus]:
    """Status of every supervised program; empty when no supervisor runs."""
    try:
        processes = _call("getAllProcessInfo")
    except (OSError, xmlrpc.client.Error):
        return []
    return [_status(process) for process in processes]


def status_of(name: str) -> ProgramStatus | None:
    """Status of one program; None when the supervisor does not know it."""
    return next((program for program in status() if program.name == name), None)


def processes_of(name: str) -> list[psutil.Process]:
    """Processes of a program, the one that the supervisor started first; empty if none runs."""
    program = status_of(name)
    return process_tree(program.pid) if program else []


def log_path(name: str) -> Path:
    """Path of a program's log."""
    return folder("logs") / f"{name}.log"


def log_tail(name: str, n: int = 20) -> str:
    """Last `n` lines of a program's log; empty when there is no log."""
    try:
        with log_path(name).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 2000 * n))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-n:])
    except FileNotFoundError:
        return ""


def shutdown() -> None:
    """Stop the supervisor and every marked program, and wait until all of them have ended."""
    with lab_lock():
        # Live loads first: they wait for a broker that the supervisor would stop.
        end_processes(list({*marked_processes()} - {*marked_processes(supervised=True)}))
        if is_running():
            longest = max((p["stop_seconds"] for p in _descriptions()), default=0)
            supervisor = psutil.Process(_call("getPID"))
            with contextlib.suppress(OSError, xmlrpc.client.Error):
                _call("shutdown")
            wait_until_ended([supervisor], longest + 10)
        if lost := unreachable():
            end_processes(process_tree(lost.pid))
        end_processes(marked_processes())
        shutil.rmtree(_socket().parent, ignore_errors=True)
        if left := marked_processes():
            raise LabError(
                f"These processes do not end: {', '.join(str(p.pid) for p in left)}.",
                "list them: ps -p PID -o pid,stat,args",
            )


def unreachable() -> psutil.Process | None:
    """Supervisor that works in this LAB_HOME, although this terminal does not see its socket.

    The terminal has another /tmp, something cleaned /tmp, or LAB_HOME was moved meanwhile.
    """
    with contextlib.suppress(psutil.Error, OSError):
        supervisor = psutil.Process(_known_pid())
        if not _socket().exists() and os.path.samefile(supervisor.cwd(), folder("logs")):
            return supervisor
    return None


def orphans() -> list[psutil.Process]:
    """Processes of this LAB_HOME whose supervisor has died."""
    marked = marked_processes(supervised=True)
    if not is_running():
        return marked
    supervised = set(process_tree(_call("getPID")))
    return [process for process in marked if process not in supervised]


def stale_files() -> bool:
    """True if a dead supervisor has left files."""
    return not is_running() and _socket().exists()


def end_orphans() -> None:
    """End the processes of this LAB_HOME whose supervisor has died."""
    end_processes(orphans())


# Implementation ---------------------------------------------------------------------------------


class _Connection(xmlrpc.client.Transport):
    """XML-RPC over a Unix socket."""

    def __init__(self, path: str, timeout: float):
        super().__init__()
        self.path, self.timeout = path, timeout

    def make_connection(self, host):
        import http.client
        import socket

        connection = http.client.HTTPConnection("localhost", timeout=self.timeout)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(self.timeout)
        connection.sock.connect(self.path)
        return connection


def _call(method: str, *arguments, timeout: float = 20):
    _check_owner(_socket().parent)
    transport = _Connection(str(_socket()), timeout)
    with xmlrpc.client.ServerProxy("http://localhost/RPC2", transport=transport) as server:
        return getattr(server.supervisor, method)(*arguments)


def _socket() -> Path:
    # A Unix socket's path is limited to about 100 characters, so it cannot be in LAB_HOME. /tmp and
    # not TMPDIR: every terminal must find the same place.
    base = Path("/tmp") if os.access("/tmp", os.W_OK) else Path(tempfile.gettempdir())
    key = hashlib.sha256(str(home()).encode()).hexdigest()[:12]
    return base / f"lakehouse-{os.getuid()}-{key}" / "supervisor.sock"


def _make_socket_folder() -> None:
    _socket().parent.mkdir(mode=0o700, exist_ok=True)
    _check_owner(_socket().parent)


def _check_owner(path: Path) -> None:
    """Refuse a folder in which another user could listen in the place of the supervisor."""
    facts = path.lstat()
    if path.is_symlink() or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise LabError(f"{path} belongs to another user.", f"remove it: rm -r {path}")


def _programs() -> Path:
    path = folder("run", 0o700) / "programs"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def _describe(program: Program) -> None:
    lab_settings = {k: v for k, v in os.environ.items() if k.startswith("LAB_")}
    description = {
        "name": program.name,
        "argv": [str(part) for part in program.argv],
        # Absolute paths, because the program runs in another folder.
        "env": without_credentials(lab_settings)
        | settings().places
        | settings().conf_folders
        | program.env
        | mark(),
        "cwd": str(program.cwd or home()),
        "autorestart": program.autorestart,
        "start_seconds": program.start_seconds,
        "stop_seconds": program.stop_seconds,
        "stop_signal": program.stop_signal,
        "start_mark": START_MARK,
    }
    write_private(_programs() / f"{program.name}.json", json.dumps(description))


def _descriptions() -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(_programs().glob("*.json"))]


def _write_config() -> None:
    # supervisord runs in LAB_HOME/logs and all paths are relative to it: spaces, percent signs and
    # semicolons of LAB_HOME never appear in its configuration.
    lines = [
        "[supervisord]",
        "nodaemon=true",
        "silent=true",
        "logfile=supervisord.log",
        "logfile_maxbytes=1MB",
        "logfile_backups=1",
        "pidfile=../run/supervisord.pid",
        *(["user=root"] if os.getuid() == 0 else []),
        "[unix_http_server]",
        f"file={_socket()}",
        "chmod=0600",
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface",
    ]
    for program in _descriptions():
        name = program["name"]
        lines += [
            f"[program:{name}]",
            f"command=%(ENV_{SUPERVISED})s ../run/programs/{name}.json",
            "autostart=false",
            f"autorestart={'true' if program['autorestart'] else 'false'}",
            f"startsecs={program['start_seconds']}",
            "startretries=3",
            f"stopwaitsecs={program['stop_seconds']}",
            f"stopsignal={program['stop_signal']}",
            "killasgroup=true",
            "redirect_stderr=true",
            f"stdout_logfile={name}.log",
            "stdout_logfile_maxbytes=10MB",
            "stdout_logfile_backups=1",
        ]
    write_private(folder("run", 0o700) / "supervisord.conf", "\n".join(lines) + "\n")


def _spawn() -> None:
    _make_socket_folder()
    _socket().unlink(missing_ok=True)
    environment = (
        without_credentials(clean_environment())
        | mark()
        | {SUPERVISED: shlex.join([sys.executable, "-E", "-S", launch.__file__])}
    )
    logs = folder("logs")
    with (logs / "supervisord.out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "supervisor.supervisord", "-c", "../run/supervisord.conf"],
            cwd=logs,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        if is_running():
            return
        time.sleep(0.05)
    end_processes([psutil.Process(process.pid)] if process.poll() is None else [])
    raise LabError(
        "The supervisor of the lab's programs does not start.",
        "run: lab doctor",
        (logs / "supervisord.out").read_text(errors="replace"),
    )


def _status(process: dict) -> ProgramStatus:
    name, pid = process["name"], process["pid"]
    starts = _programs() / f"{name}.starts"
    return ProgramStatus(
        name,
        process["statename"],
        pid,
        uptime=float(process["now"] - process["start"]) if pid else 0.0,
        restarts=max(0, starts.stat().st_size - 1) if starts.exists() else 0,
        exit_code=None if pid else process["exitstatus"],
    )
