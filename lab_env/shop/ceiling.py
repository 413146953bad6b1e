"""Compare one process of the load generator with a plain loop that does the same work.

Both make the same events, write the same ledger and wait for the same acknowledgements; the only
difference is Locust. The result is in events per CPU second. At full speed each of the two keeps a
core busy, so this is also its maximum rate on one core. Other load on the machine hardly affects
it.
"""

import secrets
import tempfile
import time
from pathlib import Path

import psutil

from lab_env.platform.brokers.topics import delete_topic, ensure_topic
from lab_env.shop.ledger.book import Ledger
from lab_env.shop.load import Load
from lab_env.shop.model import OrderModel, Shares, WallClock
from lab_env.shop.producer import Sender

BURST = 200
IN_FLIGHT = 20_000


def measure_ceiling(
    bootstrap: str, seconds: float = 10, rounds: int = 3
) -> list[tuple[float, float]]:
    """Measure acknowledged events per CPU second of one process without a rate limit.

    Args:
        seconds: total time for each of the two, all rounds together.

    Returns:
        One pair per round: load generator, plain loop.
    """
    topic = f"ceiling-{secrets.token_hex(3)}"
    pairs = []
    ensure_topic(bootstrap, topic)
    try:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                by_loop, by_locust = Path(folder, "loop"), Path(folder, "locust")
                loop = _plain_loop(bootstrap, topic, by_loop, seconds / rounds)
                pairs.append((_locust(bootstrap, topic, by_locust, seconds / rounds), loop))
    finally:
        delete_topic(bootstrap, topic)
    return pairs


def _locust(bootstrap: str, topic: str, directory: Path, seconds: float) -> float:
    """Run the load generator at full speed; measure from the moment its users start."""
    used_before = _used(children=True)
    load = Load(bootstrap, topic, directory, None, seconds=seconds, show=False).start()
    began, used_at_start = time.time(), _used(load.pid)
    load.wait()
    used = _used(children=True) - used_before - used_at_start
    return _acknowledged(directory, began) / used


def _plain_loop(bootstrap: str, topic: str, directory: Path, seconds: float) -> float:
    began, used_before = time.time(), _used()
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
    return _acknowledged(directory, began) / (_used() - used_before)


def _used(pid: int | None = None, children: bool = False) -> float:
    """CPU seconds of a process, by default this one, or of its children that have ended."""
    times = psutil.Process(pid).cpu_times()
    return times.children_user + times.children_system if children else times.user + times.system


def _acknowledged(directory: Path, since: float) -> int:
    """Number of acknowledged events sent since a time (seconds since 1970)."""
    frame = Ledger(directory).frame()
    return int(((frame["state"] == "acked") & (frame["sent_at"] >= since * 1e6)).sum())
