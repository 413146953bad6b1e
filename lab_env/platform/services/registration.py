"""List of the lab's servers. Register a new one here, and nowhere else."""

from lab_env.platform.errors import LabError
from lab_env.platform.services.base import Service
from lab_env.platform.services.cluster import Cluster
from lab_env.platform.services.connect import Connect
from lab_env.platform.services.exporter import Exporter
from lab_env.platform.services.kafka import Kafka
from lab_env.platform.services.kinesis import Kinesis
from lab_env.platform.services.metastore import Metastore
from lab_env.platform.services.minio import MinIO
from lab_env.platform.services.postgres import Postgres
from lab_env.platform.services.prometheus import Prometheus
from lab_env.platform.services.trino import Trino
from lab_env.platform.services.zookeeper import ZooKeeper

SERVICES: dict[str, Service] = {
    service.name: service
    for service in (
        MinIO(),
        Kafka(),
        Kinesis(),
        Metastore(),
        Trino(),
        Postgres(),
        Connect(),
        ZooKeeper(),
        Cluster(),
        Exporter(),
        Prometheus(),
    )
}
DEFAULT = ("minio", "kafka")  # what `lab up` starts; the others start on request


def service(name: str) -> Service:
    """Service by name, for example `kafka`."""
    if name not in SERVICES:
        raise LabError(f"There is no service {name!r}.", f"choose from: {', '.join(SERVICES)}")
    return SERVICES[name]
