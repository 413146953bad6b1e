"""All clients log in to Kafka with one file, and no page or query plan shows its password."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from lab_env.pipeline import parsing
from lab_env.pipeline.session import PLANS_HIDE, spark_conf
from lab_env.platform.brokers.kafka_client import confluent_options, spark_options
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints, settings

BROKERS = "broker-1:9093"
LOGIN = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="learner" \\\n    password="it is \\\\"quoted\\\\"";'
)
TEXT = f"""\
# As Kafka's own tools take it.
security.protocol=SASL_SSL
sasl.mechanism: SCRAM-SHA-512
sasl.jaas.config = {LOGIN}
ssl.truststore.type=PEM
ssl.truststore.location=FOLDER/ca.pem
ssl.endpoint.identification.algorithm=
"""
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.fixture
def security(tmp_path, monkeypatch):
    """A function that writes a text to a file and sets LAB_KAFKA_SECURITY to it."""
    (tmp_path / "ca.pem").write_text(PEM)

    def security(text: str) -> None:
        file = tmp_path / "client.properties"
        file.write_text(text.replace("FOLDER", str(tmp_path)))
        monkeypatch.setenv("LAB_KAFKA_SECURITY", str(file))
        settings.cache_clear()

    yield security
    settings.cache_clear()


def test_without_a_file_there_is_only_the_address():
    assert confluent_options(BROKERS) == {"bootstrap.servers": BROKERS}
    assert spark_options(BROKERS) == {"kafka.bootstrap.servers": BROKERS}


def test_spark_gets_it_as_it_is_and_certificates_in_the_place_of_a_path(security):
    security(TEXT)
    options = spark_options(BROKERS)
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.sasl.jaas.config"].endswith('password="it is \\"quoted\\"";')
    assert options["kafka.ssl.truststore.certificates"] == PEM
    assert "kafka.ssl.truststore.location" not in options  # executors elsewhere have no such file


def test_librdkafka_gets_it_in_its_own_words(security):
    security(TEXT)
    assert confluent_options(BROKERS) == {
        "bootstrap.servers": BROKERS,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "learner",
        "sasl.password": 'it is "quoted"',
        "ssl.ca.pem": PEM,
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_librdkafka_accepts_them(security):
    security(TEXT.replace("ssl.truststore.type=PEM\nssl.truststore.location=FOLDER/ca.pem\n", ""))
    AdminClient(confluent_options("127.0.0.1:1") | {"log_level": 0})


@pytest.mark.parametrize(
    ("text", "sentence", "next_step"),
    [
        ("group.id=x", "has group.id, which is not a security property", "sasl. or ssl."),
        ("ssl.truststore.location=/x.jks", "only Java's clients understand", "PEM"),
        ("sasl.mechanism=AWS_MSK_IAM", "only Java's clients use", "SCRAM-SHA-512"),
        ("sasl.jaas.config=Login required;", "no user and password", "username="),
        ("ssl.truststore.type=PEM\nssl.truststore.location=/no.pem", "/no.pem: No such", "unset"),
    ],
)
def test_what_cannot_be_used_is_said(security, text, sentence, next_step):
    security(text)
    with pytest.raises(LabError) as error:
        confluent_options(BROKERS)
    assert sentence in error.value.what and next_step in error.value.next_step


def test_no_plan_of_spark_shows_the_password(security, spark, capsys):
    security(TEXT)
    nowhere = Endpoints("http://127.0.0.1:1", "", "", "us-east-1", "lake", BROKERS)
    spark.conf.set(PLANS_HIDE, spark_conf(nowhere, Path("jars"))[PLANS_HIDE])
    records = parsing.read_topic(spark, "127.0.0.1:1", "t")
    records.explain(True)
    shown = capsys.readouterr().out + records._jdf.queryExecution().toString()
    spark.conf.unset(PLANS_HIDE)
    assert "quoted" not in shown and "learner" not in shown and len(shown) > 200
