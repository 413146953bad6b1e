"""Checks of lesson 03: a bounded stream, dead letters, files with a memory, records of a batch."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import pandas as pd
from confluent_kafka import Producer

from lab_env.course.answers import Unreadable, kind_of, type_of
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.streams import own_streams_stopped, scratch_topic, started
from lab_env.platform import store
from lab_env.platform.brokers.topics import ensure_topic
from lab_env.shop.events import EVENT_DDL, FIELDS
from lab_env.shop.model import generate

# Malformed by their form; the ledger's other kinds break rules of the business.
KINDS_BY_FORM = ("not_json", "empty", "truncated", "wrong_type", "missing_key", "null_key")
# The shop damages only `order_id`; the check adds messages without each of the ten fields.
WITHOUT = {f"without {field}": field for field in FIELDS}
CORRECT_JSON = {"missing_key": "order_id", "null_key": "order_id"} | WITHOUT
# Rules are broken there, too: what no order has, by the kind of the ledger.
IMPOSSIBLE = {
    "impossible_timestamp": [
        {"order_ts": "yesterday"},
        {"order_ts": "2026-02-31T25:61:00.000000Z"},
        {"order_ts": "1970-01-01T00:00:00.000000Z"},
    ],
    "negative_amount": [{"amount": -3.5}],
    "unknown_op": [{"op": "refund"}],
}
HIDDEN_PARTITION = 100
BOUNDED_PARTITIONS = 3  # of the topic for 03.1
TIMEOUT_S = 20  # without a new batch
ENDS_WITHIN_S = 1  # a stream that ends by itself, when it has read everything
KEPT_REPORTS = 100  # Spark's default of spark.sql.streaming.numRecentProgressUpdates


# --- 03.1: all of it, not all at once -----------------------------------------------------------


@dataclass(frozen=True)
class Batches:
    """How a stream cut its input into batches.

    Args:
        sizes: records of each batch that Spark still has a report of.
        read: records of all batches.
        waiting: records in the topic.
        bound: the most that one batch may have.
    """

    sizes: tuple[int, ...]
    read: int
    waiting: int
    bound: int


def batches_in(reports: Sequence[Mapping], waiting: int, bound: int) -> Batches:
    """The batches of a query that read one topic from its beginning.

    Args:
        reports: `recentProgress` of the query. Spark keeps the last 100 reports, so of a query
            with more batches the end offsets say how much it read.
    """
    sizes = tuple(int(report["numInputRows"]) for report in reports if report["numInputRows"])
    read = sum(sizes)
    if len(reports) >= KEPT_REPORTS and reports[0]["batchId"] > 0:
        [ends] = reports[-1]["sources"][0]["endOffset"].values()
        read = sum(ends.values())
    return Batches(sizes, read, waiting, bound)


@check_of("03.1")
class BoundStream:
    """The answer is a function that describes a stream; it runs on a topic of the check's own."""

    @staticmethod
    def observe(lab, answer: Callable) -> Batches:
        """Fill a topic, run the stream to its end, and read its progress reports."""
        bootstrap, topic = lab.endpoints.kafka_bootstrap, scratch_topic(lab)
        waiting, bound = 300 + secrets.randbelow(200), 90 + secrets.randbelow(50)
        _send(bootstrap, topic, [b"message"] * waiting, BOUNDED_PARTITIONS)
        rows = _stream(answer(topic, bound))
        query = rows.writeStream.format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
        return batches_in(list(query.recentProgress), waiting, bound)

    @staticmethod
    def judge(facts: Batches) -> Passed | NotYet:
        """It read everything from the beginning, in batches as large as the bound allows.

        Spark divides the bound among the partitions and rounds down.
        """
        largest = max(facts.sizes, default=0)
        if facts.read == 0:
            return NotYet(
                f"Your stream read none of the {facts.waiting} messages that were in the topic "
                "before it started. Without `startingOffsets` a new stream begins at the end."
            )
        if facts.read > facts.waiting:
            return NotYet(
                f"Your stream read {facts.read:,} messages of a topic that holds {facts.waiting}: "
                "does it subscribe to the topic that it is given?"
            )
        if largest > facts.bound and len(facts.sizes) == 1:
            return NotYet(
                f"One batch of {largest:,} records; at most {facts.bound} were wanted. "
                "`maxOffsetsPerTrigger` bounds a batch; `minPartitions` only cuts a batch into "
                "tasks."
            )
        if largest > facts.bound:
            return NotYet(
                f"The largest batch has {largest:,} records; at most {facts.bound} were wanted."
            )
        if facts.read < facts.waiting:
            return NotYet(f"It read {facts.read:,} of the {facts.waiting:,} records that wait.")
        if largest <= facts.bound - BOUNDED_PARTITIONS:
            return NotYet(
                f"The largest batch has {largest:,} records, where {facts.bound} were allowed: "
                "take the bound that the function is given."
            )
        return Passed(
            f"{facts.read:,} records in {len(facts.sizes)} batches, at most {largest} in one; "
            f"{facts.bound} were allowed."
        )


