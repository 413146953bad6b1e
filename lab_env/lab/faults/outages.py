"""Pause or kill a server, or make it refuse a client's connections."""

import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager

import psutil

from lab_env.lab.faults.freeze import frozen, kill
from lab_env.platform import services
from lab_env.platform.errors import LabError
from lab_env.platform.processes import supervisor
from lab_env.platform.settings import settings

PAUSE_S = 600  # of a service at most, should the process that paused it be killed
RESTART_S = 10  # a supervisor that restarts nothing by then has given the service up


@contextmanager
def paused(name: str) -> Generator[None]:
    """Freeze a service while the body runs: its port stays open, but it does not respond."""
    with frozen(pid_of(name), at_most=PAUSE_S):
        yield


def kill_service(name: str) -> None:
    """Kill a service; return as soon as the supervisor has restarted it."""
    pid = pid_of(name)
    kill(pid)
    deadline = time.monotonic() + RESTART_S
    while time.monotonic() < deadline:
        status = supervisor.status_of(name)
        if status is None or status.pid not in (0, pid):
            return
        time.sleep(0.02)


def cut_power(topic: str) -> None:
    """Kill the broker, and remove the newer half of a topic's messages from its disk; restart it.

    So it is after a power cut: the broker acknowledges messages that the operating system has not
    written to the disk yet.
    """
    pid = pid_of("kafka")
    supervising = psutil.Process(psutil.Process(pid).ppid())
    supervising.suspend()  # or it restarts the broker at once
    try:
        kill(pid)
        for log in services.service("kafka").folder.glob(f"data/{topic}-[0-9]*/*.log"):
            os.truncate(log, log.stat().st_size // 2)
    finally:
        supervising.resume()
    services.up(progress=lambda line: None)


def refuse_client(name: str, client: psutil.Process, attempts: int = 3) -> None:
    """Stop a service until a client has failed to connect `attempts` times, then restart it.

    Meanwhile its port accepts each connection and closes it immediately. If no client tries to
    connect for a minute, raise `TimeoutError`.
    """
    service = services.service(name)
    port = service.port(next(iter(service.preferred_ports())))
    supervisor.stop(name)
    with socket.create_server((settings().bind, port)) as closing:
        closing.settimeout(60)
        while attempts > 0:
            connection, (_, asking) = closing.accept()
            own_ports = {own.laddr.port for own in client.net_connections("tcp")}
            attempts -= asking in own_ports
            connection.close()
    services.up(progress=lambda line: None)


def pid_of(name: str) -> int:
    """Process id of a running service; raise `LabError` if it is not running in this lab."""
    service = services.service(name)
    program = supervisor.status_of(service.name)
    if program is None or not program.pid:
        raise LabError(f"{service.title} does not run here.", "run: lab up")
    return program.pid
