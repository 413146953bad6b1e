"""The room's HTTP server: receives the seats' reports and serves the instructor's page.

Seats send the room's code. The page needs a separate key, so learners cannot open it.
"""

import json
import socket
from contextlib import suppress
from datetime import datetime
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import BoundedSemaphore, Timer
from typing import cast
from urllib.parse import parse_qs, urlsplit

from lab_env.course.room.overview import Overview, RoomFull
from lab_env.course.room.report import MAX_BODY_BYTES, parse_report
from lab_env.platform.display.html import render

REFRESH_S = 5
TIMEOUT_S = 5  # for a client that stops sending
LONGEST_S = 10  # per connection; a trickle of bytes does not extend it
MAX_CONNECTIONS = 64  # a class's heartbeats need one or two simultaneously
HEADERS = {
    "Cache-Control": "no-store",
    # The page is text and its own style: data from a seat cannot run or fetch anything.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class RoomServer(ThreadingHTTPServer):
    """Serves one room until `shutdown`; seats must send the code, and the page needs the key."""

    daemon_threads = True
    request_queue_size = MAX_CONNECTIONS

    def __init__(
        self, address: tuple[str, int], overview: Overview, code: str, key: str, join: str = ""
    ):
        self.overview, self.code, self.key, self.join = overview, code, key, join
        self._free = BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(address, _Handler)

    def process_request(self, request, client_address) -> None:
        """Serve a connection in its own thread; close it if too many are open."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def server_bind(self) -> None:
        """Bind without a DNS lookup, which would hang without internet."""
        TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)

    def process_request_thread(self, request, client_address) -> None:
        """Serve a connection for at most `LONGEST_S` seconds."""
        end = Timer(LONGEST_S, _cut, [request])
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._free.release()

    def handle_error(self, request, client_address) -> None:
        """Ignore errors caused by clients that disconnected."""


def page(overview: Overview, join: str) -> str:
    """Render the instructor's page as HTML, with the command by which a seat joins."""
    rows = overview.rows()
    return render(
        "course/room/page.html.j2",
        rows=rows,
        stuck_at=overview.stuck_at(),
        stuck=sum(bool(row.stuck) for row in rows),
        silent=sum(row.silent for row in rows),
        join=join,
        refresh=REFRESH_S,
        now=f"{datetime.now():%H:%M:%S}",
    )


class _Handler(BaseHTTPRequestHandler):
    timeout = TIMEOUT_S

    @property
    def room(self) -> RoomServer:
        return cast(RoomServer, self.server)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path != "/":
            self._answer(404, "There is no such page.")
        elif not _equal(parse_qs(url.query).get("key", [""])[0], self.room.key):
            self._answer(403, "This page needs the key that `lab room` printed with its address.")
        else:
            self._answer(200, page(self.room.overview, self.room.join), "text/html")

    def do_POST(self) -> None:
        body = self._body()  # first, because a client may not read an answer while it still sends
        if body is None:
            return
        if self.path != "/seats":
            self._answer(404, "Send reports to /seats.")
        elif not _equal(self.headers.get("Authorization", ""), f"Bearer {self.room.code}"):
            self._answer(403, "This is not the code of this room.")
        else:
            self._take(body)

    def _body(self) -> bytes | None:
        """Read the request's body; if it cannot be a report, send an error and return None."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self._answer(411, "A report needs a Content-Length.")
        elif len(length) > 9 or int(length) > MAX_BODY_BYTES:
            self._answer(413, "The report is too long.")
        else:
            return self.rfile.read(int(length))
        return None

    def _take(self, body: bytes) -> None:
        report = parse_report(body)
        if report is None:
            self._answer(400, "This is not a report.")
            return
        try:
            number = self.room.overview.receive(report)
        except RoomFull:
            self._answer(503, "The room is full.")
        else:
            self._answer(200, json.dumps({"number": number}), "application/json")

    def _answer(self, status: int, text: str, kind: str = "text/plain") -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        return "lab room"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, so that requests stay private."""


def _equal(given: str, known: str) -> bool:
    return compare_digest(given.encode(errors="replace"), known.encode())


def _cut(connection: socket.socket) -> None:
    with suppress(OSError):  # it has already ended
        connection.shutdown(socket.SHUT_RDWR)
