"""Amazon Kinesis Data Streams: an emulator (moto), or the server in LAB_KINESIS_ENDPOINT.

The emulator has Kinesis's own API: it hashes keys to shards, splits and merges shards, but enforces
no throughput limits. It keeps everything in memory, so a restart empties it. On any other server
the lab does not create or delete streams, because they cost money.
"""

import sys

from lab_env.platform.brokers import streams
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.services.base import NotReady, Service
from lab_env.platform.settings import settings

# These codes mean that it answers: it only refuses to list all streams.
ANSWERS = ("AccessDeniedException",)
ANSWER_SECONDS = 2.0


class Kinesis(Service):
    name = "kinesis"
    title = "Kinesis (emulated)"
    port_names = ("api",)
    external_setting = "kinesis_endpoint"
    variables = "LAB_KINESIS_ENDPOINT"

    def program(self, ports: dict[str, int]) -> Program:
        return Program(
            name=self.name,
            argv=[
                *(sys.executable, "-I", "-m", "lab_env.platform.services.kinesis_server"),
                *("-H", settings().bind, "-p", str(ports["api"])),
            ],
            cwd=self.folder,
        )

    def check(self) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self.client().list_streams(Limit=1)
        except ClientError as error:
            if not self.external or error.response["Error"]["Code"] not in ANSWERS:
                raise NotReady(str(error)) from None
        except BotoCoreError as error:
            raise NotReady(str(error)) from None

    def endpoints(self) -> dict[str, str]:
        return {"kinesis": self.address()}

    def client(self):
        """Make a boto3 client; the emulator accepts any credentials."""
        return streams.client(self.address(), ANSWER_SECONDS)

    def clear(self, namespace: str) -> dict[str, int]:
        """Delete the lesson's streams, for example `lesson-02.orders`, from the emulator."""
        if self.external:
            return {}
        client = self.client()
        pages = client.get_paginator("list_streams").paginate()
        names = [name for page in pages for name in page["StreamNames"]]
        own = [name for name in names if name.startswith(f"{namespace}.")]
        for name in own:
            client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
        return {"streams": len(own)}
