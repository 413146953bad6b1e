"""Ports: a service listens on the preferred one or, if it is busy, on the next free one.

Between the choice and the moment when the server listens, this process holds a UDP socket on the
same port. Labs that start at the same time see it, and it goes when this process ends.
"""

import socket
from collections.abc import Callable, Collection

from lab_env.platform.errors import LabError
from lab_env.platform.processes.state import lab_lock, read_state, update_state
from lab_env.platform.settings import settings

_reserved: dict[int, socket.socket] = {}


def choose_ports(service: str, preferred: dict[str, int]) -> dict[str, int]:
    """Choose and save the ports of a service that is about to start, by port name.

    The last choice is kept as long as the preferred port is the same and the chosen one is free.
    Ports of other services are never taken, even if those services do not run.
    """
    with lab_lock():
        state = read_state()
        known = state.get(service, {})
        taken = {
            port
            for name, values in state.items()
            if name != service
            for port in values.get("ports", {}).values()
        }
        chosen: dict[str, int] = {}
        for name, wanted in preferred.items():
            kept = known.get("preferred", {}).get(name) == wanted
            first = known["ports"][name] if kept else wanted
            chosen[name] = free_port(wanted, first, taken | {*chosen.values()}, _reserve)
        update_state(service, preferred=preferred, ports=chosen)
        return chosen


def _reserve(port: int) -> bool:
    if port not in _reserved:
        mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            mark.bind(("127.0.0.1", port))
        except OSError:
            mark.close()
            return False
        _reserved[port] = mark
    if not port_is_free(port):
        _reserved.pop(port).close()
    return port in _reserved


def release_ports() -> None:
    """Give up the reserved ports: their servers listen, or have failed."""
    while _reserved:
        _reserved.popitem()[1].close()


def port_is_free(port: int) -> bool:
    """True if a server could listen on a port of LAB_BIND now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings().bind, port))
        except OSError:
            return False
        return True


def accepts(server: str, seconds: float) -> bool:
    """True if a server, `host:port`, accepts a connection."""
    host, _, port = server.strip().rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), seconds).close()
    except OSError:
        return False
    return True


def free_port(
    preferred: int,
    first: int = 0,
    taken: Collection[int] = (),
    usable: Callable[[int], bool] = port_is_free,
) -> int:
    """Return port `first` if it is usable now, else `preferred` or the next usable one above it."""
    end = min(preferred + 500, 65536)
    for port in [first or preferred, *range(preferred, end)]:
        if port not in taken and usable(port):
            return port
    raise LabError(
        f"No port from {preferred} to {end - 1} is free on {settings().bind}.",
        "end a program that uses one of them, or set other ports (LAB_..._PORT).",
    )
