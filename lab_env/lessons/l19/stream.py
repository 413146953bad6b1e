"""The stream that lesson 19 freezes, and the pages on which it publishes numbers about itself."""

import math
from dataclasses import dataclass
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Gauge, start_http_server
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener

from lab_env.lessons.l19.figures import jvm_of_session, scrape_config, wait_until
from lab_env.pipeline.options import COMPACTION_OFF, DEMO_OPTIONS
from lab_env.pipeline.parsing import parse, read_topic
from lab_env.pipeline.session import INTERPRETED
from lab_env.pipeline.sinks import event_rows
from lab_env.platform.processes.ports import free_port
from lab_env.shop.model import Send
from lab_env.shop.record import recording

# Spark's metrics sink, not a stream's sink. It must be configured before the session starts.
SPARK_NUMBERS = {
    # Without it, names begin with the application's id, which changes at every restart.
    "spark.metrics.namespace": "shop",
    "spark.metrics.conf.*.sink.prometheusServlet.class": (
        "org.apache.spark.metrics.sink.PrometheusServlet"
    ),
    "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
    "spark.sql.streaming.metricsEnabled": "true",
    # Tables of a few hundred rows: to compile a query costs more than the compiled one saves.
    **INTERPRETED,
}
ORDERS = {
    **DEMO_OPTIONS,
    **COMPACTION_OFF,
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.table.ordering.fields": "order_ts",
    "hoodie.datasource.write.partitionpath.field": "partition_date",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.index.bloom.num_entries": "1000",  # a small key filter for small files
    # New orders begin files of their own. Otherwise Hudi adds them to small files, and rewrites
    # those with their updates: in so small a table that compacts nearly everything.
    "hoodie.parquet.small.file.limit": "0",
}


def two_days() -> list[Send]:
    """Return the recording's valid events from shortly before midnight on."""
    return [send for send in recording() if not send.kind.startswith("malformed")][4800:]


class LastReport(StreamingQueryListener):
    """Publishes how many messages the query is behind, after each batch."""

    def __init__(self, registry: CollectorRegistry):
        self.behind = Gauge("shop_messages_behind", "by the last report", registry=registry)
        self.behind.set(math.nan)  # until there is a report: a new gauge would say 0

    def onQueryProgress(self, event):
        self.behind.set(float(event.progress.sources[0].metrics["maxOffsetsBehindLatest"]))

    def onQueryStarted(self, event): ...
    def onQueryIdle(self, event): ...
    def onQueryTerminated(self, event): ...


@dataclass(frozen=True)
class Shop:
    """The running stream of orders, with what watches it."""

    query: StreamingQuery
    table: str
    checkpoint: str
    jvm: int  # process id
    ui: str  # URL of Spark's pages
    page: WSGIServer  # the listener's page

    def stop(self) -> None:
        """Stop the stream and the listener's page."""
        self.query.stop()
        self.page.shutdown()


def start_shop(lab, spark: SparkSession, topic: str) -> Shop:
    """Start the stream and read what the topic has; Prometheus scrapes all its pages from then on.

    Three pages: Spark's numbers, the listener's, and the exporter's, which reads topic, checkpoint
    and table.
    """
    table, checkpoint = lab.path("orders"), lab.path("_checkpoints/orders")
    registry, port = CollectorRegistry(), free_port(9097)
    spark.streams.addListener(LastReport(registry))
    page, _ = start_http_server(port, addr="127.0.0.1", registry=registry)
    query = (
        event_rows(parse(read_topic(spark, lab.endpoints.kafka_bootstrap, topic)))
        .writeStream.format("hudi")
        .queryName("orders")
        .options(**ORDERS)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="1 second")
        .start(table)
    )
    query.processAllAvailable()  # for tests: wait until everything is read
    ui = spark.sparkContext.uiWebUrl
    pages = {
        "spark": f"{ui}/metrics/prometheus/",
        "notebook": f"http://127.0.0.1:{port}/metrics",
    }
    lab.prometheus.scrape(scrape_config(pages, lab.namespace))
    lab.watch("orders", topic=topic, checkpoint=checkpoint, table=table)
    reports = 'shop_messages_behind == 0 and on(namespace) up{job="spark"} == 1'
    wait_until(lambda: len(lab.prometheus.query(reports)), "Prometheus reads all pages", 30)
    return Shop(query, table, checkpoint, jvm_of_session(), ui, page)
