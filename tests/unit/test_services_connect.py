"""Kafka Connect's start-up files, readiness and resets, and the connectors in its offsets file."""

from unittest.mock import Mock

import pytest

from lab_env.platform.processes.state import secrets
from lab_env.platform.services import SERVICES, connect, manager
from lab_env.platform.settings import settings

WORKER = SERVICES["connect"]


@pytest.fixture
def fetched(home, monkeypatch, tmp_path):
    monkeypatch.setattr(connect, "archive_folder", lambda name: tmp_path)
    monkeypatch.setattr(connect, "jar_folder", lambda name: tmp_path / name)
    monkeypatch.setattr(connect, "java_program", lambda: "java")


def properties() -> dict[str, str]:
    text = (WORKER.folder / "worker.properties").read_text()
    return dict(line.split("=", 1) for line in text.splitlines())


def test_it_listens_on_the_address_of_the_lab_and_stores_its_offsets_as_chosen(fetched, configure):
    configure(bind="127.0.0.7", connect_flush_seconds="5")
    WORKER.program({"rest": 8083})
    written = properties()
    assert written["listeners"] == "http://127.0.0.7:8083"
    assert written["offset.flush.interval.ms"] == "5000"


def test_only_its_environment_has_the_password_of_the_database(fetched):
    program = WORKER.program({"rest": 8083})
    password = secrets()["postgres_password"]
    assert program.env == {"POSTGRES_PASSWORD": password}
    assert password not in " ".join(program.argv) + repr(program)
    assert password not in (WORKER.folder / "worker.properties").read_text()
    # A connector may name this variable and no other.
    pattern = properties()["config.providers.env.param.allowlist.pattern"]
    assert pattern == "POSTGRES_PASSWORD"


def test_its_one_plugin_is_the_connector_of_the_cache_also_after_an_update(fetched, monkeypatch):
    WORKER.program({"rest": 8083})
    newer = settings().home / "newer"
    monkeypatch.setattr(connect, "archive_folder", lambda name: newer)
    WORKER.program({"rest": 8083})
    (plugin,) = (WORKER.folder / "plugins").iterdir()
    assert plugin.readlink() == newer


def offsets_file(path, entries: dict[str, str | None]):
    """Write a file as Kafka's FileOffsetBackingStore does: a serialized map of byte arrays."""
    content = b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap"
    for key, value in entries.items():
        content += b"uq\x00~\x00\x02" + len(key).to_bytes(4, "big") + key.encode()
        if value is None:
            content += b"p"
        else:
            content += b"uq\x00~\x00\x02" + len(value).to_bytes(4, "big") + value.encode()
    path.write_bytes(content + b"x")
    return path


def test_the_offsets_of_a_lesson_are_found_unless_they_were_deleted(tmp_path):
    path = offsets_file(
        tmp_path / "offsets",
        {
            '["lesson-15.orders",{"server":"lesson-15"}]': '{"lsn":12542888}',
            '["lesson-15.gone",{"server":"lesson-15"}]': None,
            '["lesson-1.other",{"server":"lesson-1"}]': '{"lsn":1}',
            '["lesson-15.more",{"server":"lesson-15"}]': '{"lsn":2}',
        },
    )
    found = connect._names_with_offsets(path, "lesson-15.")
    assert found == {"lesson-15.orders", "lesson-15.more"}
    assert connect._names_with_offsets(path, "lesson-1.") == {"lesson-1.other"}
    assert connect._names_with_offsets(tmp_path / "none", "lesson-1.") == set()


class Rest:
    """Stand-in for a worker's REST API; it deletes offsets only if the connector is stopped."""

    def __init__(self, *names: str):
        self.calls, self.running, self.stopped = [], set(names), set()

    def __call__(self, method, path, body=None):
        self.calls.append((method, path))
        if path == "/connectors" and method == "GET":
            return [*self.running, *self.stopped]
        if method == "POST":
            assert body["initial_state"] == "STOPPED"
            self.stopped.add(body["name"])
            return None
        name, _, what = path.removeprefix("/connectors/").partition("/")
        if what == "stop":
            self.running.discard(name)
            self.stopped.add(name)
        elif what == "offsets":
            assert name in self.stopped
        else:
            self.stopped.remove(name)
        return None


@pytest.mark.parametrize("database_runs", [True, False])
def test_a_reset_removes_connectors_and_what_is_left_of_forgotten_ones(
    home, monkeypatch, database_runs
):
    rest = Rest("lesson-15.orders", "lesson-11.orders")
    monkeypatch.setattr(WORKER, "_call", rest, raising=False)
    monkeypatch.setattr(connect.Postgres, "running", lambda self: database_runs)
    offsets_file(WORKER.folder / "offsets", {'["lesson-15.old",{"server":"x"}]': "{}"})
    assert WORKER.clear("lesson-15") == {"connectors": 1 + database_runs}
    assert rest.running == {"lesson-11.orders"} and rest.stopped == set()
    assert ("DELETE", "/connectors/lesson-15.old/offsets") in rest.calls or not database_runs


def test_a_connector_goes_before_its_database_and_its_topics(monkeypatch):
    order = []

    class Server:
        external, contents = True, ""

        def __init__(self, name):
            self.name = name

        def clear(self, namespace):
            order.append(self.name)
            return {self.name: 1}

    servers = {name: Server(name) for name in ("kafka", "postgres", "connect")}
    monkeypatch.setattr(manager, "SERVICES", servers)
    assert list(manager.clear("lesson-15")) == ["kafka", "postgres", "connect"]
    assert order == ["connect", "postgres", "kafka"]
    known = list(SERVICES)
    assert known.index("kafka") < known.index("postgres") < known.index("connect")


@pytest.mark.parametrize(
    ("plugins", "why"),
    [
        ([], "is not among its plugins"),
        (OSError("refused"), "refused"),
        ([{"class": connect.CONNECTOR}], ""),
    ],
)
def test_it_is_ready_when_it_lists_the_connector(monkeypatch, plugins, why):
    monkeypatch.setattr(connect, "request_json", Mock(side_effect=[plugins]))
    if not why:
        WORKER.check()
        return
    with pytest.raises(connect.NotReady, match=why):
        WORKER.check()
