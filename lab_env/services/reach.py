"""Asks the store and the broker for a connection, so that no cell waits for one that is down."""

import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from lab_env.errors import LabError
from lab_env.settings import Endpoints

ASK_S = 1


def require_reachable(endpoints: Endpoints) -> None:
    """Connect to the object store and to a broker, and hang up.

    Raises:
        LabError: one of them does not answer within a second.
    """
    store = urlsplit(endpoints.s3_endpoint)
    port = store.port or (443 if store.scheme == "https" else 80)
    servers = {
        f"The object store at {endpoints.s3_endpoint}": [(store.hostname or "", port)],
        f"Kafka at {endpoints.kafka_bootstrap}": map(
            _address, endpoints.kafka_bootstrap.split(",")
        ),
    }
    for server, addresses in servers.items():
        if not _any_answers(addresses):
            raise LabError(
                f"{server} does not answer.",
                "run in a terminal: .venv/bin/lab up   Then run this cell again.",
            )


def _address(server: str) -> tuple[str, int]:
    host, _, port = server.strip().rpartition(":")
    return host.strip("[]"), int(port)


def _any_answers(addresses: Iterable[tuple[str, int]]) -> bool:
    for address in addresses:
        try:
            socket.create_connection(address, ASK_S).close()
        except OSError:
            continue
        return True
    return False
