"""The lab's servers: start, stop and describe them, and find their addresses.

Kernels connect to servers that other processes started, so nothing here keeps state in memory.
"""

from lab_env.platform.services.base import Finding, request_json
from lab_env.platform.services.cluster import Cluster
from lab_env.platform.services.manager import (
    ServiceStatus,
    check_for_lesson,
    clear,
    down,
    endpoints,
    exposure,
    links,
    purged_contents,
    start_optional,
    status,
    up,
)
from lab_env.platform.services.metastore import Metastore, database_of
from lab_env.platform.services.postgres import Postgres
from lab_env.platform.services.prometheus import Prometheus, run_promtool
from lab_env.platform.services.reach import require_reachable, require_store
from lab_env.platform.services.registration import DEFAULT, SERVICES, service
from lab_env.platform.services.zookeeper import ZooKeeper

__all__ = [
    "DEFAULT",
    "SERVICES",
    "Cluster",
    "Finding",
    "Metastore",
    "Postgres",
    "Prometheus",
    "ServiceStatus",
    "ZooKeeper",
    "check_for_lesson",
    "clear",
    "database_of",
    "down",
    "endpoints",
    "exposure",
    "links",
    "purged_contents",
    "request_json",
    "require_reachable",
    "require_store",
    "run_promtool",
    "service",
    "start_optional",
    "status",
    "up",
]
