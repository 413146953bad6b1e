"""Computes the cost of the stack for an afternoon, and for a month if it is never deleted.

Prices come from `data/prices.csv`, and all figures in docs/cloud.md come from this module. Free
tiers, taxes and data transfer to the internet are left out.
"""

from lab_env.platform.prices import read_prices

ITEMS = {
    "storage": "GB-month",
    "put": "1000 requests",
    "msk_cluster": "cluster-hour",
    "msk_partition": "partition-hour",
    "msk_in": "GB",
    "msk_out": "GB",
    "kinesis_shard": "shard-hour",
    "kinesis_put": "million PUT units",
    "emr_vcpu": "vCPU-hour",
    "emr_memory": "GB-hour",
    "endpoint": "zone-hour",
    "host": "t3.large-hour",
    "disk": "GB-month",
    "address": "hour",
    "logs": "GB",
    "metric": "month",
    "alarm": "month",
    "dashboard": "month",
}
STREAMS = ("none", "kinesis", "msk")

AFTERNOON = 4.0  # hours
MONTH = 730.0  # hours
# Sent in the afternoon. Afterwards nobody sends, so a forgotten stack is idle.
EVENTS_PER_SECOND = 100
GB_PER_EVENT = 1e-6
PARTITIONS = 4
READERS = 4  # queries of the writer, each reads the whole topic
COMMITS_PER_HOUR = 2 * 60  # two Hudi tables, a batch a minute
REQUESTS_PER_COMMIT = 300  # a small table had 210 to 315
STORED_GB = 5
LOG_GB_PER_HOUR = 0.05
# From lake.yaml: interface endpoints in one zone, shards, disk of the host. From job.py: the
# workers.
ENDPOINTS = 3
SHARDS = 2
DISK_GB = 40
VCPUS = 6
MEMORY_GB = 24


def bill(
    hours: float, stream: str = "msk", host: bool = True, prices: dict[str, float] | None = None
) -> dict[str, float]:
    """Compute the cost of a stack over its lifetime: US dollars by part.

    All resources run the whole time, but orders arrive only on the first afternoon.

    Args:
        stream: one of `STREAMS`.
        prices: prices by item; by default those in the file.
    """
    price = read_prices(ITEMS) if prices is None else prices
    sending = min(hours, AFTERNOON)
    events = EVENTS_PER_SECOND * 3600 * sending
    sent = events * GB_PER_EVENT
    months = hours / MONTH
    lines: dict[str, float] = {}
    if stream == "msk":
        lines["MSK Serverless: the cluster"] = hours * price["msk_cluster"]
        lines["MSK Serverless: partitions, data in and out"] = (
            hours * PARTITIONS * price["msk_partition"]
            + sent * price["msk_in"]
            + READERS * sent * price["msk_out"]
        )
    if stream == "kinesis":
        lines["Kinesis: shards and records"] = (
            hours * SHARDS * price["kinesis_shard"] + events / 1e6 * price["kinesis_put"]
        )
    logs = 0.0
    if stream != "none":  # without a stream the writer has nothing to read
        logs = hours * LOG_GB_PER_HOUR * price["logs"]
        lines["EMR Serverless: the writer"] = hours * (
            VCPUS * price["emr_vcpu"] + MEMORY_GB * price["emr_memory"]
        )
    if host:
        lines["Notebook host: instance, disk, address"] = (
            hours * (price["host"] + price["address"]) + months * DISK_GB * price["disk"]
        )
    endpoints = ENDPOINTS + (stream == "kinesis")
    requests = sending * COMMITS_PER_HOUR * REQUESTS_PER_COMMIT / 1000
    alarms = (stream != "none") + host
    watching = months * (price["metric"] + alarms * price["alarm"] + price["dashboard"])
    return lines | {
        "Endpoints of the private subnets": hours * endpoints * price["endpoint"],
        "S3: requests, at most": requests * price["put"],
        "S3: storage": months * STORED_GB * price["storage"],
        "Logs, metric, alarms, dashboard": watching + logs,
    }


def table(stream: str = "msk", host: bool = True) -> list[tuple[str, str, str]]:
    """Return the costs of an afternoon and of a forgotten month, by part; the total comes last."""
    short, long = (bill(hours, stream, host) for hours in (AFTERNOON, MONTH))
    rows = [(part, _amount(usd), _amount(long[part])) for part, usd in short.items()]
    return [*rows, ("All of it", _amount(sum(short.values())), _amount(sum(long.values())))]


def _amount(usd: float) -> str:
    """Format an amount as dollars and cents; less than a cent is not rounded to zero."""
    return "< 0.01" if 0 < usd < 0.005 else f"{usd:,.2f}"


def markdown(stream: str = "msk", host: bool = True) -> str:
    """Return the cost table for docs/cloud.md."""
    head = [
        f"| US dollars | afternoon, {AFTERNOON:.0f} h | forgotten month, {MONTH:.0f} h |",
        "|---|---:|---:|",
    ]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in table(stream, host))])
