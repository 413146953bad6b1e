"""The few calls that the lab makes to a Hive Metastore, in Thrift's binary protocol over a socket.

The format is that of Apache Thrift's specification (thrift-binary-protocol.md), the method and field
numbers those of hive_metastore.thrift. It is so little that no client package is needed.
"""

import socket
import struct
from typing import Any
from urllib.parse import urlsplit

VERSION_CALL = 0x80010001
REPLY, EXCEPTION = 2, 3
STOP, BOOL, SHORT, STRING = 0, 2, 6, 11
NUMBERS = {3: ">b", 4: ">d", 6: ">h", 8: ">i", 10: ">q"}
STRUCT, MAP, SET, LIST = 12, 13, 14, 15
MAX_STRING_BYTES = 64_000_000  # bytes of a text: more is no answer of a metastore


class ThriftError(Exception):
    """The server does not answer, or answers with an exception."""


def databases(uri: str, seconds: float = 5) -> list[str]:
    """The names of all databases.

    Args:
        uri: `thrift://host:port` of the metastore.
        seconds: how long to wait for it.

    Raises:
        ThriftError: it does not answer so.
    """
    return _call(uri, "get_all_databases", b"", seconds)


def tables(uri: str, database: str, seconds: float = 5) -> list[str]:
    """The names of a database's tables.

    Args:
        uri: `thrift://host:port` of the metastore.
        database: its name.
        seconds: how long to wait for it.

    Raises:
        ThriftError: it does not answer so.
    """
    return _call(uri, "get_all_tables", _text(1, database), seconds)


def partitions(uri: str, database: str, table: str, seconds: float = 5) -> list[str]:
    """The partitions that the metastore knows of a table, for example `partition_date=2026-11-21`.

    Args:
        uri: `thrift://host:port` of the metastore.
        database: its name.
        table: its name.
        seconds: how long to wait for it.

    Raises:
        ThriftError: it does not answer so, or there is no such table.
    """
    names = _text(1, database) + _text(2, table) + _short(3, -1)  # -1: all of them
    return _call(uri, "get_partition_names", names, seconds)


def drop_database(uri: str, database: str, seconds: float = 30) -> None:
    """Forget a database with all its tables; their files stay.

    Args:
        uri: `thrift://host:port` of the metastore.
        database: its name.
        seconds: how long to wait for it.

    Raises:
        ThriftError: it does not answer so, or there is no such database.
    """
    _call(uri, "drop_database", _text(1, database) + _flag(2, False) + _flag(3, True), seconds)


def _call(uri: str, method: str, arguments: bytes, seconds: float) -> Any:
    address = urlsplit(uri)
    name = method.encode()
    message = struct.pack(">Ii", VERSION_CALL, len(name)) + name + struct.pack(">i", 1)
    try:
        with socket.create_connection((address.hostname, address.port), seconds) as connection:
            connection.sendall(message + arguments + bytes([STOP]))
            with connection.makefile("rb") as stream:
                return _result(_Reader(stream))
    except OSError as error:
        raise ThriftError(str(error)) from None


def _text(number: int, value: str) -> bytes:
    data = value.encode()
    return struct.pack(">bhi", STRING, number, len(data)) + data


def _short(number: int, value: int) -> bytes:
    return struct.pack(">bhh", SHORT, number, value)


def _flag(number: int, value: bool) -> bytes:
    return struct.pack(">bh?", BOOL, number, value)


def _result(reader: "_Reader") -> Any:
    """Field 0 of a reply is the result; every other field is an exception that the method declares."""
    kind = reader.number(">I") & 0xFF
    reader.text()
    reader.number(">i")
    fields = reader.fields()
    declared = [value for number, value in fields.items() if number != 0]
    if kind == EXCEPTION or declared:
        told = (declared or [fields])[0]
        raise ThriftError(str(told.get(1, told) if isinstance(told, dict) else told))
    return fields.get(0)


class _Reader:
    """Reads values off a stream by their types."""

    def __init__(self, stream):
        self.stream = stream

    def number(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def text(self) -> str:
        return self._take(self.number(">i")).decode(errors="replace")

    def fields(self) -> dict[int, Any]:
        found = {}
        while (kind := self.number(">b")) != STOP:
            number = self.number(">h")
            found[number] = self.value(kind)
        return found

    def value(self, kind: int) -> Any:
        if kind == BOOL:
            return self.number(">?")
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == STRING:
            return self.text()
        if kind == STRUCT:
            return self.fields()
        if kind == MAP:
            key, value, size = self.number(">b"), self.number(">b"), self.number(">i")
            return {self.value(key): self.value(value) for _ in range(size)}
        if kind in (SET, LIST):
            of, size = self.number(">b"), self.number(">i")
            return [self.value(of) for _ in range(size)]
        raise ThriftError(f"it sends a value of the unknown type {kind}")

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= MAX_STRING_BYTES:
            raise ThriftError("what it sends is no Thrift")
        data = self.stream.read(size)
        if len(data) < size:
            raise ThriftError("it ends the connection")
        return data
