"""The pipeline with an external cluster, broker and store, over a network.

The driver is in one network; master and workers, which cannot read the lab's jars, are in another.
MinIO belongs to another lab, and the broker requires a password; the learner's lab starts nothing.
An executor is killed while it runs a task.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from instance import Instance
from own_lab import allowed, lab_environment
from signing_broker import signing_broker
from two_networks import two_networks

from lab_env.platform.install.jars import jar_folder

pytestmark = [pytest.mark.services, pytest.mark.proof("cluster")]

LAB = [sys.executable, "-I", "-m", "lab_env.cli"]


@pytest.fixture
def networks():
    """The driver's network, and that of the workers."""
    with two_networks(hidden=[jar_folder("spark")]) as both:
        yield both


def test_a_writer_on_a_cluster_elsewhere_outlives_an_executor_and_touches_only_its_own(
    networks, tmp_path
):
    near, far = networks
    password = "a-password-of-alice"
    broker = signing_broker(near, tmp_path / "broker", "alice", password)
    lake = Instance(
        tmp_path / "lake",
        lab_environment(tmp_path / "lake") | {"LAB_BIND": near.address},
        near.command(*LAB),
    )
    workers = Instance(tmp_path / "workers", lab_environment(tmp_path / "workers"))
    workers.command = far.command(*LAB)
    try:
        done = lake.lab("up", "minio")
        assert done.returncode == 0, done.stdout + done.stderr
        access, secret = lake.store_keys()
        store = {
            "LAB_S3_ENDPOINT": lake.status()["minio"]["address"],
            "LAB_S3_ACCESS_KEY": access,
            "LAB_S3_SECRET_KEY": secret,
        }
        workers.environment |= store | {"LAB_BIND": far.address}
        done = workers.lab("up", "cluster")
        assert done.returncode == 0, done.stdout + done.stderr
        assert far.run("ls", str(jar_folder("spark"))) == ""
        with broker as (kafka, signs_in):
            learner = Instance(
                tmp_path / "learner",
                lab_environment(tmp_path / "learner")
                | store
                | {
                    "LAB_KAFKA_BOOTSTRAP": kafka,
                    "LAB_KAFKA_SECURITY": str(signs_in),
                    "LAB_SPARK_MASTER": workers.status()["cluster"]["address"],
                    "LAB_SPARK_DRIVER_HOST": near.address,
                    "LAB_SPARK_DRIVER_PORTS": "21100",
                    "LAB_SPARK_CORES": "3",  # there are two
                    "LAB_NAMESPACE": "alice",
                },
                near.command(*LAB),
            )
            learner.environment["SPARK_CONF_DIR"] = str(conf_folder(tmp_path, workers))
            found = run_writer(learner, near, tmp_path / "found.json")
        assert files_with(password, learner.home) == []
    finally:
        for instance in (workers, lake):
            instance.lab("down")
    assert found["external"] == ["minio", "kafka"]  # it started nothing of its own
    assert found["ok"] and found["rows"] > 300, found["verdict"]
    assert found["failed_tasks"] >= 1
    assert found["batches"] == [0, 1, 2], found  # the lost tasks were repeated, no batch
    assert found["killed"] != "driver" and found["shown"] == []
    assert found["objects"] == ["alice-tour"] and found["topic"] == "alice-tour.orders"
    assert found["buckets"] == 3  # and the next writer of this table knows it
    assert found["cleared"]["topics"] == 1


def files_with(text: str, folder: Path) -> list[Path]:
    """Return the files that contain a text, at any depth in a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


def conf_folder(parent: Path, workers: Instance) -> Path:
    """Return the folder with the Spark configuration for the users of the cluster."""
    folder = parent / "conf of the cluster"
    folder.mkdir(mode=0o700)
    text = (workers.home / "cluster" / "cluster.properties").read_text()
    (folder / "spark-defaults.conf").write_text(text)
    return folder


def run_writer(learner: Instance, network, report: Path) -> dict:
    """Run the learner's writer in the driver's network; return its findings."""
    program = Path(__file__).with_name("cluster_writer.py")
    try:
        done = subprocess.run(
            network.command(sys.executable, str(program), str(report)),
            env=learner.environment,
            capture_output=True,
            text=True,
            timeout=allowed(600),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(report.read_text())
    finally:
        learner.lab("down")
