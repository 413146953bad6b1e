"""PostgreSQL and Kafka Connect: rows become events, and neither server loses state when killed.

All tests use the same lab, table and connector, and depend on their order.
"""

import io
import json

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition
from hudi import HudiTableBuilder
from instance import programs_showing
from own_lab import listening, wait_until
from psycopg.conninfo import conninfo_to_dict

from lab_env.lab.faults.outages import kill_service
from lab_env.lab.handle import Lab, reset_lesson
from lab_env.lessons.l15.figures import wait_until_confirmed
from lab_env.pipeline.changes import LOG_ENDS
from lab_env.pipeline.sinks import CHANGE_SINKS
from lab_env.platform import services as lab_services
from lab_env.platform import store
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.state import secrets
from lab_env.platform.processes.tree import process_tree
from lab_env.platform.services.base import request_json
from lab_env.platform.services.connect import PATIENCE_S

pytestmark = [pytest.mark.services, pytest.mark.proof("capture")]

LESSON = "94"
LESSON_TOPICS = "lesson-94.public"
TOPIC = f"{LESSON_TOPICS}.orders"
COLUMNS = "order_id, customer_id, amount, status, partition_date"
LAKE = """
    CREATE TABLE lake (
        order_id text PRIMARY KEY, customer_id text NOT NULL, amount numeric(12,2) NOT NULL,
        status text NOT NULL, partition_date text NOT NULL, updated_at timestamptz DEFAULT now()
    );
    ALTER TABLE lake REPLICA IDENTITY FULL;
"""
# As somebody types it into psql.
BY_HAND = """
    INSERT INTO lake (order_id, customer_id, amount, status, partition_date)
    SELECT 'O-' || n, 'C-' || n % 3, 10 * n + 0.99, 'new', '2026-11-2' || n % 2
    FROM generate_series(1, 10) AS n;

    UPDATE lake SET status = 'paid', updated_at = now() WHERE order_id IN ('O-1', 'O-2');
    DELETE FROM lake WHERE order_id = 'O-3';
    UPDATE lake SET order_id = 'O-40' WHERE order_id = 'O-4';
    UPDATE lake SET partition_date = '2026-11-22' WHERE order_id = 'O-9';
    BEGIN;
    UPDATE lake SET status = 'cancelled' WHERE order_id = 'O-5';
    UPDATE lake SET amount = amount + 1 WHERE order_id = 'O-6';
    DELETE FROM lake WHERE order_id = 'O-7';
    INSERT INTO lake VALUES ('O-7', 'C-9', 7, 'paid', '2026-11-21');
    COMMIT;
    BEGIN;
    UPDATE lake SET status = 'paid' WHERE order_id = 'O-8';
    INSERT INTO lake VALUES ('O-11', 'C-1', 1, 'new', '2026-11-20');
    ROLLBACK;
    INSERT INTO lake VALUES ('O-12', 'C-1', 1, 'new', '2026-11-20', '0001-01-01 00:00+00');
    INSERT INTO lake VALUES ('O-13', 'C-1', 1, 'new', '2026-11-20', 'infinity');
"""
ACTIVE = "SELECT active FROM pg_replication_slots WHERE database = current_database()"


class Shop:
    """A lesson's database and connector, and the events on its topic."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.name = lab.connector("orders")
        self.connector = f"{lab.address('connect')}/connectors/{self.name}"
        self.consumer = Consumer(
            {"bootstrap.servers": lab.endpoints.kafka_bootstrap, "group.id": "test"}
        )

    def sql(self, text: str) -> list[tuple]:
        """Run a statement in the lesson's database; return the rows, if it has any."""
        with psycopg.connect(self.lab.postgres(), autocommit=True) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []

    def put_connector(self) -> None:
        """Create the connector; its configuration refers to the password without containing it."""
        database = conninfo_to_dict(self.lab.postgres())
        configuration = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": database["host"],
            "database.port": str(database["port"]),
            "database.user": database["user"],
            "database.password": "${env:POSTGRES_PASSWORD}",
            "database.dbname": database["dbname"],
            "plugin.name": "pgoutput",
            "publication.autocreate.mode": "filtered",
            "table.include.list": "public.orders,public.lake",
            # How soon it notices that its database has gone, and tries again
            "status.update.interval.ms": "500",
            "retriable.restart.connector.wait.ms": "500",
            "decimal.handling.mode": "string",
            "topic.prefix": self.lab.namespace,
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "1",
        }
        request_json("PUT", f"{self.connector}/config", configuration, timeout=PATIENCE_S)

    def events(self, count: int) -> list[tuple[str, str]]:
        """Check that the topic has exactly `count` events; return each one's operation and key."""
        wait_until(lambda: self.end() >= count)
        assert self.end() == count
        self.consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values = [json.loads(self.consumer.poll(20).value()) for _ in range(count)]
        return [(value["op"], value["after"]["id"]) for value in values]

    def end(self, topic: str = TOPIC) -> int:
        """Return the number of messages in the topic; 0 if the topic does not exist."""
        if topic not in self.consumer.list_topics(timeout=10).topics:
            return 0
        return self.consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]


@pytest.fixture(scope="module")
def shop(services):
    """Shop with a table of one row; a connector captures the table's changes."""
    lab_services.up(["postgres", "connect"], progress=lambda line: None)
    reset_lesson(LESSON)
    shop = Shop(Lab(LESSON, services, ("postgres", "connect")))
    shop.sql("CREATE TABLE orders (id text PRIMARY KEY)")
    shop.sql("INSERT INTO orders VALUES ('before')")
    shop.sql(LAKE)
    shop.put_connector()
    yield shop
    shop.consumer.close()
    reset_lesson(LESSON)


