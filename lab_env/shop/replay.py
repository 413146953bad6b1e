"""Replay the recorded stream of orders: the same events, through the same sender and ledger."""

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lab_env.platform.brokers.broker import ensure_topic
from lab_env.platform.errors import LabError
from lab_env.shop import default_topic
from lab_env.shop.ledger.book import Ledger
from lab_env.shop.model import Send
from lab_env.shop.producer import open_sender
from lab_env.shop.record import recording

BURST = 200


def replay(
    bootstrap: str,
    topic: str,
    ledger_dir: Path,
    n: int | None = None,
    rate: float | None = None,
    skip: int = 0,
    sends: Iterable[Send] | None = None,
) -> Ledger:
    """Send the recorded stream, or a part of it, and wait until all of it is acknowledged.

    Args:
        bootstrap: address of the broker: Kafka's `host:port`, or Kinesis's URL.
        topic: created if missing.
        n: number of sends; by default all.
        rate: sends per second; by default no limit.
        skip: number of sends to skip, to continue after an earlier part.
        sends: stream to send instead of the recorded one, for example from `model.generate`.

    Returns:
        The ledger, with these sends in it.

    Raises:
        LabError: the broker cannot be reached, a send failed, a part was replayed before, or `skip`
        leaves nothing to send.
    """
    stream = list(recording() if sends is None else sends)
    chosen = stream[skip : None if n is None else skip + n]
    ledger = Ledger(ledger_dir)
    _check_unsent(stream, chosen, ledger, topic)
    ensure_topic(bootstrap, topic)
    sender = open_sender(bootstrap, topic, ledger_dir, name="replay")
    try:
        for burst in _paced(iter(chosen), rate):
            sender.send_all(burst)
            sender.poll()
    finally:
        sender.close()
    if sender.lost:
        raise LabError(
            f"{sender.lost} of {sender.lost + sender.acked} sends were not acknowledged.",
            "run: lab status   (then: lab ledger, which reads the topic)",
        )
    return ledger


def _check_unsent(stream: list[Send], chosen: list[Send], ledger: Ledger, topic: str) -> None:
    """Refuse a second replay, because it would restore erased orders."""
    if stream and not chosen:
        raise LabError(
            f"Nothing is left to replay: the stream has {len(stream):,} sends.", "skip fewer sends."
        )
    earlier = set(ledger.frame()["send_id"])
    if earlier.isdisjoint(send.send_id for send in chosen):
        return
    done = max(place for place, send in enumerate(stream, 1) if send.send_id in earlier)
    in_a_lesson = "if this cell ran twice, go on with the next one; else a new topic can take it"
    anew = "`lab reset lab` clears it" if topic == default_topic() else in_a_lesson
    go_on = f"; to continue after it: skip={done}, in the shell --skip {done}."
    raise LabError(
        f"The topic {topic} already holds this part of the stream.",
        anew + (go_on if done < len(stream) else "."),
    )


def _paced(sends: Iterator[Send], rate: float | None) -> Iterator[Sequence[Send]]:
    size = BURST if rate is None else max(1, min(BURST, int(rate / 20)))
    began, count = time.monotonic(), 0
    while burst := list(itertools.islice(sends, size)):
        if rate:
            time.sleep(max(0.0, began + count / rate - time.monotonic()))
        count += len(burst)
        yield burst
