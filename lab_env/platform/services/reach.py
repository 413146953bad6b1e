"""Check that store and broker accept connections, before a cell waits long for a dead one."""

from urllib.parse import urlsplit

from lab_env.platform.errors import LabError
from lab_env.platform.processes.ports import accepts
from lab_env.platform.settings import Endpoints

ASK_S = 1


def require_store(endpoints: Endpoints) -> None:
    """Check that the object store accepts a connection.

    Raises:
        LabError: it does not answer within a second.
    """
    store = urlsplit(endpoints.s3_endpoint)
    port = store.port or (443 if store.scheme == "https" else 80)
    if not accepts(f"{store.hostname or ''}:{port}", ASK_S):
        raise _down(f"The object store at {endpoints.s3_endpoint}")


def require_reachable(endpoints: Endpoints) -> None:
    """Check that the object store and one of the brokers accept a connection.

    Raises:
        LabError: one of them does not answer within a second.
    """
    require_store(endpoints)
    if not any(accepts(broker, ASK_S) for broker in endpoints.kafka_bootstrap.split(",")):
        raise _down(f"Kafka at {endpoints.kafka_bootstrap}")


def _down(server: str) -> LabError:
    return LabError(
        f"{server} does not answer.",
        "run in a terminal: .venv/bin/lab up   Then run this cell again.",
    )
