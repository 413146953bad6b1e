"""Lesson 15's shop, its Kafka Connect client, functions that wait for changes, and drawings.

A change reaches Kafka a moment after its commit, because the connector must first read it from the
log. `wait_for_connector` writes a marker to the same log and waits until it arrives in Kafka.
"""

import base64
import contextlib
import json
import random
import time
import urllib.error
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import pandas as pd

from lab_env.platform.brokers.topics import topic_end_offsets
from lab_env.platform.display.chart import INK, new_chart, svg
from lab_env.platform.display.palette import AMBER, BLUE, GREEN, GREY, SKY, VERMILION
from lab_env.platform.errors import LabError
from lab_env.platform.services import request_json

TIMEOUT_S = 90
MARKER = "lab"  # the prefix of the markers among the logical messages
MB = 1024 * 1024
SHOWN = ("op", "before", "after", "source.lsn")

ORDERS = """
    CREATE TABLE orders (
        order_id text PRIMARY KEY,
        customer_id text NOT NULL,
        amount numeric(12,2) NOT NULL,
        status text NOT NULL,
        order_date date NOT NULL,
        updated_at timestamptz NOT NULL DEFAULT now());
    INSERT INTO orders
    SELECT 'O-' || i, 'C-' || i % 300, 5 + i * 37 % 9000 / 100.0,
           (ARRAY['shipped', 'new', 'paid', 'packed'])[1 + i % 4], DATE '2026-11-20',
           TIMESTAMPTZ '2026-11-20 09:00+00' + i * INTERVAL '1 second'
    FROM generate_series(1, 1000) AS i;
    CREATE TABLE signals (id text PRIMARY KEY, type text NOT NULL, data text)
"""
_ROW = """order_id STRING, customer_id STRING, amount STRING, status STRING, order_date INT,
          updated_at STRING, channel STRING"""
# The schema of a record's value, as far as the lesson needs it.
ENVELOPE = (
    f"op STRING, before STRUCT<{_ROW}>, after STRUCT<{_ROW}>, source STRUCT<sequence: STRING>"
)
# Two positions: of the last commit before the change's transaction, and of the change. Rows that an
# incremental snapshot reads have no `source.lsn`.
_SEQUENCE = "from_json(change.source.sequence, 'ARRAY<STRING>')"
_COMMIT, _OWN = f"coalesce({_SEQUENCE}[0], {_SEQUENCE}[1])", f"{_SEQUENCE}[1]"
# An expression for each column of the Hudi table.
COLUMNS = (
    "image.order_id",
    "image.customer_id",
    "CAST(image.amount AS DECIMAL(12,2)) AS amount",
    "image.status",
    "image.channel",  # the shop's next release will add it
    "CAST(image.updated_at AS TIMESTAMP) AS updated_at",
    "CAST(date_from_unix_date(image.order_date) AS STRING) AS partition_date",
    f"CAST({_COMMIT} AS BIGINT) AS commit_lsn",
    f"CAST({_OWN} AS BIGINT) AS lsn",
    f"lpad({_COMMIT}, 20, '0') || '-' || lpad({_OWN}, 20, '0') AS log_position",  # sorts like both
    "change.op",
    "_hoodie_is_deleted",
)


def open_shop(lab) -> tuple:
    """Connect to the shop's database and create its thousand orders.

    Returns the connection, in autocommit mode, and a function that runs a statement and returns
    its rows, if it has any.
    """
    import psycopg

    db = psycopg.connect(lab.postgres(), autocommit=True)
    db.execute(ORDERS)

    def run_sql(statement: str, values: Sequence | None = None):
        cursor = db.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else None

    return db, run_sql


def five_orders(spark) -> tuple:
    """Return change records of five orders, as a DataFrame, and their statuses in the database."""
    from lab_env.lessons.l15.checks import PAIRS, made_up_pairs

    changes, last = made_up_pairs(random.Random(15))
    return spark.createDataFrame(changes, PAIRS), dict(last)


class NightlyJob:
    """A job that copies the orders that have changed since its last run, and upserts them by key.

    `rows` is its copy: the newest version of each order that it has selected.
    """

    def __init__(self, run_sql: Callable):
        self._run_sql = run_sql
        self._last_run: object = "-infinity"
        self._copy: dict[str, tuple] = {}

    def run(self) -> int:
        """Run the job once; return the number of rows that it selected."""
        began = self._run_sql("SELECT now()")[0][0]
        query = "SELECT * FROM orders WHERE updated_at > %s"
        selected = self._run_sql(query, [self._last_run])
        self._copy |= {row[0]: row for row in selected}
        self._last_run = began
        return len(selected)

    @property
    def rows(self) -> list[tuple]:
        return [*self._copy.values()]


