"""What is told to the Kafka broker before its first start."""

import uuid

from lab_env.services import kafka


def test_the_name_of_a_cluster_is_never_taken_for_an_option(monkeypatch):
    random = iter([b"\xf8" + bytes(15), b"\xfb" + bytes(15), b"\x01" + bytes(15)])
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=next(random)))
    assert kafka._cluster_id() == "AQAAAAAAAAAAAAAAAAAAAA"
