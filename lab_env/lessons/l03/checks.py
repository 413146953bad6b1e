"""Checks of lesson 03: malformed messages, bounded batches, the ranges in a checkpoint."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from confluent_kafka import Producer

from lab_env.course.answers import Unreadable, as_int, as_list
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.shop.events import EVENT_DDL, FIELDS
from lab_env.shop.model import generate
from lab_env.shop.topics import ensure_topic, topic_end_offsets

# Malformed by their form; the ledger's other kinds break rules of the business.
KINDS_BY_FORM = ("not_json", "empty", "truncated", "wrong_type", "missing_key", "null_key")
# The shop damages only `order_id`; the check adds messages without each of the ten fields.
WITHOUT = {f"without {field}": field for field in FIELDS}
CORRECT_JSON = {"missing_key": "order_id", "null_key": "order_id"} | WITHOUT
HIDDEN_PARTITION = 100
BOUND = 800
KEPT_REPORTS = 100  # Spark's default of spark.sql.streaming.numRecentProgressUpdates
TIMEOUT_S = 20  # without a new batch


@dataclass(frozen=True)
class Caught:
    """What a function for malformed messages returned, by the ledger's kinds.

    Args:
        rows: how many records it returned.
        sent: kind of malformed message to how many were sent.
        caught: kind to how many of them it returned.
        valid: how many valid events it returned.
    """

    rows: int
    sent: dict[str, int]
    caught: dict[str, int]
    valid: int


def caught_in(found: pd.DataFrame, sends: pd.DataFrame) -> Caught:
    """Look up in the ledger what kind of message each record is.

    Args:
        found: partition and offset of each record.
        sends: partition, offset, kind and state of each send, as in the ledger's frame.
    """
    sends = sends[sends["state"] == "acked"]
    looked_up = found.merge(sends[["partition", "offset", "kind"]], on=["partition", "offset"])
    sent = sends["kind"].str.partition(":")[2].value_counts()
    caught = looked_up["kind"].str.partition(":")[2].value_counts()
    return Caught(
        rows=len(found),
        sent={kind: int(count) for kind, count in sent.items() if kind},
        caught={kind: int(count) for kind, count in caught.items() if kind},
        valid=int((~looked_up["kind"].str.startswith("malformed")).sum()),
    )


def incomplete_messages(seed: int) -> tuple[list[bytes], pd.DataFrame]:
    """Valid events and, for each field, one event without it and one in which it is null.

    Args:
        seed: the same seed gives the same messages.

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
    sends = pd.DataFrame(
        {
            "kind": [kind for kind, _ in messages],
            "state": "acked",
            "partition": HIDDEN_PARTITION,
            "offset": range(len(messages)),
        }
    )
    return [json.dumps(event).encode() for _, event in messages], sends


