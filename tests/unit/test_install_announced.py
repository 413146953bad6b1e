"""While a first set-up runs alongside JupyterLab, commands that need its result wait for it."""

import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from lab_env.course import copies
from lab_env.course.jupyterlab import running
from lab_env.platform import services, setup
from lab_env.platform.errors import LabError
from lab_env.platform.install.announced import wait_for_set_up
from lab_env.platform.processes import supervisor

SET_UP = """
import sys
from lab_env.platform.install.announced import announced
with announced(lambda line: None) as report:
    report("jars for spark: 1 of 9, 20 MB")
    report("minio: 40 modules fetched")
    print("runs", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def set_up(home):
    """A set-up of this lab in another process; it ends when its stdin is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", SET_UP], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout.readline() == b"runs\n"
            yield process
        finally:
            process.kill()


def test_it_is_waited_for_and_its_newest_line_shown(set_up):
    lines = []

    def report(line: str) -> None:
        lines.append(line)
        assert set_up.poll() is None
        set_up.stdin.close()

    wait_for_set_up(report)
    assert lines == ["set-up is still running: minio: 40 modules fetched"]
    assert set_up.wait(10) == 0


def test_after_a_killed_one_the_services_say_what_is_missing(
    set_up, monkeypatch, configure, tmp_path
):
    configure(cache=tmp_path / "empty")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(supervisor, "ensure_supervisor", lambda: None)
    with pytest.raises(LabError, match="MinIO is not installed") as caught:
        services.up(progress=lambda line: set_up.kill())
    assert caught.value.next_step == "run: make setup"
    assert set_up.poll() is not None  # it was waited for


def test_jupyterlab_stays_open_when_set_up_fails(lab_command, home, monkeypatch):
    happened = []

    def wait():
        happened.append("JupyterLab ends")
        return 0

    @contextmanager
    def starting(lesson, browser):
        happened.append("JupyterLab starts")
        yield SimpleNamespace(page="page of {}".format, wait=wait)

    def fail(report, since, before):
        happened.append(f"set-up since {since:.0f}")
        raise LabError("The jars for kafka could not be fetched.", "run: make setup")

    monkeypatch.setattr(running, "starting_jupyterlab", starting)
    monkeypatch.setattr(setup, "set_up", fail)
    monkeypatch.setattr(copies, "make_copies", lambda: [])
    done = lab_command("jupyter", "--since", "7", LAB_HOME=str(home))
    assert happened == ["JupyterLab starts", "set-up since 7", "JupyterLab ends"]
    assert "The jars for kafka could not be fetched.\nNext step: run: make setup" in done.stderr
    assert "page of work/00_welcome.ipynb" in done.stdout
