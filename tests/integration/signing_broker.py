"""A broker in a separate network that requires a user and a password from its clients."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from own_lab import free_ports, wait_until
from two_networks import Network

from lab_env.platform.processes.state import write_private
from lab_env.platform.services import kafka
from lab_env.platform.services.base import write_properties

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@contextmanager
def signing_broker(
    network: Network, folder: Path, user: str, password: str
) -> Iterator[tuple[str, Path]]:
    """Run a broker.

    Yields:
        Its address, and the properties file that clients use to log in.
    """
    folder.mkdir()
    host, (port, controller) = network.address, free_ports(2)
    users = f'username="broker" password="b" user_broker="b" user_{user}="{password}";'
    own = {
        "listeners": f"SASL_PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}",
        "advertised.listeners": f"SASL_PLAINTEXT://{host}:{port}",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{LOGIN} {users}",
        "controller.quorum.voters": f"1@{host}:{controller}",
        "log.dirs": str(folder / "data"),
    }
    write_properties(folder / "server.properties", kafka.PROPERTIES | own)
    identity = ("--cluster-id", kafka._cluster_id(), "--config", "server.properties")
    tool = [*kafka._java(*kafka.JVM), "kafka.tools.StorageTool", "format", *identity]
    subprocess.run(tool, cwd=folder, check=True, capture_output=True)
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{LOGIN} username="{user}" password="{password}";',
    }
    signs_in = folder / "client.properties"
    write_private(signs_in, "".join(f"{name}={value}\n" for name, value in client.items()))
    java = kafka._java(*kafka.JVM, *kafka.quiet_log())
    with (folder / "log").open("wb") as log:
        broker = subprocess.Popen(
            network.command(*java, "kafka.Kafka", str(folder / "server.properties")),
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: network.reaches(port) or broker.poll() is not None, 60)
        assert broker.poll() is None, (folder / "log").read_text()
        yield f"{host}:{port}", signs_in
    finally:
        broker.kill()
        broker.wait()
