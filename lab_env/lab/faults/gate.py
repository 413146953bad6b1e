"""A proxy between Spark and the object store that can count, hold, fail or lose chosen requests.

It forwards each request unchanged, including the Host header, so that the signature stays valid.
Every write has a class (`offsets`, `data`, `instant` and so on). A rule acts on the k-th request of
a class, so a campaign can inject a fault at exactly that moment.
"""

import asyncio
import contextlib
import itertools
import re
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from lab_env.tables.hudi.timeline import parse_data_name, parse_timeline_name

CLASSES = (
    *("offsets", "requested", "inflight", "marker", "data", "metadata", "instant", "commits"),
    *("compaction", "clean", "rollback"),
)
# Before or after the store took the request; `error` is an answer 503 or 507 instead, and `lost`
# lets the store take it and closes the connection without an answer.
ACTIONS = ("hold_before", "hold_after", "error", "lost")
LAST_REQUESTS = 400
HOLD_SECONDS = 20.0  # S3A gives up after that, as the pipeline configures it
NO_BODY = (204, 304)


def classify(method: str, key: str) -> str:
    """Return the class of a request: the part of a stream or Hudi table that it writes.

    One of `CLASSES`; `other` for any other write, `read` for GET, HEAD and listings, `delete` for
    deletions. The key does not include the bucket.
    """
    if method in ("GET", "HEAD"):
        return "read"
    if method == "DELETE" or not key:  # a POST to the bucket deletes several objects
        return "delete"
    folder, _, name = key.rpartition("/")
    if checkpoint := re.search(r"/_checkpoints/[^/]+/(offsets|commits)$", folder):
        return checkpoint[1] if name.isdigit() else "other"
    if "/.hoodie/metadata/" in f"{folder}/":
        return "metadata"
    if "/.hoodie/.temp/" in f"{folder}/":
        return "marker"
    if folder.endswith("/.hoodie/timeline"):
        return _instant_class(key, name)
    return "data" if "/.hoodie" not in folder and parse_data_name(name) else "other"


def _instant_class(key: str, name: str) -> str:
    instant = parse_timeline_name(name)
    if instant is None:
        return "other"
    for action in ("compaction", "clean", "rollback"):
        if instant.action.endswith(action):
            return action
    if instant.state != "completed":
        return instant.state
    # A compaction's completing file is named like a commit, which MOR does not use otherwise.
    return "compaction" if instant.action == "commit" and "_mor/" in key else "instant"


@dataclass
class Request:
    """One request that passes through the gate."""

    number: int  # counted from 1
    at: float  # time of arrival, seconds since 1970
    method: str
    key: str  # empty for a request about the bucket itself
    kind: str  # see `classify`
    size: int  # bytes of its body
    status: int = 0  # HTTP status of the response; 0 until there is one
    fate: str = "passed"  # or a rule's action
    listed: str = ""  # prefix, if it is a listing
    copies: bool = False  # a PUT without a body, of an object that the store has already
    seconds: float = 0.0  # until its response was complete

    @property
    def operation(self) -> str:
        """Kind of the request as a bill has it: HEAD, GET, LIST, PUT, COPY or DELETE."""
        if self.method == "GET" and (self.listed or not self.key):
            return "LIST"
        if self.method == "POST":  # to the bucket: deletes several objects; else: writes in parts
            return "PUT" if self.key else "DELETE"
        return "COPY" if self.copies else self.method


@dataclass
class Rule:
    """A fault to apply to one request of a class, or to several consecutive ones."""

    kind: str  # class of the request; `any` for every write, `read` for every GET, HEAD and listing
    action: str  # one of `ACTIONS`
    k: int = 1  # first request to act on, counted from 1 within the class since the rule was set
    part: str = ""  # pattern that must be found in the key, for example `orders_mor/`
    times: int = 1  # number of requests to act on
    status: int = 503  # HTTP status of the response, for `error`
    seconds: float = HOLD_SECONDS  # how long it holds a request that nobody releases
    seen: int = 0
    request: Request | None = None
    reached: threading.Event = field(default_factory=threading.Event, repr=False)
    released: threading.Event = field(default_factory=threading.Event, repr=False)

    def matches(self, request: Request) -> bool:
        """Count the request if it has the rule's class; return True if the rule applies to it."""
        is_write = request.method in ("PUT", "POST")
        fits = is_write if self.kind == "any" else request.kind == self.kind
        if not fits or self.released.is_set() or not re.search(self.part, request.key):
            return False
        self.seen += 1
        return self.k <= self.seen < self.k + self.times

    def wait(self, seconds: float) -> bool:
        """Wait until the rule has been applied to a request; return False after the timeout."""
        return self.reached.wait(seconds)


