"""Checks of lesson 03: bounded streams, dead letters, files with a checkpoint, batch records."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from random import Random
from secrets import token_hex
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lab_env.course.answers import Unreadable, as_pair
from lab_env.course.checking import check, expect
from lab_env.lessons.rows import as_dataframe
from lab_env.lessons.streams import own_streams_stopped, scratch_topic, started
from lab_env.pipeline.checkpoint import read_checkpoint
from lab_env.platform import store
from lab_env.platform.brokers.topics import ensure_topic
from lab_env.shop.events import EVENT_DDL, FIELDS, MAX_EVENT_BYTES
from lab_env.shop.model import generate

Ranges = Mapping[int, tuple[int, int]]  # partition to its first offset and the one behind its last

KAFKA_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
# Malformed by their form; the ledger's other kinds break rules of the business.
TWO_AMOUNTS = "two amounts, the first one no number"  # corrupt, and no field is null
BY_FORM = {"not_json", "empty", "truncated", "wrong_type", TWO_AMOUNTS}
# The shop damages only `order_id`; the check adds messages without each of the ten fields.
CORRECT_JSON = {"missing_key": "order_id", "null_key": "order_id"} | {
    f"without {field}": field for field in FIELDS
}
VALID_LIMITS: tuple[dict, ...] = (  # on the right side of each rule
    {"amount": 0},
    {"order_ts": "2020-01-01T00:00:00.000000Z"},
    {"order_ts": "2100-01-01T00:00:00.000000Z"},
)
BROKEN_RULES: tuple[tuple[str, dict], ...] = (
    ("impossible_timestamp", {"order_ts": "yesterday"}),  # no time: comparing it gives NULL
    ("impossible_timestamp", {"order_ts": "2026-02-31T25:61:00.000000Z"}),
    ("impossible_timestamp", {"order_ts": "1970-01-01T00:00:00.000000Z"}),
    ("impossible_timestamp", {"order_ts": "2019-12-31T23:59:59.999999Z"}),
    ("impossible_timestamp", {"order_ts": "2100-01-01T00:00:00.000001Z"}),
    ("negative_amount", {"amount": -0.01}),
    ("unknown_op", {"op": "refund"}),
)
HIDDEN_PARTITION = 100
BOUNDED_PARTITIONS = 3  # of the topic for 03.1; Spark divides the bound among them, rounding down
TIMEOUT_S = 20  # without a new batch
ENDS_WITHIN_S = 1  # a stream that ends by itself, when it has read everything


@check("03.1")
def bounds_a_stream(lab, stream_of):
    """Fill a topic, run the stream to completion, and check its batches and its records."""
    rng, topic = Random(), scratch_topic(lab)
    bound = rng.randint(200, 1200)
    messages: list[bytes | None] = [
        b"message %d" % n for n in range(2 * bound + rng.randrange(bound))
    ]
    messages.append(None)  # a tombstone is a record, too
    _send(lab, topic, messages, BOUNDED_PARTITIONS)
    rows = _records_of(stream_of(topic, bound), streaming=True)
    found, query = _collected(lab.spark, rows.select("topic", "value"))
    sizes = [report["numInputRows"] for report in query.recentProgress if report["numInputRows"]]
    expect(
        found,
        "Your stream read none of the {:,} messages that were in the topic before it started. "
        "Without `startingOffsets` a new stream begins at the end.",
        len(messages),
    )
    expect(
        {row.topic for row in found} == {topic},
        "Your stream read another topic: does it subscribe to the topic that it is given?",
    )
    expect(
        max(sizes) <= bound,
        "The largest of {} batches has {:,} records; at most {:,} were wanted. "
        "`maxOffsetsPerTrigger` bounds a batch; `minPartitions` only cuts a batch into tasks.",
        len(sizes),
        max(sizes),
        bound,
    )
    expect(
        max(sizes) > bound - BOUNDED_PARTITIONS,
        "The largest batch has {:,} records, where {:,} were allowed: take the bound that the "
        "function is given.",
        max(sizes),
        bound,
    )
    expect(
        Counter(row.value and bytes(row.value) for row in found) == Counter(messages),
        "{:,} messages wait in the topic. Your stream returned {:,}, and not each of them once.",
        len(messages),
        len(found),
    )
    return f"{len(messages):,} records in {len(sizes)} batches; {bound:,} were allowed in one."


@check("03.2")
def splits(lab, split):
    """Let the function split one stream of the lesson's topic and of incomplete messages."""
    topic, hidden = lab.topic("orders"), scratch_topic(lab)
    messages = incomplete_messages(Random())
    _send(lab, hidden, [text for _, text in messages])
    parsed = _parsed(lab, topic, hidden)
    orders, dead = as_pair(
        split(parsed), "Two DataFrames are expected: `return orders, dead_letters`"
    )
    types, own = dict(as_dataframe(orders, "the orders").dtypes), dict(parsed.dtypes)
    lost = [f"`{name}`" for name, kind in own.items() if types.get(name) != kind]
    more = types.keys() - own.keys()
    expect(not more, "Your orders have columns that were not parsed: {}.", ", ".join(more))
    expect(
        not lost,
        "Your orders have no column {} as it was parsed. Return the records with all their "
        "columns: the lesson goes on with them.",
        ", ".join(lost),
    )
    # The check looks each message up by its place in the topic.
    dead = _records_of(dead, streaming=True, columns=("partition", "offset"))
    content, place = F.xxhash64(*parsed.columns), ("partition", "offset")
    sent, kept, set_aside = (
        rows.select(*place, F.lit(side).alias("side"), mark.alias("mark"))
        for side, rows, mark in (
            ("sent", parsed, content),
            ("orders", _records_of(orders, streaming=True), content),
            ("dead", dead, F.lit(0).cast("long")),
        )
    )
    rows, _ = _collected(lab.spark, sent.union(kept).union(set_aside))
    at = {side: Counter(row[:2] for row in rows if row.side == side) for side in ("orders", "dead")}
    kinds = {(HIDDEN_PARTITION, offset): kind for offset, (kind, _) in enumerate(messages)}
    for send in lab.ledger(topic).frame().query("state == 'acked'").itertuples():
        kinds[send.partition, send.offset] = send.kind.partition(":")[2] or "event"

    valid = sum(kinds[place] == "event" for place in at["dead"])
    expect(
        not valid,
        "{:,} valid events are among your dead letters. They would be missing in every table.",
        valid,
    )
    through = Counter(kinds[place] for place in at["orders"] if kinds[place] != "event")
    expect(not through, "{}", _of_those_among_the_orders(through, Counter(kinds.values())))
    neither = Counter(
        kinds[place] for place in kinds.keys() - at["orders"].keys() - at["dead"].keys()
    )
    expect(
        not neither,
        "{} messages are in neither of your two ({}): lost, and nobody would ask. For them your "
        "condition is NULL. `where` drops what is not true, and NOT NULL is NULL, too.",
        neither.total(),
        _listed(neither),
    )
    twice = [place for side in at.values() for place, times in side.items() if times > 1]
    expect(not twice, "{} messages are in your DataFrames twice.", len(twice))
    marks = {row[:2]: row.mark for row in rows if row.side == "sent"}
    changed = [row for row in rows if row.side == "orders" and row.mark != marks[row[:2]]]
    expect(not changed, "{:,} orders are no longer as they were parsed.", len(changed))
    return (
        f"{len(at['orders']):,} orders, {len(at['dead'])} dead letters, and no message in both or "
        "in neither."
    )


