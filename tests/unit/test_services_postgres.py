"""PostgreSQL's first and later starts, its settings, and its password, which nothing reveals."""

import subprocess
from unittest.mock import Mock

import pytest

from lab_env.platform.errors import LabError
from lab_env.platform.processes.state import read_state, secrets
from lab_env.platform.services import SERVICES, postgres

SERVER = SERVICES["postgres"]


@pytest.fixture
def prepared(home, monkeypatch, tmp_path) -> list[tuple[list[str], str]]:
    """Pretend that the server is fetched; return the commands that prepare it, with their input."""
    commands = []

    def run(command, cwd, input, **_) -> subprocess.CompletedProcess:
        given = input
        if "--pwfile" in command:
            given = (cwd / "password").read_text()
            (cwd / "fresh").mkdir()
            (cwd / "fresh" / "PG_VERSION").touch()
        commands.append((command, given))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(postgres, "_server", lambda: tmp_path / "bin")
    monkeypatch.setattr(postgres, "without_root", lambda title: ("as-a-user",))
    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_the_first_start_creates_its_data_and_the_next_one_finds_them(prepared):
    program = SERVER.program({"sql": 5432})
    ((command, given),) = prepared
    assert given == secrets()["postgres_password"] + "\n"
    assert "--wal-segsize=1" in command and "--auth=scram-sha-256" in command
    assert not (SERVER.folder / "password").exists()
    assert SERVER.program({"sql": 5432}).argv == program.argv
    assert len(prepared) == 1


def test_no_argument_and_no_file_holds_the_password(prepared):
    program = SERVER.program({"sql": 5432})
    password = secrets()["postgres_password"]
    arguments = [*program.argv, *(word for command, _ in prepared for word in command)]
    files = [path.read_text() for path in SERVER.folder.rglob("*") if path.is_file()]
    assert not [text for text in [*arguments, *files] if password in text]
    assert password not in SERVER.address()


def test_a_server_whose_password_was_lost_gets_the_new_one(prepared, home):
    SERVER.program({"sql": 5432})
    (home / "secrets.json").unlink()
    SERVER.program({"sql": 5432})
    command, given = prepared[-1]
    assert "--single" in command
    assert given == f"ALTER ROLE lab PASSWORD '{secrets()['postgres_password']}'\n"
    assert secrets()["postgres_password"] not in (home / "state.json").read_text()
    assert read_state()["postgres"]["password"]


def test_an_interrupted_first_start_is_done_again(prepared):
    (SERVER.folder / "data").mkdir()
    (SERVER.folder / "fresh").mkdir()
    SERVER.program({"sql": 5432})
    assert (SERVER.folder / "data" / "PG_VERSION").exists()


def test_a_preparation_that_fails_shows_the_end_of_its_output(prepared, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "initdb: error: no space\n")
    monkeypatch.setattr(subprocess, "run", lambda *command, **_: failed)
    with pytest.raises(LabError, match="could not be prepared") as error:
        SERVER.program({"sql": 5432})
    assert "no space" in error.value.log
    assert not (SERVER.folder / "password").exists()


def test_it_serves_logical_replication_on_the_address_of_the_lab_by_tcp_alone(prepared, configure):
    configure(bind="127.0.0.7")
    SERVER.program({"sql": 6543})
    written = dict(
        line.split(" = ") for line in (SERVER.folder / "server.conf").read_text().splitlines()
    )
    wanted = {
        "listen_addresses": "'127.0.0.7'",
        "port": "6543",
        "wal_level": "logical",
        "unix_socket_directories": "''",
        "timezone": "'UTC'",
    }
    assert wanted.items() <= written.items()


def test_the_doctor_says_that_this_machine_cannot_run_it_as_root(home, monkeypatch):
    refused = LabError("It refuses to run as root.", "start the lab as another user.")
    monkeypatch.setattr(postgres, "without_root", Mock(side_effect=refused))
    *_, finding = SERVER.diagnose()
    assert (finding.verdict, finding.fix) == ("warn", "start the lab as another user.")
