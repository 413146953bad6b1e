"""The gate forwards requests unchanged, and holds, fails or drops exactly the chosen one."""

import http.client
import socket
import socketserver
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import ClassVar

import pytest

from lab_env.lab.faults.gate import CLASSES, Gate, Rule, classify
from lab_env.lessons.recorded.campaign import Result
from lab_env.workbench.campaign import faults

BASE = "campaign/g01"
TIMELINE, MOR = (f"{BASE}/orders_{kind}/.hoodie/timeline" for kind in ("cow", "mor"))
METADATA = f"{BASE}/orders_cow/.hoodie/metadata"
KEYS = {
    f"{BASE}/_checkpoints/cow/offsets/7": "offsets",
    f"{BASE}/_checkpoints/cow/commits/7": "commits",
    f"{BASE}/_checkpoints/cow/offsets/.7.3b2c.tmp": "other",
    f"{BASE}/_checkpoints/cow/metadata": "other",
    f"{BASE}/orders_cow/partition_date=2026-01-05/ab-0_1-2-3_20261122101500123.parquet": "data",
    f"{BASE}/orders_mor/partition_date=2026-01-05/.ab-0_20261122101500123.log.1_0-2-3": "data",
    f"{BASE}/orders_cow/partition_date=2026-01-05/.hoodie_partition_metadata": "other",
    f"{BASE}/orders_cow/.hoodie/.temp/20261122101500123/MARKERS0": "marker",
    f"{TIMELINE}/20261122101500123.commit.requested": "requested",
    f"{TIMELINE}/20261122101500123.inflight": "inflight",
    f"{TIMELINE}/20261122101500123_20261122101501456.commit": "instant",
    f"{MOR}/20261122101500123_20261122101501456.deltacommit": "instant",
    f"{MOR}/20261122101500123.compaction.inflight": "compaction",
    f"{MOR}/20261122101500123_20261122101501456.commit": "compaction",
    f"{TIMELINE}/20261122101500123_20261122101501456.clean": "clean",
    f"{TIMELINE}/20261122101500123.rollback.requested": "rollback",
    f"{METADATA}/files/.files-0000-0_20261122101500123.log.1_0-2-3": "metadata",
    f"{METADATA}/.hoodie/timeline/2026_2027.deltacommit": "metadata",
}


class FakeStore(BaseHTTPRequestHandler):
    """Records the PUTs that it receives; answers GETs in chunks, as a real store may."""

    protocol_version = "HTTP/1.1"
    got: ClassVar[list[tuple[str, bytes, dict]]] = []

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, body, dict(self.headers)))
        self.begin_answer(200, "Content-Length", "0")

    def do_GET(self):
        self.begin_answer(200, "Transfer-Encoding", "chunked")
        self.wfile.write(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")

    def do_HEAD(self):
        self.begin_answer(200, "Content-Length", "11")

    def do_DELETE(self):
        self.begin_answer(204)

    def begin_answer(self, status: int, *header: str) -> None:
        self.send_response(status)
        if header:
            self.send_header(*header)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def gate():
    FakeStore.got = []
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), FakeStore) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with closing(Gate(f"http://127.0.0.1:{server.server_address[1]}")) as gate:
            yield gate
        server.shutdown()


def connect(gate: Gate) -> socket.socket:
    """Open a connection to the gate, for requests that an HTTP client would not send."""
    host, port = gate.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def client_of(gate: Gate) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection(gate.url.removeprefix("http://"), timeout=10))


def call(gate: Gate, method: str, key: str, body: bytes | None = None, **headers: str):
    """Send a request through the gate; return status and body."""
    with client_of(gate) as client:
        client.request(method, f"/lakehouse/{key}", body, headers)
        answer = client.getresponse()
        return answer.status, answer.read()


COMMITS = f"{BASE}/_checkpoints/cow/commits/"
DATA, DATA_OF_MOR = (key for key, kind in KEYS.items() if kind == "data")
BROKEN_OFF = (http.client.HTTPException, OSError)


def stored() -> list[str]:
    return [path.rpartition("/")[2] for path, _, _ in FakeStore.got]


def test_every_class_of_a_write_is_known_by_its_key():
    assert {key: classify("PUT", key) for key in KEYS} == KEYS
    assert set(KEYS.values()) - {"other"} == set(CLASSES)
    assert classify("GET", next(iter(KEYS))) == "read" and classify("POST", "") == "delete"


def test_requests_and_answers_pass_unchanged_with_their_host(gate):
    awkward = "campaign/a%20b/_x?uploads="
    assert call(gate, "PUT", awkward, b"\x00\r\n\r\nx", Authorization="AWS4 sig") == (200, b"")
    path, body, headers = FakeStore.got[0]
    assert (path, body) == ("/lakehouse/campaign/a%20b/_x?uploads=", b"\x00\r\n\r\nx")
    assert headers["Host"] == gate.url.removeprefix("http://")  # what the client has signed
    assert headers["Authorization"] == "AWS4 sig"
    assert call(gate, "GET", "x") == (200, b"hello world")
    assert call(gate, "HEAD", "x") == (200, b"")
    assert call(gate, "DELETE", "x") == (204, b"")
    assert [request.status for request in gate.last()] == [200, 200, 200, 204]
    assert gate.counts == {"other": 1, "read": 2, "delete": 1}


def test_a_copy_is_known_by_its_header(gate):
    call(gate, "PUT", "t/a", b"new")
    call(gate, "PUT", "t/b", b"", **{"x-amz-copy-source": "/bucket/t/a"})
    assert [request.operation for request in gate.last(2)] == ["PUT", "COPY"]


