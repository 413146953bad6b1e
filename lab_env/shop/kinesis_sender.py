"""Send to a Kinesis stream and keep the ledger, with the same interface as `producer.Sender`.

Kinesis has no idempotent producer: a request that timed out may have arrived, and resending it
would make duplicates. The outcome of such sends is unknown until the ledger is settled, as with
Kafka. A record that Kinesis rejects, for example because its shard is at its limit, is resent.
"""

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from lab_env.platform.brokers import streams
from lab_env.shop.model import Send
from lab_env.shop.sender import LedgerSender

MOST_RECORDS = 500  # per request, Kinesis's own limit; our events also stay below its 5 MB
PAUSE_S = 0.1  # after a refusal


class KinesisSender(LedgerSender):
    """Sends events to one stream, which must exist, and records the outcome of each in the ledger.

    Only one request is in flight, so each order's events stay in sequence, unless Kinesis rejects
    one of them.
    """

    def __init__(self, address: str, topic: str, ledger_dir: Path, **options):
        super().__init__(topic, ledger_dir, **options)
        self._kinesis = streams.client(address)
        self._queue: deque[tuple[Send, float]] = deque()
        self._in_flight = 0

    def send_all(self, sends: Sequence[Send]) -> None:
        """Queue several sends, in the order of sending."""
        self._ledger.handed(sends)
        now = time.perf_counter()
        self._queue.extend((send, now) for send in sends)

    def poll(self, seconds: float = 0.0) -> None:
        """Send one request from the queue, unless another greenlet is sending one.

        If there is nothing to do, pause for `seconds`.
        """
        if self._queue and not self._in_flight:
            self._send_some()
        elif seconds:
            self._pause(seconds)
        self._ledger.tick()

    def waiting(self) -> int:
        """Number of sends without a known outcome."""
        return len(self._queue) + self._in_flight

    def flush(self) -> None:
        """Wait until the outcome of every send is known."""
        while self.waiting():
            self.poll(0.005)
        self._ledger.flush()

    def _send_some(self) -> None:
        from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

        batch = [self._queue.popleft() for _ in range(min(len(self._queue), MOST_RECORDS))]
        self._in_flight = len(batch)
        try:
            answer = self._kinesis.put_records(
                StreamName=self._topic, Records=[_record(send) for send, _ in batch]
            )
            self._note(batch, answer["Records"])
        except EndpointConnectionError as error:  # nothing left this machine
            self._again(batch, str(error))
        except ClientError as error:
            refused = error.response["ResponseMetadata"]["HTTPStatusCode"] < 500
            self._give_up(batch, str(error), certain=refused)
        except BotoCoreError as error:  # a timeout above all: it may have arrived
            self._give_up(batch, str(error), certain=False)
        finally:
            self._in_flight = 0

    def _note(self, batch: list[tuple[Send, float]], results: list[dict]) -> None:
        refused, why = [], ""
        for (send, handed_at), result in zip(batch, results, strict=True):
            if why_not := result.get("ErrorCode"):
                refused.append((send, handed_at))
                why = why_not
                continue
            self.acked += 1
            place = streams.shard_number(result["ShardId"]), int(result["SequenceNumber"])
            self._ledger.acked(send.send_id, *place)
            self._report(send, handed_at, None)
        if refused:
            self._again(refused, why)

    def _again(self, batch: list[tuple[Send, float]], why: str) -> None:
        """Put rejected records back at the front of the queue; those that waited too long fail."""
        last_call = time.perf_counter() - self._timeout_s
        self._give_up([pair for pair in batch if pair[1] <= last_call], why, certain=True)
        self._queue.extendleft(reversed([pair for pair in batch if pair[1] > last_call]))
        self._pause(PAUSE_S)

    def _give_up(self, batch: list[tuple[Send, float]], why: str, certain: bool) -> None:
        for send, handed_at in batch:
            self.lost += 1
            (self._ledger.failed if certain else self._ledger.unknown)(send.send_id)
            self._report(send, handed_at, why)


def _record(send: Send) -> dict:
    return {
        "Data": send.value,
        "PartitionKey": streams.partition_key(send.key, send.send_id),
        "ExplicitHashKey": streams.hash_key(send.key),
    }
