"""AWS Glue serves the lab's metastore calls; a reset drops only the learner's own database."""

import boto3
import pytest
from moto import mock_aws

from lab_env.pipeline.session import GLUE_CLIENT, metastore_conf
from lab_env.platform.errors import LabError
from lab_env.platform.services import SERVICES, glue, hive
from lab_env.platform.services.base import NotReady

REGION = "eu-central-1"


@pytest.fixture
def metastore(home, monkeypatch, configure):
    """The lab's metastore, which is an emulated Glue with the tables of two learners."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    configure(catalog="glue", s3_region=REGION)
    with mock_aws():
        client = boto3.client("glue", region_name=REGION)
        for database in ("alice_lesson_13", "lesson_13"):
            client.create_database(DatabaseInput={"Name": database})
            keys = [{"Name": "day", "Type": "string"}]
            table = {"Name": "orders", "PartitionKeys": keys}
            client.create_table(DatabaseName=database, TableInput=table)
        client.create_partition(
            DatabaseName="lesson_13", TableName="orders", PartitionInput={"Values": ["2026-11-23"]}
        )
        yield SERVICES["metastore"]


def test_it_is_external_and_has_no_server(metastore):
    assert metastore.external and metastore.title == "AWS Glue"
    assert metastore.address() == f"glue://{REGION}"
    metastore.check()


def test_a_reset_drops_ones_own_database_with_its_tables(metastore):
    assert metastore.partitions("lesson_13", "orders") == ["day=2026-11-23"]
    assert metastore.clear("alice-lesson-13") == {"table names": 1}
    assert metastore.clear("alice-lesson-13") == {"table names": 0}
    assert glue.call(metastore.address(), "get_all_databases") == ["lesson_13"]


def test_a_call_that_fails_says_why(metastore):
    with pytest.raises(LabError, match=r"AWS Glue at glue://eu-central-1 failed at get_part"):
        metastore.partitions("lesson_13", "none")


def test_it_has_an_answer_to_each_call_of_the_interface():
    assert all(f" {method}(" in hive.INTERFACE for method in glue.METHODS)
    assert hive.INTERFACE.count(" throws ") == len(glue.METHODS)


def test_a_session_uses_awss_client_in_the_place_of_hives():
    conf = metastore_conf(f"glue://{REGION}")
    assert GLUE_CLIENT in conf.values() and not any("uris" in name for name in conf)


def test_a_glue_without_credentials_is_not_ready(home, monkeypatch, configure):
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:1")
    configure(catalog="glue")
    with pytest.raises(NotReady, match="does not answer"):
        SERVICES["metastore"].check()
