"""pyproject.toml, requirements.lock and environment.yml pin the same versions."""

import re
import tomllib

import pytest

from lab_env.settings import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
LOCK = (REPOSITORY / "requirements.lock").read_text()
CONDA = (REPOSITORY / "environment.yml").read_text()
VERSIONS = (REPOSITORY / "lab_env" / "versions.toml").read_text()

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
    oldest = tomllib.loads(VERSIONS)["minio"]["oldest_release"].replace("-", ".")
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


def test_every_artefact_has_a_sha256():
    versions = tomllib.loads(VERSIONS)
    jars = [digest for pins in versions["jars"].values() for digest in pins.values()]
    wheels = [
        digest.removeprefix("sha256:")
        for wheel in versions["wheels"].values()
        for digest in wheel["hashes"]
    ]
    archives = [archive["sha256"] for archive in versions["archives"].values()]
    assert [
        digest for digest in jars + wheels + archives if not re.fullmatch("[0-9a-f]{64}", digest)
    ] == []
    assert len(jars) > 50


def test_the_kafka_source_is_of_pysparks_version():
    assert f"org.apache.spark:spark-sql-kafka-0-10_2.12:{LOCKED['pyspark']}" in VERSIONS
