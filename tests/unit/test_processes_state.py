"""What a lab keeps in LAB_HOME: secrets, locks and ports; and how its programs are ended."""

import json
import shlex
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import psutil
import pytest

from lab_env.platform.errors import LabError
from lab_env.platform.processes import state
from lab_env.platform.processes.locks import exclusive
from lab_env.platform.processes.ports import choose_ports, port_is_free
from lab_env.platform.processes.state import lab_lock
from lab_env.platform.processes.tree import end_processes


def test_secrets_are_for_their_owner_only_and_stay_the_same(home):
    first = state.secrets()
    assert stat.S_IMODE((home / "secrets.json").stat().st_mode) == 0o600
    assert len(first["s3_secret_key"]) >= 24 and len(first["s3_access_key"]) >= 20
    assert state.secrets() == first


def test_a_lab_of_an_earlier_version_keeps_its_secrets_and_gets_the_new_ones(home):
    state.write_private(state.home() / "secrets.json", '{"s3_secret_key": "kept"}')
    known = state.secrets()
    assert known["s3_secret_key"] == "kept"
    assert len(known["postgres_password"]) >= 24
    assert state.secrets() == known


def test_the_access_key_of_an_earlier_version_stays_until_it_is_replaced(home):
    old = json.dumps({"s3_access_key": state.PUBLIC_KEY, "s3_secret_key": "kept"})
    state.write_private(state.home() / "secrets.json", old)
    assert state.secrets()["s3_access_key"] == state.PUBLIC_KEY and state.has_public_key()
    state.replace_public_key()
    own = state.secrets()
    assert len(own["s3_access_key"]) >= 20 and own["s3_secret_key"] == "kept"
    assert not state.has_public_key()
    state.replace_public_key()
    assert state.secrets() == own


def test_a_damaged_state_file_is_named(home):
    state.home()
    (home / "state.json").write_text('{"kafka": ')
    with pytest.raises(LabError, match=r"state\.json is damaged"):
        state.read_state()


def test_a_home_that_cannot_be_made_is_named(configure, tmp_path):
    (tmp_path / "file").write_text("")
    configure(home=tmp_path / "file" / "lab")
    with pytest.raises(LabError, match=r"LAB_HOME=.* cannot be used"):
        state.home()


def test_purge_removes_only_what_the_lab_wrote(home):
    state.secrets()
    state.folder("minio")
    (home / "thesis.txt").write_text("mine")
    state.purge_home(["minio"])
    assert {path.name for path in home.iterdir()} == {"thesis.txt", "run", state.MARKER}


def test_purge_spares_a_folder_that_was_there_before_the_lab(home):
    (home / "kafka").mkdir(parents=True)
    (home / "kafka" / "notes.txt").write_text("mine")
    state.secrets()
    with pytest.raises(LabError, match="nothing was removed"):
        state.purge_home(["kafka"])
    assert (home / "kafka" / "notes.txt").read_text() == "mine"
    assert (home / "secrets.json").exists()


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


def listening() -> socket.socket:
    """Return a socket that keeps a port busy."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    return server


def test_a_busy_port_is_replaced_by_a_free_one(home):
    with listening() as busy:
        preferred = busy.getsockname()[1]
        chosen = choose_ports("kafka", {"broker": preferred})["broker"]
        assert chosen != preferred
        assert port_is_free(chosen)


def test_a_free_port_is_taken(home):
    with listening() as server:
        preferred = server.getsockname()[1]
    assert choose_ports("kafka", {"broker": preferred}) == {"broker": preferred}


def test_a_replaced_port_is_kept_when_the_preferred_one_is_free_again(home):
    with listening() as busy:
        preferred = busy.getsockname()[1]
        first = choose_ports("kafka", {"broker": preferred})
    assert choose_ports("kafka", {"broker": preferred}) == first


def test_another_preferred_port_is_followed(home):
    with listening() as one, listening() as two:
        first, second = one.getsockname()[1], two.getsockname()[1]
    choose_ports("kafka", {"broker": first})
    assert choose_ports("kafka", {"broker": second}) == {"broker": second}


def test_two_services_never_get_the_same_port(home):
    with listening() as server:
        preferred = server.getsockname()[1]
    kafka = choose_ports("kafka", {"broker": preferred, "controller": preferred})
    minio = choose_ports("minio", {"api": preferred})
    assert len({*kafka.values(), *minio.values()}) == 3


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
