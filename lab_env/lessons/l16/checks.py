"""Checks of lesson 16: which fields an alarm names, and what readers find in a table after a write.

The expected values come from the topic itself, read without Spark, and from the table before.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.utils import AnalysisException

from lab_env.course.answers import Unreadable, as_frame, plain
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.hudi_rs import rows_of
from lab_env.lessons.l16.figures import counts_of, send_events
from lab_env.lessons.streams import in_batches, own_streams_stopped, scratch_topic, started
from lab_env.lessons.table_copies import left_alone, scratch_copy

KNOWN = ("order_id", "status", "amount", "delivery")
EVENT_V2 = (
    "order_id STRING, status STRING, amount DECIMAL(12,2), items INT, weight DOUBLE, "
    "delivery STRUCT<city: STRING>, order_ts TIMESTAMP, partition_date STRING, coupon STRING"
)
NAMES = ("gift_note", "channel", "loyalty_points", "voucher", "carrier", "basket_id")
READ_TIMEOUT_S = 10.0
QUERY_TIMEOUT_S = 120


@dataclass(frozen=True)
class Alarm:
    """What an alarm named.

    Args:
        expected: unknown field to the number of events that carry it.
        named: what the answer returned, likewise.
        malformed: the text of the malformed events.
    """

    expected: Mapping[str, int]
    named: Mapping[str, int]
    malformed: tuple[str, ...] = ()


@check_of("16.1")
class TheAlarm:
    """Unknown fields of events, counted."""

    @staticmethod
    def observe(lab, answer: Callable) -> Alarm:
        """Give the function events with fields of other names, among them two malformed ones."""
        chosen = random.Random()
        fields = dict(zip(chosen.sample(NAMES, 3), (1, 7, 12), strict=True))
        texts = []
        for number in range(20):
            event = {"order_id": f"O-{number}", "status": "new", "amount": 59.9}
            event["delivery"] = {"city": "Ulm", "floor": 3}  # a field of a field is not asked for
            for name, count in fields.items():
                if number < count:
                    event[name] = chosen.choice(["a", 7, [1], {"b": 2}])
            texts.append(json.dumps(event))
        malformed = ('{"order_id":"O-98","amount":"EUR 59.90"}', "ERROR checkout")
        rows = [(bytearray(text, "utf-8"),) for text in (*texts, *malformed)]
        records = lab.spark.createDataFrame(rows, "value BINARY")
        return Alarm(fields, counts_of(answer(records, list(KNOWN))), malformed)

    @staticmethod
    def judge(facts: Alarm) -> Passed | NotYet:
        """Each unknown field with its number of events, and nothing else."""
        if dict(facts.named) == dict(facts.expected):
            return Passed(
                f"{', '.join(sorted(facts.expected))}: named and counted. "
                "Ask it after each batch, or once an hour."
            )
        wanted = ", ".join(f"{name} ({count})" for name, count in sorted(facts.expected.items()))
        if not facts.named:
            return NotYet(
                "None, you say: `from_json` dropped it before you looked. The check's events "
                f"carry {wanted}. Look at the text, not at the parsed columns."
            )
        if any(name in facts.malformed for name in facts.named):
            return NotYet(
                "You return the text of malformed events. An extra field is no error: the events "
                f"that carry {wanted} are valid."
            )
        news = facts.named.keys() & set(KNOWN)
        if news:
            return NotYet(f"{', '.join(sorted(news))}: known fields are no news.")
        return NotYet(
            f"Your function names {_counted(facts.named)}; the check's events carry {wanted}."
        )


def _counted(counts: Mapping[str, int]) -> str:
    shown = [f"{name[:40]} ({count})" for name, count in sorted(counts.items())]
    return ", ".join(shown[:4])


@dataclass(frozen=True)
class Backfilled:
    """A copy of the table after the answer.

    Args:
        expected: orders whose newest event names a coupon.
        before: orders with a coupon before.
        after: orders with the right coupon after.
        wrong: orders with a coupon that no event of theirs names.
        rows: of the table, before and after.
        new_query: whether a query with a new checkpoint ran.
        new_commits: completed writes of the answer.
        lost_commits: completed writes that the table had before and has no more.
    """

    expected: int
    before: int
    after: int
    wrong: int = 0
    rows: tuple[int, int] = (0, 0)
    new_query: bool = False
    new_commits: int = 0
    lost_commits: int = 0


@check_of("16.2")
class Backfill:
    """Coupons of earlier events, in the table."""

    @staticmethod
    def observe(lab, answer: Callable) -> Backfilled:
        """Let the function fill a copy of the table, with a copy of the stream's checkpoint."""
        events = sorted(read_topic(lab, lab.topic("orders")), key=lambda event: event["order_ts"])
        named = {(event["order_id"], event.get("coupon")) for event in events}
        # A replay leaves what the newest event says: later in the lesson some name no coupon.
        newest = {event["order_id"]: event.get("coupon") for event in events}
        coupons = {order: coupon for order, coupon in newest.items() if coupon}
        path = scratch_copy(lab, lab.path("orders"), "backfill")
        checkpoint = scratch_copy(lab, lab.path("_checkpoints/orders"), "checkpoint")
        old = lab.xray(path).completed_writes.keys()
        before, queries = coupons_in(path), _first_batches(lab)
        answer(path, checkpoint)
        after, new = coupons_in(path), lab.xray(path).completed_writes.keys()
        return Backfilled(
            expected=len(coupons),
            before=sum(value is not None for value in before.values()),
            after=sum(after.get(order) == coupon for order, coupon in coupons.items()),
            wrong=sum(bool(value) and (o, value) not in named for o, value in after.items()),
            rows=(len(before), len(after)),
            new_query=_first_batches(lab) > queries,
            new_commits=len(new - old),
            lost_commits=len(old - new),
        )

    @staticmethod
    def judge(facts: Backfilled) -> Passed | NotYet:
        """Every coupon of the topic is in the table, not a row more, and the history is there."""
        missing = facts.expected - facts.after
        if facts.lost_commits:
            return NotYet(
                f"You have replaced the table: {facts.lost_commits} commits are gone, and with "
                "them time travel and what streams go by. A backfill upserts."
            )
        if facts.rows[0] != facts.rows[1]:
            return NotYet(
                f"The table had {facts.rows[0]} rows and has {facts.rows[1]} now. "
                "A replay has to upsert."
            )
        if facts.wrong:
            return NotYet(f"{facts.wrong} orders have a coupon that no event of theirs names.")
        if not missing:
            return Passed(f"All {facts.expected} coupons are in the table.")
        if facts.new_commits:
            return NotYet(
                f"{facts.new_commits} commits more, and {missing} orders still lack their coupon. "
                "Did you parse with EVENT_V2, from the earliest offset?"
            )
        if facts.new_query:
            return NotYet(
                f"{facts.after - facts.before} filled: your query began at batch 0, and Hudi skips "
                "batch numbers it knows. The table remembers the last batch of this writer; the "
                "name under which it does so is an option."
            )
        return NotYet(
            f"{missing} earlier orders stay empty: their events lie before the offset at which "
            "this checkpoint goes on."
        )