def records_of(lab, topic: str, first: int = 0):
    """Return the records of a topic with one partition, from an offset on, as Spark reads them."""
    reader = lab.spark.read.format("kafka").option("subscribe", topic)
    reader = reader.option("kafka.bootstrap.servers", lab.endpoints.kafka_bootstrap)
    return reader.option("startingOffsets", json.dumps({topic: {"0": first}})).load()


def differences(run_sql: Callable, rows: Iterable[Sequence]) -> dict[str, list[tuple]]:
    """Compare a copy of the orders, row by row, with the database.

    `rows` start with order_id, customer_id, amount, status and order date. Returns the rows that
    only the database has, and those that only the copy has.
    """
    database = Counter(map(_order, run_sql("SELECT * FROM orders")))
    copy = Counter(map(_order, rows))
    return {
        "only in the database": sorted((database - copy).elements()),
        "only in the copy": sorted((copy - database).elements()),
    }


def _order(row: Sequence) -> tuple:
    return (*row[:4], str(row[4]))


def board(run_sql: Callable, **copies: Iterable[Sequence]) -> pd.DataFrame:
    """Return the revenue by status, from the database and from each copy of its orders."""
    sums = {"database": run_sql("SELECT * FROM orders"), **copies}
    found: dict[str, dict[str, Decimal]] = {name: {} for name in sums}
    for name, rows in sums.items():
        for _, _, amount, status, *_ in rows:
            found[name][status] = found[name].get(status, Decimal(0)) + amount
    return pd.DataFrame(found).fillna(Decimal(0)).sort_index()


def connection(lab, db) -> dict[str, str]:
    """Return those lines of the connector's configuration that are the same for any table."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": db.info.host,
        "database.port": str(db.info.port),
        "database.user": db.info.user,
        "database.password": "${env:POSTGRES_PASSWORD}",  # Connect reads it from its environment
        "database.dbname": db.info.dbname,
        "topic.prefix": lab.namespace,
        "plugin.name": "pgoutput",  # PostgreSQL's own way to decode its log
        "publication.name": "orders",
        "publication.autocreate.mode": "filtered",  # publish the listed tables, not all
        "signal.data.collection": "public.signals",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
    }


class Connect:
    """A client of Kafka Connect's REST API; each call returns the decoded response, or None.

    A call raises `LabError` if Connect does not respond or rejects it; the error includes
    Connect's reason.
    """

    def __init__(self, lab):
        self._address = lab.address("connect")

    def get(self, path: str):
        """Read a resource, for example `/connectors`."""
        return self._call("GET", path)

    def put(self, path: str, body: object = None):
        """Write a resource, for example `/connectors/NAME/config`; `body` is sent as JSON."""
        return self._call("PUT", path, body)

    def delete(self, path: str):
        """Delete a resource, for example `/connectors/NAME/offsets`."""
        return self._call("DELETE", path)

    def wait_until(self, path: str, state: str) -> None:
        """Wait until a connector's status, at `/connectors/NAME/status`, has this state.

        For `STOPPED`, also wait until no tasks are left. Raises `LabError` after `TIMEOUT_S`
        seconds.
        """

        def wrong() -> str:
            status = self.get(path)
            found = status["connector"]["state"]
            if found == state and not (state == "STOPPED" and status["tasks"]):
                return ""
            return f"The connector is {found}, not {state},"

        _wait_while(wrong, "run: lab logs connect")

    def watch(self, path: str, seconds: float) -> list:
        """Read a resource repeatedly for some seconds, at least twice; return all responses."""
        answers, until = [self.get(path)], time.monotonic() + seconds
        while len(answers) < 2 or time.monotonic() < until:
            time.sleep(0.2)
            answers.append(self.get(path))
        return answers

    def wait_until_up(self) -> list[str]:
        """Wait until Connect responds, for example after a restart; return its connectors."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return self.get("/connectors")
            except LabError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def _call(self, method: str, path: str, body: object = None):
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return request_json(method, self._address + path, body, timeout=TIMEOUT_S)
            except urllib.error.HTTPError as error:
                why = _reason(error)
                # 409: the worker is still changing a connector's state.
                if error.code != 409 or time.monotonic() > deadline:
                    what = f"Kafka Connect refuses {method} {path}: {why}"
                    raise LabError(what, "compare the path and the configuration") from None
            except OSError as error:
                what = f"Kafka Connect does not answer ({error})."
                next_step = "run: lab up connect   (then run the cell again)"
                raise LabError(what, next_step) from None
            time.sleep(0.2)


