"""A Copy-on-Write table of all events with a record index; every answer is computed from it."""

from pyspark.sql import Window
from pyspark.sql import functions as F

EVENT = (
    "event_id STRING, op STRING, payment_id STRING, card_id STRING, amount DECIMAL(12,2), "
    "fee DECIMAL(12,2), ts STRING, received_at STRING"
)
VALID = """
    event_id <> '' AND card_id <> '' AND ts <> '' AND received_at <> '' AND (op = 'erase' OR
        op IN ('pay', 'change', 'chargeback') AND payment_id <> '' AND amount >= 0)
"""
AUDIT = "2026-11-18T18:00:00Z"
EVENTS = {
    "hoodie.table.name": "events",
    "hoodie.datasource.write.recordkey.field": "event_id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "1",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
}
DEAD = {
    "hoodie.table.name": "dead",
    "hoodie.datasource.write.recordkey.field": "partition,offset",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.metadata.enable": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
}


def split(messages):
    event = F.from_json(F.col("value").cast("string"), EVENT)
    parsed = messages.select(
        "partition", "offset", F.col("value").cast("string").alias("text"), event.alias("event")
    ).select("partition", "offset", "text", "event.*")
    parsed = parsed.withColumn("good", F.coalesce(F.expr(VALID), F.lit(False)))
    valid = parsed.where("good").drop("partition", "offset", "text", "good")
    return valid, parsed.where("NOT good").select("partition", "offset", "text")


def write(rows, path, options):
    rows.write.format("hudi").options(**options).mode("append").save(path)


def build(spark, source, base):
    def write_batch(messages, batch):
        session = messages.sparkSession
        messages.persist()
        events, dead = split(messages)
        write(dead, f"{base}/dead", DEAD)
        events = events.withColumn("_hoodie_is_deleted", F.lit(False))
        write(events, f"{base}/events", EVENTS)
        known = session.read.format("hudi").load(f"{base}/events")
        gone = known.where("op = 'erase'").select("card_id")
        doomed = known.where("op <> 'erase'").join(gone, "card_id", "left_semi")
        if not doomed.isEmpty():
            marked = doomed.select(*events.columns).withColumn("_hoodie_is_deleted", F.lit(True))
            write(marked, f"{base}/events", EVENTS)
        messages.unpersist()

    messages = spark.readStream.format("kafka").options(**source)
    messages = messages.option("startingOffsets", "earliest").load()
    stream = messages.writeStream.foreachBatch(write_batch)
    stream = stream.option("checkpointLocation", f"{base}/_checkpoint")
    stream.trigger(availableNow=True).start().awaitTermination()


def newest(events):
    last = Window.partitionBy("payment_id").orderBy(F.desc("ts"))
    events = events.where("op <> 'erase'").withColumn("rank", F.row_number().over(last))
    return events.where("rank = 1")


def exposure(payments):
    counts = F.when(F.col("op") == "chargeback", 0).otherwise(
        F.col("amount") + F.coalesce("fee", F.lit(0))
    )
    return payments.groupBy("card_id").agg(F.sum(counts).alias("exposure"))


def answers(spark, base):
    events = spark.read.format("hudi").load(f"{base}/events")
    payments = newest(events)
    return {
        "payments": payments.select("payment_id", "card_id", "amount", "event_id"),
        "exposure": exposure(payments),
        "known": exposure(newest(events.where(F.col("received_at") <= AUDIT))),
        "dead_letters": spark.read.format("hudi").load(f"{base}/dead"),
    }
