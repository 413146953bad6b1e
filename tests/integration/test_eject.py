"""The ejected project runs without the lab: its job matches the ledger, even after a kill.

The project's Python has what its pyproject.toml names, and the project itself. The job runs in the
shell of a user with other work, on a machine whose name does not resolve.
"""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import Distribution, distribution
from pathlib import Path
from threading import Thread

import end_of_run
import pandas as pd
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from hostile_home import hostile_home
from linux import LINUX
from own_lab import allowed, not_here, wait_until
from packaging.requirements import Requirement

from lab_env.lab.handle import Lab, reset_lesson
from lab_env.pipeline.layout import FOLDERS
from lab_env.platform import store
from lab_env.platform.brokers.topics import ensure_topic
from lab_env.platform.install import bootstrap
from lab_env.platform.install.cache import cache
from lab_env.platform.install.java import java_home
from lab_env.platform.install.wheels import uv_program
from lab_env.platform.jvm import QUICK_COMPILER
from lab_env.platform.processes.system import allows, in_namespace
from lab_env.tables.hudi_rs import read_rows
from lab_env.workbench.eject.project import eject, shell_lines

SPACE = "t-eject"
MORE = 1000
EVENTS, RATE = 2000, 100  # sent for 20 s, so that the job is killed while they come
PYTHONS = ["{}.{}".format(*version) for version in sorted(bootstrap.usable_pythons())]
# hostname(1) refuses an underscore.
RENAME = (
    f"""{shlex.quote(sys.executable)} -c 'import socket; socket.sethostname("nowhere_at_all")'"""
)
UNKNOWN_HOST = in_namespace("--uts", RENAME)


@pytest.fixture
def lab(services) -> Iterator[Lab]:
    yield Lab(SPACE, services)
    reset_lesson(SPACE)


@pytest.fixture
def project(tmp_path) -> Path:
    """The project, in a folder with a space, with links to the packages that it names."""
    folder = tmp_path / "my project"
    eject(folder)
    venv.create(folder / ".venv", symlinks=True)
    (packages,) = (folder / ".venv").glob("lib/python*/site-packages")
    for package in named_packages(folder):
        for name in {file.parts[0] for file in package.files} - {"..", "__pycache__"}:
            (packages / name).symlink_to(Path(str(package.locate_file(name))))
    # Its dependencies are there: nothing is fetched.
    install(folder, "--offline", "--no-deps", "--no-build-isolation", "--editable", str(folder))
    return folder


def named_packages(folder: Path) -> list[Distribution]:
    """Return the installed packages that the pyproject.toml names, and those that they need."""
    names = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    left = [*names["dependencies"], *names["optional-dependencies"]["test"]]
    found: dict[str, Distribution] = {}
    while left:
        needed = Requirement(left.pop())
        if needed.name in found or (needed.marker and not needed.marker.evaluate({"extra": ""})):
            continue
        package = found[needed.name] = distribution(needed.name)
        assert package.version in needed.specifier, needed
        left += package.requires or []
    return list(found.values())


def install(folder: Path, *what: str) -> None:
    """Install packages into the project's `.venv`."""
    python = ["--python", str(folder / ".venv" / "bin" / "python")]
    done = uv("pip", "install", *python, *what, cwd=folder)
    assert done.returncode == 0, done.stderr


def uv(*words: str, cwd: Path) -> subprocess.CompletedProcess:
    """Run uv with the lab's cache and the index that pip would use."""
    folders = {"UV_CACHE_DIR": cache() / "uv", "UV_PYTHON_INSTALL_DIR": cache() / bootstrap.PYTHONS}
    environment = os.environ | bootstrap._uv_settings() | {k: str(v) for k, v in folders.items()}
    command = [str(uv_program()), "--quiet", *words]
    return subprocess.run(command, cwd=cwd, env=environment, stderr=subprocess.PIPE, text=True)


def known_to_pyenv(version: str) -> str:
    """Path of pyenv's Python, whose shim uv cannot run; else the version, for uv to find."""
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(found[-1]) if found else version


def python(project: Path, *words: str, environment: dict[str, str]) -> subprocess.CompletedProcess:
    command = [str(project / ".venv" / "bin" / "python"), *words]
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=allowed(120)
    )


def unknown_host() -> tuple[str, ...]:
    """Prefix of a command that sees a host name that does not resolve; empty if not possible."""
    possible = allows(UNKNOWN_HOST)
    assert possible or not (LINUX and os.environ.get("CI"))
    return UNKNOWN_HOST if possible else ()


@contextmanager
def running(project: Path, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen]:
    """Run the job; at the end kill everything that it has started."""
    job = [str(project / "run.sh"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*unknown_host(), *job],
            cwd=project.parent,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def batches(log: Path) -> list[dict]:
    """Return the JSON lines that the job prints, one per batch."""
    lines = log.read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith('{"sink"')]


def rows_read(log: Path) -> dict[str, int]:
    """Return the number of messages that each query has read, according to the job's output."""
    found = batches(log)
    return {s: sum(o["rows_read"] for o in found if o["sink"] == s) for s in ("cow", "mor", "dead")}


def dead_letters(lab: Lab) -> pd.DataFrame:
    """Return the committed dead letters; files left by a killed batch are ignored."""
    batches = lab.files(f"{lab.path(FOLDERS['dead'])}/_spark_metadata")
    lines = [line for b in batches for line in store.read(lab.endpoints, b.key).splitlines()[1:]]
    keys = {store.key_of(json.loads(line)["path"]) for line in lines}  # some stand there twice
    files = [io.BytesIO(store.read(lab.endpoints, key)) for key in keys]
    return pd.concat(pq.read_table(file).to_pandas() for file in files)


