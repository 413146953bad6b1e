"""The pipeline's writer as a streaming job on EMR Serverless; `lab cloud job` builds its request.

The lab's own writer (`lab_env.pipeline.writer`) runs on one machine: it builds its session from
local jars and writes its reports to local files. On EMR, Spark is provided, and each report is a
line of JSON on standard output, which CloudWatch turns into a metric (BehindMetric in lake.yaml).
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence

from lab_env.pipeline import guard, landing, parsing, sinks
from lab_env.pipeline.layout import checkpoint_path, table_path
from lab_env.pipeline.tasks import Tasks
from lab_env.pipeline.topic import Topic, TopicWatch
from lab_env.pipeline.writer import MAX_OFFSETS
from lab_env.platform.brokers.kafka_client import spark_options
from lab_env.platform.settings import Endpoints, settings

POLL_SECONDS = 5.0
# Kafka sign-in, as options of Spark's source.
SECURITY = {
    # The login module comes with aws-msk-iam-auth.
    "iam": {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
        "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "kafka.sasl.client.callback.handler.class": (
            "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
        ),
    },
    "plaintext": {},
}


def main(arguments: Sequence[str]) -> int:
    """Run the queries until the job is cancelled, or one of them fails or hangs.

    Return exit status 0 if the queries were stopped. Otherwise halt the JVM with status 1, so that
    EMR retries the job: after a failure Hudi's sink may hang forever.
    """
    job = _parse(arguments)
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("lakehouse-writer").getOrCreate()
    # No keys: the job's role is used.
    endpoints = Endpoints(
        job.endpoint,
        "",
        "",
        job.region,
        job.bucket,
        job.brokers,
        kinesis=settings().kinesis_endpoint,
    )
    base = f"s3a://{job.bucket}/{job.folder}"
    records, source = _read_source(spark, endpoints, job, base)
    trigger = {"processingTime": f"{job.seconds} seconds"}
    queries = [
        sinks.start_query(records, sink, base, trigger, _claim(endpoints, job, base, sink))
        for sink in sinks.SINKS
    ]
    seen: dict[str, str] = {}
    heard = dict.fromkeys(sinks.SINKS, time.monotonic())
    tasks = Tasks(spark)
    while all(query.isActive for query in queries):
        if source.error:
            return _halt(spark, f"{job.topic} can no longer be read: {source.error}")
        heard |= dict.fromkeys(tasks.went_on() & heard.keys(), time.monotonic())
        for line in new_lines([one for query in queries for one in query.recentProgress], seen):
            heard[line["sink"]] = time.monotonic()
            print(json.dumps(line), flush=True)
        if silent := [sink for sink in heard if time.monotonic() - heard[sink] > job.stall]:
            return _halt(spark, f"no progress of {', '.join(silent)} for {job.stall} s")
        time.sleep(POLL_SECONDS)
    if failed := [query for query in queries if query.exception()]:
        return _halt(spark, f"query {failed[0].name} failed: {failed[0].exception()}")
    return 0


def _read_source(spark, endpoints: Endpoints, job: argparse.Namespace, base: str):
    """Open the source, and start the thread that watches the topic or lands the Kinesis stream."""
    if job.source == "kafka":
        security = SECURITY[job.security]
        topic = Topic(spark, job.topic, spark_options(job.brokers) | security)
        checkpoints = [checkpoint_path(base, sink) for sink in sinks.SINKS]
        watch = TopicWatch(spark, topic, checkpoints, job.max_offsets)
        watch.start()
        options = security | watch.options
        return parsing.read_topic(spark, job.brokers, job.topic, **options), watch
    return landing.read_live(spark, endpoints, job.topic, base, job.seconds, job.stall)


def _halt(spark, why: str) -> int:
    print(why, file=sys.stderr, flush=True)
    spark.sparkContext._jvm.java.lang.Runtime.getRuntime().halt(1)
    return 1


def new_lines(reports: Sequence[dict], seen: dict[str, str]) -> Iterator[dict]:
    """Yield a line for each new progress report, including reports of idle queries.

    For Kafka, `behind` is the number of unread messages in the most delayed topic partition.

    Args:
        reports: the reports that Spark keeps, oldest first within each query.
        seen: time of the newest report already yielded, by query; updated in place.
    """
    for report in reports:
        if report["timestamp"] > seen.get(report["name"], ""):
            seen[report["name"]] = report["timestamp"]
            source = report["sources"][0]
            line = {
                "sink": report["name"],
                "batch": report["batchId"],
                "rows": report["numInputRows"],
                "seconds": report["durationMs"].get("triggerExecution", 0) / 1000,
            }
            if not source["description"].startswith("FileStreamSource"):
                metrics = source.get("metrics") or {}
                line["behind"] = int(metrics.get("maxOffsetsBehindLatest", 0))
            yield line


def _claim(endpoints: Endpoints, job: argparse.Namespace, base: str, sink: str) -> dict[str, str]:
    """Check that a sink's checkpoint belongs to its table; return the options of `claim_table`."""
    if sink not in sinks.HUDI_SINKS:
        return {}
    table, path = table_path(base, sink), checkpoint_path(base, sink)
    guard.drop_unmade(endpoints, table)
    guard.check_clock(endpoints, table, "")
    return guard.claim_table(endpoints, table, path, job.cores)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="emr_writer")
    for name in ("endpoint", "region", "bucket", "folder", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument(
        "--source",
        choices=("kafka", "kinesis"),
        default="kafka",
        help="kinesis: the stream TOPIC at LAB_KINESIS_ENDPOINT, in LAB_S3_REGION",
    )
    parser.add_argument("--brokers", default="", help="of Kafka")
    parser.add_argument("--security", choices=SECURITY, default="iam", help="of Kafka")
    parser.add_argument("--cores", type=int, default=2, help="of all executors")
    parser.add_argument("--max-offsets", type=int, default=MAX_OFFSETS, help="per batch of Kafka")
    parser.add_argument("--seconds", type=int, default=60, help="between two batches")
    parser.add_argument(
        "--stall",
        type=int,
        default=600,
        help="restart after so many seconds without a finished task, moved data or a report",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
