"""ZooKeeper: locks end with their session, nodes survive a kill, a reset spares other lessons."""

import pytest
from own_lab import listening, wait_until

from lab_env.lab.faults.outages import kill_service
from lab_env.lab.handle import Lab, reset_lesson
from lab_env.pipeline.options import lock_place
from lab_env.platform import services as lab_services
from lab_env.platform.processes.tree import process_tree

pytestmark = pytest.mark.services

LESSON = "93"
LOCK = "/lesson-93/orders"


@pytest.fixture(scope="module")
def lab(services):
    """A lab whose ZooKeeper has no nodes of this lesson."""
    lab_services.up(["zookeeper"], progress=lambda line: None)
    reset_lesson(LESSON)
    yield Lab(LESSON, lab_services.endpoints(), ("zookeeper",))
    reset_lesson(LESSON)


def test_it_is_listed_with_its_address_and_listens_on_this_machine_only(lab):
    (row,) = [row for row in lab_services.status() if row.name == "zookeeper"]
    assert (row.state, row.address) == ("ready", lab.endpoints.zookeeper)
    assert row.memory_mb < 200
    assert listening(process_tree(row.pid)) == {"127.0.0.1"}


def test_a_killed_server_comes_back_with_its_nodes_and_a_lost_session_leaves_no_lock(lab):
    with lab.zookeeper() as client:
        client.create(f"{LOCK}/kept", b"value", makepath=True)
        client.create(f"{LOCK}/lock-", ephemeral=True, sequence=True)
        assert len(client.get_children(LOCK)) == 2
        kill_service("zookeeper")
        lab_services.up(["zookeeper"], progress=lambda line: None)
        with lab.zookeeper() as another:
            assert another.get(f"{LOCK}/kept")[0] == b"value"
    with lab.zookeeper() as client:
        wait_until(lambda: client.get_children(LOCK) == ["kept"], 30)


def test_a_reset_removes_the_lessons_own_locks_and_those_of_its_tables(lab):
    with lab.zookeeper() as client:
        client.ensure_path("/lesson-92/orders")
        client.ensure_path(f"{LOCK}/left")
        of_table = lock_place(lab.path("orders_cow"))
        client.ensure_path(f"{of_table}/left")
        assert reset_lesson(LESSON)["locks"] == 2
        assert reset_lesson(LESSON)["locks"] == 0
        assert not client.exists(LOCK) and not client.exists(of_table)
        assert client.exists("/lesson-92/orders")
        client.delete("/lesson-92", recursive=True)