def test_a_row_that_is_inserted_arrives_as_an_event(shop):
    assert shop.events(1) == [("r", "before")]
    shop.sql("INSERT INTO orders VALUES ('after')")
    assert shop.events(2) == [("r", "before"), ("c", "after")]


def test_what_is_typed_into_the_database_is_in_the_table_exactly(shop):
    lab, topic = shop.lab, f"{LESSON_TOPICS}.lake"
    wait_until(lambda: shop.end() >= 1)  # the snapshot: from here on it follows the log
    shop.sql(BY_HAND)
    # Each delete and each changed key sends a tombstone, too; what is rolled back sends nothing.
    sent = 10 + 2 + 2 + 3 + 1 + 5 + 2
    wait_until(lambda: shop.end(topic) >= sent)
    assert shop.end(topic) == sent
    job = {"sinks": CHANGE_SINKS, "trigger_seconds": 0, "short": True}
    writer = lab.writer().start(lab.endpoints, topic, lab.base, **job)
    wait_until(lambda: writer.state()["state"] not in ("starting", "running"), 120)
    assert writer.state()["state"] == "stopped", writer.state()
    assert not any(writer.lag(lab.endpoints, {0: sent}).values())

    keys = [file.key for file in lab.files(lab.path("dead_changes")) if ".parquet" in file.key]
    tables = [pq.read_table(io.BytesIO(store.read(lab.endpoints, key))) for key in keys]
    letters = [row for table in tables for row in table.to_pylist()]
    assert [letter["reason"] for letter in letters] == ["impossible_timestamp"]
    finite = "WHERE updated_at < 'infinity' ORDER BY order_id"
    wanted = shop.sql(f"SELECT {COLUMNS} FROM lake {finite}")
    assert len(wanted) == 10 and rows_of(lab, "orders_changes") == wanted
    noted = (writer.folder / "progress.jsonl").read_text().splitlines()
    (ends,) = [batch[LOG_ENDS] for batch in map(json.loads, noted) if LOG_ENDS in batch]
    assert ends["newest"]["position"] == ends["furthest"]["position"] > "0" * 41


def rows_of(lab: Lab, table: str) -> list[tuple]:
    """Return the rows of a Hudi table, read without Spark, sorted by key."""
    store.export_environment(lab.endpoints)
    address = lab.path(table).replace("s3a://", "s3://")
    batches = HudiTableBuilder.from_base_uri(address).build().read()
    rows = pa.Table.from_batches(batches).select(COLUMNS.split(", ")).sort_by("order_id")
    return [tuple(row.values()) for row in rows.to_pylist()]


def test_both_are_listed_listen_on_this_machine_only_and_show_no_password(shop):
    rows = {row.name: row for row in lab_services.status()}
    for name in ("postgres", "connect"):
        assert (rows[name].state, rows[name].address) == ("ready", shop.lab.address(name))
        assert listening(process_tree(rows[name].pid)) == {"127.0.0.1"}
    password = secrets()["postgres_password"]
    assert programs_showing(password) == []
    assert password not in json.dumps(request_json("GET", shop.connector))
    assert password not in supervisor.log_tail("connect", 1000)


def stop_connector(shop) -> None:
    """Stop the connector; wait until its task has stored the offsets and released its slot."""
    request_json("PUT", f"{shop.connector}/stop", timeout=PATIENCE_S)
    with psycopg.connect(shop.lab.postgres(), autocommit=True) as database:
        wait_until_confirmed(database, "debezium")


def test_a_killed_postgres_comes_back_with_its_rows_and_the_connector_goes_on(shop):
    stop_connector(shop)
    request_json("PUT", f"{shop.connector}/resume")
    wait_until(lambda: shop.sql(ACTIVE) == [(True,)])
    kill_service("postgres")
    lab_services.up(["postgres"], progress=lambda line: None)
    assert shop.sql("SELECT count(*) FROM orders") == [(2,)]
    shop.sql("INSERT INTO orders VALUES ('later')")
    assert shop.events(3)[-1] == ("c", "later")


def test_a_killed_worker_forgets_its_connector_and_goes_on_from_its_offsets(shop):
    stop_connector(shop)
    kill_service("connect")
    shop.sql("INSERT INTO orders VALUES ('meanwhile')")
    lab_services.up(["connect"], progress=lambda line: None)
    assert request_json("GET", f"{shop.lab.address('connect')}/connectors") == []
    shop.put_connector()
    assert shop.events(4)[-1] == ("c", "meanwhile")


def test_a_reset_removes_all_that_a_lesson_has_there(shop):
    shop.sql("ALTER SYSTEM SET max_slot_wal_keep_size = '1GB'")
    request_json("PUT", f"{shop.connector}/stop", timeout=PATIENCE_S)
    kill_service("connect")  # its connector is forgotten now, the offsets are not
    removed = reset_lesson(LESSON)
    kinds = ("topics", "replication slots", "databases", "connectors")
    assert [removed[kind] for kind in kinds] == [2, 1, 1, 1]
    again = reset_lesson(LESSON)
    assert {kind: again[kind] for kind in kinds} == dict.fromkeys(kinds, 0)
    assert shop.sql("SELECT FROM pg_replication_slots WHERE slot_name = 'debezium'") == []
    assert shop.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == []
    assert shop.sql("SHOW max_slot_wal_keep_size") == [("-1",)]
    # Without its offsets the connector begins anew, in a topic of its own.
    shop.sql("CREATE TABLE orders (id text PRIMARY KEY)")
    shop.sql("INSERT INTO orders VALUES ('new')")
    shop.put_connector()
    assert shop.events(1) == [("r", "new")]
    assert reset_lesson(LESSON)["connectors"] == 1  # while it runs
