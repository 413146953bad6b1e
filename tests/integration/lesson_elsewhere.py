"""A lesson on servers that its lab did not start; `test_lessons.py` runs it and reads its output.

It prints one JSON object per step and continues when it receives a line.
"""

import json
import sys

from lab_env import Lab
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS
from lab_env.platform.brokers.topics import ensure_topic, topic_end_offsets
from lab_env.platform.services import hive
from lab_env.platform.store import list_objects

LESSON = "01"


def report(**facts) -> None:
    """Print facts and wait for a line."""
    print(json.dumps(facts), flush=True)
    sys.stdin.readline()


def main() -> None:
    """Write a table, register its name and fill a topic; resume the lesson; start it again."""
    lab = Lab.start(LESSON, "metastore")
    spark = lab.spark
    topic, path = lab.topic("orders"), lab.path("orders")
    ensure_topic(lab.endpoints.kafka_bootstrap, topic, 1)
    orders = spark.sql(
        "SELECT 'O-1' AS order_id, 1 AS amount, '2026-11-20' AS partition_date,"
        " TIMESTAMP '2026-11-20 12:00:00' AS order_ts"
    )
    options = KEYS | DEMO_OPTIONS | {"hoodie.table.name": "orders"}
    orders.write.format("hudi").options(**options).mode("append").save(path)
    spark.sql(f"CREATE DATABASE {lab.database} LOCATION '{path}_names'")
    spark.sql(f"CREATE TABLE {lab.database}.orders USING hudi LOCATION '{path}'")
    kafka = {"kafka.bootstrap.servers": lab.endpoints.kafka_bootstrap, "topic": topic}
    messages = orders.selectExpr("order_id AS key", "to_json(struct(*)) AS value")
    messages.write.format("kafka").options(**kafka).save()
    (lab.folder / "notes.txt").write_text("mine")
    report(master=spark.sparkContext.master, endpoints=repr(lab.endpoints), **facts(lab, spark))

    resumed = Lab.resume(LESSON, "metastore")
    same = resumed.spark is spark
    notes = (resumed.folder / "notes.txt").read_text()
    report(same_session=same, notes=notes, **facts(resumed, spark))

    again = Lab.start(LESSON, "metastore")
    objects = list(list_objects(again.endpoints, f"{again.namespace}/"))
    topics = topic_names(again)
    databases = hive.call(again.address("metastore"), "get_all_databases")
    report(objects=len(objects), topics=topics, databases=databases)


def facts(lab: Lab, spark) -> dict:
    """Return the content of the lesson's servers, read through its session."""
    topic = lab.topic("orders")
    kafka = {"kafka.bootstrap.servers": lab.endpoints.kafka_bootstrap, "subscribe": topic}
    return {
        "rows": spark.read.format("hudi").load(lab.path("orders")).count(),
        "rows_by_name": spark.table(f"{lab.database}.orders").count(),
        "messages": spark.read.format("kafka").options(**kafka).load().count(),
        "end_offset": sum(topic_end_offsets(lab.endpoints.kafka_bootstrap, topic).values()),
    }


def topic_names(lab: Lab) -> list[str]:
    """Return the lesson's topics."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": lab.endpoints.kafka_bootstrap})
    return [name for name in admin.list_topics(timeout=10).topics if name.startswith(lab.namespace)]


if __name__ == "__main__":
    main()
