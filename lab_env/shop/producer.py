"""Send to Kafka and keep the ledger: one `Sender` per process, which wraps one Producer.

Everything the course sends to a topic goes through here, so that the ledger is complete; sends to
Kinesis go through `kinesis_sender`.
"""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from lab_env.platform.brokers import SEND_ID_HEADER
from lab_env.platform.brokers.broker import is_kinesis
from lab_env.platform.brokers.kafka_client import confluent_options
from lab_env.shop.kinesis_sender import KinesisSender
from lab_env.shop.model import Send
from lab_env.shop.sender import LedgerSender

# With these errors the message never left the client, or the broker refused it. After any other
# error, a timeout above all, the message may still arrive: its outcome is unknown.
CERTAINLY_FAILED = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError._PURGE_QUEUE,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}


def open_sender(address: str, topic: str, ledger_dir: Path, **options) -> "Sender | KinesisSender":
    """Open a sender for the broker at an address; the options are those of `LedgerSender`."""
    kind = KinesisSender if is_kinesis(address) else Sender
    return kind(address, topic, ledger_dir, **options)


class Sender(LedgerSender):
    """Sends events to one Kafka topic and records the outcome of each in the ledger."""

    def __init__(self, bootstrap: str, topic: str, ledger_dir: Path, **options):
        super().__init__(topic, ledger_dir, **options)
        self._producer = Producer(
            confluent_options(bootstrap)
            | {
                "acks": "all",
                "enable.idempotence": True,
                # Kafka's own clients hash keys like this; librdkafka's default differs.
                "partitioner": "murmur2_random",
                # Without it a stopped broker would go unnoticed for five minutes.
                "message.timeout.ms": int(self._timeout_s * 1000),
                "linger.ms": 5,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 200_000,
                "log_level": 2,
            }
        )

    def send_all(self, sends: Sequence[Send]) -> None:
        """Hand several sends to the client; cheaper than one by one."""
        self._ledger.handed(sends)
        produce, topic, done = self._producer.produce, self._topic, self._done
        given = 0
        try:
            for send in sends:
                on_delivery = partial(done, send, time.perf_counter())
                headers = [(SEND_ID_HEADER, send.send_id)]
                while True:
                    try:
                        produce(
                            topic, send.value, send.key, headers=headers, on_delivery=on_delivery
                        )
                        break
                    except BufferError:  # the client's queue is full: wait for acknowledgements
                        self.poll()
                        self._pause(0.01)
                given += 1
        finally:
            for send in sends[given:]:  # Locust may end a user in the middle of a burst
                self._ledger.failed(send.send_id)

    def poll(self, seconds: float = 0.0) -> None:
        """Collect acknowledgements; call it often."""
        self._producer.poll(seconds)
        self._ledger.tick()

    def waiting(self) -> int:
        """Number of sends without a known outcome."""
        return len(self._producer)

    def flush(self) -> None:
        """Wait until the outcome of every send is known, for at most one send timeout."""
        last_call = time.monotonic() + self._timeout_s + 5
        while len(self._producer) and time.monotonic() < last_call:
            self.poll()
            self._pause(0.005)
        self._ledger.flush()

    def _done(self, send: Send, handed_at: float, error: KafkaError | None, message: Message):
        if error is None:
            self.acked += 1
            self._ledger.acked(send.send_id, message.partition(), message.offset())
        else:
            self.lost += 1
            note = self._ledger.failed if error.code() in CERTAINLY_FAILED else self._ledger.unknown
            note(send.send_id)
        self._report(send, handed_at, None if error is None else error.str())
