"""An emulated Amazon Kinesis Data Streams (moto), for the lesson on partitions and shards.

The emulator speaks Kinesis's own API: it hashes keys to shards and splits shards, but enforces no
throughput limits. It keeps everything in memory, so a restart empties it. There is no external
server in its place: the lesson must never write to a stream that somebody pays for.
"""

import sys

from lab_env.install.cache import Progress
from lab_env.processes.supervisor import Program
from lab_env.services.base import NotReady, Service
from lab_env.settings import settings

TIMEOUT_S = 2


class Kinesis(Service):
    """The lab's emulated Kinesis."""

    name = "kinesis"
    title = "Kinesis (emulated)"

    def preferred_ports(self) -> dict[str, int]:
        """The API."""
        return {"api": settings().kinesis_port}

    def fetch(self, report_progress: Progress) -> None:
        """Nothing to fetch: it is one of the Python packages."""

    def program(self, ports: dict[str, int]) -> Program:
        """The emulator."""
        return Program(
            name=self.name,
            argv=[
                *(sys.executable, "-I", "-m", "lab_env.services.kinesis_server"),
                *("-H", settings().bind, "-p", str(ports["api"])),
            ],
            cwd=self.folder,
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
        """A boto3 client of the emulator, which accepts any credentials."""
        import boto3  # half a second
        from botocore.config import Config

        config = Config(
            connect_timeout=TIMEOUT_S,
            read_timeout=TIMEOUT_S,
            retries={"total_max_attempts": 1},
            proxies={},  # proxy variables do not apply to servers of this machine
        )
        return boto3.client(
            "kinesis",
            endpoint_url=self.address(),
            region_name=settings().s3_region,
            aws_access_key_id="lab",
            aws_secret_access_key="lab",
            config=config,
        )

    def clear(self, namespace: str) -> dict[str, int]:
        """Delete the lesson's streams, for example `lesson-02.orders`."""
        client = self.client()
        pages = client.get_paginator("list_streams").paginate()
        names = [name for page in pages for name in page["StreamNames"]]
        own = [name for name in names if name.startswith(f"{namespace}.")]
        for name in own:
            client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
        return {"streams": len(own)}
