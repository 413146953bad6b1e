"""Base class of the senders to Kafka and Kinesis: keeps the ledger and calls the callbacks."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lab_env.platform.settings import settings
from lab_env.shop.ledger.book import LedgerWriter
from lab_env.shop.model import Send

Delivered = Callable[[Send, float, str | None], None]


class LedgerSender:
    """Sends events to one topic or stream, and records the outcome of each in the ledger.

    Args:
        delivered: called with (send, milliseconds since it was handed over, error text or None).
        pause: called with seconds to wait when there is nothing to do; `gevent.sleep` under Locust.
        name: part of the names of this process's ledger files.

    Attributes:
        acked: number of acknowledged sends.
        lost: number of sends that failed or are unknown.
    """

    def __init__(
        self,
        topic: str,
        ledger_dir: Path,
        delivered: Delivered | None = None,
        pause: Callable[[float], object] = time.sleep,
        name: str = "sender",
    ):
        self._topic = topic
        self._ledger = LedgerWriter(ledger_dir, name)
        self._delivered = delivered
        self._pause = pause
        self._timeout_s = settings().send_timeout_seconds
        self.acked = self.lost = 0

    def send(self, send: Send) -> None:
        """Queue one send; its outcome is known after `poll` or `flush`."""
        self.send_all((send,))

    def send_all(self, sends: Sequence[Send]) -> None:
        """Queue several sends, in the order of sending; cheaper than one by one."""
        raise NotImplementedError

    def flush(self) -> None:
        """Wait until the outcome of every send is known."""
        raise NotImplementedError

    def close(self) -> None:
        """Flush and close the ledger's files; nothing can be sent afterwards."""
        self.flush()
        self._ledger.close()

    def _report(self, send: Send, handed_at: float, error: str | None) -> None:
        if self._delivered:
            self._delivered(send, (time.perf_counter() - handed_at) * 1000, error)
