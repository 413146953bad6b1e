"""Table names in the metastore, and Trino, a second engine that finds tables by name.

One lab and one Spark for the whole module. Trino is large: if disk or memory is short, its tests
are skipped with the reason; CI runs them.
"""

import shutil
import time
from contextlib import closing

import pytest
from own_lab import allowed, listening, wait_until

from lab_env.lab.faults.freeze import kill
from lab_env.lab.handle import Lab, reset_lesson
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.platform import services as lab_services
from lab_env.platform.errors import LabError
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.tree import process_tree
from lab_env.platform.services import hive, manager

pytestmark = [pytest.mark.services, pytest.mark.proof("engines")]

LESSON = "96"
DATABASE = "lesson_96"
# An error must show before its reader gives up: after a few seconds, or more on a busy machine.
# With a client's default retries it would take minutes.
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def lab(services):
    """A lab with the metastore, and a database for the tests."""
    lab_services.up(["metastore"], progress=lambda line: None)
    lab = Lab(LESSON, lab_services.endpoints(), ("metastore",))
    reset_lesson(LESSON)
    lab.spark.sql(f"CREATE DATABASE {DATABASE} LOCATION '{lab.base}/{DATABASE}'")
    yield lab
    lab.spark.stop()
    reset_lesson(LESSON)


@pytest.fixture(scope="module")
def trino(lab):
    """A function that queries Trino."""
    lines = []
    if not lab_services.start_optional("trino", progress=lines.append):
        pytest.skip(lines[-1])
    lab_services.up(["trino"], progress=lambda line: None)
    from trino.dbapi import connect
    from trino.exceptions import TrinoQueryError

    host, port = lab_services.service("trino").address().removeprefix("http://").split(":")

    def run_query(sql: str):
        with closing(
            connect(host, int(port), user="test", catalog="hudi", schema=DATABASE)
        ) as connection:
            return connection.cursor().execute(sql).fetchall()

    def run_when_it_has_a_node(sql: str):
        # On a machine that is busy for seconds it takes its only node, itself, for lost.
        deadline = time.monotonic() + allowed(20)
        while True:
            try:
                return run_query(sql)
            except TrinoQueryError as error:
                if error.error_name != "NO_NODES_AVAILABLE" or time.monotonic() > deadline:
                    raise
                time.sleep(1)

    return run_when_it_has_a_node


def uri() -> str:
    return lab_services.service("metastore").address()


def registered_tables() -> list[str]:
    return hive.call(uri(), "get_all_tables", DATABASE)


def write(lab, name: str, first: int, last: int, day: str, sync: bool = True) -> None:
    """Write orders into a Copy-on-Write table; by default, sync it to the metastore."""
    rows = lab.spark.sql(f"""
        SELECT concat('O-', id) AS order_id, 1 AS amount, '{day}' AS partition_date,
               TIMESTAMP '2026-11-20 12:00:00' AS order_ts
        FROM range({first}, {last}, 1, 1)""")
    options = (
        KEYS
        | DEMO_OPTIONS
        | {
            "hoodie.table.name": name,
            "hoodie.index.bloom.num_entries": "1000",
            "hoodie.datasource.hive_sync.enable": str(sync).lower(),
            "hoodie.datasource.hive_sync.mode": "hms",
            "hoodie.datasource.hive_sync.metastore.uris": uri(),
            "hoodie.datasource.hive_sync.database": DATABASE,
            "hoodie.datasource.hive_sync.table": name,
            # As `CALL hive_sync` does: else it would change the type of a registered time.
            "hoodie.datasource.hive_sync.support_timestamp": "true",
        }
    )
    rows.write.format("hudi").options(**options).mode("append").save(lab.path(name))


def test_a_write_registers_its_table_and_a_new_partition_is_synced(lab):
    write(lab, "orders", 0, 3, "2026-11-20")
    assert registered_tables() == ["orders"]
    write(lab, "orders", 3, 5, "2026-11-21")
    # Not SHOW PARTITIONS: Spark lists the folders of a Hudi table, whatever the metastore knows.
    known = lab.known_partitions("orders")
    assert known == ["partition_date=2026-11-20", "partition_date=2026-11-21"]
    assert lab.spark.table(f"{DATABASE}.orders").count() == 5


@pytest.mark.parametrize("fix", ["a later write", "MSCK REPAIR TABLE", "CALL hive_sync"])
def test_a_partition_written_without_sync_is_unknown_until_it_is_registered(lab, fix):
    name = {"a later write": "later", "MSCK REPAIR TABLE": "repaired"}.get(fix, "called")
    write(lab, name, 0, 3, "2026-11-20")
    write(lab, name, 3, 5, "2026-11-21", sync=False)
    assert lab.known_partitions(name) == ["partition_date=2026-11-20"]
    assert lab.spark.sql(f"SHOW PARTITIONS {DATABASE}.{name}").count() == 2  # folders
    if fix == "a later write":
        write(lab, name, 0, 3, "2026-11-20")
    elif fix == "MSCK REPAIR TABLE":
        lab.spark.sql(f"MSCK REPAIR TABLE {DATABASE}.{name}")
    else:
        lab.spark.sql(f"CALL hive_sync(table => '{DATABASE}.{name}', mode => 'hms')")
    assert len(lab.known_partitions(name)) == 2
    lab.spark.sql(f"DROP TABLE {DATABASE}.{name}")


def test_the_metastore_listens_on_this_machine_only(lab):
    program = supervisor.status_of("metastore")
    assert listening(process_tree(program.pid)) == {"127.0.0.1"}


def test_trino_sees_a_new_commit_at_once(lab, trino):
    assert trino("SELECT count(*) FROM orders") == [[5]]
    write(lab, "orders", 5, 9, "2026-11-21")
    assert trino("SELECT count(*) FROM orders") == [[9]]


def test_trino_reports_within_seconds_that_the_store_is_gone(trino):
    supervisor.stop("minio")
    started = time.monotonic()
    try:
        with pytest.raises(Exception, match=r"(?i)s3|connect|load|metadata"):
            trino("SELECT count(*) FROM orders")
        assert time.monotonic() - started < allowed(TIMEOUT_S)
    finally:
        supervisor.remove("minio")
        lab_services.up(["minio"], progress=lambda line: None)


def test_a_killed_metastore_comes_back_with_its_tables(lab):
    before = supervisor.status_of("metastore").pid
    _, java = process_tree(before)
    kill(java.pid)
    wait_until(lambda: supervisor.status_of("metastore").pid not in (0, before))
    lab_services.up(["metastore"], progress=lambda line: None)
    assert registered_tables() == ["orders"]


def test_a_dropped_table_is_gone_and_its_files_stay(lab):
    table = lab.path("orders")
    # An external table's files are the writer's: a reset, not a drop of the name, removes them.
    assert lab_services.service("metastore").clear(lab.namespace) == {"table names": 1}
    assert DATABASE not in hive.call(uri(), "get_all_databases")
    assert lab.spark.read.format("hudi").load(table).count() >= 5


def test_a_download_that_cannot_fit_is_refused_with_the_next_step(monkeypatch, tmp_path):
    monkeypatch.setattr("lab_env.platform.install.archives.cache", lambda: tmp_path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=10**9))
    monkeypatch.setattr("lab_env.platform.services.trino.fetch_java", lambda *arguments: None)
    with pytest.raises(LabError, match=r"2\.1 GB of disk must be free") as refused:
        manager._fetch_on_demand(lab_services.service("trino"), lambda line: None)
    assert "lab up trino" in refused.value.next_step