@check_of("03.1")
class FindMalformed:
    """The answer is a function from parsed records to the malformed ones; it runs as a stream."""

    @staticmethod
    def observe(lab, answer) -> Caught:
        """Run the function on the lesson's topic and on a topic of incomplete messages."""
        from pyspark.sql import DataFrame, SparkSession

        topic, hidden = lab.topic("orders"), lab.topic(f"scratch-{secrets.token_hex(3)}")
        messages, hidden_sends = incomplete_messages(seed=secrets.randbelow(1_000_000))
        _send(lab.endpoints.kafka_bootstrap, hidden, messages)
        spark = SparkSession.active()
        returned = answer(_parsed(spark, lab.endpoints.kafka_bootstrap, topic, hidden))
        if not isinstance(returned, DataFrame):
            kind = type(returned).__name__
            raise Unreadable(
                f"Your function returned a {kind}; it should return parsed.where(...)."
            )
        name = f"check_{secrets.token_hex(3)}"
        query = (
            returned.select("partition", "offset")
            .writeStream.format("memory")
            .queryName(name)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found = spark.table(name).toPandas()
        spark.catalog.dropTempView(name)
        sends = lab.ledger(topic).frame()[list(hidden_sends.columns)]
        return caught_in(found, pd.concat([sends, hidden_sends]))

    @staticmethod
    def judge(facts: Caught) -> Passed | NotYet:
        """Every message that is malformed by its form, and no valid event."""
        by_form = {
            kind: count
            for kind, count in facts.sent.items()
            if kind in KINDS_BY_FORM or kind in WITHOUT
        }
        missed = {
            kind: count - facts.caught.get(kind, 0)
            for kind, count in by_form.items()
            if facts.caught.get(kind, 0) < count
        }
        total = sum(by_form.values())
        caught = total - sum(missed.values())
        if facts.valid:
            return NotYet(
                f"{facts.valid:,} valid events were caught too. They would be missing in every "
                "table."
            )
        if set(by_form) - {"empty"} == set(missed) - {"empty"} and missed:
            return NotYet(
                f"Found {caught} of {total} malformed messages. Since Spark 3.0 `from_json` makes "
                "of bad JSON a row of nulls, which is not null. Look at the fields."
            )
        if missed and missed.keys() <= CORRECT_JSON.keys():
            fields = sorted({CORRECT_JSON[kind] for kind in missed})
            names = f"{len(fields)} of the fields" if len(fields) > 4 else ", ".join(fields)
            return NotYet(
                f"{sum(missed.values())} messages without {names} got through. As JSON they are "
                "correct, so nothing is corrupt: test each field that an order must have. (The "
                "check itself sends two messages without each field.)"
            )
        if missed:
            kinds = ", ".join(f"{count} {kind}" for kind, count in missed.items())
            return NotYet(
                f"Found {caught} of {total}; these got through: {kinds}. "
                "Which of the fields are null in them?"
            )
        return Passed(
            f"All {caught} messages that are no orders by their form, and no valid event."
        )


def _send(bootstrap: str, topic: str, messages: list[bytes]) -> None:
    """Put messages on a new topic with one partition, in their order."""
    ensure_topic(bootstrap, topic, partitions=1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for message in messages:
        producer.produce(topic, message)
    producer.flush()


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


@dataclass(frozen=True)
class Batches:
    """How a stream cut its input into batches.

    Args:
        sizes: records of each batch that Spark still has a report of.
        read: records of all batches.
        waiting: records in the topic.
        ended: whether the query ended by itself.
    """

    sizes: tuple[int, ...]
    read: int
    waiting: int
    ended: bool


def batches_in(reports: Sequence[Mapping], waiting: int, ended: bool) -> Batches:
    """The batches of a query that read one topic from its beginning.

    Args:
        reports: `recentProgress` of the query. Spark keeps the last 100 reports, so of a query
            with more batches the end offsets say how much it read.
        waiting: records in the topic.
        ended: whether the query ended by itself.
    """
    sizes = tuple(int(report["numInputRows"]) for report in reports if report["numInputRows"])
    read = sum(sizes)
    if len(reports) >= KEPT_REPORTS and reports[0]["batchId"] > 0:
        [ends] = reports[-1]["sources"][0]["endOffset"].values()
        read = sum(ends.values())
    return Batches(sizes, read, waiting, ended)


@check_of("03.2")
class BoundBatches:
    """The answer is a started query; its progress reports say how large the batches were."""

    @staticmethod
    def observe(lab, answer) -> Batches:
        """Wait for the query's end, and read its progress reports."""
        from pyspark.sql.streaming import StreamingQuery

        if answer is None:
            raise Unreadable(
                "bounded is None: `awaitTermination()` returns nothing. Keep the query that "
                "`start()` returns; the check waits for its end."
            )
        if not isinstance(answer, StreamingQuery):
            kind = type(answer).__name__
            raise Unreadable(f"bounded is a {kind}; it should be the query that start() returns.")
        ended = _wait_for_end(answer)
        reports = list(answer.recentProgress)
        if not ended:
            answer.stop()  # else it would run beside the rest of the lesson
        ends = topic_end_offsets(lab.endpoints.kafka_bootstrap, lab.topic("orders"))
        return batches_in(reports, sum(ends.values()), ended)

    @staticmethod
    def judge(facts: Batches) -> Passed | NotYet:
        """The query ended, read everything, and no batch is larger than the bound."""
        largest = max(facts.sizes, default=0)
        if not facts.ended:
            return NotYet(
                f"The query was still running after {TIMEOUT_S} seconds without a new batch; it "
                "is stopped now. A trigger that reads what is there and ends is `availableNow`."
            )
        if facts.read == 0:
            return NotYet(
                "It ended without reading a record. Without `startingOffsets` a new stream begins "
                "at the end of the topic; with an old checkpoint it goes on where that one ended."
            )
        if largest > BOUND and len(facts.sizes) == 1:
            return NotYet(
                f"One batch of {largest:,} records. `maxOffsetsPerTrigger` bounds a batch "
                "(`minPartitions` only cuts a batch into tasks), and the trigger must respect it: "
                "`once` does all of it in one batch, whatever the bound."
            )
        if largest > BOUND:
            return NotYet(f"The largest batch has {largest:,} records; the bound is {BOUND}.")
        if facts.read < facts.waiting:
            return NotYet(f"It read {facts.read:,} of the {facts.waiting:,} records that wait.")
        return Passed(f"{facts.read:,} records, at most {largest:,} of them in one batch.")


def _wait_for_end(query) -> bool:
    """Wait as long as the query makes progress; returns whether it ended by itself."""
    last_batch = None
    while not query.awaitTermination(TIMEOUT_S):
        batch = query.lastProgress and query.lastProgress["batchId"]
        if batch == last_batch:
            return False
        last_batch = batch
    return True


@dataclass(frozen=True)
class Ranges:
    """Offset ranges that the learner gave, and those of the checkpoint.

    Args:
        given: partition to the given begin and end.
        batches: for each batch, partition to begin and end.
    """

    given: dict[int, tuple[int, int]]
    batches: tuple[dict[int, tuple[int, int]], ...]


@check_of("03.3")
class ReadRanges:
    """The answer is a dictionary of ranges; the checkpoint's own files say whether it is right."""

    @staticmethod
    def observe(lab, answer) -> Ranges:
        """Read the answer, and the ranges of all batches of the JSON stream."""
        from lab_env.pipeline.checkpoint import read_checkpoint

        given = given_ranges(answer)
        batches = read_checkpoint(lab.endpoints, lab.path("checkpoints/json"))
        ranges = tuple(
            {
                partition: (batch.start.get(partition, 0), end)
                for partition, end in batch.end.items()
            }
            for batch in batches
        )
        return Ranges(given, ranges)

    @staticmethod
    def judge(facts: Ranges) -> Passed | NotYet:
        """Begin and end of batch 1 in each partition."""
        expected = facts.batches[1]
        if facts.given == expected:
            read = sum(end - begin for begin, end in expected.values())
            return Passed(f"Batch 1 read {read:,} records.")
        if facts.given.keys() != expected.keys():
            return NotYet(
                f"You gave the partitions {sorted(facts.given)}; "
                f"the topic has {sorted(expected)}, each with a range."
            )
        for number, ranges in enumerate(facts.batches):
            if facts.given == ranges:
                return NotYet(
                    f"That is what batch {number} read. The file `offsets/N` says where batch N "
                    "ends; it begins where the one before it ended."
                )
        if facts.given == {p: (begin, end - 1) for p, (begin, end) in expected.items()}:
            return NotYet(
                "The begin is right. The end that Kafka counts with is the offset behind the last "
                "record, so that end - begin is the number of records."
            )
        return NotYet("These ranges belong to no batch. Compare `offsets/0` and `offsets/1`.")


def given_ranges(answer) -> dict[int, tuple[int, int]]:
    """The ranges of an answer: partition to begin and end.

    Raises:
        Unreadable: the answer is no dictionary of pairs of whole numbers.
    """
    if not isinstance(answer, Mapping):
        kind = type(answer).__name__
        raise Unreadable(f"A dictionary from partition to (begin, end) is expected, not a {kind}.")
    given = {}
    for partition, ends in answer.items():
        offsets = [as_int(offset) for offset in as_list(ends)]
        if len(offsets) != 2:
            raise Unreadable(f"Partition {partition} needs two offsets: where it begins and ends.")
        given[as_int(partition)] = (offsets[0], offsets[1])
    return given