def _wait_while(wrong: Callable[[], str], next_step: str) -> None:
    """Wait until `wrong` returns empty text; raise its text as LabError after `TIMEOUT_S` s."""
    deadline = time.monotonic() + TIMEOUT_S
    while what := wrong():
        if time.monotonic() > deadline:
            raise LabError(f"{what} after {TIMEOUT_S} seconds.", next_step)
        time.sleep(0.1)


def _reason(error: urllib.error.HTTPError) -> str:
    """Return Connect's reason for rejecting a call, without the stack trace."""
    text = error.read().decode(errors="replace")
    with contextlib.suppress(ValueError):
        text = json.loads(text).get("message", text)
    return next((line.strip() for line in text.splitlines() if line.strip()), f"HTTP {error.code}")


def wait_for_connector(lab, db) -> None:
    """Wait until the connector has sent everything that is committed now.

    Writes markers to the database's log (`pg_logical_emit_message`) until one has arrived: a
    marker written before the connector has its slot never arrives. Markers have their own topic
    and may overtake the many records of a snapshot: after a snapshot, also call
    `wait_for_records`. The connection `db` must be in autocommit mode.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": lab.endpoints.kafka_bootstrap,
            "group.id": "lab",  # required; nothing is committed
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 300,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    sent: set[str] = set()
    deadline = time.monotonic() + TIMEOUT_S
    try:
        consumer.assign([TopicPartition(lab.topic("message"), 0, OFFSET_BEGINNING)])
        while time.monotonic() < deadline:
            marker = uuid.uuid4().hex
            db.execute("SELECT pg_logical_emit_message(true, %s, %s)", [MARKER, marker])
            sent.add(marker)
            if _arrived(consumer, sent, seconds=1):
                return
    finally:
        consumer.close()
    raise LabError(
        f"The connector has sent nothing for {TIMEOUT_S} seconds.",
        "ask for the connector's status, then run: lab logs connect",
    )


def _arrived(consumer, sent: set[str], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        message = consumer.poll(0.1)
        if message is None or message.error() or message.value() is None:
            continue
        content = (json.loads(message.value()).get("message") or {}).get("content")
        if content and base64.b64decode(content).decode(errors="replace") in sent:
            return True
    return False


def read_again(lab, db, order_id: str) -> None:
    """Request an incremental snapshot of one order; return when its record is in the topic.

    The record is the topic's next one. The connection `db` must be in autocommit mode.
    """
    topic = lab.topic("public.orders")
    end = end_of(lab, topic)
    condition = {"data-collection": "public.orders", "filter": f"order_id = '{order_id}'"}
    request = {
        "type": "incremental",
        "data-collections": ["public.orders"],
        "additional-conditions": [condition],
    }
    signal = [uuid.uuid4().hex, "execute-snapshot", json.dumps(request)]
    db.execute("INSERT INTO signals VALUES (%s, %s, %s)", signal)
    wait_for_records(lab, topic, end + 1)


def end_of(lab, topic: str) -> int:
    """Return the end offset of a topic with one partition."""
    return topic_end_offsets(lab.endpoints.kafka_bootstrap, topic)[0]


def wait_for_snapshot(lab, db, topic: str, end: int) -> None:
    """Wait until the connector follows the log, and until the topic's end offset is `end`."""
    wait_for_connector(lab, db)
    wait_for_records(lab, topic, end)


def wait_for_records(lab, topic: str, end: int) -> None:
    """Wait until a topic's end offset is at least `end`; raise LabError after `TIMEOUT_S` s."""

    def wrong() -> str:
        found = end_of(lab, topic)
        return "" if found >= end else f"{topic} ends at {found}, not at {end},"

    _wait_while(wrong, "ask for the connector's status, then run: lab logs connect")


