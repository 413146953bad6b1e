"""A container's memory limit applies, not the host's memory."""

import subprocess
import sys
from pathlib import Path

import jobs
import pytest
from psutil import virtual_memory

from lab_env.platform.processes import container
from lab_env.platform.processes.container import container_memory
from lab_env.platform.processes.system import memory
from lab_env.platform.services import doctor
from lab_env.platform.settings import REPOSITORY

MEGABYTE = 1_000_000
UNLIMITED = 9223372036854771712  # as version 1 writes it
TWO = "\n".join(["9:name=systemd:/x", "4:memory:{path}", "1:cpu:/y", "0::/z"])


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Function that fakes this process's control groups: the lines naming them, and their files."""

    def machine(own: str, files: dict[str, object]) -> None:
        (tmp_path / "own").write_text(own + "\n")
        for name, content in files.items():
            path = tmp_path / "groups" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")
        monkeypatch.setattr(container, "OWN", tmp_path / "own")
        monkeypatch.setattr(container, "GROUPS", tmp_path / "groups")

    return machine


def version_2(folder: str, limit: object, used: int, cached: int = 0) -> dict[str, object]:
    """Return the files of a control group of version 2; the arguments are in megabytes."""
    limit = limit if limit == "max" else int(limit) * MEGABYTE
    stat = f"anon 5\ninactive_file {cached * MEGABYTE}\nactive_file 7"
    names = ("memory.max", "memory.current", "memory.stat")
    return dict(zip([folder + n for n in names], (limit, used * MEGABYTE, stat), strict=True))


def version_1(folder: str, limit: int, used: int, cached: int = 0) -> dict[str, object]:
    """Return the files of a control group of version 1; only `limit` is in bytes."""
    stat = f"inactive_file 1\ntotal_inactive_file {cached * MEGABYTE}"
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")
    folder = "memory/" + folder
    return dict(zip([folder + n for n in names], (limit, used * MEGABYTE, stat), strict=True))


@pytest.mark.parametrize(
    ("own", "files", "megabytes"),
    [
        ("0::/", {}, None),
        ("0::/", version_2("", "max", 9), None),
        ("0::/", version_2("", 3000, 500), (3000, 2500)),
        ("0::/", version_2("", 3000, 2900, cached=1900), (3000, 2000)),
        ("0::/", version_2("", 3000, 3100), (3000, 0)),
        # The path is the host's, and only the group at the top is visible.
        ("0::/docker/17", version_2("", 3000, 500), (3000, 2500)),
        ("0::/../../pod", version_2("", 3000, 500), (3000, 2500)),
        # Groups within groups: the tightest counts.
        ("0::/a/b", version_2("a/b/", "max", 1) | version_2("a/", 2000, 100), (2000, 1900)),
        ("0::/a/b", version_2("a/b/", 900, 100) | version_2("a/", 2000, 1950), (900, 50)),
        (TWO.format(path="/"), version_1("", UNLIMITED, 9), (UNLIMITED // MEGABYTE, ...)),
        (TWO.format(path="/docker/17"), version_1("", 3000 * MEGABYTE, 500), (3000, 2500)),
        (TWO.format(path="/a"), version_1("a/", 3000 * MEGABYTE, 500, 100), (3000, 2600)),
    ],
)
def test_the_tightest_limit_counts_and_cached_files_are_free(machine, own, files, megabytes):
    machine(own, files)
    found = container_memory()
    if megabytes is None:
        assert found is None
    else:
        allowed, free = megabytes
        assert found[0] // MEGABYTE == allowed
        assert free is ... or found[1] // MEGABYTE == free


def test_a_machine_without_control_groups_has_no_limit(monkeypatch):
    monkeypatch.setattr(container, "OWN", Path("/nowhere"))
    assert container_memory() is None


def test_a_limit_beyond_the_machine_changes_nothing(machine):
    machine(TWO.format(path="/"), version_1("", UNLIMITED, 9))
    assert memory().total == virtual_memory().total


def test_the_doctor_the_services_and_the_tests_see_the_limit(machine):
    machine("0::/", version_2("", 1500, 500))
    assert memory() == (1500 * MEGABYTE, 1000 * MEGABYTE)
    (finding,) = doctor._memory()
    assert finding.verdict == "warn"
    assert finding.fact.startswith("1.0 of 1.5 GB free in this container;")
    assert finding.fix.startswith("give the container more")
    assert doctor.SERVICES["trino"].missing_resources().endswith("only 1.0 GB is")
    assert "only 1.0 GB is" in doctor.SERVICES["cluster"].missing_resources()
    assert jobs.free_gigabytes() == 1.0


def test_the_number_of_test_processes_needs_no_package():
    command = [sys.executable, "-I", "-S", REPOSITORY / "tests" / "jobs.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 1
