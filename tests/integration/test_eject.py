"""The ejected project runs without the lab: its job matches the ledger, even after a kill.

The project's Python has PySpark, pytest and the project itself, installed as its README describes.
The environment has only the settings named in the README, and some that make a JVM start quickly.
"""

import io
import json
import os
import signal
import subprocess
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import distribution, version
from pathlib import Path
from threading import Thread

import end_of_run
import pandas as pd
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from own_lab import allowed, wait_until

from lab_env.lab.handle import Lab, reset_lesson
from lab_env.pipeline.layout import FOLDERS
from lab_env.platform import store
from lab_env.platform.brokers.topics import ensure_topic
from lab_env.platform.install.wheels import uv_program
from lab_env.platform.jvm import QUICK_COMPILER
from lab_env.tables.hudi_rs import read_rows
from lab_env.workbench.eject.project import eject, settings_for

SPACE = "t-eject"
MORE = 1000
EVENTS, RATE = 2000, 100  # sent for 20 s, so that the job is killed while they come
SPARK = ("pyspark", "py4j")
PARSE = ("jiter", "pyarrow", "pandas", "numpy", "numpy.libs", "dateutil", "pytz", "six.py")
BUILD = ("setuptools", f"setuptools-{version('setuptools')}.dist-info", "_distutils_hack")
PYTEST = ("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments")


@pytest.fixture
def lab(services) -> Iterator[Lab]:
    yield Lab(SPACE, services)
    reset_lesson(SPACE)


@pytest.fixture
def project(tmp_path) -> Path:
    """The project, in a folder with a space, installed in a `.venv` with PySpark and pytest."""
    folder = tmp_path / "my project"
    eject(folder)
    venv.create(folder / ".venv", symlinks=True)
    (packages,) = (folder / ".venv").glob("lib/python*/site-packages")
    for name in (*SPARK, *PARSE, *PYTEST, *BUILD):
        found = Path(str(distribution("pyspark").locate_file(name)))
        (packages / name).symlink_to(found)
    # Its dependencies are there: nothing is fetched.
    options = ["--quiet", "--offline", "--no-deps", "--no-build-isolation", "--python"]
    own = [str(folder / ".venv" / "bin" / "python"), "--editable", str(folder)]
    subprocess.run([str(uv_program()), "pip", "install", *options, *own], check=True)
    return folder


def python(project: Path, *words: str, environment: dict[str, str]) -> subprocess.CompletedProcess:
    command = [str(project / ".venv" / "bin" / "python"), *words]
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=allowed(120)
    )


@contextmanager
def running(project: Path, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen]:
    """Run the job; at the end kill everything that it has started."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(project / "run.sh"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"],
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
def environment(lab, tmp_path) -> dict[str, str]:
    """The settings that the project's README names, and some for short lives."""
    environment = settings_for(lab.endpoints, lab.topic("orders"), lab.base)
    return environment | {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(tmp_path),  # a killed JVM leaves its copies of the jars
        "JAVA_TOOL_OPTIONS": " ".join(QUICK_COMPILER),  # of this test: its JVMs live for a minute
        "MAX_OFFSETS": "800",
        end_of_run.VARIABLE: os.environ[end_of_run.VARIABLE],
    }


def test_the_ejected_project_needs_no_lab_and_its_tests_pass(project, environment):
    for module in ("lab_env", "boto3", "pydantic"):
        found = python(project, "-c", f"import {module}", environment=environment)
        assert "ModuleNotFoundError" in found.stderr, module
    found = python(project, "-P", "-c", "import orders.guard", environment=environment)
    assert found.returncode == 0, found.stderr  # installed, so from any folder
    found = python(project, "-m", "pytest", "-q", environment=environment)
    assert found.returncode == 0 and "13 passed" in found.stdout, found.stdout + found.stderr


@pytest.mark.proof("eject")
def test_the_ejected_project_keeps_what_the_ledger_says(lab, project, environment, tmp_path):
    first, second, third = (tmp_path / f"{name}.log" for name in ("first", "second", "third"))
    ensure_topic(lab.endpoints.kafka_bootstrap, lab.topic("orders"))
    load = Thread(target=lab.replay, kwargs={"n": EVENTS, "rate": RATE})
    load.start()
    with running(project, environment | {"TRIGGER_SECONDS": "1"}, first) as job:
        wait_until(
            lambda: job.poll() is not None or min(rows_read(first).values()) > 0,
            allowed(180),
        )
    assert min(rows_read(first).values()) > 0, first.read_text()[-3000:]  # killed in full flow
    load.join()
    # Most orders move to another partition, and a backlog waits in the old ones.
    add_partitions(lab, 5)
    lab.replay(skip=EVENTS, n=MORE)
    assert len(lab.ledger().frame()) == EVENTS + MORE
    with running(project, environment | {"TRIGGER_SECONDS": "0"}, second) as job:
        assert job.wait(allowed(180)) == 0, second.read_text()[-3000:]
    assert "Partitions were added to the topic" in second.read_text()

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
