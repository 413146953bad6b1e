"""External Kinesis calls use the machine's keys; a reset never lists or deletes streams."""

from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError

from lab_env.platform.brokers import streams
from lab_env.platform.services import SERVICES
from lab_env.platform.services.base import NotReady
from lab_env.platform.settings import settings

ENDPOINT = "https://kinesis.eu-central-1.amazonaws.com"


def refusing(code: str) -> Mock:
    response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    return Mock(list_streams=Mock(side_effect=ClientError(response, "ListStreams")))


@pytest.fixture
def external(home, configure):
    configure(kinesis_endpoint=ENDPOINT)
    return SERVICES["kinesis"]


def test_an_external_one_has_its_own_address_and_keeps_its_streams(external, monkeypatch):
    monkeypatch.setattr(streams, "client", lambda *_: pytest.fail("nothing may be asked"))
    assert external.external and external.endpoints() == {"kinesis": ENDPOINT}
    assert external.clear("lesson-02") == {}


def test_whoever_may_not_list_all_streams_may_still_use_one_but_not_with_wrong_keys(
    external, monkeypatch
):
    monkeypatch.setattr(streams, "client", lambda *_: refusing("AccessDeniedException"))
    external.check()
    monkeypatch.setattr(streams, "client", lambda *_: refusing("UnrecognizedClientException"))
    with pytest.raises(NotReady, match="UnrecognizedClient"):
        external.check()


def test_keys_of_the_machine_go_to_an_external_one_and_the_emulator_gets_none(
    external, monkeypatch
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "machine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    earlier = boto3.Session(aws_access_key_id="of an earlier use", aws_secret_access_key="secret")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", earlier)

    def access_key() -> str:
        return streams.client(ENDPOINT)._request_signer._credentials.access_key

    assert access_key() == "machine"
    monkeypatch.delenv("LAB_KINESIS_ENDPOINT")
    settings.cache_clear()
    assert access_key() == streams.EMULATOR_KEY
