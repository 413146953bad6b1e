"""Sends lesson 07's orders; draws a table's file sizes, requests, and bytes over time."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lab_env.lab.handle import Lab
from lab_env.pipeline.parsing import read_topic
from lab_env.platform.brokers.kafka_client import spark_options
from lab_env.platform.brokers.topics import ensure_topic
from lab_env.platform.display.chart import new_chart, new_panels, note, svg
from lab_env.platform.display.palette import AMBER, BLUE
from lab_env.tables.hudi.table import Snapshot
from lab_env.tables.probes.s3_requests import Requests

CURRENT, OLDER = BLUE, AMBER


# Classes of org.apache.hudi.config, and the options whose defaults the lesson names.
SERVICES = {
    "HoodieCompactionConfig": ("PARQUET_SMALL_FILE_LIMIT",),
    "HoodieClusteringConfig": ("INLINE_CLUSTERING", "INLINE_CLUSTERING_MAX_COMMITS"),
    "HoodieCleanConfig": ("AUTO_CLEAN", "CLEAN_MAX_COMMITS", "CLEANER_COMMITS_RETAINED"),
    "HoodieArchivalConfig": ("MIN_COMMITS_TO_KEEP", "MAX_COMMITS_TO_KEEP"),
}


def send_orders(lab: Lab, orders: DataFrame, partitions: int) -> None:
    """Send orders to the lesson's topic `orders`, which is created with this number of partitions.

    The number in each `order_id`, such as `O-17`, determines the topic partition.
    """
    bootstrap, topic = lab.endpoints.kafka_bootstrap, lab.topic("orders")
    ensure_topic(bootstrap, topic, partitions)
    messages = orders.selectExpr(
        "to_json(struct(*)) AS value",
        f"cast(substring(order_id, 3) AS int) % {partitions} AS partition",
    )
    messages.write.format("kafka").options(**spark_options(bootstrap)).option("topic", topic).save()


def orders_as_stream(lab: Lab, schema: StructType, per_batch: int) -> DataFrame:
    """Read the lesson's topic `orders` as a stream with at most `per_batch` orders per batch."""
    topic = lab.topic("orders")
    limit = {"maxOffsetsPerTrigger": str(per_batch)}
    records = read_topic(lab.spark, lab.endpoints.kafka_bootstrap, topic, **limit)
    order = F.from_json(F.col("value").cast("string"), schema)
    return records.select(order.alias("order")).select("order.*")


def hudi_defaults(spark) -> dict[str, str]:
    """Return Hudi's defaults for file sizing, clustering, cleaning and archiving, from its code."""
    config = spark._jvm.org.apache.hudi.config
    options = [
        getattr(getattr(config, kind), name) for kind, names in SERVICES.items() for name in names
    ]
    return {option.key(): str(option.defaultValue()) for option in options}


def current_sizes(table: Snapshot) -> list[int]:
    """Return the sizes in bytes of the files that a snapshot query reads."""
    return [file.size for found in table.current for file in found.files]


def older_sizes(table: Snapshot) -> list[int]:
    """Return the sizes in bytes of the data files that a snapshot query does not read."""
    current = {file for found in table.current for file in found.files}
    return [file.size for file in table.files if file not in current]


def draw_files_and_requests(tables: dict[str, Snapshot], requests: dict[str, Requests]) -> str:
    """Draw one row per table: a dot for each current file's size, and one query's requests.

    Args:
        requests: the requests of the same query on each table, by table name.
    """
    names = list(tables)
    height = 1.1 + 0.55 * len(names)
    titles = ["Size of each current file", "Requests of one query"]
    figure, (sizes, bars) = new_panels(titles, width=9.0, height=height)
    sizes.set(xlabel="KB (logarithmic)", xscale="log")
    bars.set(xlabel="requests")
    for row, name in enumerate(names):
        kilobytes = sorted(size / 1000 for size in current_sizes(tables[name]))
        stack = min(len(kilobytes), 9)  # at most nine dots above each other, around the middle
        spread = [row + (n % stack - (stack - 1) / 2) / 16 for n in range(len(kilobytes))]
        sizes.scatter(kilobytes, spread, s=12, color=CURRENT, alpha=0.6, linewidths=0)
        note(sizes, _files(len(kilobytes)), (kilobytes[-1], row), (9, 0), va="center")
        total = requests[name].total
        bars.barh(row, total, 0.5, color=CURRENT)
        note(bars, f"{total:,}", (total, row), (4, 0), va="center")
    sizes.set_yticks(range(len(names)), names)
    sizes.set_ylim(len(names) - 0.5, -0.5)
    sizes.margins(x=0.25)
    bars.margins(x=0.2)
    bars.tick_params(labelleft=False)
    _readable_sizes(sizes)
    return svg(figure)


def draw_storage(moments: dict[str, Snapshot]) -> str:
    """Draw the bytes of a table's current and older data files at several moments.

    Args:
        moments: the table after each step, by step name.
    """
    figure, axes = new_chart("Bytes on the store", "", "KB", width=3.2 + len(moments), height=3.2)
    for place, table in enumerate(moments.values()):
        current, older = sum(current_sizes(table)) / 1000, sum(older_sizes(table)) / 1000
        labels = (None, None) if place else ("read by a query", "older, not yet cleaned")
        axes.bar(place, current, 0.6, color=CURRENT, label=labels[0])
        axes.bar(place, older, 0.6, bottom=current, color=OLDER, label=labels[1])
        note(axes, _files(len(table.files)), (place, current + older), (0, 3), ha="center")
    axes.set_xticks(range(len(moments)), list(moments))
    axes.margins(y=0.12)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=9)  # beside, not on a bar
    return svg(figure)


def _files(number: int) -> str:
    return f"{number} file" if number == 1 else f"{number} files"


def _readable_sizes(axes) -> None:
    """Label the axis with sizes such as 10, 20, 50, 100 instead of powers of ten."""
    low, high = axes.get_xlim()
    ticks = [base * 10**power for power in range(-1, 7) for base in (1, 2, 5)]
    axes.set_xticks([t for t in ticks if low <= t <= high])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda value, _: "")