def coupons_in(path: str) -> dict[str, str | None]:
    """Order id to coupon, as the table holds them now."""
    rows = rows_of(path)
    return dict(zip(*(rows[name].to_pylist() for name in ("order_id", "coupon")), strict=True))


def _first_batches(lab) -> int:
    """How many streaming queries of this lesson have ever planned a batch 0."""
    return sum(found.key.endswith("/offsets/0") for found in lab.files(lab.base))


def read_topic(lab, topic: str) -> list[dict]:
    """The events of a topic, without Spark, in the order of each partition.

    Raises:
        Unreadable: the broker does not deliver them.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": lab.endpoints.kafka_bootstrap,
            "group.id": "lesson-16-check",
            "enable.auto.commit": False,
            "log_level": 2,
        }
    )
    try:
        partitions = consumer.list_topics(topic, READ_TIMEOUT_S).topics[topic].partitions
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), READ_TIMEOUT_S)[1]
            for number in partitions
        }
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        values: list[bytes] = []
        while missing := sum(ends.values()) - len(values):
            messages = consumer.consume(missing, READ_TIMEOUT_S)  # returns when it has so many
            if not messages:
                raise Unreadable("The topic cannot be read just now. Look at `lab status`.")
            values += [message.value() or b"" for message in messages]
    finally:
        consumer.close()
    return [json.loads(value) for value in values]


Order = Mapping[str, str | None]  # column to value, as text


@dataclass(frozen=True)
class Updated:
    """A copy of the table after two batches of updates by two versions of the app.

    Args:
        expected: by order id, what it must be.
        found: by order id, what it is; an order that is missing is left out.
        old_app: orders that the old version updated.
        lost: rows that went or came beside the new order.
        given_first: an order that the new version gives a coupon in the first batch; the old
            version updates it in the second.
    """

    expected: Mapping[str, Order]
    found: Mapping[str, Order]
    old_app: tuple[str, ...]
    lost: int = 0
    given_first: str = ""


@check_of("16.3")
class TwoAppVersions:
    """A stream of updates that know no coupon and must not erase one."""

    @staticmethod
    def observe(lab, answer: Callable) -> Updated:
        """Update orders with and without coupon, from both versions of the app; add one order."""
        path = scratch_copy(lab, lab.path("orders"), "versions")
        before = rows_of(path).to_pylist()
        rows = [row for row in before if row["partition_date"] == "2026-11-20"]
        chosen = random.Random()
        having = chosen.sample([row for row in rows if row["coupon"]], 4)
        lacking = chosen.sample([row for row in rows if not row["coupon"]], 3)
        old_app = [*having[:3], *lacking[:2]]
        first = [_changed(row, "shipped", None) for row in old_app]
        first += [_changed(row, "shipped", "SORRY5") for row in (having[3], lacking[2])]
        first.append(_changed(having[0], "new", "HELLO", order_id="O-9001"))
        second = [_changed(row, "returned", None, hour=23) for row in (having[0], lacking[2])]
        checkpoint = lab.scratch("checkpoint")
        changes = _streamed(lab, first, second)
        with (
            left_alone(lab, lab.path("orders")),
            own_streams_stopped(lab.spark, QUERY_TIMEOUT_S) as stopped,
        ):
            started(answer(changes, path, checkpoint)).awaitTermination()
        if stopped.late:
            raise Unreadable(
                f"Your query was still running after {QUERY_TIMEOUT_S} s: the trigger "
                "`availableNow` ends it when it has read everything."
            )
        if not lab.files(f"{checkpoint}/commits"):
            raise Unreadable("No batch is committed at `checkpoint`.")
        after = rows_of(path).to_pylist()
        coupons = {row["order_id"]: row["coupon"] for row in having}
        coupons |= {change["order_id"]: change["coupon"] for change in first if change["coupon"]}
        expected = {
            change["order_id"]: _as_texts({**change, "coupon": coupons.get(change["order_id"])})
            for change in (*first, *second)
        }
        return Updated(
            expected,
            {
                row["order_id"]: _as_texts({name: row[name] for name in first[0]})
                for row in after
                if row["order_id"] in expected
            },
            tuple(row["order_id"] for row in old_app),
            len(after) - len(before) - 1,
            lacking[2]["order_id"],
        )

    @staticmethod
    def judge(facts: Updated) -> Passed | NotYet:
        """Each order has its coupon, and in every other column what the update says."""
        for order in facts.expected:
            expected, found = facts.expected[order], facts.found.get(order)
            if found is None:
                return NotYet(f"{order} is not in the table: a new order is inserted.")
            if expected["coupon"] and not found["coupon"] and order in facts.old_app:
                return NotYet(
                    f"{order} lost its coupon {expected['coupon']}: the old app does not know the "
                    "field, and your write took its silence for an answer."
                )
            if expected["coupon"] and not found["coupon"] and order == facts.given_first:
                return NotYet(
                    f"{order} lost the coupon {expected['coupon']} that the first batch wrote: the "
                    "second one did not see it. When does your stream read the table?"
                )
            if found["status"] != expected["status"]:
                return NotYet(
                    f"{order} is still {found['status']}; an update says {expected['status']}. The "
                    "old app knows nothing of coupons, but its other fields are right."
                )
            for name, value in expected.items():
                if found[name] != value:
                    return NotYet(
                        f"{order} has {name} {found[name] or 'NULL'}; expected is "
                        f"{value or 'NULL'}. Write every column of the change, and the coupon."
                    )
        if facts.lost:
            return NotYet(f"{abs(facts.lost)} rows too {'many' if facts.lost > 0 else 'few'}.")
        kept = sum(facts.expected[order]["coupon"] is not None for order in facts.old_app)
        return Passed(f"{len(facts.old_app)} updates by the old app, and {kept} coupons survived.")


def _streamed(lab, first: Sequence[dict], second: Sequence[dict]):
    """A stream with the columns of EVENT_V2 that delivers these changes in two batches."""
    from pyspark.sql import functions as F

    topic = scratch_topic(lab)
    send_events(lab, topic, [_as_event(change) for change in (*first, *second)])
    records = in_batches(lab, topic, len(first))
    change = F.from_json(F.col("value").cast("string"), EVENT_V2).alias("change")
    return records.select(change).select("change.*")


def _as_event(change: Mapping) -> dict:
    """A change as the app would send it: amount and time in JSON's types."""
    return {
        **change,
        "amount": float(change["amount"]),
        "order_ts": change["order_ts"].strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _changed(row: Mapping, status: str, coupon: str | None, hour: int = 22, **more) -> dict:
    """An event about an order of the table, later than its row; keys as in EVENT_V2.

    The number of items and the amount change as well, so that a write of only a few columns shows.
    """
    event = {name: value for name, value in row.items() if not name.startswith("_hoodie_")}
    event |= {"status": status, "coupon": coupon, **more}
    event["amount"], event["items"] = row["amount"] + 1, row["items"] + 3
    event["order_ts"] = row["order_ts"].replace(hour=hour)
    names = ("order_id", "status", "amount", "items", "weight", "delivery", "order_ts")
    return {name: event[name] for name in (*names, "partition_date", "coupon")}


def _as_texts(row: Mapping) -> Order:
    """The columns of a row as text, NULL as None."""
    return {name: None if value is None else str(value) for name, value in row.items()}


@dataclass(frozen=True)
class Renamed:
    """What three readers find after the answer.

    Args:
        coupons: orders with a coupon, before.
        rows: orders.
        old_query: orders with a coupon by yesterday's query; None if it fails.
        hudi_rs: the same by hudi-rs, which matches columns by name; None if it fails.
        offered: orders whose `voucher` is their coupon, in what the answer returned; None if that
            has no such column.
        error: of yesterday's query.
    """

    coupons: int
    rows: int
    old_query: int | None
    hudi_rs: int | None
    offered: int | None
    error: str = ""


@check_of("16.4")
class NewNameWithoutABreak:
    """A second name for a column, while readers of the first go on."""

    @staticmethod
    def observe(lab, answer: Callable) -> Renamed:
        """Let the function offer the new name on a copy of the table, and ask three readers."""
        path = scratch_copy(lab, lab.path("orders"), "renamed")
        before = coupons_in(path)
        offered = answer(path)
        if not hasattr(offered, "groupBy"):
            raise Unreadable("The function must return the DataFrame that the new dashboard reads.")
        old_query, error = None, ""
        try:
            old_query = _by_spark(lab, path)
        except AnalysisException as refusal:
            error = str(refusal).split("] ")[0].removeprefix("[")
        return Renamed(
            coupons=sum(value is not None for value in before.values()),
            rows=len(before),
            old_query=old_query,
            # After an ALTER, hudi-rs waits many seconds for a file that Spark does not write.
            hudi_rs=None if old_query is None else _by_hudi_rs(path),
            offered=_same(before, offered),
            error=error,
        )

    @staticmethod
    def judge(facts: Renamed) -> Passed | NotYet:
        """Both names show every coupon."""
        if facts.old_query is None:
            return NotYet(
                "Yesterday's query fails: it asks for `coupon`, and the table has no such column "
                f"any more ({facts.error})."
            )
        for reader, found in (("Yesterday's query", facts.old_query), ("hudi-rs", facts.hudi_rs)):
            if found != facts.coupons:
                nulls = facts.rows - (found or 0)
                return NotYet(
                    f"{reader}: {nulls} NULLs in `coupon`, where {facts.rows - facts.coupons} "
                    "orders have none. Whoever asks by the old name loses coupons silently."
                )
        if facts.offered is None:
            return NotYet("What your function returns has no column `voucher`.")
        if facts.offered != facts.rows:
            return NotYet(
                f"`voucher` is right in {facts.offered} of {facts.rows} orders of what you return."
            )
        return Passed(f"{facts.coupons} coupons under both names, for all three readers.")


def _same(before: Mapping[str, str | None], offered) -> int | None:
    """How many orders have their coupon as `voucher`; None without such a column."""
    if not {"order_id", "voucher"} <= set(offered.columns):
        return None
    frame = as_frame(offered.select("order_id", "voucher"))
    found = {o: plain(v) for o, v in zip(frame["order_id"], frame["voucher"], strict=True)}
    return sum(order in found and found[order] == coupon for order, coupon in before.items())


def _by_spark(lab, path: str) -> int:
    """Orders with a coupon, by yesterday's query."""
    return lab.spark.read.format("hudi").load(path).where("coupon IS NOT NULL").count()


def _by_hudi_rs(path: str) -> int:
    """Orders with a coupon, by hudi-rs; 0 if it knows no such column."""
    rows = rows_of(path)
    if "coupon" not in rows.column_names:
        return 0
    return rows.num_rows - rows.column("coupon").null_count