def test_a_client_that_waits_for_100_continue_gets_it(gate):
    with connect(gate) as client:
        client.sendall(
            b"PUT /lakehouse/k HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
            b"Content-Length: 2\r\n\r\n"
        )
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        client.sendall(b"ok")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    _, body, headers = FakeStore.got[0]
    assert body == b"ok" and "Expect" not in headers


def test_a_connection_outlives_the_stores_limit_for_idle_ones(gate, monkeypatch):
    monkeypatch.setattr(FakeStore, "timeout", 0.2)
    bodies = [b"1" * 70_000, b"2" * 70_000]
    with client_of(gate) as client:
        for body in bodies:
            client.request("PUT", f"/lakehouse/{DATA}", body)
            assert client.getresponse().read() == b""
            time.sleep(0.6)
    assert [body for _, body, _ in FakeStore.got] == bodies


@pytest.mark.parametrize(("action", "is_stored"), [("hold_before", False), ("hold_after", True)])
def test_the_kth_request_of_a_class_is_held_before_or_after_the_store_took_it(
    gate, action, is_stored
):
    rule = gate.arm("commits", action, k=2)
    with ThreadPoolExecutor() as threads:
        assert call(gate, "PUT", f"{COMMITS}0", b"v1") == (200, b"")
        assert call(gate, "PUT", f"{BASE}/_checkpoints/cow/offsets/1", b"v1") == (200, b"")
        held = threads.submit(call, gate, "PUT", f"{COMMITS}1", b"v1")
        assert rule.wait(10) and rule.request.key == f"{COMMITS}1"
        assert ("1" in stored()[2:]) == is_stored and not held.done()
        assert [request.kind for request in gate.in_flight()] == ["commits"]
        gate.disarm()
        assert held.result(10) == (200, b"")
    assert stored()[2:] == ["1"] and gate.in_flight() == []


def test_the_request_after_a_held_one_comes_to_the_next_rule(gate):
    written = gate.arm("data", "hold_after")

    def write_and_ask():
        call(gate, "PUT", DATA, b"rows")
        call(gate, "HEAD", DATA)

    client = threading.Thread(target=write_and_ask)
    client.start()
    assert written.wait(10)
    asked = gate.arm("read", "hold_after", part=DATA)
    assert asked.wait(10) and client.is_alive()
    gate.disarm()
    client.join(10)
    assert not client.is_alive()


def test_a_held_request_of_a_client_that_died_never_reaches_the_store(gate):
    rule = gate.arm("commits", "hold_before", seconds=30)
    client = connect(gate)
    client.sendall(
        f"PUT /lakehouse/{COMMITS}0 HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx".encode()
    )
    assert rule.wait(10)
    client.close()
    gate.drop()
    time.sleep(0.2)
    assert stored() == [] and gate.in_flight() == []


def test_a_class_can_be_failed_several_times_and_of_one_table_only(gate):
    gate.arm("data", "error", times=2, status=507, part="orders_mor/")
    assert call(gate, "PUT", DATA, b"x")[0] == 200
    answers = [call(gate, "PUT", DATA_OF_MOR, b"x") for _ in range(3)]
    assert [status for status, _ in answers] == [507, 507, 200]
    assert b"XMinioStorageFull" in answers[0][1]
    assert len(FakeStore.got) == 2


def test_a_lost_answer_leaves_the_object_in_the_store(gate):
    gate.arm("commits", "lost")
    with pytest.raises(BROKEN_OFF):
        call(gate, "PUT", f"{COMMITS}0", b"v1")
    assert stored() == ["0"]
    assert call(gate, "PUT", f"{COMMITS}0", b"v1")[0] == 200


def test_each_of_several_rules_counts_every_request(gate):
    errors, lost = Rule("any", "error", k=2, times=2), Rule("any", "lost", k=5)
    gate.obey(errors, lost)
    assert [call(gate, "PUT", DATA, b"x")[0] for _ in range(4)] == [200, 503, 503, 200]
    assert lost.request is None
    with pytest.raises(BROKEN_OFF):
        call(gate, "PUT", DATA, b"x")


def test_a_gate_whose_store_is_gone_closes_the_connection():
    with socket.create_server(("127.0.0.1", 0)) as empty:
        url = f"http://127.0.0.1:{empty.getsockname()[1]}"
    with closing(Gate(url)) as gate, pytest.raises(BROKEN_OFF):
        call(gate, "GET", "x")


def test_a_misspelt_class_and_a_store_with_tls_are_refused(gate):
    with pytest.raises(ValueError, match="no class"):
        gate.arm("ofsets", "lost")
    with pytest.raises(ValueError, match="plain HTTP"):
        Gate("https://s3.example.org")


def test_where_no_disk_can_be_made_small_a_campaign_has_the_gate_refuse_writes_for_a_while(
    gate, monkeypatch
):
    monkeypatch.setenv("PATH", "")  # no unshare, as on macOS
    monkeypatch.setattr(faults, "FULL_SECONDS", 0)
    answers = []
    group = SimpleNamespace(
        endpoints=None,
        gate=gate,
        feeder=SimpleNamespace(resume=lambda: answers.append(call(gate, "PUT", DATA, b"rows")[0])),
        recover=lambda: (0, 0),
        rest=lambda: answers.append(call(gate, "PUT", DATA, b"rows")[0]),
        judge=lambda whole: [],
    )
    result = Result("005", "disk_full", 1, 1, "")
    faults.disk_full(group, None, result)
    assert answers == [507, 200]
    assert (result.outcome, result.landed) == ("survived", "507 by the gate: no tmpfs here")
