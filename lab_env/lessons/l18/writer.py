"""What the colleague's notebook starts with: a Spark session of her own and the lab's addresses."""

import json
import os
from pathlib import Path

from lab_env.pipeline.session import build_session
from lab_env.settings import Endpoints
from lab_env.store import keys_as_variables

DESCRIPTION = "STREAMING_LAKEHOUSE_COLLEAGUE"
# Tables of a few hundred rows: to compile each query costs more than the compiled query saves.
SHORT_LIFE = {
    "spark.ui.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def description(lab, jars: Path, java_home: Path, java_options: str) -> dict[str, str]:
    """The environment variables from which `start_session` knows what to start.

    Args:
        lab: the lesson's handle.
        jars: folder of the connector jars.
        java_home: the Java to run on.
        java_options: of its JVM.
    """
    endpoints = lab.endpoints
    described = {
        "s3_endpoint": endpoints.s3_endpoint,
        "s3_region": endpoints.s3_region,
        "bucket": endpoints.bucket,
        "kafka_bootstrap": endpoints.kafka_bootstrap,
        "jars": str(jars),
        "java_home": str(java_home),
        "java_options": java_options,
        "log": str(lab.spark_log.with_name(f"spark-{lab.namespace}-colleague.log")),
    }
    return {DESCRIPTION: json.dumps(described)} | keys_as_variables(endpoints)


def start_session():
    """Start the colleague's Spark session, as `lab.spark` does for the lesson's own."""
    told = json.loads(os.environ[DESCRIPTION])
    endpoints = Endpoints(
        s3_endpoint=told["s3_endpoint"],
        s3_access_key=os.environ.get("AWS_ACCESS_KEY_ID", ""),
        s3_secret_key=os.environ.get("AWS_SECRET_ACCESS_KEY", ""),
        s3_region=told["s3_region"],
        bucket=told["bucket"],
        kafka_bootstrap=told["kafka_bootstrap"],
    )
    options = SHORT_LIFE | {"spark.driver.extraJavaOptions": told["java_options"]}
    jars, java_home = Path(told["jars"]), Path(told["java_home"])
    return build_session(endpoints, jars, java_home, "colleague", options, Path(told["log"]))
