"""Records when each writer held a lock, by watching the locks' nodes in ZooKeeper.

A writer that wants a lock creates a numbered node below the lock's path. The writer with the lowest
number holds the lock until its node is deleted.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lab_env.pipeline.options import lock_place
from lab_env.platform.errors import LabError

LOOK_S, SEARCH_S = 0.01, 0.1  # seconds between two looks at known locks, and for new ones
IMPLICIT = "/tmp"  # where ZookeeperBasedImplicitBasePathLockProvider puts its locks
NODE = re.compile(r"lock-(\d+)$")  # a place in a queue


def lock_roots(lab) -> tuple[str, ...]:
    """Return the ZooKeeper paths below which a lesson's writers may create their locks."""
    return f"/{lab.namespace}", lock_place(lab.base), IMPLICIT


@dataclass
class Node:
    """A writer's place in the queue for a lock."""

    path: str  # the lock's path
    number: int  # its place; the lowest number holds the lock
    writer: str  # its creator; empty if unknown
    made: float  # seconds since 1970
    gone: float = 0.0  # seconds since 1970; 0 while it exists


@dataclass(frozen=True)
class Holding:
    """A period in which a writer held a lock, in seconds since 1970."""

    path: str
    writer: str
    began: float
    ended: float


def holdings_of(nodes: Iterable[Node], now: float) -> list[Holding]:
    """Return the periods in which each writer held each lock.

    A period starts when the previous holder's node is deleted. It ends when the writer's own node
    is deleted, or `now`.
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
    """Watches all locks below some paths, which need not exist, until it is stopped.

    `client` is a connected kazoo client; `writer` returns the name of the only writer that can take
    a lock at the moment.
    """

    def __init__(self, client: Any, roots: Iterable[str], writer: Callable[[], str]):
        self._client = client
        self._roots = tuple(roots)
        self._writer = writer
        self._open: dict[tuple[str, str], Node] = {}
        self._nodes: list[Node] = []
        self._failure = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="locks", daemon=True)
        self._thread.start()

    def stop(self) -> list[Holding]:
        """Stop watching; return the periods in which the locks were held.

        Raises `LabError` if ZooKeeper stopped answering.
        """
        self._over.set()
        self._thread.join(5)
        if self._failure:
            raise LabError(f"The locks were not watched: {self._failure}", "run this cell again.")
        return holdings_of(self._nodes, time.time())

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:  # it belongs to the cell, not to this thread
            self._failure = f"{type(error).__name__}: {error}"

    def _watch(self) -> None:
        paths: list[str] = []
        searched = 0.0
        while not self._over.wait(LOOK_S):
            before = self._writer()
            if time.monotonic() > searched + SEARCH_S:
                paths, searched = self._lock_paths(), time.monotonic()
            there = {(path, name) for path in paths for name in self._children(path)}
            there = {(path, name) for path, name in there if NODE.search(name)}
            writer = before if self._writer() == before else ""
            for path, name in there - self._open.keys():
                self._note(path, name, writer)
            for gone in self._open.keys() - there:
                self._open.pop(gone).gone = time.time()

    def _lock_paths(self) -> list[str]:
        """Return the paths without children other than lock nodes: each may be a lock."""
        found, folders = [], list(self._roots)
        while folders:
            path = folders.pop()
            names = [name for name in self._children(path) if not NODE.search(name)]
            folders += [f"{path}/{name}" for name in names]
            if not names:
                found.append(path)
        return found

    def _children(self, path: str) -> list[str]:
        from kazoo.exceptions import NoNodeError

        try:
            return self._client.get_children(path)
        except NoNodeError:
            return []

    def _note(self, path: str, name: str, writer: str) -> None:
        stat, number = self._client.exists(f"{path}/{name}"), NODE.search(name)
        if stat is None or number is None:
            return
        node = Node(path, int(number[1]), writer, stat.ctime / 1000)
        self._open[path, name] = node
        self._nodes.append(node)
