"""Plain SQL in `foreachBatch`: MERGE INTO for page views, DELETE for visitors who withdraw."""

from pyspark.sql import Window
from pyspark.sql import functions as F

EVENT = (
    "event_id STRING, op STRING, visitor_id STRING, page STRING, "
    "view STRUCT<path: STRING, title: STRING>, ts STRING, received_at STRING"
)
VALID = """
    event_id <> '' AND visitor_id <> ''
    AND to_timestamp(ts) <= to_timestamp(received_at) + INTERVAL 1 DAY
    AND (op = 'withdraw' OR op = 'view' AND page <> '')
"""
TABLES = {
    "views": "event_id STRING, visitor_id STRING, page STRING, ts STRING",
    "withdrawn": "visitor_id STRING",
    "dead": "place STRING, partition INT, offset BIGINT, text STRING",
}
KEYS = {"views": "event_id", "withdrawn": "visitor_id", "dead": "place"}


def split(messages):
    event = F.from_json(F.col("value").cast("string"), EVENT)
    parsed = messages.select(
        "partition", "offset", F.col("value").cast("string").alias("text"), event.alias("event")
    ).select("partition", "offset", "text", "event.*")
    parsed = parsed.withColumn("page", F.coalesce("page", "view.path"))
    parsed = parsed.withColumn("good", F.coalesce(F.expr(VALID), F.lit(False)))
    return parsed.where("good"), parsed.where("NOT good")


def create_tables(spark, base):
    for name, columns in TABLES.items():
        spark.sql(f"""
            CREATE TABLE IF NOT EXISTS {name} ({columns}) USING hudi
            TBLPROPERTIES (primaryKey = '{KEYS[name]}', 'hoodie.metadata.enable' = 'false')
            LOCATION '{base}/{name}'
        """)


def merge(rows, name):
    rows.createOrReplaceTempView("batch")
    key = KEYS[name]
    rows.sparkSession.sql(f"""
        MERGE INTO {name} AS t USING batch AS b ON t.{key} = b.{key}
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
    """)


def build(spark, source, base):
    create_tables(spark, base)

    def write_batch(messages, batch):
        session = messages.sparkSession
        messages.persist()
        events, dead = split(messages)
        place = F.concat_ws("-", "partition", "offset").alias("place")
        merge(dead.select(place, "partition", "offset", "text"), "dead")
        withdrawn = events.where("op = 'withdraw'").select("visitor_id").distinct()
        if not withdrawn.isEmpty():
            merge(withdrawn, "withdrawn")
        known = session.table("withdrawn").select("visitor_id")
        views = events.where("op = 'view'").join(known, "visitor_id", "left_anti")
        views = views.dropDuplicates(["event_id"])
        merge(views.select("event_id", "visitor_id", "page", "ts"), "views")
        if not withdrawn.isEmpty():
            gone = ", ".join(f"'{row.visitor_id}'" for row in withdrawn.collect())
            session.sql(f"DELETE FROM views WHERE visitor_id IN ({gone})")
        messages.unpersist()

    messages = spark.readStream.format("kafka").options(**source)
    messages = messages.option("startingOffsets", "earliest").load()
    stream = messages.writeStream.foreachBatch(write_batch)
    stream = stream.option("checkpointLocation", f"{base}/_checkpoint")
    stream.trigger(availableNow=True).start().awaitTermination()


def answers(spark, base):
    views = spark.read.format("hudi").load(f"{base}/views")
    views = views.select("event_id", "visitor_id", "page", "ts")
    own = Window.partitionBy("visitor_id").orderBy("ts")
    gap = F.unix_timestamp(F.to_timestamp("ts")) - F.lag(
        F.unix_timestamp(F.to_timestamp("ts"))
    ).over(own)
    begins = F.when(gap <= 1800, 0).otherwise(1)
    numbered = views.withColumn("begins", begins)
    numbered = numbered.withColumn("session", F.sum("begins").over(own))
    sessions = numbered.groupBy("visitor_id", "session").agg(
        F.min("ts").alias("started"),
        F.max("ts").alias("ended"),
        F.count("*").alias("views"),
        F.min_by("page", "ts").alias("entry_page"),
    )
    dead = spark.read.format("hudi").load(f"{base}/dead")
    return {"views": views, "sessions": sessions, "dead_letters": dead}
