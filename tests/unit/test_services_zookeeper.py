"""ZooKeeper's configuration, its readiness, and the locks that a reset deletes."""

import contextlib
import socket
import threading
from unittest.mock import Mock

import pytest
from kazoo.exceptions import NotEmptyError

from lab_env.platform.errors import LabError
from lab_env.platform.services import SERVICES, ZooKeeper, zookeeper
from lab_env.platform.services.base import NotReady
from lab_env.platform.settings import settings


@pytest.fixture
def server(home, monkeypatch) -> ZooKeeper:
    monkeypatch.setattr(zookeeper, "java_program", lambda: "java")
    return SERVICES["zookeeper"]


def properties(server: ZooKeeper) -> dict[str, str]:
    text = (server.folder / "zoo.cfg").read_text()
    return dict(line.split("=", 1) for line in text.splitlines())


def answering(text: str) -> int:
    """Start a server that answers one connection with a text; return its port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with listening, listening.accept()[0] as connection:
            connection.recv(100)
            connection.sendall(text.encode())

    threading.Thread(target=answer, daemon=True).start()
    return listening.getsockname()[1]


def test_it_listens_on_the_address_of_the_lab_only(server, configure):
    configure(bind="127.0.0.7")
    program = server.program({"client": 2345})
    written = properties(server)
    assert (written["clientPortAddress"], written["clientPort"]) == ("127.0.0.7", "2345")
    assert written["admin.enableServer"] == "false"  # it would listen on all addresses
    assert program.argv[-1] == "zoo.cfg" and program.cwd == server.folder


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("Zookeeper version: 3.6.3\nMode: standalone\n", ""),
        ("This ZooKeeper instance is not currently serving requests\n", "not currently serving"),
        ("", "returned no mode"),
    ],
)
def test_it_is_ready_when_it_serves_requests(server, configure, answer, why):
    configure(zookeeper_port=answering(answer))
    if not why:
        server.check()
        return
    with pytest.raises(NotReady, match=why):
        server.check()


def test_one_that_does_not_run_is_not_ready_and_has_no_client(server, monkeypatch, configure):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    configure(zookeeper_port=port)
    monkeypatch.setattr(zookeeper, "TIMEOUT_S", 0.2)
    with pytest.raises(NotReady, match="does not answer"):
        server.check()
    with pytest.raises(LabError, match=f"127.0.0.1:{port} does not answer"), server.client():
        pass


def test_an_external_one_is_asked_and_not_started(server, configure):
    answers = answering("Mode: follower\n")
    configure(zookeeper_connect=f"127.0.0.1:1, 127.0.0.1:{answers}")
    assert server.external and server.address() == f"127.0.0.1:1,127.0.0.1:{answers}"
    server.check()
    configure(zookeeper_connect="zookeeper-1")
    with pytest.raises(LabError) as error:
        settings()
    assert "not host:port" in error.value.what and "2181" in error.value.next_step


class Tree:
    """Stand-in for a kazoo client, with the nodes of these paths and all their parents."""

    def __init__(self, *paths: str):
        self.paths = {"/".join(p.split("/")[:n]) for p in paths for n in range(2, p.count("/") + 2)}

    def exists(self, path: str) -> bool:
        return path in self.paths

    def get_children(self, path: str) -> list[str]:
        below = {found.removeprefix(f"{path}/") for found in self.paths if found.startswith(path)}
        return [name for name in below if "/" not in name and name]

    def delete(self, path: str, recursive: bool = False) -> None:
        if not recursive and self.get_children(path):
            raise NotEmptyError
        gone = {found for found in self.paths if f"{found}/".startswith(f"{path}/")}
        self.paths -= gone


@pytest.mark.parametrize("external", [False, True])
def test_a_reset_deletes_the_locks_of_the_lesson_and_of_its_tables(
    server, monkeypatch, configure, external
):
    if external:
        configure(zookeeper_connect="zookeeper-1:2181")
    others = {"/lesson-17/orders", "/lakehouse/lesson-17/orders", "/another/lesson-18/orders"}
    own = {"/lesson-18/orders", "/lakehouse/lesson-18/orders", "/lakehouse/lesson-18/scratch/one"}
    tree = Tree(*others, *own, "/tmp/free/lock_key", "/tmp/held/lock_key/_c_1-lock-0000000001")
    monkeypatch.setattr(ZooKeeper, "client", lambda self: contextlib.nullcontext(tree))
    assert server.clear("lesson-18") == {"locks": 3}
    assert tree.paths >= others and not tree.paths & own
    # Whose an implicit lock is cannot be seen: on a server of others all of them stay.
    assert ("/tmp/free" in tree.paths) == external and "/tmp/held/lock_key" in tree.paths


def test_a_reset_beside_a_writer_that_goes_on_says_so(server, monkeypatch):
    tree = Tree("/lesson-18/orders")
    tree.delete = Mock(side_effect=NotEmptyError)
    monkeypatch.setattr(ZooKeeper, "client", lambda self: contextlib.nullcontext(tree))
    with pytest.raises(LabError, match="A writer keeps taking the locks of lesson-18"):
        server.clear("lesson-18")


def test_a_failure_inside_the_body_is_not_hidden(server, monkeypatch):
    monkeypatch.setattr("kazoo.client.KazooClient", Mock())
    with pytest.raises(ZeroDivisionError), server.client():
        _ = 1 / 0