class Gate:
    """The proxy; it runs in its own thread until it is closed.

    It remembers the last `kept` requests.
    """

    def __init__(self, upstream: str, host: str = "127.0.0.1", kept: int = LAST_REQUESTS):
        target = urlsplit(upstream)
        if target.scheme != "http":
            raise ValueError(f"the gate forwards only plain HTTP, not {upstream}")
        self._upstream = (target.hostname, target.port or 80)
        self._host = host
        self._rules: list[Rule] = []
        self._numbers = itertools.count(1)
        self._open: dict[int, Request] = {}
        self._tasks: set[asyncio.Task] = set()
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.requests: deque[Request] = deque(maxlen=kept)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gate", daemon=True)
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, host, 0), self._loop
        )
        self._server = started.result(10)

    @property
    def url(self) -> str:
        """URL for clients."""
        return f"http://{self._host}:{self._server.sockets[0].getsockname()[1]}"

    def arm(self, kind: str, action: str, **options) -> Rule:
        """Replace all rules with one new `Rule` that has these fields.

        Requests held by earlier rules continue. An unknown class or action raises `ValueError`.
        """
        if kind not in (*CLASSES, "any", "other", "read") or action not in ACTIONS:
            raise ValueError(f"no class {kind!r} or no action {action!r}")
        rule = Rule(kind, action, **options)
        self.obey(rule)
        return rule

    def obey(self, *rules: Rule) -> None:
        """Replace all rules; of several that fit a request, the first one acts."""
        self._replace(list(rules))

    def disarm(self) -> None:
        """Remove all rules; held requests continue."""
        self._replace([])

    def _replace(self, rules: list[Rule]) -> None:
        with self._lock:
            earlier, self._rules = self._rules, rules
        for rule in earlier:  # the new ones are set: a released client may send a request now
            rule.released.set()

    def drop(self) -> None:
        """Close all connections after a client has died; held requests never reach the store."""

        async def drop() -> None:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(drop(), self._loop).result(10)
        self.disarm()

    def in_flight(self) -> list[Request]:
        """Writes that have no response yet, oldest first."""
        with self._lock:
            return [r for r in self._open.values() if r.kind not in ("read", "delete")]

    def last(self, n: int = 20) -> list[Request]:
        """Last n requests, oldest first."""
        with self._lock:
            return list(self.requests)[-n:]

    def close(self) -> None:
        """Close the gate and all its connections."""
        self._loop.call_soon_threadsafe(self._server.close)
        self.drop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        store: _Store | None = None
        ends = (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, ValueError)
        try:
            store = await self._connect()
            while head := await _head(reader):
                if store.reader.at_eof():  # a store closes idle connections (MinIO after 30 s)
                    store.writer.close()
                    store = await self._connect()
                if not await self._pass_on(head, reader, writer, store):
                    break
        except ends:
            pass  # either side went away, or the gate closes: the other side sees it
        finally:
            self._tasks.discard(task)
            for end in [writer, *([store.writer] if store else [])]:
                with contextlib.suppress(*ends):
                    end.close()

    async def _connect(self) -> "_Store":
        return _Store(*await asyncio.open_connection(*self._upstream, limit=1 << 20))

    async def _pass_on(self, head: bytes, reader, writer, store: "_Store") -> bool:
        """Forward one request and its response; return False to end the connection."""
        line, headers = _parse(head)
        if headers.pop("expect", ""):  # not part of the signature
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = re.sub(rb"(?i)\r\nexpect:[^\r]*", b"", head)
        body = await _body(reader, headers)
        method, target, _ = line.split(" ", 2)
        address = urlsplit(target)
        key = unquote(address.path).strip("/").partition("/")[2]
        (listed,) = parse_qs(address.query).get("prefix", [""])
        with self._lock:
            request = Request(
                next(self._numbers), time.time(), method, key, classify(method, key), len(body),
                listed=listed, copies="x-amz-copy-source" in headers,
            )  # fmt: skip
            self.requests.append(request)
            self.counts[request.kind] += 1
            self._open[request.number] = request
            # Each rule counts the request, also if another one acts on it.
            fitting = [rule for rule in self._rules if rule.matches(request)]
            rule = next(iter(fitting), None)
        try:
            answer = await self._carry_out(rule, request, head + body, store)
        finally:
            request.seconds = time.time() - request.at
            with self._lock:
                self._open.pop(request.number, None)
        if answer is None:
            return False
        writer.write(answer)
        await writer.drain()
        return b"\r\nconnection: close" not in answer[:2000].lower()

    async def _carry_out(self, rule: Rule | None, request: Request, message: bytes, store):
        """Apply a rule; return the response, or None to close the connection without one."""
        if rule is None:
            return await store.ask(message, request)
        request.fate, rule.request = rule.action, rule.request or request
        if rule.action == "error":
            rule.reached.set()
            request.status = rule.status
            return _error(rule.status)
        if rule.action == "hold_before":
            await self._hold(rule)
        answer = await store.ask(message, request)
        if rule.action == "hold_after":
            await self._hold(rule)
        rule.reached.set()
        return None if rule.action == "lost" else answer

    @staticmethod
    async def _hold(rule: Rule) -> None:
        rule.reached.set()
        deadline = time.monotonic() + rule.seconds
        while not rule.released.is_set() and time.monotonic() < deadline:
            await asyncio.sleep(0.02)


class _Store:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    async def ask(self, message: bytes, request: Request) -> bytes:
        self.writer.write(message)
        await self.writer.drain()
        while (head := await _head(self.reader)).startswith(b"HTTP/1.1 100"):
            pass
        if not head:
            raise ConnectionResetError("the store closed the connection")
        line, headers = _parse(head)
        request.status = int(line.split(" ")[1])
        if request.method == "HEAD" or request.status in NO_BODY:
            return head
        return head + await _body(self.reader, headers)


async def _head(reader: asyncio.StreamReader) -> bytes:
    """Read the first line and the headers; return no bytes if the connection has ended."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def _parse(head: bytes) -> tuple[str, dict[str, str]]:
    line, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (field.partition(":") for field in rest)
    return line, {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    """Read a body, chunked or of known length, without decoding it."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    parts = []
    while True:
        size = await reader.readuntil(b"\r\n")
        length = int(size.split(b";")[0], 16)
        parts += [size, await reader.readexactly(length + 2)]
        if length == 0:
            return b"".join(parts)


def _error(status: int) -> bytes:
    code = {503: "SlowDown", 507: "XMinioStorageFull"}.get(status, "InternalError")
    body = f"<Error><Code>{code}</Code><Message>by the gate</Message></Error>".encode()
    head = f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