# --- 03.2: orders and dead letters --------------------------------------------------------------


@dataclass(frozen=True)
class Parted:
    """Where the messages of each kind went: kind to how many, without those that are none.

    Args:
        sent: all messages; a valid one is of the kind `event`.
        orders: those among the orders.
        dead: those among the dead letters.
        neither: those in neither of the two.
        both: those in both.
    """

    sent: Mapping[str, int]
    orders: Mapping[str, int]
    dead: Mapping[str, int]
    neither: Mapping[str, int]
    both: Mapping[str, int]


def parted(found: pd.DataFrame, sends: pd.DataFrame) -> Parted:
    """Look up in the ledger what kind of message went where.

    Args:
        found: partition, offset and `side` (`orders` or `dead`) of each record of the answer.
        sends: partition, offset, kind and state of each send, as in the ledger's frame.
    """
    sends = sends[sends["state"] == "acked"][["partition", "offset", "kind"]]
    kinds = sends["kind"].str.partition(":")[2].replace("", "event")
    place = pd.MultiIndex.from_frame(sends[["partition", "offset"]])
    held = {
        side: place.isin(
            pd.MultiIndex.from_frame(found.loc[found["side"] == side, ["partition", "offset"]])
        )
        for side in ("orders", "dead")
    }
    of = {
        "sent": [True] * len(sends),
        "orders": held["orders"],
        "dead": held["dead"],
        "neither": ~held["orders"] & ~held["dead"],
        "both": held["orders"] & held["dead"],
    }
    return Parted(**{name: _counts(kinds[mask]) for name, mask in of.items()})


def _counts(kinds: pd.Series) -> dict[str, int]:
    return {str(kind): int(count) for kind, count in kinds.value_counts().items()}


def incomplete_messages(seed: int) -> tuple[list[bytes], pd.DataFrame]:
    """Valid events; for each field one without it and one in which it is null; broken rules.

    Returns:
        The messages, and a frame like the ledger's that says what each of them is.
    """
    events = [json.loads(send.value) for send in generate(3 * len(FIELDS), seed, malformed=0)]
    messages = []
    for field, complete, absent, null in zip(
        FIELDS, events[::3], events[1::3], events[2::3], strict=True
    ):
        del absent[field]
        null[field] = None
        messages += [
            ("event", complete),
            (f"malformed:without {field}", absent),
            (f"malformed:without {field}", null),
        ]
    valid = messages[0][1]
    messages += [
        (f"malformed:{kind}", valid | change)
        for kind, changes in IMPOSSIBLE.items()
        for change in changes
    ]
    sends = pd.DataFrame(
        {
            "kind": [kind for kind, _ in messages],
            "state": "acked",
            "partition": HIDDEN_PARTITION,
            "offset": range(len(messages)),
        }
    )
    return [json.dumps(event).encode() for _, event in messages], sends


