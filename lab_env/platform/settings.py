"""All settings of the lab, each read from a `LAB_*` environment variable.

`settings()` reads the environment once per process. A value out of range or a misspelt variable
raises a `LabError` that names the variable, so a typo never silently leaves the default.
"""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from lab_env.platform.errors import LabError

REPOSITORY = Path(__file__).resolve().parents[2]
Port = Annotated[int, Field(ge=1024, le=65535)]

# The object store's credentials. A program gets them only if they are passed to it by name.
AWS_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
CREDENTIALS = ("LAB_S3_ACCESS_KEY", "LAB_S3_SECRET_KEY", "LAB_S3_SESSION_TOKEN", *AWS_CREDENTIALS)
# Variables that configure a Spark on a cluster that is not the lab's.
CONF_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR")
# The words that names of tables and topics begin with; a namespace must not look like one.
TAKEN = ("lesson", "demo", "tour", "bench", "campaign", "lab", "warehouse")
# The driver, its blocks, and Hudi's timeline server: each tries up to sixteen ports.
DRIVER_PORTS = 60
# Variables of a GitHub codespace: its name, and the domain of its forwarded ports.
CODESPACE = ("CODESPACE_NAME", "GITHUB_CODESPACES_PORT_FORWARDING_DOMAIN")


def codespace_url() -> str:
    """Return the URL of this GitHub codespace's ports, with `{port}` in it; empty elsewhere."""
    name, domain = (os.environ.get(variable) for variable in CODESPACE)
    return f"https://{name}-{{port}}.{domain}" if name and domain else ""