def show(records) -> pd.DataFrame:
    """Return the key and envelope fields of change records; NULL values stay NULL."""
    parts = [f"get_json_object(CAST(value AS STRING), '$.{part}')" for part in SHOWN]
    rows = records.selectExpr("offset", "CAST(key AS STRING)", *parts)
    return rows.toDF("offset", "key", *(part.rpartition(".")[2] for part in SHOWN)).toPandas()


def be_busy(db) -> None:
    """Insert 50,000 rows (100 bytes of log each) into `clicks`, which is not replicated."""
    db.execute("CREATE TABLE IF NOT EXISTS clicks (id bigint, page text)")
    db.execute("INSERT INTO clicks SELECT i, md5(i::text) FROM generate_series(1, 50000) AS i")


def wait_until_confirmed(db, slot: str) -> None:
    """Wait until a stopping connector has confirmed what it has read, and has released its slot.

    Kafka Connect may report a connector as STOPPED while its task is still storing its offsets;
    the task then releases the slot. The connection `db` must be in autocommit mode.
    """
    # The database logs some of its own work meanwhile.
    query = """
        SELECT NOT active AND pg_current_wal_lsn() - confirmed_flush_lsn < 1000000
        FROM pg_replication_slots WHERE slot_name = %s
    """

    def wrong() -> str:
        if db.execute(query, [slot]).fetchone() == (True,):
            return ""
        return f"The reader of the slot {slot} still holds it, or has not confirmed the log"

    _wait_while(wrong, "run the cell again: it resumes the connector first.")


def checkpoint_until_lost(db, slot: str) -> None:
    """Run checkpoints, which apply `max_slot_wal_keep_size`, until a slot is lost.

    One may not be enough, because `pg_reload_conf` does not wait until PostgreSQL's processes have
    read the new limit. The connection `db` must be in autocommit mode.
    """
    query = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s"

    def wrong() -> str:
        db.execute("CHECKPOINT")
        found = db.execute(query, [slot]).fetchone()
        if found == ("lost",):
            return ""
        return f"The slot {slot} is {found[0] if found else 'not there'}, not lost,"

    next_step = "ask with: SHOW max_slot_wal_keep_size   (it must say 4MB), then run the cell again"
    _wait_while(wrong, next_step)


@dataclass(frozen=True)
class Lane:
    """A transaction or a read, and what it did at which positions of the log."""

    name: str
    events: Sequence[tuple[str, Decimal | int]]  # in sequence
    now: datetime | None = None  # result of `now()` in the transaction


def draw_lanes(lanes: Sequence[Lane]) -> str:
    """Draw transactions as lanes over the log: where each began, changed the order, and committed.

    The axis shows the events in sequence, not to scale, because an idle log hardly grows.
    """
    # A change begins where the commit before it ends, so at one position it comes last.
    events = sorted(
        (int(position), what not in ("begins", "commits"), number, what)
        for number, lane in enumerate(lanes)
        for what, position in lane.events
    )
    place = {(number, what): x for x, (*_, number, what) in enumerate(events)}
    figure, axes = new_chart(
        "Who was last?", "position of the log (LSN), not to scale", "", width=7.6, height=2.6
    )
    for number, lane in enumerate(lanes):
        row, colour = len(lanes) - 1 - number, (BLUE, GREEN)[number % 2]
        xs = [place[number, what] for what, _ in lane.events]
        axes.plot([xs[0], xs[-1]], [row, row], color=colour, linewidth=8, alpha=0.45)
        for (what, _), x in zip(lane.events, xs, strict=True):
            marker, size = {"begins": ("o", 7), "commits": ("s", 9)}.get(what, ("D", 10))
            axes.plot(x, row, marker, color=INK if what == "begins" else colour, markersize=size)
            axes.annotate(what, (x, row - 0.4), color=INK, fontsize=9, ha="center")
        if lane.now:
            clock = f"now() = {lane.now:%H:%M:%S.%f}"[:-3]
            axes.annotate(clock, (xs[0], row + 0.24), color=INK, fontsize=9, ha="center")
    axes.set_yticks(range(len(lanes)), [lane.name for lane in reversed(lanes)])
    axes.set_xticks(range(len(events)), [f"{position:,}" for position, *_ in events])
    axes.set(ylim=(-0.6, len(lanes) - 0.4), xlim=(-0.7, len(events) - 0.5))
    return svg(figure)


