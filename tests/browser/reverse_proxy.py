"""A reverse proxy like that of a cloud workspace: HTTPS, and a host name per port."""

import asyncio
import contextlib
import re
import ssl
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DOMAIN = "workspace.test"


class ReverseProxy:
    """Forwards requests for `https://PORT.workspace.test` to that port of this machine.

    Args:
        port: the proxy's own port, part of every address.
        rewritten: the headers (`Host`, `Origin`) in which the proxy replaces its public host name
            with `localhost`.
    """

    def __init__(self, port: int, rewritten: Sequence[str] = ("Host",)):
        self.port = port
        self.rewritten = rewritten

    @property
    def url(self) -> str:
        return f"https://{{port}}.{DOMAIN}:{self.port}"

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator["ReverseProxy"]:
        """Serve in a background thread, and store the certificate in `folder`."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        serving = asyncio.start_server(self._pass, "127.0.0.1", self.port, ssl=_tls(folder))
        server = asyncio.run_coroutine_threadsafe(serving, loop).result(10)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(server.close)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)

    async def _pass(self, browser: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        """Forward one request; keep the connection open for a websocket."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await browser.readuntil(b"\r\n\r\n")
            port = re.search(rb"\r\nHost: (\d+)\." + DOMAIN.encode(), head, re.I)
            if port:
                server, requests = await asyncio.open_connection("127.0.0.1", int(port[1]))
                requests.write(self._passed_on(head, port[1]))
                await asyncio.gather(_copy(browser, requests), _copy(server, answers))
        answers.close()

    def _passed_on(self, head: bytes, port: bytes) -> bytes:
        if "Host" in self.rewritten:
            head = _with(head, b"Host", b"localhost:" + port)
        if "Origin" in self.rewritten:
            head = _with(head, b"Origin", b"http://localhost:" + port)
        is_websocket = re.search(rb"\r\nUpgrade: websocket", head, re.I)
        return head if is_websocket else _with(head, b"Connection", b"close")


def _with(head: bytes, name: bytes, value: bytes) -> bytes:
    """Return a request's head with one header's value replaced, if the header is present."""
    line = b"\r\n" + name + b": "
    return re.sub(line + rb"[^\r]+", line + value, head, flags=re.I)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await source.read(65536):
            target.write(part)
            await target.drain()
    target.close()


def _tls(folder: Path) -> ssl.SSLContext:
    """Return a TLS context with a self-signed certificate, which browsers reject by default."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"*.{DOMAIN}")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    both = folder / "proxy.pem"
    both.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        + certificate.public_bytes(pem)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return context
