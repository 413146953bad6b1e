"""Settings of a lab that shares no folder or port with others, and helpers for its tests."""

import os
import random
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import psutil
import pytest
from jobs import usable_cores

from lab_env.platform.settings import Settings

PORTS = [f"LAB_{name.upper()}" for name in Settings.model_fields if name.endswith("_port")]


def lab_environment(home: Path) -> dict[str, str]:
    """Return the variables of a separate lab: its folders, and ports that are free now."""
    ports = iter(free_ports(len(PORTS)))
    folders = {"LAB_HOME": str(home), "LAB_WORK": str(home.parent / "work")}
    return folders | {name: str(next(ports)) for name in PORTS}


def allowed(seconds: float) -> float:
    """Return a time limit in seconds, extended if a test process has fewer than two cores."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return seconds * max(1.0, 2 * processes / usable_cores())


def not_here(reason: str) -> NoReturn:
    """End a test that this machine cannot run: in CI it fails, elsewhere it is skipped."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def wait_until(
    fact: Callable[[], object],
    seconds: float = 60,
    every: float = 0.2,
    seen: Callable[[], object] = lambda: "",
) -> None:
    """Wait until a condition holds; the limit in seconds is extended as in `allowed`.

    If it never does, the failure says what was `seen` instead.
    """
    deadline = time.monotonic() + allowed(seconds)
    while not fact():
        assert time.monotonic() < deadline, f"waited in vain; {seen()}"
        time.sleep(every)


def listening(processes: Iterable[psutil.Process]) -> set[str]:
    """Return the IP addresses on which programs accept TCP connections."""
    found: set[str] = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # a short-lived child
            connections = process.net_connections("tcp")
            found |= {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    return {address.removeprefix("::ffff:") for address in found}


def free_ports(count: int) -> list[int]:
    """Return free ports below the range that the system uses for outgoing connections.

    Each process of a parallel test run has its own range, because another process could take a
    port that is still free.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = 10_000 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    found: set[int] = set()
    while len(found) < count:
        port = 20_000 + worker * share + random.randrange(share)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                found.add(port)
    return sorted(found)
