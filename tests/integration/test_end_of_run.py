"""Nothing that tests have started keeps running, however the test process ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from end_of_run import VARIABLE
from own_lab import wait_until

from lab_env.platform.processes.system import environment_of
from lab_env.platform.processes.tree import is_alive

A_TEST = """
import os, subprocess, sys, time
from pathlib import Path
from end_of_run import VARIABLE
from lab_env.platform.processes import supervisor

def test_that_never_ends():
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    supervisor.start(supervisor.Program("server", sleep))
    subprocess.Popen(sleep, start_new_session=True)
    told = Path(__file__).with_name("told")
    told.with_suffix(".new").write_text(os.environ[VARIABLE])
    told.with_suffix(".new").rename(told)
    time.sleep(600)
"""


def programs(mark: str) -> list[psutil.Process]:
    return [p for p in psutil.process_iter() if environment_of(p).get(VARIABLE) == mark]


@pytest.mark.parametrize(
    ("how", "options"),
    [(signal.SIGTERM, []), (signal.SIGKILL, ["-n", "1"])],
    ids=["a time-out", "a kill, of several test processes"],
)
def test_a_signal_to_pytest_alone_leaves_nothing_running(tmp_path, how, options):
    (tmp_path / "test_it.py").write_text(A_TEST)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider"]
    run = subprocess.Popen(
        [*command, *options, "test_it.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=subprocess.DEVNULL,
    )
    told = tmp_path / "told"
    wait_until(told.exists)
    mark = told.read_text()
    assert len(list(filter(is_alive, programs(mark)))) >= 3  # supervisor, server, and a child
    run.send_signal(how)
    run.wait()
    wait_until(lambda: not any(map(is_alive, programs(mark))))
    wait_until(lambda: not Path(mark).exists())
