"""What a lab remembers: ports, passwords, and a lock that holds."""

import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab_env.errors import LabError
from lab_env.processes import state
from lab_env.settings import settings


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A fresh LAB_HOME for one test."""
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "50% of a lab"))
    settings.cache_clear()
    yield tmp_path / "50% of a lab"
    settings.cache_clear()


def listening() -> socket.socket:
    """A socket that keeps a port busy."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    return server


def test_a_busy_port_is_replaced_by_a_free_one(home):
    with listening() as busy:
        wish = busy.getsockname()[1]
        chosen = state.choose_ports("kafka", {"broker": wish})["broker"]
        assert chosen != wish
        assert state.port_is_free(chosen)


def test_a_free_port_is_taken_as_wished(home):
    with listening() as server:
        wish = server.getsockname()[1]
    assert state.choose_ports("kafka", {"broker": wish}) == {"broker": wish}


def test_a_replaced_port_is_kept_when_the_wished_one_is_free_again(home):
    with listening() as busy:
        wish = busy.getsockname()[1]
        first = state.choose_ports("kafka", {"broker": wish})
    assert state.choose_ports("kafka", {"broker": wish}) == first


def test_another_wish_is_followed(home):
    with listening() as one, listening() as two:
        first, second = one.getsockname()[1], two.getsockname()[1]
    state.choose_ports("kafka", {"broker": first})
    assert state.choose_ports("kafka", {"broker": second}) == {"broker": second}


def test_two_services_never_get_the_same_port(home):
    with listening() as server:
        wish = server.getsockname()[1]
    kafka = state.choose_ports("kafka", {"broker": wish, "controller": wish})
    minio = state.choose_ports("minio", {"api": wish})
    assert len({*kafka.values(), *minio.values()}) == 3


def test_secrets_are_for_their_owner_only_and_stay_the_same(home):
    first = state.secrets()
    assert stat.S_IMODE((home / "secrets.json").stat().st_mode) == 0o600
    assert len(first["s3_secret_key"]) >= 24
    assert state.secrets() == first


def test_a_damaged_state_file_is_named(home):
    state.home()
    (home / "state.json").write_text('{"kafka": ')
    with pytest.raises(LabError, match=r"state\.json is damaged"):
        state.read_state()


def test_a_home_that_cannot_be_made_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "file" / "lab"))
    settings.cache_clear()
    with pytest.raises(LabError, match=r"LAB_HOME=.* cannot be used"):
        state.home()
    settings.cache_clear()


def test_purge_removes_only_what_the_lab_wrote(home):
    state.secrets()
    state.folder("minio")
    (home / "thesis.txt").write_text("mine")
    state.purge_home()
    assert {path.name for path in home.iterdir()} == {"thesis.txt", "run", state.MARKER}


def test_the_lock_keeps_another_process_out(home, tmp_path):
    script = (
        "from lab_env.processes.state import lab_lock\n"
        "print('asking', flush=True)\n"
        "with lab_lock(): print('in', flush=True)"
    )
    with state.lab_lock(), state.lab_lock():
        other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert other.stdout.readline() == b"asking\n"
        time.sleep(0.3)  # it would be in by now
        assert other.poll() is None
    assert other.communicate(timeout=20)[0] == b"in\n"
    assert other.returncode == 0


def test_a_program_started_under_the_lock_does_not_keep_it(home):
    with state.lab_lock():
        child = subprocess.Popen(["sleep", "30"])
    try:
        script = "from lab_env.processes.state import lab_lock\nwith lab_lock(): print('in')"
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, timeout=20, env=os.environ
        )
        assert done.stdout == b"in\n"
    finally:
        child.kill()
        child.wait()


def test_purge_spares_a_folder_that_was_there_before_the_lab(home):
    (home / "kafka").mkdir(parents=True)
    (home / "kafka" / "notes.txt").write_text("mine")
    state.secrets()
    with pytest.raises(LabError, match="nothing was removed"):
        state.purge_home()
    assert (home / "kafka" / "notes.txt").read_text() == "mine"
    assert (home / "secrets.json").exists()
