"""What the shop's writer, a program of its own, starts with: a session and the lab's addresses.

It is told both in its environment, and imports little: the writer is to be at work soon.
"""

import json
import os
from pathlib import Path

from lab_env.pipeline.session import build_session
from lab_env.settings import Endpoints

DESCRIPTION = "STREAMING_LAKEHOUSE_WRITER"
# A program that lives for half a minute needs no web page, and to compile a query for a few hundred
# rows costs more than it saves: without, this lesson's own session used 0.84 of the processor time.
SHORT_LIFE = {
    "spark.ui.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def described(lab, jars: Path, java_home: Path, java_options: str) -> dict[str, str]:
    """The environment variable that tells a writer how to start; the store's keys are not in it.

    Args:
        lab: the lesson's handle.
        jars: folder of the connector jars.
        java_home: the Java to run on.
        java_options: of its JVM.
    """
    described = {
        "s3_endpoint": lab.endpoints.s3_endpoint,
        "s3_region": lab.endpoints.s3_region,
        "bucket": lab.endpoints.bucket,
        "kafka_bootstrap": lab.endpoints.kafka_bootstrap,
        "namespace": lab.namespace,
        "jars": str(jars),
        "java_home": str(java_home),
        "java_options": java_options,
    }
    return {DESCRIPTION: json.dumps(described)}


class WritersLab:
    """The writer's handle: a Spark session, Kafka's address, and the names of the lesson."""

    def __init__(self) -> None:
        told = json.loads(os.environ[DESCRIPTION])
        self.kafka: str = told["kafka_bootstrap"]
        self.namespace: str = told["namespace"]
        self.base = f"s3a://{told['bucket']}/{self.namespace}"
        endpoints = Endpoints(
            s3_endpoint=told["s3_endpoint"],
            s3_access_key=os.environ.get("AWS_ACCESS_KEY_ID", ""),
            s3_secret_key=os.environ.get("AWS_SECRET_ACCESS_KEY", ""),
            s3_region=told["s3_region"],
            bucket=told["bucket"],
            kafka_bootstrap=self.kafka,
        )
        options = SHORT_LIFE | {"spark.driver.extraJavaOptions": told["java_options"]}
        name = f"lab {self.namespace} writer"
        jars, java_home = Path(told["jars"]), Path(told["java_home"])
        self.spark = build_session(endpoints, jars, java_home, name, options)

    def path(self, name: str) -> str:
        """The path of a table of the lesson."""
        return f"{self.base}/{name}"

    def topic(self, name: str) -> str:
        """The full name of a topic of the lesson."""
        return f"{self.namespace}.{name}"
