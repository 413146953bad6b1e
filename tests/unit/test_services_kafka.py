"""The id of the lab's Kafka cluster, and the file with which clients log in to another one."""

import uuid

import pytest

from lab_env.platform.errors import LabError
from lab_env.platform.services import kafka


def test_the_name_of_a_cluster_is_never_taken_for_an_option(monkeypatch):
    random = iter([b"\xf8" + bytes(15), b"\xfb" + bytes(15), b"\x01" + bytes(15)])
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=next(random)))
    assert kafka._cluster_id() == "AQAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize(("mode", "verdict"), [(0o600, "ok"), (0o644, "warn")])
def test_the_doctor_says_who_can_read_the_password(home, configure, tmp_path, mode, verdict):
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\n")
    file.chmod(mode)
    configure(kafka_security=file)
    (finding,) = kafka.Kafka().diagnose()
    assert finding.verdict == verdict and ("chmod 600" in finding.fix) is (verdict == "warn")


def test_a_file_that_cannot_be_used_is_said(home, configure, tmp_path):
    configure(kafka_security=tmp_path / "none")
    with pytest.raises(LabError, match="No such file"):
        list(kafka.Kafka().diagnose())
