"""A lab that other machines can reach prints a warning, naming the servers without a login."""

import pytest

from lab_env import cli
from lab_env.platform import services
from lab_env.platform.services import doctor


@pytest.fixture
def bind(tmp_path, configure):
    return lambda address: configure(home=tmp_path / "lab", bind=address)


def without_login(warning: str) -> list[str]:
    """Return the servers that have no login according to a warning."""
    listed = warning.partition("have no login: ")[2].partition(". ")[0]
    return [title.removesuffix(" (emulated)") for title in listed.split(", ")]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.7"])
def test_on_a_loopback_address_there_is_nothing_to_warn_of(bind, address):
    bind(address)
    assert services.exposure() == ""


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.7"])
def test_the_doctor_names_the_servers_without_a_login(bind, address):
    bind(address)
    (finding,) = doctor._bind()
    assert finding.verdict == "warn"
    assert f"LAB_BIND={address}" in finding.fact
    for title in ("MinIO", "Kafka", "Trino", "Hive Metastore", "Kinesis", "Kafka Connect"):
        assert title in without_login(finding.fact)
    assert "PostgreSQL" not in without_login(finding.fact)  # it asks for a password


def test_a_server_elsewhere_is_not_the_labs_to_warn_of(bind, monkeypatch):
    monkeypatch.setenv("LAB_KAFKA_BOOTSTRAP", "broker:9092")
    bind("0.0.0.0")
    assert "Kafka" not in without_login(services.exposure())


@pytest.mark.parametrize(("address", "warnings"), [("0.0.0.0", 1), ("127.0.0.1", 0)])
def test_up_warns(bind, monkeypatch, capsys, address, warnings):
    bind(address)
    monkeypatch.setattr(services, "up", lambda names, progress: None)
    monkeypatch.setattr(services, "status", lambda: [])
    cli.up(None)
    assert capsys.readouterr().err.count("have no login") == warnings
