"""Faults affect the whole process tree, and a freeze always ends."""

import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest
from own_lab import wait_until

from lab_env.lab.faults.freeze import frozen, kill
from lab_env.platform.processes.tree import is_alive, process_tree, resident_bytes

# A parent and its child; each says once that it is there.
PROGRAM = [
    sys.executable,
    "-c",
    "import subprocess, sys, time\n"
    "child = [sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(60)']\n"
    "subprocess.Popen(child); print(2, flush=True); time.sleep(60)",
]


@contextmanager
def family():
    """Start a parent process and its child; yield both, and kill them at the end."""
    parent = subprocess.Popen(PROGRAM, stdout=subprocess.PIPE, text=True)
    try:
        assert {parent.stdout.readline(), parent.stdout.readline()} == {"1\n", "2\n"}
        tree = process_tree(parent.pid)
        assert [process.pid for process in tree[:1]] == [parent.pid] and len(tree) == 2
        yield tree
    finally:
        for process in tree:
            if process.is_running():
                process.kill()
        parent.communicate()


def all_become(state: str, processes: list[psutil.Process]) -> None:
    """Wait until all processes are in a state: a signal takes a moment to act."""
    wait_until(lambda: {process.status() for process in processes} == {state}, 10, every=0.02)


def test_a_frozen_tree_stands_still_and_goes_on_even_after_an_error():
    with family() as tree:
        with pytest.raises(RuntimeError), frozen(tree[0].pid):
            all_become(psutil.STATUS_STOPPED, tree)
            raise RuntimeError
        all_become(psutil.STATUS_SLEEPING, tree)


def test_a_frozen_tree_goes_on_after_a_time_even_if_the_one_who_froze_it_was_killed():
    freezing = "import sys, time; from lab_env.lab.faults.freeze import frozen\n"
    freezing += "with frozen(int(sys.argv[1]), at_most=1):\n print(flush=True)\n time.sleep(600)"
    with family() as tree:
        command = [sys.executable, "-c", freezing, str(tree[0].pid)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as killed:
            killed.stdout.read(1)
            killed.kill()
        all_become(psutil.STATUS_SLEEPING, tree)


def test_a_tree_of_which_one_is_killed_while_frozen_goes_on_otherwise():
    with family() as tree:
        with frozen(tree[0].pid):
            kill(tree[1].pid)
        all_become(psutil.STATUS_SLEEPING, tree[:1])


def test_a_killed_tree_is_gone_children_too():
    with family() as tree:
        assert resident_bytes(tree[0].pid) > tree[0].memory_info().rss
        kill(tree[0].pid)
        assert [process for process in tree if is_alive(process)] == []


def test_a_process_that_is_gone_has_no_tree_and_no_memory():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert process_tree(0) == process_tree(gone.pid) == []
    assert resident_bytes(gone.pid) == 0
    with pytest.raises(psutil.NoSuchProcess), frozen(gone.pid):
        pass
