"""The Spark cluster's programs, readiness and workers, and the configuration of its drivers."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from lab_env.pipeline.session import cluster_conf
from lab_env.platform.errors import LabError
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.state import secrets
from lab_env.platform.services import SERVICES, Cluster, cluster
from lab_env.platform.services.base import NotReady
from lab_env.platform.settings import settings

PORTS = {"master": 2345, "ui": 2346, "worker_1": 2347, "worker_2": 2348}


@pytest.fixture
def own(home, monkeypatch) -> Cluster:
    monkeypatch.setattr(cluster, "java_program", lambda: "java")
    monkeypatch.setattr(cluster, "java_home", lambda: "java-home")
    return SERVICES["cluster"]


def worker(number: int, state: str) -> dict:
    page = f"http://127.0.0.1:{settings().cluster_worker_1_port + number - 1}"
    return {"webuiaddress": page, "state": state}


def answers(monkeypatch, own: Cluster, **state) -> None:
    monkeypatch.setattr(
        cluster, "request_json", lambda method, url: {"url": own.address(), "workers": []} | state
    )


def test_only_who_knows_the_clusters_secret_joins_and_only_a_worker_has_the_stores_key(own):
    assert "AWS_SECRET_ACCESS_KEY" not in own.program(PORTS).env  # the master runs nobody's code
    worker = own.worker_program(1)
    assert worker.env["AWS_SECRET_ACCESS_KEY"] == secrets()["s3_secret_key"]
    written = settings().cluster_properties.read_text()
    assert f"spark.authenticate.secret={secrets()['cluster_secret']}" in written
    assert "spark.authenticate=true" in written


def test_all_of_it_listens_where_the_lab_does(own, configure):
    configure(bind="127.0.0.7")
    for program in (own.program(PORTS), own.worker_program(1)):
        assert program.argv[program.argv.index("--host") + 1] == "127.0.0.7"
        assert program.env["SPARK_LOCAL_IP"] == "127.0.0.7"  # otherwise pages listen everywhere


def test_a_worker_has_one_core_and_the_memory_of_an_executor(own, configure):
    configure(spark_executor_memory="900m")
    argv = own.worker_program(2).argv
    assert argv[argv.index("--cores") + 1] == "1"
    assert argv[argv.index("--memory") + 1] == "900m"
    assert argv[-1] == own.address()


def test_another_master_is_not_ours(own, monkeypatch):
    answers(monkeypatch, own, url="spark://elsewhere:7077", aliveworkers=2)
    with pytest.raises(NotReady, match="another program answers"):
        own.check()


def test_a_worker_is_told_with_its_process_and_its_executors(own, monkeypatch):
    answers(monkeypatch, own, workers=[worker(1, "ALIVE"), worker(2, "DEAD")])
    child = ["java", cluster.EXECUTOR, "--executor-id", "7", "--app-id", "app-1", "--cores", "1"]
    running = {
        "cluster-worker-1": [
            SimpleNamespace(pid=11),
            SimpleNamespace(pid=12, cmdline=lambda: child),
            SimpleNamespace(pid=13, cmdline=lambda: ["java", "something else"]),
        ]
    }
    monkeypatch.setattr(supervisor, "processes_of", lambda name: running.get(name, []))
    first, second = own.workers()
    assert (first.alive, first.pid, first.executors) == (True, 11, {("app-1", "7"): 12})
    assert (second.alive, second.pid, second.executors) == (False, 0, {})


def test_without_a_master_the_next_step_is_to_start_it(own, monkeypatch):
    monkeypatch.setattr(cluster, "request_json", Mock(side_effect=OSError("refused")))
    with pytest.raises(LabError, match="lab up cluster"):
        own.workers()


CONF = {"spark.driver.extraJavaOptions": "-Dmine"}


def test_a_local_session_needs_nothing_more(home, tmp_path):
    assert cluster_conf({"spark.master": "local[2]"} | CONF, tmp_path) == {}


def test_the_labs_own_cluster_reads_the_jars_where_they_are(own, tmp_path):
    own.program(PORTS)
    master = f"spark://127.0.0.1:{PORTS['master']}"
    assert settings().own_master == master
    conf = cluster_conf({"spark.master": master} | CONF, tmp_path)
    assert conf["spark.executor.extraClassPath"] == f"{tmp_path}/*"
    assert conf["spark.executor.extraJavaOptions"] == "-Dmine"
    assert "spark.jars" not in conf


def test_another_cluster_is_sent_the_jars_and_no_path_of_this_machine(home, tmp_path):
    for name in ("b.jar", "a.jar"):
        (tmp_path / name).touch()
    conf = cluster_conf({"spark.master": "spark://there:7077"} | CONF, tmp_path)
    assert conf["spark.jars"] == f"{tmp_path}/a.jar,{tmp_path}/b.jar"
    assert "spark.executor.extraClassPath" not in conf
    options = conf["spark.executor.extraJavaOptions"]
    assert "-Duser.timezone=UTC" in options and "file:" not in options
