"""Sends the shop's events at a steady rate while faults happen, and keeps the ledger of them."""

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from lab_env.shop.ledger import Ledger
from lab_env.shop.model import Send, generate
from lab_env.shop.producer import Sender

BURSTS_PER_SECOND = 5
EVENTS = 1_000_000  # more than any group sends
SETTLE_SECONDS = 50.0  # longer than the timeout of a send


class Feeder:
    """A thread that sends; the events depend on seed and name alone, not on when they are sent.

    Args:
        bootstrap: `host:port` of the broker.
        topic: where to.
        ledger: folder of the topic's ledger.
        seed: of the events.
        name: part of every id.
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
        """Send from now on; does nothing if it already does."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Send nothing more, and wait until the fate of each send is known or its time is over.

        Raises:
            RuntimeError: the thread failed.
        """
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
        if self.error:
            raise RuntimeError("the feeder failed") from self.error

    def send(self, n: int) -> None:
        """Send n events at once, while it is paused, and wait for their acknowledgements."""
        sender = self._sender()
        try:
            sender.send_all(list(itertools.islice(self._events, n)))
        finally:
            sender.close()

    def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Ask the topic about sends of unknown fate, until none is left.

        Args:
            seconds: the longest wait; a send may arrive until its timeout is over.
        """
        deadline = time.monotonic() + seconds
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
        except Exception as error:  # raised by `pause`, in the campaign's own thread
            self.error = error
        finally:
            sender.close()
