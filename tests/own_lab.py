"""The settings of a lab that meets no other on this machine."""

import os
import random
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

import psutil
import pytest
from jobs import usable_cores

from lab_env.platform.settings import Settings

PORTS = [f"LAB_{name.upper()}" for name in Settings.model_fields if name.endswith("_port")]


def lab_environment(home: Path) -> dict[str, str]:
    """The variables of a lab that meets no other: its folders, and ports that are free now."""
    ports = iter(free_ports(len(PORTS)))
    folders = {"LAB_HOME": str(home), "LAB_WORK": str(home.parent / "work")}
    return folders | {name: str(next(ports)) for name in PORTS}


def allowed(seconds: float) -> float:
    """The time that something may take here: as promised, for each test process on two cores."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return seconds * max(1.0, 2 * processes / usable_cores())


def not_here(reason: str) -> NoReturn:
    """End a test that this machine does not allow: in CI that is a failure, elsewhere a skip."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def wait_until(fact: Callable[[], object], seconds: float = 60, every: float = 0.2) -> None:
    """Wait for something to become true, so many seconds for each test process on two cores."""
    deadline = time.monotonic() + allowed(seconds)
    while not fact():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(every)


def listening(processes: Iterable[psutil.Process]) -> set[str]:
    """The addresses on which programs accept connections."""
    return {
        connection.laddr.ip.removeprefix("::ffff:")
        for process in processes
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


def free_ports(count: int) -> list[int]:
    """Free ports below the range from which the system serves outgoing connections.

    Each process of a parallel test run has its own part of them: what is free now is not yet taken.
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
