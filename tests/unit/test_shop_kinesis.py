"""The Kinesis sender records each send's fate, and the ledger compares sequence numbers."""

import pandas as pd
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from lab_env.platform.brokers import Arrival, broker, streams
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Settings
from lab_env.shop import sender as sender_module
from lab_env.shop.kinesis_sender import KinesisSender
from lab_env.shop.ledger.book import Ledger, reconcile
from lab_env.shop.model import generate

SENDS = list(generate(600, 5))
FIRST = 49 * 10**54


class FakeKinesis:
    """Stand-in for Kinesis; `answers` has, by request, an error or the places that it refuses."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []

    def put_records(self, StreamName: str, Records: list[dict]) -> dict:
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        self.requests.append(Records)
        return {"Records": [self.result(place, answer) for place in range(len(Records))]}

    def result(self, place: int, refused) -> dict:
        if place in refused:
            return {"ErrorCode": "ProvisionedThroughputExceededException"}
        return {"ShardId": "shardId-000000000003", "SequenceNumber": str(FIRST + place)}


@pytest.fixture
def send(monkeypatch, tmp_path):
    """Function that sends the first `count` sends to a FakeKinesis; returns it and the ledger."""

    def send(count: int, *answers, timeout: float = 30.0):
        fake = FakeKinesis(*answers)
        monkeypatch.setattr(streams, "client", lambda address: fake)
        chosen = Settings(send_timeout_seconds=timeout)
        monkeypatch.setattr(sender_module, "settings", lambda: chosen)
        sender = KinesisSender("http://k", "orders", tmp_path, pause=lambda seconds: None)
        sender.send_all(SENDS[:count])
        sender.close()
        return fake, Ledger(tmp_path).frame()

    return send


def refusal(status: int) -> ClientError:
    response = {"Error": {"Code": "X"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "PutRecords")


def test_an_acknowledged_send_has_shard_and_sequence_number(send):
    fake, ledger = send(3)
    assert set(ledger["state"]) == {"acked"} and set(ledger["partition"]) == {3}
    assert list(ledger["offset"]) == [FIRST, FIRST + 1, FIRST + 2]
    first = fake.requests[0][0]
    assert streams.split_partition_key(first["PartitionKey"]) == (SENDS[0].key, SENDS[0].send_id)
    assert first["ExplicitHashKey"] == streams.hash_key(SENDS[0].key)


def test_a_request_has_no_more_records_than_kinesis_takes(send):
    fake, _ = send(600)
    assert [len(request) for request in fake.requests] == [500, 100]


@pytest.mark.parametrize(
    ("answer", "requests"), [({1}, [3, 1]), (EndpointConnectionError(endpoint_url="http://k"), [3])]
)
def test_only_what_was_refused_or_never_left_is_sent_again(send, answer, requests):
    fake, ledger = send(3, answer)
    assert [len(request) for request in fake.requests] == requests
    assert list(ledger["state"]) == ["acked"] * 3


def test_a_record_that_is_refused_too_long_has_failed(send):
    _, ledger = send(3, {1}, timeout=1e-9)
    assert sorted(ledger["state"]) == ["acked", "acked", "failed"]


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ReadTimeoutError(endpoint_url="http://k"), "unknown"),
        (refusal(500), "unknown"),
        (refusal(400), "failed"),
    ],
)
def test_what_may_have_arrived_is_unknown_and_is_not_sent_again(send, error, state):
    fake, ledger = send(2, error)
    assert list(ledger["state"]) == [state] * 2 and not fake.requests


def test_unknown_sends_are_found_by_the_id_in_their_partition_key(send, tmp_path):
    send(2, ReadTimeoutError(endpoint_url="http://k"))
    book = Ledger(tmp_path)
    settled = book.decide([Arrival(SENDS[0].send_id, 3, FIRST, 1)], asked_at=10**18)
    assert (settled.found, settled.failed) == (1, 1)
    assert set(book.frame()["state"]) == {"acked", "failed"}


def test_dead_letters_are_told_apart_by_sequence_numbers_that_no_float_could():
    sends = pd.DataFrame(
        {
            "kind": ["malformed:empty", "malformed:empty"],
            "state": ["acked", "acked"],
            "partition": [3, 3],
            "offset": pd.Series([FIRST, FIRST + 1], dtype=object),
        }
    )
    letters = pd.DataFrame({"partition": [3, 3], "offset": [str(FIRST)] * 2, "reason": "empty"})
    verdict = reconcile.dead(sends, letters)
    assert (verdict.missing, verdict.duplicate) == (1, 1)


def test_an_address_says_which_broker_is_meant():
    assert broker.is_kinesis("http://127.0.0.1:4568")
    assert not broker.is_kinesis("broker-1:9092,broker-2:9092")


def test_a_partition_key_gives_back_what_went_into_it_and_a_foreign_one_has_no_send_id():
    for key in ("o-17", "an order with spaces"):
        assert streams.split_partition_key(streams.partition_key(key, "run-1")) == (key, "run-1")
    assert streams.split_partition_key("c-0001") == ("c-0001", "")


def test_nobody_there_is_an_error_with_its_next_step():
    with pytest.raises(LabError, match="does not answer") as raised:
        streams.ensure_stream("http://127.0.0.1:9", "orders")
    assert "lab up kinesis" in raised.value.next_step
