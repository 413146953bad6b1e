"""Lesson 15's Kafka Connect client, functions that wait for changes, and drawings.

A change reaches Kafka a moment after its commit, because the connector must first read it from the
log. `wait_for_connector` writes a marker to the same log and waits until it arrives in Kafka.
"""

import base64
import contextlib
import json
import time
import urllib.error
import uuid
from collections.abc import Callable, Sequence
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
ENVELOPE = ("op", "before", "after", "source.lsn")


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


def end_of(lab, topic: str) -> int:
    """Return the end offset of a topic with one partition."""
    return topic_end_offsets(lab.endpoints.kafka_bootstrap, topic)[0]


def wait_for_records(lab, topic: str, end: int) -> None:
    """Wait until a topic's end offset is at least `end`; raise LabError after `TIMEOUT_S` s."""

    def wrong() -> str:
        found = end_of(lab, topic)
        return "" if found >= end else f"{topic} ends at {found}, not at {end},"

    _wait_while(wrong, "ask for the connector's status, then run: lab logs connect")


def show(records) -> pd.DataFrame:
    """Return the key and envelope fields of change records; NULL values stay NULL."""
    parts = [f"get_json_object(CAST(value AS STRING), '$.{part}')" for part in ENVELOPE]
    rows = records.selectExpr("offset", "CAST(key AS STRING)", *parts)
    return rows.toDF("offset", "key", *(part.rpartition(".")[2] for part in ENVELOPE)).toPandas()


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
    """A transaction and its positions in the log."""

    name: str  # what the transaction did
    now: datetime  # result of `now()` in it
    began: Decimal  # position of the log when it began
    changed: int  # LSN of its change
    committed: Decimal  # position of the log after its commit


def draw_lanes(lanes: Sequence[Lane]) -> str:
    """Draw transactions as lanes over the log: where each began, changed the order, and committed.

    The axis shows the events in sequence, not to scale, because an idle log hardly grows.
    """
    events = sorted(
        event
        for lane in lanes
        for event in (
            # A change begins where the commit before it ends, so at one position it comes last.
            (int(lane.began), 0, lane.now, lane.name, "begins"),
            (lane.changed, 1, lane.now, lane.name, "changes O-17"),
            (int(lane.committed), 0, lane.now, lane.name, "commits"),
        )
    )
    place = {(name, what): number for number, (*_, name, what) in enumerate(events)}
    figure, axes = new_chart(
        "Two transactions, one order", "position of the log (LSN)", "", width=7.6, height=2.6
    )
    for row, lane in enumerate(reversed(lanes)):
        colour = (GREEN, BLUE)[row % 2]
        ends = [place[lane.name, "begins"], place[lane.name, "commits"]]
        axes.plot(ends, [row, row], color=colour, linewidth=8, alpha=0.45)
        marks = (("begins", "o", 7), ("changes O-17", "D", 10), ("commits", "s", 9))
        for what, marker, size in marks:
            x = place[lane.name, what]
            axes.plot(x, row, marker, color=INK if what == "begins" else colour, markersize=size)
            axes.annotate(what, (x, row - 0.4), color=INK, fontsize=9, ha="center")
        clock = f"now() = {lane.now:%H:%M:%S.%f}"[:-3]
        axes.annotate(clock, (ends[0], row + 0.24), color=INK, fontsize=9, ha="center")
    axes.set_yticks(range(len(lanes)), [lane.name for lane in reversed(lanes)])
    axes.set_xticks(range(len(events)), [f"{event[0]:,}" for event in events])
    axes.set(ylim=(-0.6, len(lanes) - 0.4), xlim=(-0.7, len(events) - 0.5))
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
