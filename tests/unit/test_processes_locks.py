"""A lock file keeps other processes and threads out; each path has its own lock."""

import fcntl
import subprocess
import sys
import threading
import time

import pytest

from lab_env.platform.errors import LabError
from lab_env.platform.processes.locks import NO_LOCKS, exclusive, is_free
from lab_env.platform.processes.state import lab_lock

# Takes the lab's lock in another process.
TAKE = "from lab_env.platform.processes.state import lab_lock\nwith lab_lock(): print('in')"


def in_a_thread(path) -> tuple[threading.Thread, threading.Event]:
    """Start a thread that takes a lock once; return it, and an event set once it has the lock."""
    has_it = threading.Event()

    def take() -> None:
        with exclusive(path):
            has_it.set()

    thread = threading.Thread(target=take)
    thread.start()
    return thread, has_it


def test_a_lock_keeps_out_threads_that_want_the_same_path_and_no_others(tmp_path):
    with exclusive(tmp_path / "one"):
        same, has_same = in_a_thread(tmp_path / "one")
        other, has_other = in_a_thread(tmp_path / "two")
        assert has_other.wait(10)
        assert not has_same.wait(0.2)
    assert has_same.wait(10)
    same.join()
    other.join()


@pytest.mark.parametrize("code", NO_LOCKS)
def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch, code):
    def refuse(handle, kind):
        raise OSError(code, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    for use in (exclusive(tmp_path / "one").__enter__, lambda: is_free(tmp_path / "one")):
        with pytest.raises(LabError, match="has no file locks"):
            use()


def test_a_lock_is_free_again_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), exclusive(tmp_path / "one"):
        raise RuntimeError
    _, has_it = in_a_thread(tmp_path / "one")
    assert has_it.wait(10)


def test_the_lock_keeps_another_process_out(home, tmp_path):
    script = TAKE.replace("with", "print('asking', flush=True)\nwith")
    with lab_lock(), lab_lock():
        other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert other.stdout.readline() == b"asking\n"
        time.sleep(0.3)  # it would be in by now
        assert other.poll() is None
    assert other.communicate(timeout=20)[0] == b"in\n"
    assert other.returncode == 0


def test_a_program_started_under_the_lock_does_not_keep_it(home):
    with lab_lock():
        child = subprocess.Popen(["sleep", "30"])
    try:
        assert subprocess.check_output([sys.executable, "-c", TAKE], timeout=20) == b"in\n"
    finally:
        child.kill()
        child.wait()
