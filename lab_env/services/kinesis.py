"""An emulated Amazon Kinesis Data Streams (moto), for the lesson about partitions and shards.

It answers Kinesis's own API: it hashes keys to shards and splits shards, but enforces no
throughput limits. It keeps everything in memory; a restart empties it.
"""

import sys

from lab_env.install.cache import Progress
from lab_env.processes.state import folder
from lab_env.processes.supervisor import Program
from lab_env.services.base import NotReady, Service
from lab_env.settings import settings

TIMEOUT_S = 2


class Kinesis(Service):
    """The stream service that the lab emulates."""

    name = "kinesis"
    title = "Kinesis (emulated)"

    def preferred_ports(self) -> dict[str, int]:
        """The API."""
        return {"api": settings().kinesis_port}

    def external_address(self) -> str:
        """None: the lesson must never write to a stream that somebody pays for."""
        return ""

    def fetch(self, report_progress: Progress) -> None:
        """Nothing: it is one of the Python packages."""

    def program(self, ports: dict[str, int]) -> Program:
        """The emulator in a process of its own."""
        return Program(
            name=self.name,
            argv=[
                *(sys.executable, "-I", "-m", "lab_env.services.kinesis_server"),
                *("-H", settings().bind, "-p", str(ports["api"])),
            ],
            cwd=folder("kinesis"),
        )

    def check(self) -> None:
        """List the streams."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self.client().list_streams(Limit=1)
        except (ClientError, BotoCoreError) as error:
            raise NotReady(str(error)) from None

    def address(self) -> str:
        """The endpoint for Kinesis clients."""
        return f"http://{settings().client_host}:{self.port('api')}"

    def client(self):
        """A boto3 client of the emulated Kinesis; any credentials will do."""
        import boto3  # takes half a second
        from botocore.config import Config

        patience = Config(
            connect_timeout=TIMEOUT_S,
            read_timeout=TIMEOUT_S,
            retries={"total_max_attempts": 1},
            proxies={},  # the proxy variables are not for servers of this machine
        )
        return boto3.client(
            "kinesis",
            endpoint_url=self.address(),
            region_name=settings().s3_region,
            aws_access_key_id="lab",
            aws_secret_access_key="lab",
            config=patience,
        )

    def delete_streams(self, prefix: str) -> list[str]:
        """Delete all streams whose name begins so; none when the service does not run.

        Args:
            prefix: beginning of the names, for example `lesson-02.`.

        Returns:
            The names of the deleted streams.
        """
        if not self.running():
            return []
        client = self.client()
        pages = client.get_paginator("list_streams").paginate()
        names = [name for page in pages for name in page["StreamNames"] if name.startswith(prefix)]
        for name in names:
            client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
        return names