@check_of("03.2")
class OrdersAndDeadLetters:
    """The answer is a function from parsed records to two DataFrames; it runs as a stream."""

    @staticmethod
    def observe(lab, answer: Callable) -> Parted:
        """Run the function on the lesson's topic and on a topic of incomplete messages."""
        topic, hidden = lab.topic("orders"), scratch_topic(lab)
        messages, hidden_sends = incomplete_messages(seed=secrets.randbelow(1_000_000))
        _send(lab.endpoints.kafka_bootstrap, hidden, messages)
        parsed = _parsed(lab.spark, lab.endpoints.kafka_bootstrap, topic, hidden)
        found = _collected(lab.spark, two_of(answer(parsed)))
        sends = lab.ledger(topic).frame()[list(hidden_sends.columns)]
        return parted(found, pd.concat([sends, hidden_sends]))

    @staticmethod
    def judge(facts: Parted) -> Passed | NotYet:
        """Every message is in one of the two; the malformed ones are the dead letters."""
        if lost := facts.dead.get("event", 0):
            return NotYet(
                f"{lost:,} valid events are among your dead letters. They would be missing in "
                "every table."
            )
        if through := {kind: n for kind, n in facts.orders.items() if kind != "event"}:
            return NotYet(_of_those_among_the_orders(through, facts))
        if facts.neither:
            return NotYet(
                f"{sum(facts.neither.values())} messages are in neither of your two "
                f"({_listed(facts.neither)}): lost, and nobody would ask. For them your condition "
                "is NULL. `where` drops what is not true, and NOT NULL is NULL, too."
            )
        if facts.both:
            return NotYet(f"{_listed(facts.both)}: in both of your two. Let one be the opposite.")
        return Passed(
            f"{facts.orders['event']:,} orders, {sum(facts.dead.values())} dead letters, and no "
            "message in both or in neither."
        )


def _of_those_among_the_orders(through: Mapping[str, int], facts: Parted) -> str:
    """Why these malformed messages are among the orders."""
    total, all_malformed = sum(through.values()), sum(facts.sent.values()) - facts.sent["event"]
    by_form = {kind for kind in facts.sent if kind in KINDS_BY_FORM or kind in WITHOUT}
    if by_form - {"empty"} <= through.keys():
        return (
            f"{total} of {all_malformed} malformed messages are among your orders. Since Spark 3.0 "
            "`from_json` makes of bad JSON a row of nulls, which is not null. Look at the fields."
        )
    if (incomplete := through.keys() & by_form) and incomplete <= CORRECT_JSON.keys():
        total = sum(through[kind] for kind in incomplete)
        fields = sorted({CORRECT_JSON[kind] for kind in incomplete})
        names = f"{len(fields)} of the fields" if len(fields) > 4 else ", ".join(fields)
        return (
            f"{total} messages without {names} are among your orders. As JSON they are correct, so "
            "nothing is corrupt: test each field that an order must have. (The check itself sends "
            "two messages without each field.)"
        )
    if not through.keys() & by_form:
        return (
            f"{total} messages that break a rule of the business are among your orders "
            f"({_listed(through)}). `BREAKS_A_RULE` finds most of them; where it is NULL, nobody "
            "can say that the rules hold."
        )
    return (
        f"{total} of {all_malformed} malformed messages are among your orders: "
        f"{_listed(through)}. Which of the columns of `event` are null in them?"
    )


