"""Parses Kafka records into typed order events, or gives the reason why a record is malformed.

Every message is in exactly one of `valid_events` and `dead_letters`: the filters are complementary.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lab_env.shop.events import EVENT_DDL, FIELDS, MAX_EVENT_BYTES, OPS, STATUSES
from lab_env.shop.kafka_client import spark_options

EARLIEST = "2020-01-01"
CORRUPT = "_corrupt"
STRICT = {"mode": "PERMISSIVE", "allowSingleQuotes": "false"}
DATE = r"^\d{4}-\d\d-\d\d$"
UNKNOWN_FIELDS = "unknown_fields"  # in a batch's progress: its events with fields beside `FIELDS`
TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"


def read_topic(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """The topic as a stream of Kafka records, from its beginning.

    Args:
        spark: the session.
        bootstrap: `host:port` of the broker.
        topic: topic name.
        options: further options of the Kafka source, for example `maxOffsetsPerTrigger="50000"`;
            with `assign` it reads the partitions named there, otherwise all.

    Returns:
        A streaming DataFrame with Kafka's columns (key, value, partition, offset, timestamp, ...).
    """
    chosen = {} if "assign" in options else {"subscribe": topic}
    return (
        spark.readStream.format("kafka")
        .options(**spark_options(bootstrap))
        .options(**chosen)
        # Kafka's default would make orders of the messages of aborted transactions.
        .option("kafka.isolation.level", "read_committed")
        # A stream defaults to `latest` and would lose what was sent before its first start.
        .option("startingOffsets", "earliest")
        # Offsets that the broker no longer has stop the query instead of being skipped silently.
        .option("failOnDataLoss", "true")
        .options(**options)
        .load()
    )


def parse(records: DataFrame) -> DataFrame:
    """Parse each record's value, and find the reason if it is malformed.

    Args:
        records: Kafka records with `value` (binary), `partition`, `offset` and `timestamp`.

    Returns:
        The records with `event` (struct of the typed fields), `reason` (null for a valid one) and
        `names` (those of all fields in the text, also of fields that nobody reads).
    """
    schema = f"{EVENT_DDL}, {CORRUPT} STRING"
    options = {"columnNameOfCorruptRecord": CORRUPT, **STRICT}
    text = F.regexp_replace(F.col("value").cast("string"), r"^\s+|\s+$", "")
    return (
        records.withColumn("text", text)
        .withColumn("event", once(F.from_json("text", schema, options)))
        .withColumn("objects", once(_objects()))
        .withColumn("names", F.when(F.size("objects") == 1, F.col("objects")[0]))
        .withColumn("reason", _reason())
        .withColumn("reason", once(F.col("reason")))
        .drop("text", "objects")
    )


def once(column: Column) -> Column:
    """The same column, computed once per row.

    Spark's optimizer inlines an expression wherever it is used, so a filter on `reason` parsed each
    message dozens of times: 7,000 messages took 13 s instead of 3. It inlines nothing through
    `explode`, which here turns one row into one row.
    """
    return F.explode(F.array(column))


def _reason() -> Column:
    """The first problem of a record, checked from the outside in; null if there is none."""
    text, event, names = F.col("text"), F.col("event"), F.col("names")
    return (
        F.when(text.isNull() | (text == ""), "empty")
        .when(F.length("value") > MAX_EVENT_BYTES, "oversized")
        .when(~text.startswith("{"), "not_json")
        .when(
            names.isNull(),
            F.when(F.json_object_keys(text).isNotNull() | text.endswith("}"), "not_json").otherwise(
                "truncated"
            ),
        )
        .when(~F.array_contains(names, "order_id"), "missing_key")
        .when(F.coalesce(F.trim(event["order_id"]), F.lit("")) == "", "null_key")
        .when(event[CORRUPT].isNotNull() | _any(_has_other_type, FIELDS), "wrong_type")
        .when(
            _any(lambda field: F.coalesce(event[field], F.lit("")) == "", FIELDS), "missing_field"
        )
        .when(~event["op"].isin(*OPS), "unknown_op")
        .when(~event["status"].isin(*STATUSES), "unknown_status")
        .when(_raw_amount().startswith("-"), "negative_amount")
        .when(~_raw_amount().rlike(r"^\d+(\.\d\d?)?$"), "wrong_type")  # it would be rounded
        .when(_is_impossible_time(), "impossible_timestamp")
    )


def _objects() -> Column:
    """The field names of each JSON object in a text; not one list of them, if it is no object.

    `from_json` alone would take the first object and silently drop what follows.
    """
    wrapped = F.concat(F.lit("["), F.col("text"), F.lit("]"))
    objects = F.from_json(wrapped, "array<map<string,string>>", STRICT)
    return F.transform(objects, F.map_keys)


def _has_other_type(field: str) -> Column:
    """Whether a field has another JSON type: `from_json` turns most types into text."""
    token = r"-?\d" if field == "amount" else '"'
    typed = F.col("text").rlike(rf'"{field}"\s*:\s*{token}')
    return F.col("event")[field].isNotNull() & ~typed


def _raw_amount() -> Column:
    return F.get_json_object("text", "$.amount")


def _is_impossible_time() -> Column:
    """Whether a time cannot be parsed, or is out of range for an order of this shop."""
    event = F.col("event")
    unreadable = ~event["partition_date"].rlike(DATE) | F.to_date(event["partition_date"]).isNull()
    for field in ("order_ts", "sent_at"):
        unreadable |= ~event[field].rlike(TIME) | F.to_timestamp(event[field]).isNull()
    order_ts, created = F.to_timestamp(event["order_ts"]), F.to_date(event["partition_date"])
    return (
        unreadable
        | (order_ts > F.col("timestamp") + F.expr("INTERVAL 1 DAY"))
        | (created > F.to_date(order_ts))  # an order cannot change before it is created
        | (created < F.lit(EARLIEST).cast("date"))
        | (order_ts < F.lit(EARLIEST).cast("timestamp"))
    )


def _any(condition, fields: tuple[str, ...]) -> Column:
    return reduce(Column.__or__, map(condition, fields))


def valid_events(parsed: DataFrame) -> DataFrame:
    """The valid events as typed rows, one row per message.

    Args:
        parsed: what `parse` returned.

    Returns:
        Columns as in the event, `order_ts` and `sent_at` as timestamps.
    """
    return (
        parsed.where(F.col("reason").isNull())
        .select(*(F.col(f"event.{field}") for field in FIELDS))
        .withColumn("order_ts", F.to_timestamp("order_ts"))
        .withColumn("sent_at", F.to_timestamp("sent_at"))
    )


def dead_letters(parsed: DataFrame) -> DataFrame:
    """The malformed messages, each with its reason, its raw bytes and its position in the topic.

    Args:
        parsed: what `parse` returned.

    Returns:
        Columns `reason`, `value` (the raw bytes), `key`, `topic`, `partition`, `offset`,
        `timestamp`.
    """
    return parsed.where(F.col("reason").isNotNull()).select(
        "reason", "value", "key", "topic", "partition", "offset", "timestamp"
    )


def count_unknown_fields(parsed: DataFrame) -> DataFrame:
    """The same rows; a query that reads them counts valid events with fields that nobody reads.

    `from_json` drops such fields silently. They are counted while the rows pass by, and stand in
    `observedMetrics` of each batch's progress, under `UNKNOWN_FIELDS`.

    Args:
        parsed: what `parse` returned.
    """
    return parsed.observe(UNKNOWN_FIELDS, *unknown_fields())


def unknown_fields() -> tuple[Column, Column]:
    """Two aggregates over the parsed rows: `events`, how many valid ones have a field that is not
    one of `FIELDS`, and `fields`, names of such fields.

    Of all those lists of names only the first and the last in their order are kept: whoever sends
    a new name with each event must not fill the writer's memory.
    """
    unknown = F.array_except("names", F.array(*map(F.lit, FIELDS)))
    # A valid event has all of `FIELDS`: for nearly every one, comparing two numbers is enough.
    has_more = F.col("reason").isNull() & (F.size("names") > len(FIELDS))
    unknown = F.when(has_more & (F.size(unknown) > 0), unknown)
    return (
        F.count(unknown).alias("events"),
        F.array_union(F.min(unknown), F.max(unknown)).alias("fields"),
    )


def with_deletes(events: DataFrame) -> DataFrame:
    """Mark erase events as deletes for Hudi, which orders them by `order_ts` like any other event.

    Args:
        events: what `valid_events` returned.

    Returns:
        The events with the column `_hoodie_is_deleted`.
    """
    return events.withColumn("_hoodie_is_deleted", F.col("op") == "erase")
