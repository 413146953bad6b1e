"""Explains each jar on Spark's class path, and finds the relevant line of a Java error."""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lab_env.platform.display.card import styled

SDK = "what hadoop-aws was built with"
# Beginning of a jar's name: what it is for, and what its version must fit.
WHAT_FOR = {
    "spark-sql-kafka": ("reads topics as tables and streams", "Spark and its Scala"),
    "spark-token-provider": ("logins for spark-sql-kafka", "Spark and its Scala"),
    "kafka-clients": ("speaks Kafka's protocol", "what spark-sql-kafka was built with"),
    "commons-pool2": ("keeps connections to Kafka open", "what spark-sql-kafka was built with"),
    "hadoop-aws": ("the file system behind s3a:// paths", "the Hadoop inside PySpark"),
    "aws-java-sdk-s3": ("speaks the S3 protocol", SDK),
    "aws-java-sdk-core": ("signs, sends and repeats requests to AWS", SDK),
    "aws-java-sdk-sts": ("temporary credentials", SDK),
    "aws-java-sdk-kms": ("keys of encrypted objects", SDK),
    "aws-java-sdk-dynamodb": ("nothing here: hadoop-aws loads its classes", SDK),
    "jmespath": ("searches the answers of AWS", SDK),
    "wildfly-openssl": ("faster encryption for hadoop-aws", "what hadoop-aws was built with"),
    "hudi-spark": ("Hudi tables, from lesson 04 on", "Spark's minor version and its Scala"),
}


def jar_table(jars: Sequence[Path]):
    """Return a styled table of a session's jars: name, MB, purpose, what its version must match.

    Jars whose names match no prefix in `WHAT_FOR` are omitted.
    """
    rows = [
        (jar.name, f"{jar.stat().st_size / 1e6:.1f}", *words)
        for start, words in WHAT_FOR.items()
        for jar in jars
        if jar.name.startswith(start)
    ]
    table = pd.DataFrame(rows, columns=["jar", "MB", "what for", "must fit"])
    return styled(table).hide(axis="index").set_properties(**{"text-align": "left"})


def first_java_error(log: str) -> str:
    """Return the first line of a log with a `java.lang` error; empty if there is none."""
    found = re.search(r"java\.lang\.\w+: .*", log)
    return found[0] if found else ""