def add_partitions(lab: Lab, number: int) -> None:
    """Add partitions to the topic until it has this number."""
    admin = AdminClient({"bootstrap.servers": lab.endpoints.kafka_bootstrap})
    topic = lab.topic("orders")
    admin.create_partitions([NewPartitions(topic, number)])[topic].result()


@pytest.fixture
def other_work(tmp_path) -> dict[str, str]:
    """Variables of a user with other work, and some for JVMs of short lives."""
    found = hostile_home(tmp_path, "tr")
    found["JAVA_TOOL_OPTIONS"] += " " + " ".join(QUICK_COMPILER)
    return found | {end_of_run.VARIABLE: os.environ[end_of_run.VARIABLE]}


@pytest.fixture
def environment(lab, other_work, monkeypatch) -> dict[str, str]:
    """The variables of this user's shell once it has run the lines of `lab eject --env`."""
    with monkeypatch.context() as patch:
        patch.setenv("http_proxy", other_work["http_proxy"])
        lines = shell_lines(lab.endpoints, lab.topic("orders"), lab.base)
    script = "\n".join([*lines, "env -0"])
    told = subprocess.run(["sh", "-c", script], env=other_work, capture_output=True, check=True)
    found = dict(line.split("=", 1) for line in told.stdout.decode().split("\0")[:-1])
    return found | {"MAX_OFFSETS": "800"}


def run_own_tests(project: Path, other_work: dict[str, str]) -> None:
    spark = {name: value for name, value in other_work.items() if "PYTHON" not in name}
    environment = spark | {"JAVA_HOME": str(java_home())}
    found = python(project, "-m", "pytest", "-q", environment=environment)
    assert found.returncode == 0 and "13 passed" in found.stdout, found.stdout + found.stderr


def test_the_ejected_project_needs_no_lab_and_its_tests_pass(project, other_work):
    for module in ("lab_env", "boto3", "pydantic"):
        found = python(project, "-c", f"import {module}", environment={})
        assert "ModuleNotFoundError" in found.stderr, module
    found = python(project, "-P", "-c", "import orders.guard", environment={})
    assert found.returncode == 0, found.stderr  # installed, so from any folder
    run_own_tests(project, other_work)


@pytest.mark.proof("eject")
@pytest.mark.parametrize("version", PYTHONS)
def test_its_tests_pass_on_each_python_with_what_its_pyproject_names(tmp_path, version, other_work):
    folder = tmp_path / "my project"
    eject(folder)
    made = uv("venv", "--python", known_to_pyenv(version), ".venv", cwd=folder)
    if made.returncode:
        not_here(f"NOT RUN: needs Python {version}: {made.stderr}")
    install(folder, "--editable", f"{folder}[test]")
    run_own_tests(folder, other_work)


@pytest.mark.proof("eject")
def test_the_ejected_project_keeps_what_the_ledger_says(lab, project, environment, tmp_path):
    first, second, third, fourth = (tmp_path / f"{number}.log" for number in range(4))
    temporary = Path(environment["TMPDIR"])
    ensure_topic(lab.endpoints.kafka_bootstrap, lab.topic("orders"))
    load = Thread(target=lab.replay, kwargs={"n": EVENTS, "rate": RATE})
    load.start()
    with running(project, environment | {"TRIGGER_SECONDS": "1"}, first) as job:
        wait_until(
            lambda: job.poll() is not None or min(rows_read(first).values()) > 0,
            allowed(180),
        )
    assert min(rows_read(first).values()) > 0, first.read_text()[-3000:]  # killed in full flow
    (left,) = temporary.iterdir()
    host = "nowhere_at_all" if unknown_host() else os.uname().nodename
    assert left.name == f"orders-stream.{host}@{job.pid}"
    assert {"blockmgr", "s3a", "spark"} <= {path.name.split("-")[0] for path in left.iterdir()}
    load.join()
    # Most orders move to another partition, and a backlog waits in the old ones.
    add_partitions(lab, 5)
    lab.replay(skip=EVENTS, n=MORE)
    assert len(lab.ledger().frame()) == EVENTS + MORE
    with running(project, environment | {"TRIGGER_SECONDS": "0"}, second) as job:
        assert job.wait(allowed(180)) == 0, second.read_text()[-3000:]
    assert "Partitions were added to the topic" in second.read_text()
    assert not left.exists() and len(list(temporary.iterdir())) == 1

    dead = dead_letters(lab)
    ledger = lab.ledger()
    verdict = ledger.reconcile_dead(dead)
    assert verdict.ok and verdict.rows, str(verdict)
    written = sum(line.get("dead_letters", 0) for line in batches(second))
    assert 0 < written <= len(dead) < rows_read(second)["dead"], second.read_text()[-3000:]
    for sink in ("cow", "mor"):
        table = read_rows(lab.endpoints, lab.path(FOLDERS[sink]))
        verdict = ledger.reconcile_table(table, sink)
        assert verdict.ok and verdict.rows > 1000, str(verdict)
        account = ledger.account(table, dead)
        assert account.ok and account.superseded and account.duplicate, str(account)

    ensure_topic(lab.endpoints.kafka_bootstrap, lab.topic("orders"), reset=True)
    with running(project, environment | {"TRIGGER_SECONDS": "0"}, third) as job:
        assert job.wait(allowed(180)) == 1
    assert "was deleted and recreated" in third.read_text()
    assert "Next step: start a pipeline in a new folder" in third.read_text()
    assert len(third.read_text().splitlines()) < 6  # Spark's log does not bury the sentence

    refused = environment | {"AWS_SESSION_TOKEN": "theirs"}
    with running(project, refused, fourth) as job:
        assert job.wait(allowed(180)) == 1
    assert "the store refuses the keys" in fourth.read_text()
    assert "Next step: unset AWS_SESSION_TOKEN" in fourth.read_text()
