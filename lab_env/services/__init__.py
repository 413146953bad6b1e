"""The lab's servers: start, stop and describe them, and find out where they are.

Kernels attach to servers that run elsewhere, so nothing here keeps state in this process.
"""

from lab_env.services.base import Finding, request_json
from lab_env.services.cluster import Cluster
from lab_env.services.manager import (
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
    warnings,
)
from lab_env.services.metastore import Metastore, database_of
from lab_env.services.postgres import Postgres
from lab_env.services.prometheus import Prometheus, run_promtool
from lab_env.services.reach import require_reachable, require_store
from lab_env.services.registration import DEFAULT, SERVICES, service
from lab_env.services.zookeeper import ZooKeeper

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
    "warnings",
]
