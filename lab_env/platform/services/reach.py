"""Check that store and broker accept connections, so that no cell waits long for a dead one."""

from urllib.parse import urlsplit

from lab_env.platform.errors import LabError
from lab_env.platform.processes.ports import accepts
from lab_env.platform.settings import Endpoints

ASK_S = 1


def require_store(endpoints: Endpoints) -> None:
    """Raise a `LabError` if the object store does not accept a connection within a second."""
    store = urlsplit(endpoints.s3_endpoint)
    port = store.port or (443 if store.scheme == "https" else 80)
    if not accepts(f"{store.hostname or ''}:{port}", ASK_S):
        raise _down(f"The object store at {endpoints.s3_endpoint}")


def require_reachable(endpoints: Endpoints) -> None:
    """Raise a `LabError` if the store, or every broker, accepts no connection within a second."""
    require_store(endpoints)
    if not any(accepts(broker, ASK_S) for broker in endpoints.kafka_bootstrap.split(",")):
        raise _down(f"Kafka at {endpoints.kafka_bootstrap}")


def _down(server: str) -> LabError:
    return LabError(
        f"{server} does not answer.",
        "run in a terminal: .venv/bin/lab up   Then run this cell again.",
    )