def draw_chain() -> str:
    """Draw the programs between the database and the lake, with the bookmark that each keeps."""
    boxes = (
        ("PostgreSQL", "rows and log", "the slot"),
        ("Kafka Connect", "Debezium", "Connect's offsets"),
        ("Kafka", "one topic\nfor a table", ""),
        ("Spark", "a stream", "the checkpoint"),
        ("lake", "a Hudi table", ""),
    )
    figure, axes = new_chart("From the database to the lake", "", "", width=7.6, height=1.9)
    for x, (name, what, bookmark) in enumerate(boxes):
        axes.barh(0, 0.72, left=x, height=1, color=BLUE if bookmark else GREY, alpha=0.35)
        axes.annotate(
            name, (x + 0.36, 0.25), ha="center", va="center", weight="bold", color=INK, fontsize=9
        )
        axes.annotate(what, (x + 0.36, -0.2), ha="center", va="center", color=INK, fontsize=9)
        if x:
            arrow = {"arrowstyle": "->", "color": INK}
            axes.annotate("", (x, 0), (x - 0.28, 0), arrowprops=arrow)
        if bookmark:
            axes.plot(x + 0.36, -0.72, "^", color=VERMILION, markersize=9)
            axes.annotate(
                bookmark, (x + 0.36, -1.1), ha="center", va="center", color=INK, fontsize=9
            )
    axes.set(xlim=(-0.05, len(boxes) - 0.2), ylim=(-1.35, 0.6))
    axes.axis("off")
    return svg(figure)


def draw_wal(steps: Sequence[tuple[str, Decimal | None]], limit_mb: float) -> str:
    """Draw the bytes of WAL kept for a slot after each step; None or 0 means that the slot is lost.

    The limit was set before the last step.
    """
    figure, axes = new_chart("WAL kept for the slot", "", "MB", width=7.6, height=2.8)
    for number, (_, kept) in enumerate(steps):
        if not kept:
            axes.plot(number, limit_mb / 2, "X", color=VERMILION, markersize=14)
            axes.annotate("lost", (number, limit_mb * 1.15), color=INK, ha="center", fontsize=9)
            continue
        size = float(kept) / MB
        axes.bar(number, size, color=AMBER, width=0.6)
        place = (number, size)
        axes.annotate(f"{size:.1f}", place, color=INK, ha="center", va="bottom", fontsize=9)
    axes.plot([len(steps) - 1.5, len(steps) - 0.5], [limit_mb] * 2, color=VERMILION, linewidth=1)
    names = [name.replace(" ", "\n", 1) for name, _ in steps]
    axes.set_xticks(range(len(steps)), names, fontsize=8)
    axes.margins(y=0.15)
    return svg(figure)


def draw_versions(versions: pd.DataFrame) -> str:
    """Draw orders' versions as bars over the LSN; a current version ends in an arrow."""
    positions = sorted({*versions["valid_from"], *versions["valid_to"].dropna()})
    place = {position: number for number, position in enumerate(positions)}
    orders = sorted(versions["order_id"].unique(), reverse=True)
    label = "positions of the log, in order; an arrow: current"
    figure, axes = new_chart("Versions of some orders", label, "", width=7.6, height=3.2)
    for version in versions.itertuples():
        row, begin = orders.index(version.order_id), place[version.valid_from]
        current = pd.isna(version.valid_to)
        end = len(positions) if current else place[version.valid_to]
        colour = _colour_of(version.status)
        if current:
            axes.plot(end + 0.12, row, ">", color=INK, markersize=9, clip_on=False)
        axes.barh(row, end - begin, left=begin, height=0.55, color=colour, edgecolor=INK, alpha=0.5)
        text, middle = f"{version.status}\n{version.amount}", ((begin + end) / 2, row)
        axes.annotate(text, middle, color=INK, ha="center", va="center", fontsize=8)
    axes.set_yticks(range(len(orders)), orders)
    axes.set_xticks(range(len(positions)), [f"{int(position):,}" for position in positions])
    axes.tick_params(axis="x", labelrotation=35, labelsize=7)
    axes.set_xlim(-0.1, len(positions) + 0.3)
    return svg(figure)


def _colour_of(status: str) -> str:
    colours = {"new": SKY, "paid": GREEN, "packed": BLUE, "shipped": AMBER, "cancelled": VERMILION}
    return colours.get(status, GREY)
