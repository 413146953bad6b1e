"""What ZooKeeper is started with, and when it counts as ready."""

import socket
import threading

import pytest

from lab_env.errors import LabError
from lab_env.services import SERVICES, ZooKeeper, zookeeper
from lab_env.services.base import NotReady
from lab_env.settings import settings


@pytest.fixture
def server(home, monkeypatch) -> ZooKeeper:
    monkeypatch.setattr(zookeeper, "java_program", lambda: "java")
    return SERVICES["zookeeper"]


def properties(server: ZooKeeper) -> dict[str, str]:
    text = (server.folder / "zoo.cfg").read_text()
    return dict(line.split("=", 1) for line in text.splitlines())


def answering(text: str) -> int:
    """A server for one connection that answers any word with a text; returns its port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with listening, listening.accept()[0] as connection:
            connection.recv(100)
            connection.sendall(text.encode())

    threading.Thread(target=answer, daemon=True).start()
    return listening.getsockname()[1]


def test_it_listens_on_the_address_of_the_lab_only(server, monkeypatch):
    monkeypatch.setenv("LAB_BIND", "127.0.0.7")
    settings.cache_clear()
    program = server.program({"client": 2345})
    written = properties(server)
    assert (written["clientPortAddress"], written["clientPort"]) == ("127.0.0.7", "2345")
    assert written["admin.enableServer"] == "false"  # it would listen on all addresses
    assert program.argv[-1] == "zoo.cfg" and program.cwd == server.folder


def test_it_runs_on_the_jars_of_pyspark(server):
    jars = server.program({"client": 2345}).argv[-3]
    for part in ("zookeeper-3", "zookeeper-jute", "log4j-core", "slf4j-api", "metrics-core"):
        assert part in jars


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("Zookeeper version: 3.6.3\nMode: standalone\n", ""),
        ("This ZooKeeper instance is not currently serving requests\n", "not currently serving"),
        ("", "says nothing"),
    ],
)
def test_it_is_ready_when_it_serves_requests(server, monkeypatch, answer, why):
    monkeypatch.setenv("LAB_ZOOKEEPER_PORT", str(answering(answer)))
    settings.cache_clear()
    if not why:
        server.check()
        return
    with pytest.raises(NotReady, match=why):
        server.check()


def test_one_that_does_not_run_is_not_ready_and_has_no_client(server, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("LAB_ZOOKEEPER_PORT", str(port))
    monkeypatch.setattr(zookeeper, "TIMEOUT_S", 0.2)
    settings.cache_clear()
    with pytest.raises(NotReady, match="does not answer"):
        server.check()
    with pytest.raises(LabError, match=f"127.0.0.1:{port} does not answer"), server.client():
        pass


def test_an_external_one_is_asked_and_not_started(server, monkeypatch):
    answers = answering("Mode: follower\n")
    monkeypatch.setenv("LAB_ZOOKEEPER_CONNECT", f"127.0.0.1:1, 127.0.0.1:{answers}")
    settings.cache_clear()
    assert server.external and server.address() == f"127.0.0.1:1,127.0.0.1:{answers}"
    server.check()
    monkeypatch.setenv("LAB_ZOOKEEPER_CONNECT", "zookeeper-1")
    settings.cache_clear()
    with pytest.raises(LabError) as error:
        settings()
    assert "no host:port" in error.value.what and "2181" in error.value.next_step


def test_a_failure_inside_the_body_is_not_hidden(server, monkeypatch):
    class Client:
        def __init__(self, **options): ...

        def start(self, timeout): ...

        def stop(self): ...

        def close(self): ...

    monkeypatch.setattr("kazoo.client.KazooClient", Client)
    with pytest.raises(ZeroDivisionError), server.client():
        _ = 1 / 0
