"""Fixtures of the cloud tests: fake credentials, and an emulated AWS."""

import os
import warnings

import boto3
import pytest
from moto import mock_aws

from lab_env.workbench.cloud import teardown


@pytest.fixture
def credentials(monkeypatch):
    """Fake AWS credentials, instead of any that this machine has."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials it has found
    monkeypatch.setattr(teardown, "POLL_SECONDS", 0.01)


@pytest.fixture
def emulator(credentials):
    """An empty, emulated AWS in this process."""
    with mock_aws(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
