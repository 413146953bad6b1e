"""The checks of lesson 03: malformed messages, a bounded batch, the ranges in a checkpoint."""

import secrets
from dataclasses import dataclass

from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.shop.events import EVENT_DDL

# What makes a message no order by its form; the other kinds break rules of the business.
KINDS_BY_FORM = ("not_json", "empty", "truncated", "wrong_type", "missing_key", "null_key")
CORRECT_JSON = {"missing_key", "null_key"}
BOUND = 800
PATIENCE_SECONDS = 30


@dataclass(frozen=True)
class Caught:
    """What a function for malformed messages caught, by the ledger's word.

    Args:
        rows: rows that it returned.
        sent: kind of malformed message to how many were sent.
        caught: kind to how many of them it returned.
        valid: valid events that it returned.
    """

    rows: int
    sent: dict[str, int]
    caught: dict[str, int]
    valid: int


def caught_in(places, sends) -> Caught:
    """Judge places in the topic by the ledger.

    Args:
        places: pandas rows with partition and offset.
        sends: the ledger's frame.
    """
    sends = sends[sends["state"] == "acked"]
    judged = places.merge(sends[["partition", "offset", "kind"]], on=["partition", "offset"])
    sent = sends["kind"].str.partition(":")[2].value_counts()
    caught = judged["kind"].str.partition(":")[2].value_counts()
    return Caught(
        rows=len(places),
        sent={kind: int(count) for kind, count in sent.items() if kind},
        caught={kind: int(count) for kind, count in caught.items() if kind},
        valid=int((~judged["kind"].str.startswith("malformed")).sum()),
    )


@check_of("03.1")
class FindMalformed:
    """The answer is a function from parsed records to the malformed ones; it runs as a stream."""

    @staticmethod
    def observe(lab, answer) -> Caught:
        from pyspark.sql import DataFrame, SparkSession
        from pyspark.sql import functions as F

        spark = SparkSession.active()
        topic = lab.topic("orders")
        parsed = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", lab.endpoints.kafka_bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
            .withColumn(
                "event",
                F.from_json(
                    F.col("value").cast("string"),
                    f"{EVENT_DDL}, _corrupt STRING",
                    {"columnNameOfCorruptRecord": "_corrupt"},
                ),
            )
        )
        found = answer(parsed)
        if not isinstance(found, DataFrame):
            raise TypeError(
                f"your function returned a {type(found).__name__}; it should return parsed.where(...)"
            )
        name = f"check_{secrets.token_hex(3)}"
        query = (
            found.select("partition", "offset")
            .writeStream.format("memory")
            .queryName(name)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        places = spark.table(name).toPandas()
        spark.catalog.dropTempView(name)
        return caught_in(places, lab.ledger(topic).frame())

    @staticmethod
    def judge(facts: Caught) -> Passed | NotYet:
        by_form = {kind: facts.sent[kind] for kind in KINDS_BY_FORM if kind in facts.sent}
        missed = {
            kind: count - facts.caught.get(kind, 0)
            for kind, count in by_form.items()
            if facts.caught.get(kind, 0) < count
        }
        got = sum(by_form.values()) - sum(missed.values())
        if facts.valid:
            return NotYet(
                f"{facts.valid:,} valid events were caught too. They would be missing in every table."
            )
        if set(by_form) - {"empty"} == set(missed) - {"empty"} and missed:
            return NotYet(
                f"Found {got} of {sum(by_form.values())} malformed messages. Since Spark 3.0 `from_json` "
                "makes of bad JSON a row of nulls, which is not null. Look at the fields."
            )
        if missed and set(missed) <= CORRECT_JSON:
            return NotYet(
                f"{sum(missed.values())} messages without an order_id got through. As JSON they are "
                "correct, so nothing is corrupt: test each field that an order must have."
            )
        if missed:
            kinds = ", ".join(f"{count} {kind}" for kind, count in missed.items())
            return NotYet(
                f"Found {got} of {sum(by_form.values())}; these got through: {kinds}. "
                "Which of the fields are null in them?"
            )
        return Passed(f"All {got} messages that are no orders by their form, and no valid event.")


@dataclass(frozen=True)
class Batches:
    """How a stream cut its input.

    Args:
        sizes: records of each batch.
        waiting: records in the topic.
        ended: whether the query ended by itself.
    """

    sizes: tuple[int, ...]
    waiting: int
    ended: bool


@check_of("03.2")
class BoundBatches:
    """The answer is a started query; its progress reports say how large the batches were."""

    @staticmethod
    def observe(lab, answer) -> Batches:
        from pyspark.sql.streaming import StreamingQuery

        from lab_env.shop.topics import topic_end_offsets

        if not isinstance(answer, StreamingQuery):
            raise TypeError(f"bounded is a {type(answer).__name__}; start() returns the query")
        ended = bool(answer.awaitTermination(PATIENCE_SECONDS))
        sizes = tuple(
            int(report["numInputRows"])
            for report in answer.recentProgress
            if report["numInputRows"]
        )
        if not ended:
            answer.stop()  # it would go on beside everything that follows
        ends = topic_end_offsets(lab.endpoints.kafka_bootstrap, lab.topic("orders"))
        return Batches(sizes, sum(ends.values()), ended)

    @staticmethod
    def judge(facts: Batches) -> Passed | NotYet:
        largest, read = max(facts.sizes, default=0), sum(facts.sizes)
        if not facts.ended:
            return NotYet(
                f"The query was still running after {PATIENCE_SECONDS} seconds; it is stopped now. "
                "A trigger that reads what is there and ends is `availableNow`."
            )
        if read == 0:
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
        if read < facts.waiting:
            return NotYet(f"It read {read:,} of the {facts.waiting:,} records that wait.")
        return Passed(
            f"{read:,} records in {len(facts.sizes)} batches, the largest of {largest:,}."
        )


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
        from lab_env.pipeline.checkpoint import read_checkpoint

        given = {}
        for partition, ends in dict(answer).items():
            begin, end = ends
            given[int(partition)] = (int(begin), int(end))
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
        wanted = facts.batches[1]
        if facts.given == wanted:
            read = sum(end - begin for begin, end in wanted.values())
            return Passed(f"Batch 1 read {read:,} records.")
        if facts.given.keys() != wanted.keys():
            return NotYet(
                f"You gave the partitions {sorted(facts.given)}; "
                f"the topic has {sorted(wanted)}, each with a range."
            )
        for number, ranges in enumerate(facts.batches):
            if facts.given == ranges:
                return NotYet(
                    f"That is what batch {number} read. The file `offsets/N` says where batch N "
                    "ends; it begins where the one before it ended."
                )
        if facts.given == {p: (begin, end - 1) for p, (begin, end) in wanted.items()}:
            return NotYet(
                "The begin is right. The end that Kafka counts with is the offset behind the last "
                "record, so that end - begin is the number of records."
            )
        return NotYet("These ranges belong to no batch. Compare `offsets/0` and `offsets/1`.")
