"""Measures how fast one process of the load generator can go, against a plain loop doing its work.

Both make the same events, write the same ledger and wait for the same acknowledgements; the loop
only lacks Locust. They take turns, so that a machine that slows down slows down both.
"""

import secrets
import statistics
import tempfile
import time
from pathlib import Path

from lab_env.shop.ledger import Ledger
from lab_env.shop.load import Load
from lab_env.shop.model import OrderModel, Shares, WallClock
from lab_env.shop.producer import Sender
from lab_env.shop.topics import delete_topic, ensure_topic

BURST = 200
IN_FLIGHT = 20_000


def measure_ceiling(bootstrap: str, seconds: float = 10, rounds: int = 3) -> dict:
    """The rate of acknowledged events from one process without a rate limit.

    Args:
        bootstrap: `host:port` of the broker.
        seconds: time in all for each of the two, over all rounds.
        rounds: how often they take turns.

    Returns:
        `locust` and `plain`: events a second (medians over the rounds), `ratios`: that of each
        round, and `ratio`: their median.

    Raises:
        LabError: the broker cannot be reached.
    """
    topic = f"ceiling-{secrets.token_hex(3)}"
    pairs = []
    ensure_topic(bootstrap, topic)
    try:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                by_loop, by_locust = Path(folder, "loop"), Path(folder, "locust")
                _plain_loop(bootstrap, topic, by_loop, seconds / rounds)
                Load(bootstrap, topic, by_locust, None, seconds=seconds / rounds, show=False).run()
                pairs.append((_rate(by_locust), _rate(by_loop)))
    finally:
        delete_topic(bootstrap, topic)
    ratios = [locust / plain for locust, plain in pairs]
    return {
        "locust": statistics.median(locust for locust, _ in pairs),
        "plain": statistics.median(plain for _, plain in pairs),
        "ratios": ratios,
        "ratio": statistics.median(ratios),
    }


def _plain_loop(bootstrap: str, topic: str, directory: Path, seconds: float) -> None:
    model = OrderModel(1, Shares.of(), f"loop{secrets.token_hex(3)}", WallClock())
    sender = Sender(bootstrap, topic, directory, name="loop")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if sender.waiting() < IN_FLIGHT:
            sender.send_all([model.next() for _ in range(BURST)])
            sender.poll()
        else:
            sender.poll(0.01)
    sender.close()


def _rate(directory: Path) -> float:
    """Acknowledged events a second, from the first send to the last acknowledgement."""
    frame = Ledger(directory).frame()
    acked = frame.loc[frame["state"] == "acked", "acked_at"]
    return float(len(acked) / ((acked.max() - frame["sent_at"].min()) / 1e6))