def incomplete_messages(rng: Random) -> list[tuple[str, bytes]]:
    """Return events as kind and text: some valid, some that break a rule, some without a field.

    Each field is absent from one event and null in another.
    """
    sends = generate(3 * len(FIELDS), rng.randrange(1_000_000), malformed=0)
    events = [json.loads(send.value) for send in sends]
    made = [("event", event) for event in events[::3]]
    for field, absent, null in zip(FIELDS, events[1::3], events[2::3], strict=True):
        del absent[field]
        made += [(f"without {field}", absent), (f"without {field}", null | {field: None})]
    made += [("event", events[0] | change) for change in VALID_LIMITS]
    made += [(kind, events[0] | change) for kind, change in BROKEN_RULES]
    texts = [(kind, json.dumps(event).encode()) for kind, event in made]
    for kind, size in (("event", MAX_EVENT_BYTES), ("oversized", MAX_EVENT_BYTES + 1)):
        texts.append((kind, texts[0][1].ljust(size)))
    wide = events[0] | {"customer_id": "ü" * (MAX_EVENT_BYTES // 2)}  # two bytes each
    texts.append(("oversized", json.dumps(wide, ensure_ascii=False).encode()))
    return [*texts, (TWO_AMOUNTS, b'{"amount": "five", ' + texts[0][1][1:])]


def _of_those_among_the_orders(through: Counter, sent: Counter) -> str:
    """Explain why these malformed messages are among the orders."""
    some = f"{through.total()} of {sent.total() - sent['event']} malformed messages are among"
    by_form = sent.keys() & (BY_FORM | CORRECT_JSON.keys())
    if by_form - {"empty"} <= through.keys():
        return (
            f"{some} your orders. Since Spark 3.0 `from_json` makes of bad JSON a row of nulls, "
            "which is not null. Look at the fields."
        )
    if not through.keys() & by_form:
        return (
            f"{some} your orders ({_listed(through)}): they break a rule of the business. "
            "`BREAKS_A_RULE` finds most of them; where it is NULL, nobody can say that the rules "
            "hold."
        )
    if not through.keys() & BY_FORM:
        fields = sorted({CORRECT_JSON[kind] for kind in through if kind in CORRECT_JSON})
        names = f"{len(fields)} of the fields" if len(fields) > 4 else ", ".join(fields)
        return (
            f"{some} your orders, some of them without {names}. As JSON they are correct, so "
            "nothing is corrupt: test each field that an order must have. (The check itself sends "
            "two messages without each field.)"
        )
    return (
        f"{some} your orders: {_listed(through)}. Look at the columns of `event`, `_corrupt` among "
        "them."
    )


def _listed(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _parsed(lab, topic: str, hidden: str) -> DataFrame:
    """Read two topics as one stream, parsed as in the lesson; the hidden topic is partition 100."""
    schema, corrupt = f"{EVENT_DDL}, _corrupt STRING", {"columnNameOfCorruptRecord": "_corrupt"}
    partition = f"IF(topic = '{hidden}', {HIDDEN_PARTITION}, partition)"
    event = F.from_json(F.col("value").cast("string"), schema, corrupt)
    return _records(lab, f"{topic},{hidden}").withColumns(
        {"partition": F.expr(partition), "event": event}
    )


@check("03.3")
def files_with_a_memory(lab, to_files):
    """Run the stream to completion, send more messages, then run it again until stopped."""
    rng, topic = Random(), scratch_topic(lab)
    path, checkpoint = lab.scratch("files"), lab.scratch("checkpoint")
    first, more = rng.randint(30, 50), rng.randint(5, 15)

    def start(messages: int, **trigger):
        _send(lab, topic, [None, *[b"message"] * (messages - 1)])
        texts = _records(lab, topic).selectExpr("CAST(value AS STRING) AS text")
        return started(to_files(texts, path, checkpoint, **trigger))

    query = start(first, availableNow=True)
    ended = _wait_for_end(query)
    query.stop()
    expect(
        ended,
        "Your stream got the trigger `availableNow=True`, which ends when all is read, and was "
        "still running after {} seconds without a new batch. Hand `trigger` on: "
        "`.trigger(**trigger)`.",
        TIMEOUT_S,
    )
    rows = _rows_in(lab, path)
    expect(
        rows == first,
        "{} messages were sent; the JSON files in `path` hold {} of them. Are format and path "
        "those that the function is given?",
        first,
        rows,
    )
    # An answer may wait in vain for the end of this one.
    with own_streams_stopped(lab.spark, 2 * TIMEOUT_S, may_leave=True):
        query = start(more, processingTime="0 seconds")
    query.processAllAvailable()
    stayed = not query.awaitTermination(ENDS_WITHIN_S)
    query.stop()
    rows = _rows_in(lab, path)
    listed = any("/_spark_metadata/" in file.key for file in lab.files(path))
    expect(
        rows != first + more + first,
        "{} messages were new at the second start; your stream wrote those and the {} of the first "
        "run: the same messages again. Its memory must lie in the folder `checkpoint`.",
        more,
        first,
    )
    expect(
        rows != first or not listed,
        "{} messages were new at the second start, and none of them is in the files. Your stream "
        "began anew with batch 0, and the sink, whose list has a batch 0 already, took it for that "
        "one. Its memory must lie in the folder `checkpoint`.",
        more,
    )
    expect(
        rows == first + more,
        "After the second run the files hold {} rows; {} messages were sent.",
        rows,
        first + more,
    )
    expect(
        any("/offsets/" in file.key for file in lab.files(checkpoint)),
        "The rows are right, but the folder `checkpoint` stayed empty.",
    )
    expect(
        listed,
        "The rows are right, but there is no list of the files, `_spark_metadata`, next to them. "
        "The format `json` of `writeStream` keeps it; without it, a batch that is done again after "
        "a crash is there twice.",
    )
    expect(
        stayed,
        'With the trigger `processingTime="0 seconds"` a stream runs until somebody stops it, and '
        "yours ended. Hand `trigger` on, and return the query without waiting for its end.",
    )
    return f"First run {first} rows, second run {more} more: it went on where it had stopped."


def _rows_in(lab, path: str) -> int:
    """Count the check's messages in a folder of JSON files, compressed or not."""
    if not any("/part-" in file.key and ".json" in file.key for file in lab.files(path)):
        return 0
    rows = lab.spark.read.schema("text STRING").json(path)
    return rows.where("nvl(text, 'message') = 'message'").count()


def _wait_for_end(query) -> bool:
    """Wait while the query makes progress; return True if it ended by itself."""
    last_batch = None
    while not query.awaitTermination(TIMEOUT_S):
        batch = query.lastProgress and query.lastProgress["batchId"]
        if batch == last_batch:
            return False
        last_batch = batch
    return True


@check("03.4")
def messages_of_a_batch(lab, messages_of):
    """Request a batch of a made-up checkpoint, then the newest batch of the lesson's checkpoint."""
    rng, mine, hidden = Random(), lab.path("checkpoints/json"), lab.scratch("checkpoint")
    known = {
        batch.number: {p: (batch.start.get(p, 0), end) for p, end in batch.end.items()}
        for batch in read_checkpoint(lab.endpoints, mine)
    }
    newest = max(known)
    made = made_ranges(rng, {p: end for p, (_, end) in known[newest].items()})
    _save_checkpoint(lab, hidden, made)
    for checkpoint, number, batches in (
        (hidden, rng.choice((2, 10)), made),  # whose neighbours are others if sorted as text
        (mine, newest, known),
    ):
        _expect_records(lab, number, batches, messages_of(checkpoint, number))
    return f"Batch {newest} of the orders is right, and so is a batch of another checkpoint."


def _expect_records(lab, number: int, batches: Mapping[int, Ranges], answer) -> None:
    """Check that the answer has every record of a batch exactly once, in every topic partition."""
    records = _records_of(answer, streaming=False)
    offsets: dict[int, list[int]] = {}
    for partition, offset in records.select("partition", "offset").orderBy("offset").collect():
        offsets.setdefault(partition, []).append(offset)
    given = {p: (found[0], found[-1] + 1) for p, found in sorted(offsets.items())}
    about = f"Asked for batch {number}, your function read {_text_of(given)}."
    expected = _not_empty(batches[number])
    for other, ranges in batches.items():
        expect(
            other == number or given != _not_empty(ranges),
            "{} That is what batch {} read. The file `offsets/N` says where batch N ends; it "
            "begins where the one before it ended.",
            about,
            other,
        )
    if {p: begin for p, (begin, _) in given.items()} == {p: b for p, (b, _) in expected.items()}:
        beyond = {given[p][1] - end for p, (_, end) in expected.items()}
        expect(
            beyond not in ({1}, {-1}),
            "{} The begin is right. The end that a checkpoint and Kafka count with is the offset "
            "behind the last record.",
            about,
        )
        expect(
            min(beyond) < 0 or beyond == {0},
            "{} It begins right and goes on too far: without `endingOffsets`, a read at rest ends "
            "where the topic ends.",
            about,
        )
    expect(
        given == expected,
        "{} The batch has others. Compare `offsets/{}` and `offsets/{}`.",
        about,
        number - 1,
        number,
    )
    expect(
        all(offsets[p] == list(range(*ends)) for p, ends in expected.items()),
        "{} Between the first and the last, records are missing, or some are there twice.",
        about,
    )
    ends = [
        json.dumps({lab.topic("orders"): {p: ends[side] for p, ends in batches[number].items()}})
        for side in (0, 1)
    ]
    own = (
        lab.spark.read.format("kafka")
        .option("kafka.bootstrap.servers", lab.endpoints.kafka_bootstrap)
        .option("subscribe", lab.topic("orders"))
        .option("startingOffsets", ends[0])
        .option("endingOffsets", ends[1])
        .load()
    )
    found, right = (
        sorted(map(str, rows.select(*KAFKA_COLUMNS).collect())) for rows in (records, own)
    )
    expect(
        found == right, "{} The records are the right ones, but not as the topic has them.", about
    )


def _not_empty(ranges: Ranges) -> dict[int, tuple[int, int]]:
    """Return the ranges that contain a record; a batch query returns nothing for the others."""
    return {p: (begin, end) for p, (begin, end) in ranges.items() if begin < end}


def _text_of(ranges: Ranges) -> str:
    """Format the first and last offset of each range as text."""
    spans = (f"{begin} to {end - 1} of partition {p}" for p, (begin, end) in ranges.items())
    return "the offsets " + ", ".join(spans) if ranges else "no record"


def made_ranges(rng: Random, last: Mapping[int, int]) -> dict[int, Ranges]:
    """Return the offset ranges of twelve batches of random sizes, by batch number.

    There are twelve because batch 10 sorts before batch 2 if numbers are compared as text.

    Args:
        last: by topic partition, the offset after its last record; at least 12 each.
    """
    cuts = {p: [0, *sorted(rng.sample(range(1, end + 1), 12))] for p, end in last.items()}
    return {n: {p: (cuts[p][n], cuts[p][n + 1]) for p in cuts} for n in range(12)}


def _save_checkpoint(lab, path: str, batches: Mapping[int, Ranges]) -> None:
    """Write a checkpoint's files of each batch but the first, as Spark deletes old ones."""
    files = {f"offsets/{n}": {p: end for p, (_, end) in batches[n].items()} for n in batches if n}
    files["sources/0/0"] = {p: begin for p, (begin, _) in batches[0].items()}
    for name, offsets in files.items():
        plan = json.dumps({lab.topic("orders"): offsets})  # keys become text
        store.client(lab.endpoints).put_object(
            Bucket=lab.endpoints.bucket,
            Key=f"{store.key_of(path)}/{name}",
            Body=f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{plan}'.encode(),
        )


def _send(lab, topic: str, messages: Sequence[bytes | None], partitions: int = 1) -> None:
    """Send messages to a topic's partitions in turn; create the topic if it is missing."""
    ensure_topic(lab.endpoints.kafka_bootstrap, topic, partitions)
    # A retry of a producer without idempotence may change the sequence.
    address = lab.endpoints.kafka_bootstrap
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for place, message in enumerate(messages):
        producer.produce(topic, message, partition=place % partitions)
    producer.flush()


def _records(lab, topics: str) -> DataFrame:
    return (
        lab.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", lab.endpoints.kafka_bootstrap)
        .option("subscribe", topics)
        .option("startingOffsets", "earliest")
        .load()
    )


def _collected(spark, rows: DataFrame) -> tuple[list, Any]:
    """Run a stream to completion; return its rows and its query."""
    name = f"check_{token_hex(3)}"
    writer = rows.writeStream.format("memory").queryName(name).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    found = spark.table(name).collect()
    spark.catalog.dropTempView(name)
    return found, query


def _records_of(answer, streaming: bool, columns: Collection[str] = KAFKA_COLUMNS) -> DataFrame:
    """Return the answer if it is a DataFrame of Kafka records with these columns.

    Raises:
        Unreadable: the answer is something else, or a batch instead of a stream or vice versa.
    """
    rows = as_dataframe(answer, "records")
    if rows.isStreaming != streaming:
        raise Unreadable(
            "Your function returned a table at rest. A stream begins with `spark.readStream`."
            if streaming
            else "Your function returned a stream. Read the topic at rest: `spark.read`, which "
            "takes `endingOffsets`, too."
        )
    types = dict(rows.dtypes)
    missing = [name for name in columns if name not in types]
    if missing:
        raise Unreadable(
            f"Your records have no column {' and no '.join(missing)}. Keep the columns of the "
            "Kafka source: the lesson goes on with them."
        )
    other = [name for name, kind in KAFKA_COLUMNS.items() if types.get(name, kind) != kind]
    if other:
        raise Unreadable(
            f"Your records have another type in {' and '.join(other)}. Keep the columns as Kafka's "
            "source gives them."
        )
    return rows
