"""Gives the shop's writer, a separate program, a Spark session and the lesson's names.

Both come from environment variables. This module imports little, so that the writer starts fast.
"""

import os

from lab_env.pipeline.session import SHORT_LIFE, endpoints_of_environment, session_of_environment
from lab_env.platform.processes.environment import LESSON


class WritersLab:
    """A small `lab` object for the writer: Spark session, Kafka's address, the lesson's names."""

    def __init__(self) -> None:
        self.namespace = os.environ[LESSON]
        endpoints = endpoints_of_environment()
        self.kafka = endpoints.kafka_bootstrap
        self.base = f"s3a://{endpoints.bucket}/{self.namespace}"
        self.spark = session_of_environment(f"lab {self.namespace} writer", SHORT_LIFE)

    def path(self, name: str) -> str:
        """Return the path of one of the lesson's tables."""
        return f"{self.base}/{name}"

    def topic(self, name: str) -> str:
        """Return the full name of one of the lesson's topics."""
        return f"{self.namespace}.{name}"
