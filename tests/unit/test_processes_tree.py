"""Programs get SIGTERM and, if they ignore it, are killed; zombies are not waited for."""

import shlex
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil
import pytest

from lab_env.platform.processes.tree import end_processes

SLEEP = "import time; print('ready', flush=True); time.sleep(60)"
IGNORE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP


@contextmanager
def child_of_a_careless_parent(script: str):
    """Yield a process whose parent never waits for it, so that it becomes a zombie."""
    careless = f"{shlex.join([sys.executable, '-c', script])} & exec sleep 60"
    parent = subprocess.Popen(["sh", "-c", careless], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout.readline() == "ready\n"
        (child,) = psutil.Process(parent.pid).children()
        yield child
    finally:
        parent.kill()
        parent.communicate()


@pytest.mark.parametrize(("script", "seconds"), [(SLEEP, 10), (IGNORE, 0.5)])
def test_a_program_that_ended_is_not_waited_for_although_it_is_a_zombie(script, seconds):
    with child_of_a_careless_parent(script) as program:
        started = time.monotonic()
        end_processes([program], seconds)
        assert time.monotonic() - started < 3
        assert program.status() == psutil.STATUS_ZOMBIE
