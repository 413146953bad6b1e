"""Who held which lock, and when: the nodes of a lock in ZooKeeper, watched while a lesson runs.

A writer that wants a lock puts a numbered node below the lock's path. The lowest number holds the
lock, until its node goes.
"""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

LOOK_S, SEARCH_S = 0.01, 0.1  # seconds between two looks at known locks, and for new ones
FOLDERS_OF_IMPLICIT = "tmp"  # where ZookeeperBasedImplicitBasePathLockProvider puts its locks


@dataclass
class Node:
    """A writer's place in the queue of a lock.

    Args:
        path: of the lock.
        number: its place; the lowest number holds the lock.
        writer: who made it.
        made: when, in seconds since 1970.
        gone: when it went; 0 while it is there.
    """

    path: str
    number: int
    writer: str
    made: float
    gone: float = 0.0


@dataclass(frozen=True)
class Holding:
    """One time that a writer held a lock.

    Args:
        path: of the lock.
        writer: who held it.
        began: when, in seconds since 1970.
        ended: when.
    """

    path: str
    writer: str
    began: float
    ended: float


def holdings_of(nodes: Iterable[Node], now: float) -> list[Holding]:
    """When each writer held each lock: from the end of the one before, until its node went.

    Args:
        nodes: of any number of locks.
        now: what counts as the end where a node is still there.
    """
    free: dict[str, float] = {}
    found = []
    for node in sorted(nodes, key=lambda node: (node.path, node.number)):
        ended = node.gone or now
        began = max(node.made, free.get(node.path, 0.0))
        if began < ended:
            found.append(Holding(node.path, node.writer, began, ended))
        free[node.path] = max(ended, free.get(node.path, 0.0))
    return found


class LockWatch:
    """Watches all locks below a lesson's node, and the implicit ones, until it is stopped.

    Args:
        client: a connected kazoo client.
        namespace: the lesson's node, for example `lesson-18`.
        writer_of: says from a client's local port who it is.
    """

    def __init__(self, client: Any, namespace: str, writer_of: Callable[[int], str]):
        self._client = client
        self._roots = (f"/{namespace}", f"/{FOLDERS_OF_IMPLICIT}")
        self._writer_of = writer_of
        self._writers: dict[int, str] = {}
        self._open: dict[tuple[str, str], Node] = {}
        self._nodes: list[Node] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="locks", daemon=True)
        self._thread.start()

    def stop(self) -> list[Holding]:
        """Stop watching; the times that the locks were held."""
        self._over.set()
        self._thread.join(5)
        return holdings_of(self._nodes, time.time())

    def _watch(self) -> None:
        paths: list[str] = []
        searched = 0.0
        while not self._over.wait(LOOK_S):
            if time.monotonic() > searched + SEARCH_S:
                paths, searched = self._lock_paths(), time.monotonic()
            there = {(path, name) for path in paths for name in self._children(path)}
            for path, name in there - self._open.keys():
                self._note(path, name)
            for gone in self._open.keys() - there:
                self._open.pop(gone).gone = time.time()

    def _lock_paths(self) -> list[str]:
        """The lesson's own locks, one level below its node, and implicit ones, two below theirs."""
        own, implicit = self._roots
        folders = [f"{implicit}/{name}" for name in self._children(implicit)]
        return [f"{root}/{name}" for root in (own, *folders) for name in self._children(root)]

    def _children(self, path: str) -> list[str]:
        from kazoo.exceptions import NoNodeError

        try:
            return self._client.get_children(path)
        except NoNodeError:
            return []

    def _note(self, path: str, name: str) -> None:
        stat = self._client.exists(f"{path}/{name}")
        number = re.search(r"(\d+)$", name)
        if stat is None or number is None:
            return
        node = Node(path, int(number[1]), self._owner(stat.ephemeralOwner), stat.ctime / 1000)
        self._open[path, name] = node
        self._nodes.append(node)

    def _owner(self, session: int) -> str:
        if session not in self._writers:
            ports = ports_of_sessions(self._connections())
            self._writers[session] = self._writer_of(ports.get(session, 0))
        return self._writers[session]

    def _connections(self) -> str:
        host, port = self._client.hosts[0]
        with socket.create_connection((host, port), 3) as connection:
            connection.sendall(b"cons")
            with connection.makefile("rb") as answer:
                return answer.read().decode(errors="replace")


def ports_of_sessions(connections: str) -> dict[int, int]:
    """The local port of each client, by its session.

    Args:
        connections: ZooKeeper's answer to the word `cons`.
    """
    lines = re.findall(r"/\S+:(\d+)\[\d+\]\(.*?sid=0x([0-9a-f]+)", connections)
    return {int(session, 16): int(port) for port, session in lines}
