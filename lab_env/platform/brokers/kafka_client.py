"""Options with which clients connect to Kafka: the address and, if required, credentials.

LAB_KAFKA_SECURITY names a Java properties file, the one that Kafka's own tools take as
`--command-config`. Spark's source takes the same properties; this module translates them for
confluent-kafka. If the file cannot be used, a `LabError` is raised. Addresses are `host:port`, or
several, comma-separated.
"""

import re
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.settings import settings

# Options that both clients name alike, or that only Java needs.
SAME = ("security.protocol", "sasl.mechanism", "ssl.key.password", "ssl.keystore.password")
JAVA_ONLY = ("ssl.truststore.type", "ssl.keystore.type", "sasl.client.callback.handler.class")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
CA = "ssl.truststore.certificates"


def confluent_options(bootstrap: str) -> dict[str, str]:
    """Options for a confluent-kafka client."""
    return {"bootstrap.servers": bootstrap} | _translated(security_properties())


def spark_options(bootstrap: str) -> dict[str, str]:
    """Options for Spark's Kafka source."""
    properties = {"bootstrap.servers": bootstrap} | security_properties()
    return {f"kafka.{name}": value for name, value in properties.items()}


def security_properties() -> dict[str, str]:
    """Properties in the file that LAB_KAFKA_SECURITY names, for Java clients; empty if not set.

    The path of a PEM truststore is replaced by its certificates, so that executors on other
    machines need no file.
    """
    path = settings().kafka_security
    if path is None:
        return {}
    properties = _parse(_read(path))
    for name in properties:
        if not name.startswith(("security.", "sasl.", "ssl.")):
            raise LabError(
                f"LAB_KAFKA_SECURITY={path} has {name}, which is not a security property.",
                "remove everything that does not begin with security., sasl. or ssl.",
            )
    location = properties.get("ssl.truststore.location")
    if location and properties.get("ssl.truststore.type", "").upper() == "PEM":
        del properties["ssl.truststore.location"]
        properties[CA] = _read(Path(location))
    return properties


def _translated(properties: dict[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in properties.items():
        if name in SAME:
            options[name] = value
        elif name == CA:
            options["ssl.ca.pem"] = value
        elif name == "sasl.jaas.config":
            options |= _login(value)
        elif name == "ssl.keystore.location":
            # a PEM file with both, from which librdkafka reads each
            options |= {"ssl.certificate.location": value, "ssl.key.location": value}
        elif name == "ssl.endpoint.identification.algorithm":
            options[name] = value or "none"
        elif name not in JAVA_ONLY:
            raise LabError(
                f"LAB_KAFKA_SECURITY has {name}, which only Java's clients understand.",
                "use PEM files (ssl.truststore.type=PEM), and one of the mechanisms "
                f"{', '.join(MECHANISMS)}.",
            )
    mechanism = options.get("sasl.mechanism", MECHANISMS[0])
    if mechanism not in MECHANISMS:
        raise LabError(
            f"LAB_KAFKA_SECURITY has sasl.mechanism={mechanism}, which only Java's clients use.",
            f"use one of {', '.join(MECHANISMS)} for the load and the ledger.",
        )
    return options


def _login(jaas: str) -> dict[str, str]:
    """User and password in a JAAS line, such as `...PlainLoginModule required username="x" ...`."""
    found = {
        name: re.sub(r"\\(.)", r"\1", value)
        for name, value in re.findall(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"', jaas)
    }
    if found.keys() != {"username", "password"}:
        raise LabError(
            "sasl.jaas.config of LAB_KAFKA_SECURITY has no user and password.",
            'write ... required username="..." password="...";',
        )
    return {f"sasl.{name}": value for name, value in found.items()}


def _parse(text: str) -> dict[str, str]:
    """Parse a Java properties file: comments, continued lines, `=` or `:`, escapes."""
    lines = [line.strip() for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines()]
    told = [line for line in lines if line and line[0] not in "#!"]
    pairs = (re.split(r"\s*[=:]\s*", line, maxsplit=1) for line in told)
    return {name: _unescape(rest[0]) if rest else "" for name, *rest in pairs}


def _unescape(value: str) -> str:
    known = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
    return re.sub(r"\\(.)", lambda found: known.get(found[1], found[1]), value)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise LabError(
            f"LAB_KAFKA_SECURITY cannot be used: {path}: {error.strerror}.",
            "set it to a Java properties file that you can read, or unset it.",
        ) from None