def default_cache() -> Path:
    """Return the lab's cache folder in XDG_CACHE_HOME, or else in the user's home folder."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        raise LabError("This user has no home folder.", "set HOME to a folder of yours.") from None
    return base / "streaming-lakehouse"


class Settings(BaseSettings):
    """Settings of this process; the field `kafka_port` is read from `LAB_KAFKA_PORT`."""

    # An empty variable counts as unset: `LAB_HOME=` must not mean the working folder.
    model_config = SettingsConfigDict(env_prefix="LAB_", env_ignore_empty=True, frozen=True)

    # Folders
    home: Path = Field(
        REPOSITORY / ".lab", description="data of this lab: tables, topics, logs, the ledger"
    )
    cache: Path = Field(
        default_factory=default_cache,
        description="what set-up fetched and built, shared by all clones",
    )
    work: Path = Field(
        REPOSITORY / "work",
        description="your copies of the lessons; JupyterLab opens its parent folder",
    )

    # Ports: if one is taken, the lab uses a free one; `lab status` shows it
    minio_port: Port = Field(9000, description="S3 API of MinIO")
    minio_console_port: Port = Field(9001, description="web console of MinIO")
    kafka_port: Port = Field(9092, description="Kafka broker")
    kafka_controller_port: Port = Field(9093, description="Kafka controller")
    kinesis_port: Port = Field(4568, description="emulated Kinesis")
    metastore_port: Port = Field(9083, description="Hive Metastore")
    trino_port: Port = Field(8080, description="Trino")
    postgres_port: Port = Field(5432, description="PostgreSQL")
    connect_port: Port = Field(8083, description="REST interface of Kafka Connect")
    zookeeper_port: Port = Field(2181, description="ZooKeeper")
    cluster_port: Port = Field(7077, description="master of the Spark cluster")
    cluster_ui_port: Port = Field(8180, description="web page of the Spark cluster")
    cluster_worker_1_port: Port = Field(8181, description="web page of the first worker")
    cluster_worker_2_port: Port = Field(8182, description="web page of the second worker")
    prometheus_port: Port = Field(9090, description="Prometheus")
    exporter_port: Port = Field(9464, description="exporter of pipeline metrics")
    jupyter_port: Port = Field(8888, description="JupyterLab")
    spark_ui_port: Port = Field(4040, description="web page of a lesson's Spark session")
    locust_port: Port = Field(8089, description="web page of Locust")
    room_port: Port = Field(
        8790, description="web page of `lab room`, which fails if this port is taken"
    )

    # Who can reach the lab
    bind: str = Field(
        "127.0.0.1",
        description="IPv4 address that the lab's servers listen on",
        examples=["127.0.0.1"],
    )
    public_url: str = Field(
        default_factory=codespace_url,
        description="URL at which a browser reaches a port of this machine through a proxy",
        examples=["https://{port}.example.org"],
    )

    # Servers of your own
    s3_endpoint: str = Field(
        "",
        description="S3 endpoint to use instead of MinIO",
        examples=["https://s3.example.org:9000"],
    )
    s3_access_key: SecretStr = Field(SecretStr(""), description="access key of that endpoint")
    s3_secret_key: SecretStr = Field(SecretStr(""), description="secret key of that endpoint")
    s3_session_token: SecretStr = Field(
        SecretStr(""), description="session token, if the keys are temporary"
    )
    s3_region: str = Field("us-east-1", description="region of the bucket")
    s3_bucket: str = Field(
        "lakehouse", description="bucket for all tables and checkpoints", examples=["lakehouse"]
    )
    kafka_bootstrap: str = Field(
        "",
        description="Kafka brokers to use instead of the lab's",
        examples=["broker-1:9092,broker-2:9092"],
    )
    kafka_security: Path | None = Field(
        None, description="Java properties file with the login settings of Kafka clients"
    )
    kinesis_endpoint: str = Field(
        "",
        description="Kinesis to use instead of the emulated one; its streams must exist",
        examples=["https://kinesis.eu-central-1.amazonaws.com"],
    )
    namespace: str = Field(
        "",
        description="prefix of your tables and topics, if learners share a store",
        examples=["alice"],
    )
    metastore_uri: str = Field(
        "",
        description="Hive Metastore to use instead of the lab's",
        examples=["thrift://metastore-1:9083"],
    )
    catalog: Literal["hms", "glue"] = Field(
        "hms", description="catalog of table names: `hms` (Hive Metastore) or `glue` (AWS)"
    )
    zookeeper_connect: str = Field(
        "",
        description="ZooKeeper servers to use instead of the lab's",
        examples=["zookeeper-1:2181,zookeeper-2:2181"],
    )
    prometheus_url: str = Field(
        "",
        description="Prometheus to use instead of the lab's",
        examples=["http://prometheus-1:9090"],
    )

    # Set-up
    minio_binary: Path | None = Field(
        None, description="program of MinIO or a fork of it, to use instead of building one"
    )
    fetch_python: bool = Field(
        False, description="if no installed Python fits, fetch one without asking"
    )
    ivy_settings: Path | None = Field(None, description="Ivy settings file, for a mirror")

    # Spark
    spark_master: str = Field("local[2]", description="Spark master for sessions and writers")
    spark_memory: str = Field(
        "1g", pattern=r"^\d+[mg]$", description="heap of each driver", examples=["700m", "1g"]
    )
    spark_executor_memory: str = Field(
        "700m",
        pattern=r"^\d+[mg]$",
        description="heap of each executor on a cluster",
        examples=["700m", "4g"],
    )
    spark_executor_cores: int = Field(1, ge=1, le=64, description="cores of each executor")
    spark_cores: int = Field(
        2,
        ge=1,
        le=4096,
        description="most cores that a session takes from a cluster, over all executors",
    )
    spark_python: str = Field(
        "",
        description="Python of a cluster's executors; needs jiter, pandas and PyArrow",
        examples=["/opt/python3.11/bin/python"],
    )
    spark_driver_host: str = Field(
        "",
        description="host name or address at which a cluster's executors reach the driver",
        examples=["10.0.0.5", "laptop.example.org"],
    )
    spark_driver_ports: int = Field(
        0,
        ge=0,
        le=65000,
        description=f"first of {DRIVER_PORTS} ports at which executors reach the driver; 0: any",
    )

    # Trino
    trino_memory: str = Field(
        "768m", pattern=r"^\d+[mg]$", description="heap of Trino", examples=["768m", "2g"]
    )

    # Kafka Connect
    connect_flush_seconds: int = Field(
        600,
        ge=1,
        le=3600,
        description="seconds between saves of Kafka Connect's offsets",
    )

    # The course
    error_cards: bool = Field(
        True, description="show known errors as cards in place of their tracebacks"
    )
    strict: bool = Field(False, description="for CI: raise if an exercise or a proof does not pass")
    progress: Path | None = Field(
        None, description="file for your progress, instead of `LAB_HOME`/progress.json"
    )
    outcomes: Path | None = Field(
        None, description="for CI: file to which each check and proof appends a line"
    )

    # The broker
    source: Literal["kafka", "kinesis"] = Field(
        "kafka",
        description="broker for `lab load`, `replay`, `ledger` and `tour`: `kafka` or `kinesis`",
    )

    # Live load
    late_share: float = Field(0.03, ge=0, le=1, description="share of updates that arrive late")
    duplicate_share: float = Field(0.02, ge=0, le=1, description="share of events sent twice")
    malformed_share: float = Field(0.01, ge=0, le=1, description="share of malformed events")
    update_share: float = Field(0.30, ge=0, le=1, description="share of update events")
    cancel_share: float = Field(0.03, ge=0, le=1, description="share of cancel events")
    erase_share: float = Field(0.01, ge=0, le=1, description="share of erase events")
    lateness_seconds: float = Field(
        5.0, gt=0, le=3600, description="most seconds from an event's time to its arrival"
    )
    send_timeout_seconds: float = Field(
        30.0,
        gt=0,
        le=600,
        description="seconds until a send without an acknowledgement counts as unknown",
    )

    # The pipeline's writer
    revenue_per_minute: bool = Field(False, description="also keep a table of revenue per minute")
    watermark_seconds: float = Field(
        65.0,
        gt=0,
        le=86400,
        description="seconds that an event may be late and still count for its minute",
    )
    lock: Literal["none", "zookeeper"] = Field(
        "none", description="`zookeeper` lets other jobs write the same tables"
    )
    replay_stream: bool = Field(
        False, description="read the whole topic again if the checkpoint belongs to another table"
    )

    @property
    def client_host(self) -> str:
        """Host at which clients on this machine reach the lab's servers."""
        return "127.0.0.1" if self.bind == "0.0.0.0" else self.bind

    def browser_url(self, url: str) -> str:
        """Return the address at which a browser, perhaps on another machine, opens a page.

        It is the address behind the proxy of `public_url`. Without a proxy, or for a page on
        another machine, it is `url` itself.
        """
        parts = urlsplit(url)
        own = {"127.0.0.1", self.client_host, self.spark_driver_host}
        if not (self.public_url and parts.port) or parts.hostname not in own:
            return url
        public = self.public_url.replace("{port}", str(parts.port))
        return public + url.removeprefix(f"{parts.scheme}://{parts.netloc}")

    @property
    def reachable_from_outside(self) -> bool:
        """True if other machines can reach the lab's servers."""
        return not IPv4Address(self.bind).is_loopback

    @property
    def prefix(self) -> str:
        """Prefix of the learner's tables and topics; empty without a namespace."""
        return f"{self.namespace}-" if self.namespace else ""

    @property
    def cores(self) -> int:
        """Number of cores of a Spark session on the chosen master."""
        if self.spark_master == "local":
            return 1
        local = re.fullmatch(r"local\[(\d+|\*)(?:, *\d+)?\]", self.spark_master)
        if local is None:
            return self.spark_cores
        return os.cpu_count() or 1 if local[1] == "*" else int(local[1])

    @property
    def cluster_properties(self) -> Path:
        """Properties file of the lab's own Spark cluster, with its secret; it may be missing."""
        return self.home / "cluster" / "cluster.properties"

    @property
    def own_master(self) -> str:
        """Master URL of the lab's own Spark cluster; empty if none was started."""
        try:
            found = re.search(r"^spark.master=(.+)$", self.cluster_properties.read_text(), re.M)
        except FileNotFoundError:
            return ""
        return found[1] if found else ""

    @property
    def conf_folders(self) -> dict[str, str]:
        """Configuration folders by variable; empty unless the cluster is external."""
        if self.runs_here(self.spark_master):
            return {}
        return {name: os.environ[name] for name in CONF_FOLDERS if os.environ.get(name)}

    def runs_here(self, master: str) -> bool:
        """True if a Spark master has its executors on this machine: local, or the lab's cluster."""
        return master.startswith("local") or master == self.own_master

    @property
    def keeps_data_here(self) -> bool:
        """True if no AWS service or external store needs this machine's AWS configuration."""
        return not (self.s3_endpoint or self.kinesis_endpoint or self.catalog == "glue")

    @property
    def places(self) -> dict[str, str]:
        """Settings that are paths, as variables for a program that runs in another folder."""
        return {_variable(name): str(path) for name, path in self if isinstance(path, Path)}

    @field_validator(
        *("home", "cache", "work", "progress", "outcomes"),
        *("minio_binary", "ivy_settings", "kafka_security"),
    )
    @classmethod
    def _make_absolute(cls, path: Path | None) -> Path | None:
        try:
            return path and path.expanduser().resolve()
        except RuntimeError:
            raise ValueError("that user has no home folder") from None

    @field_validator("bind")
    @classmethod
    def _check_address(cls, address: str) -> str:
        try:
            return str(IPv4Address(address))
        except ValueError:
            raise ValueError("it is not an IPv4 address") from None

    @field_validator("s3_endpoint", "kinesis_endpoint", "prometheus_url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if not url:
            return url
        try:
            parts = urlsplit(url.rstrip("/"))
            usable = parts.port != 0 and not re.search(r"\s", url)
        except ValueError:
            usable = False
        if not usable:
            raise ValueError("its host or port is wrong")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("it needs http:// or https://, then a host")
        if parts.path or parts.query or parts.fragment or parts.username:
            raise ValueError("it may have a host and a port, and nothing more")
        return parts.geturl()

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, url: str) -> str:
        if url and url.count("{port}") != 1:
            raise ValueError("it needs {port} once, in place of the port number")
        return cls._check_url(url.replace("{port}", "1")) and url.rstrip("/")

    @field_validator("s3_bucket")
    @classmethod
    def _check_bucket(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", name):
            raise ValueError("a bucket name has 3 to 63 characters: a-z, 0-9, dot and hyphen")
        return name

    @field_validator("namespace")
    @classmethod
    def _check_namespace(cls, name: str) -> str:
        if name and not re.fullmatch(r"[a-z][a-z0-9]{0,19}", name):
            raise ValueError(
                "a namespace has up to 20 characters, a-z and 0-9, and begins with a letter"
            )
        if name in TAKEN:
            raise ValueError(f"the course itself uses {', '.join(TAKEN)}")
        return name

    @field_validator("kafka_bootstrap", "zookeeper_connect")
    @classmethod
    def _check_servers(cls, servers: str) -> str:
        found = [server.strip() for server in servers.split(",")] if servers else []
        for server in found:
            port = re.fullmatch(r"(?:[\w.-]+|\[[\da-fA-F:.]+\]):(\d{1,5})", server)
            if not port or not 1 <= int(port[1]) <= 65535:
                raise ValueError(f"{server!r} is not host:port")
        return ",".join(found)

    @field_validator("metastore_uri")
    @classmethod
    def _check_metastore(cls, uri: str) -> str:
        found = re.fullmatch(r"thrift://[\w.-]+:(\d{1,5})", uri)
        if uri and not (found and 1 <= int(found[1]) <= 65535):
            raise ValueError("it is not thrift://host:port")
        return uri

    @model_validator(mode="after")
    def _check_shares(self) -> "Settings":
        taken = self.update_share + self.cancel_share + self.erase_share
        if taken > 1:
            raise ValueError(
                "LAB_UPDATE_SHARE, LAB_CANCEL_SHARE and LAB_ERASE_SHARE"
                f" add up to {taken:.2f}, more than 1"
            )
        return self


@dataclass(frozen=True)
class Endpoints:
    """Addresses and keys of the running services; `repr` shows no keys."""

    s3_endpoint: str  # URL, for example `http://127.0.0.1:9000`
    s3_access_key: str
    s3_secret_key: str
    s3_region: str
    bucket: str  # of all tables and checkpoints
    kafka_bootstrap: str  # `host:port`
    zookeeper: str = ""  # `host:port`; it is started only on request
    s3_session_token: str = ""  # empty unless the keys are temporary
    kinesis: str = ""  # URL; it is started only on request

    def broker(self, source: str) -> str:
        """Return the address of a broker, `kafka` or `kinesis`."""
        return {"kafka": self.kafka_bootstrap, "kinesis": self.kinesis}[source]

    def __repr__(self) -> str:
        return f"Endpoints(s3={self.s3_endpoint}, kafka={self.kafka_bootstrap})"


@lru_cache(maxsize=1)
def settings() -> Settings:
    """Return this process's settings; a misspelt variable or a wrong value raises `LabError`."""
    for variable in unknown_variables():
        if guess := _like_a_setting(variable):
            raise LabError(
                f"{variable} is not a setting of the lab.", f"unset {variable}, or use {guess}."
            )
    try:
        return Settings()
    except ValidationError as error:
        raise _error(error.errors()[0]) from None


def without_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without keys, for a program that does not read the object store."""
    return {name: value for name, value in environment.items() if name not in CREDENTIALS}


def machine_credentials() -> dict[str, str]:
    """Return this process's AWS credentials, for a store whose keys are not set in the lab."""
    return {name: os.environ[name] for name in AWS_CREDENTIALS if name in os.environ}


def _variable(field: str) -> str:
    return f"LAB_{field.upper()}"


def unknown_variables() -> list[str]:
    """Return the LAB_ variables that are no settings: misspelt, or of another program."""
    known = {_variable(name) for name in Settings.model_fields}
    return sorted(name for name in os.environ if name.startswith("LAB_") and name not in known)


def _like_a_setting(variable: str) -> str:
    """Return the setting that a misspelt variable probably means; empty if there is none."""
    # Without the prefix, which makes any two variables similar.
    name = variable.removeprefix("LAB_").lower()
    guess = difflib.get_close_matches(name, Settings.model_fields, n=1, cutoff=0.8)
    return _variable(guess[0]) if guess else ""


def _error(found: ErrorDetails) -> LabError:
    why = found["msg"].removeprefix("Value error, ") if found["type"] == "value_error" else ""
    if not found["loc"]:
        return LabError(f"{why}.", "set one of them lower, or unset it.")
    field = str(found["loc"][0])
    variable = _variable(field)
    secret = Settings.model_fields[field].annotation is SecretStr
    value = "" if secret else f"={os.environ.get(variable)!r}"
    return LabError(
        f"{variable}{value} is not allowed{why and ': '}{why}.",
        f"set {variable} to {_allowed(field)}, or unset it.",
    )


def _allowed(field: str) -> str:
    rules = Settings.model_json_schema()["properties"][field]
    number = "a whole number" if rules.get("type") == "integer" else "a number"
    if "enum" in rules:
        return " or ".join(rules["enum"])
    if "minimum" in rules:
        return f"{number} from {rules['minimum']} to {rules['maximum']}"
    if "exclusiveMinimum" in rules:
        return f"{number} above {rules['exclusiveMinimum']}, at most {rules['maximum']}"
    if rules.get("type") == "boolean":
        return "true or false"
    return f"something like {rules['examples'][0]}" if "examples" in rules else "a path"
