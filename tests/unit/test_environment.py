"""pyproject.toml, requirements.lock and environment.yml pin the same versions."""

import re
import tomllib
from base64 import b64decode

import pytest

from lab_env.platform.install.bootstrap import SUPPORTED_PYTHONS, pythons, usable_pythons
from lab_env.platform.install.go_build import GO_MODULES
from lab_env.platform.settings import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
LOCK = (REPOSITORY / "requirements.lock").read_text()
CONDA = (REPOSITORY / "environment.yml").read_text()
VERSIONS = (REPOSITORY / "lab_env" / "platform" / "install" / "versions.toml").read_text()
PINS = tomllib.loads(VERSIONS)

LOCKED = dict(re.findall(r"^([\w.-]+)==(\S+)", LOCK, re.MULTILINE))


def test_every_dependency_is_pinned_and_locked_to_the_same_version():
    # An extra, as in moto[server], is part of the name only where the project asks for it.
    pins = dict(re.sub(r"\[\w+\]", "", line).split("==") for line in PROJECT["dependencies"])
    assert pins == {name: LOCKED[name] for name in pins}


def test_the_conda_twin_pins_what_the_project_pins():
    assert sorted(re.findall(r"^      - (\S+==\S+)$", CONDA, re.MULTILINE)) == sorted(
        PROJECT["dependencies"]
    )


def test_the_conda_twin_brings_java_17_a_safe_minio_and_this_project():
    oldest = PINS["go"]["minio"]["oldest_release"].replace("-", ".")
    wanted = ["python=3.11", "openjdk=17", f"minio-server>={oldest}", "-e ."]
    assert [
        part for part in wanted if not re.search(rf"^ +- {re.escape(part)}$", CONDA, re.M)
    ] == []


def test_every_locked_version_has_a_hash():
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert len(entries) > 100


@pytest.mark.parametrize("text", [LOCK, CONDA, VERSIONS], ids=["lock", "conda", "versions"])
def test_no_file_names_an_index(text):
    assert re.findall(r"https?://|--index-url|--extra-index-url|--find-links", text) == []


def digests(kind: str, name: str, pin: dict) -> list[str]:
    """Return the hexadecimal checksums by which set-up verifies an artefact of versions.toml."""
    if kind == "wheels":
        return [digest.removeprefix("sha256:") for digest in pin["hashes"]]
    if kind == "archives":
        return [pin["sha256"]]
    if kind == "jars":
        return list(pin.values())
    if kind == "go":
        sums = (GO_MODULES / name / "go.sum").read_text()
        found = re.findall(rf"^{pin['module']} {pin['version']} h1:(\S+)$", sums, re.MULTILINE)
        return [b64decode(digest).hex() for digest in found]
    raise ValueError(f"nothing is known about the checksums of [{kind}]")


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, pins in PINS.items() for name in pins]
)
def test_every_artefact_has_a_checksum(kind, name):
    found = digests(kind, name, PINS[kind][name])
    assert found and all(re.fullmatch("[0-9a-f]{64}", digest) for digest in found)
    assert (kind, name) != ("jars", "spark") or len(found) > 5


def test_every_place_names_the_same_pythons():
    wanted = sorted("{}.{}".format(*version) for version in SUPPORTED_PYTHONS)
    oldest, after = min(SUPPORTED_PYTHONS), max(SUPPORTED_PYTHONS)[1] + 1
    assert PROJECT["requires-python"] == ">={}.{},<3.{}".format(*oldest, after)
    ci = (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text()
    assert re.search(r"python: \[(.*)\]", ci)[1].replace('"', "").split(", ") == wanted
    assert f"Python {wanted[0]} to {wanted[-1]}," in (REPOSITORY / "README.md").read_text()
    platforms = (REPOSITORY / "docs" / "platforms.md").read_text()
    assert f"No Python {pythons()} there" in platforms


def test_on_macos_the_python_without_wheels_is_not_used():
    assert usable_pythons("linux") == SUPPORTED_PYTHONS
    assert usable_pythons("darwin") == ((3, 12), (3, 13))


def test_the_kafka_source_is_of_pysparks_version():
    assert f"org.apache.spark:spark-sql-kafka-0-10_2.12:{LOCKED['pyspark']}" in VERSIONS