def _listed(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def two_of(answer) -> tuple:
    """The two DataFrames of an answer.

    Raises:
        Unreadable: it is something else, a DataFrame lacks the place in the topic, or the orders
            have no `event`, with which the lesson goes on.
    """
    from pyspark.sql import DataFrame

    two = tuple(answer) if isinstance(answer, list | tuple) else ()
    if len(two) != 2 or not all(isinstance(rows, DataFrame) for rows in two):
        shown = f"{len(two)} things" if two else f"a {type(answer).__name__}"
        raise Unreadable(
            f"Your function returned {shown}; two DataFrames are expected: "
            "`return orders, dead_letters`."
        )
    if "event" not in two[0].columns:
        raise Unreadable(
            "Your orders have no column `event`. Return the records with all their columns: the "
            "lesson goes on with it."
        )
    for rows in two:
        if missing := {"partition", "offset"} - set(rows.columns):
            raise Unreadable(
                f"A DataFrame of yours has no {' and no '.join(sorted(missing))}. Keep the "
                "columns: the check looks each message up by its place in the topic."
            )
    return two


def _collected(spark, two: tuple) -> pd.DataFrame:
    """Run both streams as one; returns partition, offset and side of each record."""
    from pyspark.sql import functions as F

    orders, dead = (
        rows.select("partition", "offset", F.lit(side).alias("side"))
        for rows, side in zip(two, ("orders", "dead"), strict=True)
    )
    name = f"check_{secrets.token_hex(3)}"
    query = (
        _stream(orders.union(dead))
        .writeStream.format("memory")
        .queryName(name)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.table(name).toPandas()
    spark.catalog.dropTempView(name)
    return found


def _parsed(spark, bootstrap: str, topic: str, hidden: str):
    """Both topics as one stream, parsed as in the lesson; the hidden one as partition 100."""
    from pyspark.sql import functions as F

    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", f"{topic},{hidden}")
        .option("startingOffsets", "earliest")
        .load()
        .withColumn("partition", F.expr(f"IF(topic = '{hidden}', {HIDDEN_PARTITION}, partition)"))
        .withColumn(
            "event",
            F.from_json(
                F.col("value").cast("string"),
                f"{EVENT_DDL}, _corrupt STRING",
                {"columnNameOfCorruptRecord": "_corrupt"},
            ),
        )
    )


# --- 03.3: a stream to files --------------------------------------------------------------------


@dataclass(frozen=True)
class TwoRuns:
    """A stream that was started twice, with more messages sent in between.

    Args:
        sent: messages before the first and before the second start.
        rows: rows in the files after each run.
        planned: batches that the checkpoint of the check knows.
        listed: whether the sink keeps a list of its files.
        ended: whether the query with the trigger `availableNow` ended by itself.
        stayed: whether the query with the trigger `processingTime` ran on.
    """

    sent: tuple[int, int]
    rows: tuple[int, int]
    planned: int
    listed: bool = True
    ended: bool = True
    stayed: bool = True


@check_of("03.3")
class FilesWithAMemory:
    """The answer is a function that starts a stream to files; the check calls it twice."""

    @staticmethod
    def observe(lab, answer: Callable) -> TwoRuns:
        """Run it to its end, send some more messages, and run it once more until it is stopped."""
        bootstrap, topic = lab.endpoints.kafka_bootstrap, scratch_topic(lab)
        path, checkpoint = lab.scratch("files"), lab.scratch("checkpoint")
        first, more = 30 + secrets.randbelow(20), 5 + secrets.randbelow(10)

        def start(messages: int, **trigger):
            _send(bootstrap, topic, [b"message"] * messages)
            texts = _texts(lab.spark, bootstrap, topic)
            return started(answer(texts, path, checkpoint, **trigger))

        query = start(first, availableNow=True)
        ended = _wait_for_end(query)
        query.stop()
        rows = _rows_in(lab, path)
        # An answer may wait in vain for the end of this one.
        with own_streams_stopped(lab.spark, 2 * TIMEOUT_S, may_leave=True):
            query = start(more, processingTime="0 seconds")
        query.processAllAvailable()
        stayed = not query.awaitTermination(ENDS_WITHIN_S)
        query.stop()
        return TwoRuns(
            sent=(first, more),
            rows=(rows, _rows_in(lab, path)),
            planned=sum("/offsets/" in file.key for file in lab.files(checkpoint)),
            listed=any("/_spark_metadata/" in file.key for file in lab.files(path)),
            ended=ended,
            stayed=stayed,
        )

    @staticmethod
    def judge(facts: TwoRuns) -> Passed | NotYet:
        """The second run added what was new, and no more; each ended as its trigger says."""
        first, more = facts.sent
        if not facts.ended:
            return NotYet(
                "Your stream got the trigger `availableNow=True`, which ends when all is read, and "
                f"was still running after {TIMEOUT_S} seconds without a new batch. Hand `trigger` "
                "on: `.trigger(**trigger)`."
            )
        if facts.rows[0] != first:
            return NotYet(
                f"{first} messages were sent; the JSON files in `path` hold {facts.rows[0]} of "
                "them. Are format and path those that the function is given?"
            )
        if facts.rows[1] == first + more + first:
            return NotYet(
                f"{more} messages were new at the second start; your stream wrote those and the "
                f"{first} of the first run: the same messages again. Its memory must lie in the "
                "folder `checkpoint`."
            )
        if facts.rows[1] == first and facts.listed:
            return NotYet(
                f"{more} messages were new at the second start, and none of them is in the files. "
                "Your stream began anew with batch 0, and the sink, whose list has a batch 0 "
                "already, took it for that one. Its memory must lie in the folder `checkpoint`."
            )
        if facts.rows[1] != first + more:
            return NotYet(
                f"After the second run the files hold {facts.rows[1]} rows; {first + more} "
                "messages were sent."
            )
        if not facts.planned:
            return NotYet("The rows are right, but the folder `checkpoint` stayed empty.")
        if not facts.listed:
            return NotYet(
                "The rows are right, but there is no list of the files, `_spark_metadata`, beside "
                "them. The format `json` of `writeStream` keeps it; without it, a batch that is "
                "done again after a crash is there twice."
            )
        if not facts.stayed:
            return NotYet(
                'With the trigger `processingTime="0 seconds"` a stream runs until somebody stops '
                "it, and yours ended. Hand `trigger` on, and return the query without waiting for "
                "its end."
            )
        return Passed(
            f"First run {first} rows, second run {more} more: it went on where it had stopped."
        )


def _rows_in(lab, path: str) -> int:
    """The messages of the check in a folder of JSON files."""
    if not any(file.key.endswith(".json") for file in lab.files(path)):
        return 0
    return lab.spark.read.schema("text STRING").json(path).where("text = 'message'").count()


def _wait_for_end(query) -> bool:
    """Wait as long as the query makes progress; returns whether it ended by itself."""
    last_batch = None
    while not query.awaitTermination(TIMEOUT_S):
        batch = query.lastProgress and query.lastProgress["batchId"]
        if batch == last_batch:
            return False
        last_batch = batch
    return True


# --- 03.4: the messages of a batch --------------------------------------------------------------


@dataclass(frozen=True)
class RecordsRead:
    """Records that the learner's function read for a batch, and the batches of the checkpoint.

    Args:
        batch: the batch that was asked for.
        given: partition to the first offset and the offset behind the last one.
        rows: number of records.
        batches: for each batch, partition to begin and end.
    """

    batch: int
    given: dict[int, tuple[int, int]]
    rows: int
    batches: Mapping[int, Mapping[int, tuple[int, int]]]


def plan_of(topic: str, ends: Mapping[int, int]) -> bytes:
    """A file of offsets, as a checkpoint has it.

    Args:
        ends: partition to the offset behind the last record.
    """
    offsets = json.dumps({topic: {str(partition): end for partition, end in ends.items()}})
    return f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{offsets}'.encode()


@check_of("03.4")
class MessagesOfABatch:
    """The answer is a function; it reads by a checkpoint of the check's own, and the lesson's."""

    @staticmethod
    def observe(lab, answer: Callable) -> tuple[RecordsRead, ...]:
        """Ask for a batch of a checkpoint made here, then for the newest of the lesson."""
        from lab_env.pipeline.checkpoint import read_checkpoint

        mine, hidden = lab.path("checkpoints/json"), lab.scratch("checkpoint")
        known = {batch.number: batch for batch in read_checkpoint(lab.endpoints, mine)}
        ranges = {
            number: {p: (batch.start.get(p, 0), end) for p, end in batch.end.items()}
            for number, batch in known.items()
        }
        newest = max(known)
        made = made_ranges(Random(secrets.randbits(32)), known[newest].end)
        client = store.client(lab.endpoints)
        files = {f"offsets/{n}": {p: end for p, (_, end) in made[n].items()} for n in made}
        files["sources/0/0"] = {p: begin for p, (begin, _) in made[0].items()}
        for name, ends in files.items():
            client.put_object(
                Bucket=lab.endpoints.bucket,
                Key=f"{store.key_of(hidden)}/{name}",
                Body=plan_of(lab.topic("orders"), ends),
            )
        facts: list[RecordsRead] = []
        asked = [(hidden, 2 + secrets.randbelow(2), made), (mine, newest, ranges)]
        for checkpoint, number, batches in asked:
            facts.append(RecordsRead(number, *spans_of(answer(checkpoint, number)), batches))
            if _problem_with(facts[-1]):
                break
        return tuple(facts)

    @staticmethod
    def judge(facts: tuple[RecordsRead, ...]) -> Passed | NotYet:
        """The records of the batch in each partition, each of them once."""
        for asked in facts:
            if problem := _problem_with(asked):
                return NotYet(problem)
        newest = facts[-1]
        return Passed(
            f"Batch {newest.batch} of the orders has {newest.rows:,} messages; a batch of another "
            "checkpoint is right, too."
        )


def _problem_with(facts: RecordsRead) -> str:
    """What is wrong with the records of one batch; empty if nothing is."""
    expected = _not_empty(facts.batches[facts.batch])
    about = f"Asked for batch {facts.batch}, your function read {_spans_text(facts.given)}."
    due = sum(end - begin for begin, end in expected.values())
    if facts.given == expected and facts.rows == due:
        return ""
    if facts.given == expected:
        return f"{about} These are {due:,} records; it returned {facts.rows:,}."
    for number, ranges in facts.batches.items():
        if facts.given == _not_empty(ranges):
            return (
                f"{about} That is what batch {number} read. The file `offsets/N` says where batch "
                "N ends; it begins where the one before it ended."
            )
    wanted = f"The batch has {_spans_text(expected)}."
    if facts.given.keys() == expected.keys():
        begins_right = all(facts.given[p][0] == begin for p, (begin, _) in expected.items())
        beyond = {facts.given[p][1] - end for p, (_, end) in expected.items()}
        if begins_right and len(beyond) == 1 and beyond <= {-1, 1}:
            return (
                f"{about} {wanted} The begin is right. The end that a checkpoint and Kafka count "
                "with is the offset behind the last record."
            )
        if begins_right and min(beyond) >= 0:
            return (
                f"{about} {wanted} It begins right and goes on too far: without `endingOffsets`, "
                "a read at rest ends where the topic ends."
            )
    return f"{about} {wanted} Compare `offsets/{facts.batch - 1}` and `offsets/{facts.batch}`."


def _not_empty(ranges: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """The ranges that have a record: of the others a read at rest returns nothing."""
    return {p: (begin, end) for p, (begin, end) in ranges.items() if begin < end}


def _spans_text(ranges: Mapping[int, tuple[int, int]]) -> str:
    """Ranges as text: their first and their last offset."""
    spans = (f"{begin} to {end - 1} of partition {p}" for p, (begin, end) in ranges.items())
    return "the offsets " + ", ".join(spans) if ranges else "no record"


def made_ranges(rng: Random, last: Mapping[int, int]) -> dict[int, dict[int, tuple[int, int]]]:
    """Ranges of five batches of a topic, each batch of its own size.

    Args:
        last: partition to the offset behind its last record; five records at least.
    """
    cuts = {p: [0, *sorted(rng.sample(range(1, end + 1), 5))] for p, end in last.items()}
    return {n: {p: (cuts[p][n], cuts[p][n + 1]) for p in cuts} for n in range(5)}


def spans_of(answer) -> tuple[dict[int, tuple[int, int]], int]:
    """The records of an answer: partition to its first offset and the one behind its last.

    Returns:
        The spans, and the number of records.

    Raises:
        Unreadable: the answer is no table at rest with the columns of Kafka's source.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    if not isinstance(answer, DataFrame):
        kind = "nothing" if answer is None else f"a {type_of(answer)}"
        raise Unreadable(
            f"Your function returned {kind}; a DataFrame of records is expected, of Spark."
        )
    if answer.isStreaming:
        raise Unreadable(
            "Your function returned a stream. Read the topic at rest: `spark.read`, which takes "
            "`endingOffsets`, too."
        )
    if missing := {"value", "partition", "offset"} - set(answer.columns):
        raise Unreadable(
            f"Your records have no column {' and no '.join(sorted(missing))}. Return them as the "
            "Kafka source gives them: the lesson goes on with them."
        )
    spans = answer.groupBy("partition").agg(F.min("offset"), F.max("offset"), F.count("offset"))
    rows = spans.orderBy("partition").collect()
    return {p: (low, high + 1) for p, low, high, _ in rows}, sum(row[3] for row in rows)


# --- topics and streams of the checks -----------------------------------------------------------


def _send(bootstrap: str, topic: str, messages: Sequence[bytes], partitions: int = 1) -> None:
    """Put messages on a topic, in turn on its partitions."""
    ensure_topic(bootstrap, topic, partitions)
    producer = Producer({"bootstrap.servers": bootstrap})
    for place, message in enumerate(messages):
        producer.produce(topic, message, partition=place % partitions)
    producer.flush()


def _texts(spark, bootstrap: str, topic: str):
    """A topic's messages as a stream of one column, `text`."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(value AS STRING) AS text")
    )


def _stream(rows):
    """The answer, if it is a streaming DataFrame.

    Raises:
        Unreadable: it is something else.
    """
    from pyspark.sql import DataFrame

    if not isinstance(rows, DataFrame):
        raise Unreadable(
            f"Your function returned {kind_of(rows)}; a stream is expected, described by Spark."
        )
    if not rows.isStreaming:
        raise Unreadable(
            "Your function returned a table at rest. A stream begins with `spark.readStream`."
        )
    return rows
