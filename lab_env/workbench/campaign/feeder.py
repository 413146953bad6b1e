"""Sends the shop's events at a steady rate during faults, and records them in a ledger."""

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from lab_env.shop.ledger.book import Ledger
from lab_env.shop.model import Send, generate
from lab_env.shop.producer import Sender

BURSTS_PER_SECOND = 5
EVENTS = 1_000_000  # more than any group sends
SETTLE_SECONDS = 50.0  # longer than the timeout of a send


class Feeder:
    """A thread that sends events; their content depends only on seed and name, not on the time.

    Args:
        ledger: folder of the topic's ledger.
        name: part of every event's id.
        rate: events per second.
    """

    def __init__(
        self, bootstrap: str, topic: str, ledger: Path, seed: int, name: str, rate: float = 100
    ):
        self._bootstrap, self._topic = bootstrap, topic
        self._events: Iterator[Send] = generate(EVENTS, seed, rate=rate, worker_id=name)
        self._burst = max(1, round(rate / BURSTS_PER_SECOND))
        self.ledger = Ledger(ledger)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.error: Exception | None = None

    def resume(self) -> None:
        """Start or continue sending."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Stop sending, and wait until each send is acknowledged, has failed or has timed out."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
        if self.error:
            raise RuntimeError("the feeder failed") from self.error

    def send(self, n: int) -> None:
        """Send n events immediately and wait for their acknowledgements; only while paused."""
        sender = self._sender()
        try:
            sender.send_all(list(itertools.islice(self._events, n)))
        finally:
            sender.close()

    def settle(self) -> None:
        """Search the topic for sends without a known result until none is left or time is up."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while (self.ledger.frame()["state"] == "unknown").any():
            self.ledger.settle(self._bootstrap, self._topic)
            if time.monotonic() > deadline:
                return
            time.sleep(1)

    def _sender(self) -> Sender:
        return Sender(self._bootstrap, self._topic, self.ledger.directory, name="campaign")

    def _run(self) -> None:
        sender = self._sender()
        try:
            while not self._stop.wait(1 / BURSTS_PER_SECOND):
                sender.send_all(list(itertools.islice(self._events, self._burst)))
                sender.poll()
        except Exception as error:  # re-raised by `pause`, in the campaign's own thread
            self.error = error
        finally:
            sender.close()
