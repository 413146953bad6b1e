"""A cell first checks that the store and at least one broker answer."""

import socket
from collections.abc import Generator

import pytest

from lab_env.platform.errors import LabError
from lab_env.platform.services import require_reachable
from lab_env.platform.settings import Endpoints

DOWN = "127.0.0.1:1"


@pytest.fixture
def server() -> Generator[str]:
    """The address of a server that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield "127.0.0.1:{1}".format(*listening.getsockname())


def endpoints(store: str, brokers: str) -> Endpoints:
    return Endpoints(f"http://{store}", "key", "secret", "us-east-1", "lakehouse", brokers)


def test_servers_that_answer_are_reachable(server):
    require_reachable(endpoints(server, server))
    require_reachable(endpoints(server, f"{DOWN},{server}"))  # one broker of several is enough


@pytest.mark.parametrize("part", ["object store", "Kafka"])
def test_the_one_that_is_down_is_named_with_the_next_step(server, part):
    down = endpoints(DOWN, server) if part == "object store" else endpoints(server, DOWN)
    with pytest.raises(LabError, match=f"{part} at .*{DOWN} does not answer") as raised:
        require_reachable(down)
    assert "lab up" in raised.value.next_step
