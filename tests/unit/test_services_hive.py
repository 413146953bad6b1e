"""The lab's calls to a Hive Metastore, and the errors for invalid answers."""

import socket
import struct
import threading
from types import SimpleNamespace

import pytest

from lab_env.platform.services import hive


def reply(kind: int, fields: bytes) -> bytes:
    """Return a server's message: its header, then the fields of its result."""
    return struct.pack(">Ii", 0x80010000 | kind, 1) + b"m" + struct.pack(">i", 0) + fields


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


NAMES = b"\x0f" + struct.pack(">hbi", 0, 11, 2) + text("default") + text("shop") + b"\0"
REFUSAL = (
    b"\x0c" + struct.pack(">h", 1) + b"\x0b" + struct.pack(">h", 1) + text("no such") + b"\0\0"
)


@pytest.fixture
def server():
    """A server for one call: it sends `answer` and stores the request's bytes in `asked`."""

    once = SimpleNamespace(answer=b"", asked=b"")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        once.uri = f"thrift://127.0.0.1:{listening.getsockname()[1]}"

        def serve():
            connection, _ = listening.accept()
            with connection:
                once.asked = connection.recv(4096)
                connection.sendall(once.answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield once
        thread.join(5)


def test_all_partitions_of_a_table_are_asked_for(server):
    server.answer = reply(2, NAMES)
    assert hive.call(server.uri, "get_partition_names", "shop", "orders", -1) == ["default", "shop"]
    assert server.asked.endswith(
        text("shop") + b"\x0b\0\x02" + text("orders") + b"\x06\0\x03\xff\xff\0"
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply(2, REFUSAL), "no such"),
        (
            reply(3, b"\x0b" + struct.pack(">h", 1) + text("Invalid method") + b"\0"),
            "Invalid method",
        ),
        (b"", "read 0 bytes"),
        (b"HTTP/1.1 400 Bad Request", "No protocol version"),
    ],
)
def test_an_invalid_answer_is_an_error_that_says_why(server, answer, message):
    server.answer = answer
    with pytest.raises(hive.HiveError, match=message):
        hive.call(server.uri, "get_all_databases")


def test_nobody_there_is_an_error():
    with pytest.raises(hive.HiveError, match="Could not connect"):
        hive.call("thrift://127.0.0.1:1", "get_all_databases")


def test_a_silent_server_is_an_error_in_time():
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(hive.HiveError, match="timed out"),
    ):
        hive.call(f"thrift://127.0.0.1:{silent.getsockname()[1]}", "get_all_databases", seconds=0.1)
