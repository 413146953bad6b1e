"""The lab's few Thrift calls: their bytes, and what is no answer of a metastore."""

import socket
import struct
import threading

import pytest

from lab_env.services import thrift


def reply(kind: int, fields: bytes) -> bytes:
    """A message of a server: its header, then the fields of its result."""
    return struct.pack(">Ii", 0x80010000 | kind, 1) + b"m" + struct.pack(">i", 1) + fields


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


NAMES = b"\x0f" + struct.pack(">hbi", 0, 11, 2) + text("default") + text("shop") + b"\0"
REFUSAL = (
    b"\x0c" + struct.pack(">h", 1) + b"\x0b" + struct.pack(">h", 1) + text("no such") + b"\0\0"
)


@pytest.fixture
def server():
    """A server for one call: set `answer`; `asked` has the bytes of the call."""

    class Once:
        answer = b""
        asked = b""

    once = Once()
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


def test_names_come_as_a_list(server):
    server.answer = reply(2, NAMES)
    assert thrift.databases(server.uri) == ["default", "shop"]


def test_all_partitions_of_a_table_are_asked_for(server):
    server.answer = reply(2, NAMES)
    assert thrift.partitions(server.uri, "shop", "orders") == ["default", "shop"]
    assert server.asked.endswith(
        text("shop") + b"\x0b\0\x02" + text("orders") + b"\x06\0\x03\xff\xff\0"
    )


def test_a_drop_keeps_the_files_and_takes_the_tables(server):
    server.answer = reply(2, b"\0")
    thrift.drop_database(server.uri, "shop")
    assert server.asked.endswith(b"\x02\0\x02\0" + b"\x02\0\x03\x01" + b"\0")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply(2, REFUSAL), "no such"),
        (
            reply(3, b"\x0b" + struct.pack(">h", 1) + text("Invalid method") + b"\0"),
            "Invalid method",
        ),
        (b"", "ends the connection"),
        (b"HTTP/1.1 400 Bad Request", "no Thrift"),
    ],
)
def test_what_is_no_result_is_an_error_that_says_why(server, answer, said):
    server.answer = answer
    with pytest.raises(thrift.ThriftError, match=said):
        thrift.databases(server.uri)


def test_nobody_there_is_an_error():
    with pytest.raises(thrift.ThriftError, match="refused"):
        thrift.databases("thrift://127.0.0.1:1")
