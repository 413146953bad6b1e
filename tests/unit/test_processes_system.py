"""Facts about processes and the system: environment, memory, root rights, WSL, displays."""

import os
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest
from linux import needs_linux

from lab_env.course.jupyterlab.server import jupyterlab
from lab_env.platform.errors import LabError
from lab_env.platform.processes import system
from lab_env.platform.processes.system import allows, environment_of, memory_of


def test_a_running_program_shows_its_environment_and_memory_and_a_gone_one_nothing():
    child = subprocess.Popen(
        ["cat"],
        env=os.environ | {"PLANTED": "here"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process = psutil.Process(child.pid)
    try:
        os.write(child.stdin.fileno(), b"!")
        assert os.read(child.stdout.fileno(), 1) == b"!"  # it is the program by now, not its fork
        assert environment_of(process)["PLANTED"] == "here"
        assert memory_of(process) > 0
    finally:
        child.kill()
        child.communicate()
    assert environment_of(process) == {} and memory_of(process) == 0


class OnMacOS:
    """A psutil process on macOS, whose `memory_full_info` returns or raises `full_info`."""

    def __init__(self, full_info: SimpleNamespace | psutil.Error):
        self.full_info = full_info

    def memory_full_info(self):
        if isinstance(self.full_info, psutil.Error):
            raise self.full_info
        return self.full_info

    def memory_info(self):
        return SimpleNamespace(rss=7)


@pytest.mark.parametrize("full_info", [psutil.AccessDenied(1), SimpleNamespace(rss=7, uss=5)])
def test_where_the_system_tells_no_share_of_memory_the_resident_counts(full_info):
    assert memory_of(OnMacOS(full_info)) == 7


@pytest.mark.parametrize(
    ("words", "allowed"), [(("env",), True), (("false",), False), (("/no/such/tool",), False)]
)
def test_whether_a_machine_allows_something_is_tried(words, allowed):
    assert allows(words) is allowed


def test_only_root_gives_up_its_rights_and_by_the_first_way_that_the_machine_allows(monkeypatch):
    monkeypatch.setattr(system, "_WITHOUT_ROOT", (("/no/such/tool",), ("env", "A=1"), ("env",)))
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert system.without_root("PostgreSQL") == ()
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert system.without_root("PostgreSQL") == ("env", "A=1")
    monkeypatch.setattr(system, "_WITHOUT_ROOT", ())
    with pytest.raises(LabError, match="PostgreSQL refuses to run as root") as refused:
        system.without_root("PostgreSQL")
    assert refused.value.next_step == "start the lab as another user."


@needs_linux
@pytest.mark.skipif(os.getuid() != 0, reason="only root has rights to give up")
@pytest.mark.parametrize("words", system._WITHOUT_ROOT, ids=lambda words: words[0])
def test_a_program_without_root_is_another_user_and_reads_what_only_root_may(tmp_path, words):
    if not allows(words):
        pytest.skip(f"this machine does not allow {words[0]}")
    secret = tmp_path / "closed" / "secret"
    secret.parent.mkdir(mode=0o700)
    secret.touch(mode=0o600)
    look = "import os, sys; print(os.geteuid(), os.access(sys.argv[1], os.R_OK))"
    command = [*words, sys.executable, "-I", "-c", look, str(secret)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["65534", "True"], done.stderr


# What the kernels of WSL 2 and of Debian say of themselves in /proc/version.
WSL = "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@f9c826d3017f) (gcc 11.2.0) #1 SMP"
DEBIAN = "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12) #1 SMP"
ADDRESS = "http://127.0.0.1:8888/lab/tree/work/00_welcome.ipynb?token=a-_b"


@pytest.fixture
def windows(tmp_path, monkeypatch):
    """WSL without a display; returns a function that adds a Windows program to PATH."""
    kernel, programs = tmp_path / "version", tmp_path / "bin"
    kernel.write_text(WSL)
    programs.mkdir()
    monkeypatch.setattr(system, "KERNEL", kernel)
    monkeypatch.setenv("PATH", str(programs))
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.setenv(name, "")
    # The module keeps the browsers that it has found.
    monkeypatch.delitem(sys.modules, "webbrowser", raising=False)

    def add(name):
        (programs / name).write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/{name}.got\n")
        (programs / name).chmod(0o755)
        return tmp_path / f"{name}.got"

    return add


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("wslview", [ADDRESS]),
        ("powershell.exe", ["-NoProfile", "-Command", f"Start-Process '{ADDRESS}'"]),
    ],
)
def test_in_wsl_windows_opens_the_address(windows, program, arguments):
    assert not system.has_display()  # nothing of Windows on PATH: the address is only printed
    got = windows(program)
    assert system.has_display()
    system.open_browser(ADDRESS)
    assert got.read_text().splitlines() == arguments


def test_in_wsl_jupyterlab_opens_an_address_and_no_file_that_windows_cannot_find(
    windows, monkeypatch, home
):
    no_file = "--ServerApp.use_redirect_file=False"
    windows("powershell.exe")
    windows("wslview")
    server = jupyterlab("work/00_welcome.ipynb", browser=True)
    assert server.environment["BROWSER"] == "wslview %s"
    assert no_file in server.command and "--no-browser" not in server.command
    monkeypatch.setenv("BROWSER", "firefox")
    chosen = jupyterlab("work/00_welcome.ipynb", browser=True)
    assert chosen.environment["BROWSER"] == "firefox"
    system.KERNEL.write_text(DEBIAN)
    elsewhere = jupyterlab("work/00_welcome.ipynb", browser=True)
    assert no_file not in elsewhere.command and "--no-browser" in elsewhere.command


def test_a_system_without_proc_is_not_wsl(windows):
    system.KERNEL.unlink()
    assert not system.is_wsl()


@pytest.mark.parametrize(("platform", "has_one"), [("darwin", True), ("linux", False)])
def test_a_mac_has_a_display_without_a_variable_that_says_so(
    monkeypatch, tmp_path, platform, has_one
):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(system, "KERNEL", tmp_path / "version")
    monkeypatch.setattr(sys, "platform", platform)
    assert system.has_display() == has_one
