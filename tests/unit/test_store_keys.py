"""Temporary keys and their token reach boto3 and the libraries that read the environment."""

import os
from dataclasses import replace

import pytest

from lab_env.platform import store
from lab_env.platform.services.minio import MinIO
from lab_env.platform.settings import Endpoints, settings

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
HERE = Endpoints("http://127.0.0.1:1", "key", "secret", "eu", "lake", "kafka:1", "", "a-token")


@pytest.fixture
def environment(monkeypatch):
    """Function that calls `export_environment`, and returns the keys in the environment."""
    for name in KEYS:
        monkeypatch.setenv(name, "the machine's")
    for name in ("AWS_ENDPOINT", "AWS_REGION", "AWS_ALLOW_HTTP"):
        monkeypatch.setenv(name, "")

    def environment(endpoints: Endpoints) -> list[str | None]:
        store.export_environment(endpoints)
        return [os.environ.get(name) for name in KEYS]

    return environment


def test_a_token_goes_with_its_keys(environment):
    assert environment(HERE) == ["key", "secret", "a-token"]
    # A program that was started with them knows the keys alone, and keeps the token.
    assert environment(replace(HERE, s3_session_token="")) == ["key", "secret", "a-token"]


def test_the_machines_token_does_not_go_with_other_keys(environment):
    assert environment(replace(HERE, s3_session_token="")) == ["key", "secret", None]
    assert "AWS_SESSION_TOKEN" not in store.keys_as_variables(replace(HERE, s3_session_token=""))


def test_without_keys_the_machines_own_stay(environment):
    machine = replace(HERE, s3_access_key="", s3_secret_key="", s3_session_token="")
    assert environment(machine) == ["the machine's"] * 3


def test_the_setting_is_for_an_external_store_only(home, configure):
    configure(s3_session_token="a-token")
    assert MinIO().endpoints()["s3_session_token"] == ""
    configure(s3_endpoint="https://s3.example.org", s3_access_key="key", s3_secret_key="secret")
    endpoints = Endpoints(**MinIO().endpoints(), kafka_bootstrap="")
    signed = store.client(endpoints).generate_presigned_url("list_buckets")
    assert "oken=a-token" in signed
    assert "a-token" not in repr(endpoints) + repr(settings())
