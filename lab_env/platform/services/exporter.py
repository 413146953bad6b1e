"""Exporter: measures the pipelines from outside, in its own process.

A writer's own metrics stop when it is killed. The exporter keeps running and reports how far behind
the pipeline is.
"""

import sys

from lab_env.platform.processes.state import home
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.services.base import NotReady, Service, open_local
from lab_env.platform.services.kafka import Kafka
from lab_env.platform.services.minio import MinIO, credentials_as
from lab_env.platform.settings import settings


class Exporter(Service):
    name = "exporter"
    title = "The exporter"
    port_names = ("metrics",)
    needs = ("minio", "kafka")

    def program(self, ports: dict[str, int]) -> Program:
        """Describe its process, which finds the pipelines to watch by itself."""
        return Program(
            name=self.name,
            argv=[
                *(sys.executable, "-I", "-m", "lab_env.lab.monitor.exporter", str(home())),
                *("--host", settings().bind, "--port", str(ports["metrics"])),
                *("--kafka", Kafka().address(), "--s3-endpoint", MinIO().address()),
                *("--s3-region", settings().s3_region, "--bucket", settings().s3_bucket),
            ],
            env=credentials_as("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
            cwd=self.folder,
        )

    def check(self) -> None:
        """Check its own web server; the pipelines may be down."""
        try:
            with open_local(f"{self.address()}/-/healthy") as answer:
                content = answer.read()
        except OSError as error:
            raise NotReady(f"it does not answer ({error})") from None
        if b"exporter of the pipelines" not in content:
            raise NotReady(f"another program answers at {self.address()}")

    def links(self) -> dict[str, str]:
        return {"Metrics of the pipelines": f"{self.address()}/metrics"} if self.running() else {}
