"""An optional service that cannot start is left out, with the reason and the next step."""

import os
from unittest.mock import Mock

import pytest

from lab_env.platform import services
from lab_env.platform.errors import LabError
from lab_env.platform.processes import supervisor
from lab_env.platform.services import connect, postgres, trino
from lab_env.platform.settings import settings


class Large:
    """Stand-in for a service that is fetched on demand."""

    name, title, needs, external, fetched_on_demand = "large", "The large one", (), False, True

    def __init__(self):
        self.started, self.missing, self.offline = False, "", False

    def running(self):
        return self.started

    def missing_resources(self):
        return self.missing

    def fetch(self, report_progress):
        if self.offline:
            raise LabError("It cannot be fetched.", "run: make setup")

    def start(self):
        self.started = True


@pytest.fixture
def large(monkeypatch, home, configure):
    configure(cache=home / "cache")  # a set-up may hold the lock of this machine's
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(supervisor, "ensure_supervisor", lambda: None)
    service = Large()
    monkeypatch.setitem(services.SERVICES, "large", service)
    return service


@pytest.fixture
def lines():
    return []


def test_it_is_started_without_waiting_and_not_measured_again(large, lines):
    assert services.start_optional("large", lines.append)
    assert large.started
    large.missing = "no memory"
    assert services.start_optional("large", lines.append)
    assert lines == []


def test_a_small_machine_goes_without_it_and_is_told_the_next_step(large, lines):
    large.missing = "2 GB of memory must be free; only 0.5 GB is"
    assert not services.start_optional("large", lines.append)
    assert not large.started
    assert lines == [
        "The large one is left out: 2 GB of memory must be free; only 0.5 GB is. "
        "Next: free some, then run: lab up large"
    ]


def test_without_a_network_it_is_left_out(large, lines):
    large.offline = True
    assert not services.start_optional("large", lines.append)
    assert "It cannot be fetched. Next: run: lab up large" in lines[0]


def test_a_cache_that_only_its_owner_can_write_to_is_used_and_its_owner_named(
    large, lines, monkeypatch
):
    def refuse(path, mode):
        return mode != os.W_OK or path != settings().cache

    monkeypatch.setattr(os, "access", refuse)
    assert services.start_optional("large", lines.append)
    assert not (settings().cache / "lock").exists()
    monkeypatch.setattr(large, "fetch", Mock(side_effect=PermissionError))
    large.started = False
    assert not services.start_optional("large", lines.append)
    assert "let its owner run: lab up large" in lines[0]


@pytest.mark.parametrize("trouble", [{"offline": True}, {"missing": "no memory"}])
def test_ci_never_goes_without_it(large, lines, monkeypatch, trouble):
    monkeypatch.setenv("CI", "true")
    vars(large).update(trouble)
    if large.offline:
        with pytest.raises(LabError):
            services.start_optional("large", lines.append)
    else:
        assert services.start_optional("large", lines.append)
    assert lines == []


@pytest.mark.parametrize(
    ("module", "found", "size"),
    [
        (connect, "archive_folder", "17 MB"),
        (postgres, "_server", "25 MB"),
        (trino, "archive_folder", "0.8 GB"),
    ],
)
def test_one_that_was_not_fetched_names_the_command(home, monkeypatch, module, found, size):
    name = module.__name__.rpartition(".")[2]
    monkeypatch.setattr(module, found, lambda *_: None)
    server = services.SERVICES[name]
    with pytest.raises(LabError, match="has not been fetched yet") as error:
        server.program(server.preferred_ports())
    assert error.value.next_step == f"run: lab up {name}"
    finding = next(iter(server.diagnose()))
    assert finding.verdict == "ok" and size in finding.fact
