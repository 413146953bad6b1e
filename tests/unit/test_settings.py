"""A wrong setting is reported with the allowed values; paths are the same in every program."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab_env.lab.handle import namespace_of
from lab_env.platform.errors import LabError
from lab_env.platform.install import bootstrap
from lab_env.platform.settings import REPOSITORY, Settings, settings


@pytest.fixture
def read(monkeypatch):
    """Function that reads the settings from only these LAB_* variables."""

    def read(**variables: str) -> Settings:
        for name in [name for name in os.environ if name.startswith("LAB_")]:
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        settings.cache_clear()
        return settings()

    yield read
    settings.cache_clear()


def test_an_empty_variable_is_an_unset_one(read):
    assert read(LAB_HOME="", LAB_KAFKA_PORT="").home == REPOSITORY / ".lab"


def test_a_relative_path_is_below_the_working_folder_a_tilde_is_home(read, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    chosen = {"LAB_HOME": "a lab", "LAB_CACHE": "c", "LAB_WORK": "~/mine"}
    chosen |= {"LAB_PROGRESS": "p.json", "LAB_OUTCOMES": "~/o.jsonl"}
    assert read(**chosen).places == {
        "LAB_HOME": str(tmp_path / "a lab"),
        "LAB_CACHE": str(tmp_path / "c"),
        "LAB_WORK": str(Path.home().resolve() / "mine"),
        "LAB_PROGRESS": str(tmp_path / "p.json"),
        "LAB_OUTCOMES": str(Path.home().resolve() / "o.jsonl"),
    }


def test_set_up_and_the_lab_have_the_same_cache(read, monkeypatch, tmp_path):
    for base in (tmp_path / "one", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", str(base))
        script = "from lab_env.platform.settings import settings; print(settings().cache)"
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("LAB_CACHE", raising=False)
        said = subprocess.check_output([sys.executable, "-c", script], text=True)
        assert said.strip() == str(bootstrap._cache())


@pytest.mark.parametrize(
    ("variable", "wrong", "why", "allowed"),
    [
        ("LAB_KAFKA_PORT", "80", "", "a whole number from 1024 to 65535"),
        ("LAB_LATENESS_SECONDS", "0", "", "a number above 0, at most 3600"),
        ("LAB_STRICT", "maybe", "", "true or false"),
        ("LAB_SPARK_MEMORY", "1 GB", "", "something like 700m"),
        ("LAB_BIND", "::1", "not an IPv4 address", "something like 127.0.0.1"),
        ("LAB_BIND", "localhost", "not an IPv4 address", "something like 127.0.0.1"),
        ("LAB_S3_ENDPOINT", "notaurl", "http:// or https://", "something like https://"),
        ("LAB_S3_ENDPOINT", "ftp://store", "http:// or https://", "something like https://"),
        ("LAB_S3_ENDPOINT", "http://store:99999", "host or port", "something like https://"),
        ("LAB_S3_ENDPOINT", "http://store/bucket", "nothing more", "something like https://"),
        ("LAB_PUBLIC_URL", "https://lab.example", "{port} once", "something like https://{port}."),
        ("LAB_PUBLIC_URL", "https://{port}.example/lab", "nothing more", "something like"),
        ("LAB_S3_BUCKET", "Bad Bucket", "a-z", "something like lakehouse"),
        ("LAB_KAFKA_BOOTSTRAP", "nohost", "'nohost' is not host:port", "something like broker-1:"),
        ("LAB_KAFKA_BOOTSTRAP", "a:1,b:99999", "'b:99999' is not host:port", "something like"),
        ("LAB_METASTORE_URI", "http://a:9083", "not thrift://", "something like thrift://metas"),
        ("LAB_KINESIS_ENDPOINT", "kinesis:4568", "http:// or https://", "something like https://"),
        ("LAB_SOURCE", "kinensis", "", "kafka or kinesis"),
        ("LAB_TRINO_MEMORY", "1 GB", "", "something like 768m"),
        ("LAB_NAMESPACE", "Alice", "a-z", "something like alice"),
        ("LAB_NAMESPACE", "a-b", "a-z", "something like alice"),
        ("LAB_NAMESPACE", "lesson", "the course itself uses", "something like alice"),
        ("LAB_HOME", "~no-such-user/x", "no home folder", "a path"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_may_be(read, variable, wrong, why, allowed):
    with pytest.raises(LabError) as caught:
        read(**{variable: wrong})
    assert caught.value.what.startswith(f"{variable}={wrong!r} is not allowed{why and ': '}")
    assert why in caught.value.what
    assert caught.value.next_step.startswith(f"set {variable} to {allowed}")


# Python's and pydantic's own words.
FOREIGN = r"[Ii]nput|valid |greater|unable|pattern|octets|out of range|Could not|[Ee]xpected|error"
SCHEMA = Settings.model_json_schema()  # 30 ms
TAKES_ANY_TEXT = (
    *("s3_access_key", "s3_secret_key", "s3_session_token", "s3_region"),
    *("spark_master", "spark_python", "spark_driver_host"),
)


@pytest.mark.parametrize("field", Settings.model_fields)
def test_no_wrong_value_is_refused_in_pydantics_words(read, field, monkeypatch):
    monkeypatch.setattr(Settings, "model_json_schema", lambda: SCHEMA)
    variable, refused = f"LAB_{field.upper()}", []
    for wrong in ("many", "-5", "nan", "~no-such-user/x", "http://a:99999", "http://[a"):
        try:
            read(**{variable: wrong})
        except LabError as error:
            refused.append(error)
            assert error.what.startswith(f"{variable}={wrong!r} is not allowed")
            assert error.next_step.startswith(f"set {variable} to ")
            assert not re.search(FOREIGN, error.what.partition("allowed")[2] + error.next_step)
    assert refused or field in TAKES_ANY_TEXT


def test_several_brokers_and_a_store_with_a_slash_are_fine(read):
    chosen = read(LAB_KAFKA_BOOTSTRAP="a.b:9092, [::1]:9093", LAB_S3_ENDPOINT="https://store:9000/")
    assert chosen.kafka_bootstrap == "a.b:9092,[::1]:9093"
    assert chosen.s3_endpoint == "https://store:9000"


def test_a_page_has_its_address_behind_a_proxy_and_another_machines_keeps_its_own(read):
    page = "http://127.0.0.1:4040/jobs/?id=1"
    assert read().browser_url(page) == page
    proxied = read(LAB_PUBLIC_URL="https://p{port}.example/")
    assert proxied.browser_url(page) == "https://p4040.example/jobs/?id=1"
    assert proxied.browser_url("http://other:9090/graph") == "http://other:9090/graph"


def test_a_codespace_says_by_itself_where_its_ports_are(read, monkeypatch):
    monkeypatch.setenv("CODESPACE_NAME", "a-b")
    monkeypatch.setenv("GITHUB_CODESPACES_PORT_FORWARDING_DOMAIN", "app.github.dev")
    assert read().browser_url("http://127.0.0.1:8888/lab") == "https://a-b-8888.app.github.dev/lab"


def test_the_devcontainer_forwards_the_pages_that_a_lesson_opens():
    text = (REPOSITORY / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8")
    container = json.loads(re.sub(r"^//.*\n", "", text, flags=re.M))
    named = ("jupyter_port", "minio_console_port", "spark_ui_port", "locust_port")
    pages = [Settings.model_fields[name].default for name in named]
    assert container["forwardPorts"] == pages
    assert list(container["portsAttributes"]) == [str(port) for port in pages]
    assert container["onCreateCommand"] == "make setup"


def test_shares_above_all_events_are_refused(read):
    with pytest.raises(LabError, match=r"LAB_UPDATE_SHARE, .* add up to 1\.81, more than 1\."):
        read(LAB_UPDATE_SHARE="0.9", LAB_CANCEL_SHARE="0.9")


def test_a_misspelt_variable_is_named_with_a_guess(read):
    with pytest.raises(LabError, match="LAB_KAFKA_PROT is not a setting") as caught:
        read(LAB_KAFKA_PROT="1")
    assert caught.value.next_step == "unset LAB_KAFKA_PROT, or use LAB_KAFKA_PORT."


def test_a_variable_of_a_training_platform_is_no_setting_and_no_error(read):
    assert read(LAB_ID="7", LAB_HOST="h", LAB_NAME="n") == read()


def test_clients_of_a_server_on_all_addresses_use_this_machines_own(read):
    assert read(LAB_BIND="0.0.0.0").client_host == "127.0.0.1"
    assert read(LAB_BIND="127.0.0.9").client_host == "127.0.0.9"


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[1]", 1), ("local[3]", 3), ("local[4, 2]", 4), ("spark://a:7077", 5)],
)
def test_the_cores_are_those_of_the_master(read, master, cores):
    assert read(LAB_SPARK_MASTER=master, LAB_SPARK_CORES="5").cores == cores


def test_a_cluster_that_is_not_the_labs_is_configured_by_its_own_folders(
    read, monkeypatch, tmp_path
):
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert read(LAB_HOME=str(tmp_path)).conf_folders == {}
    theirs = {"LAB_SPARK_MASTER": "spark://a:7077", "LAB_HOME": str(tmp_path)}
    assert read(**theirs).conf_folders == {"SPARK_CONF_DIR": "/etc/spark"}
    settings().cluster_properties.parent.mkdir()
    settings().cluster_properties.write_text("spark.master=spark://a:7077\n")
    assert settings().conf_folders == {}  # it is the lab's own


def test_two_learners_share_no_name(read):
    names = {}
    for learner in ("", "alice", "bob"):
        read(LAB_NAMESPACE=learner)
        names[learner] = [namespace_of(name) for name in ("05", "tour", "lab")]
    assert names[""] == ["lesson-05", "tour", "lab"]
    assert names["alice"] == ["alice-lesson-05", "alice-tour", "alice-lab"]
    # What a reset of one deletes begins with its name and a slash or a dot.
    everything = [f"{name}{end}" for own in names.values() for name in own for end in "/."]
    for own in everything:
        assert [other for other in everything if other.startswith(own)] == [own]
