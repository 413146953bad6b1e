"""What the shop's writer, a program of its own, starts with: a session and the lesson's names.

It is told both in its environment, and imports little: the writer is to be at work soon.
"""

import os

from lab_env.pipeline.session import SHORT_LIFE, endpoints_of_environment, session_of_environment
from lab_env.platform.processes.environment import LESSON


class WritersLab:
    """The writer's handle: a Spark session, Kafka's address, and the names of the lesson."""

    def __init__(self) -> None:
        self.namespace = os.environ[LESSON]
        endpoints = endpoints_of_environment()
        self.kafka = endpoints.kafka_bootstrap
        self.base = f"s3a://{endpoints.bucket}/{self.namespace}"
        self.spark = session_of_environment(f"lab {self.namespace} writer", SHORT_LIFE)

    def path(self, name: str) -> str:
        """The path of a table of the lesson."""
        return f"{self.base}/{name}"

    def topic(self, name: str) -> str:
        """The full name of a topic of the lesson."""
        return f"{self.namespace}.{name}"
