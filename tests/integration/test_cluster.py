"""The Spark cluster: it is reachable only locally, shows no secrets, and can restart a worker.

Sessions on the cluster are tested in lesson 21, and on an external one in `test_own_cluster.py`.
"""

import psutil
import pytest
from instance import programs_showing
from own_lab import listening, wait_until

from lab_env.lab.faults.outages import kill_service
from lab_env.platform import services as lab_services
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.state import home, secrets
from lab_env.platform.processes.tree import process_tree
from lab_env.platform.services import Cluster
from lab_env.platform.services.base import NotReady, open_local

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def cluster(services) -> Cluster:
    lab_services.up(["cluster"], progress=lambda line: None)
    found = lab_services.service("cluster")
    yield found
    found.remove()


def is_ready(cluster: Cluster) -> bool:
    """Return True if the master reports both workers as alive."""
    try:
        cluster.check()
    except NotReady:
        return False
    return True


def page(url: str) -> str:
    with open_local(url, timeout=10) as answer:
        return answer.read().decode()


def test_master_and_workers_are_listed_and_listen_on_this_machine_only(cluster):
    rows = {row.name: row for row in lab_services.status()}
    assert (rows["cluster"].state, rows["cluster"].address) == ("ready", cluster.address())
    for program in cluster.programs:
        assert rows[program].memory_mb < 300
        assert listening(process_tree(rows[program].pid)) == {"127.0.0.1"}, program


def test_no_argument_page_or_log_shows_a_secret_and_no_other_user_can_read_one(cluster):
    known = [secrets()[name] for name in ("cluster_secret", "s3_access_key", "s3_secret_key")]
    shown = [page(cluster.page), *(page(worker.page) for worker in cluster.workers())]
    shown += [supervisor.log_tail(program, 1000) for program in cluster.programs]
    for secret in known:
        assert programs_showing(secret) == []
        assert not any(secret in text for text in shown)
    for file in home().rglob("*"):
        if file.is_file() and file.stat().st_size < 1e6 and "minio" not in file.parts:
            content = file.read_bytes()
            if any(secret.encode() in content for secret in known):
                assert file.stat().st_mode & 0o077 == 0, file


def test_a_worker_is_stopped_and_comes_back(cluster):
    second = cluster.workers()[1]
    cluster.stop_worker(2)
    wait_until(lambda: not cluster.workers()[1].alive)
    assert not psutil.pid_exists(second.pid) and cluster.workers()[0].alive
    (row,) = [row for row in lab_services.status() if row.name == "cluster"]
    assert row.state == "not ready: 1 of 2 workers are alive"
    lab_services.up(["cluster"], progress=lambda line: None)  # starts what is stopped
    assert is_ready(cluster) and cluster.workers()[1].pid not in (0, second.pid)


def test_a_killed_master_returns_and_its_workers_find_it(cluster):
    kill_service("cluster")
    wait_until(lambda: cluster.restarts() == 1 and is_ready(cluster), 120)
