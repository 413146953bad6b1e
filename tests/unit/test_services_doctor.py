"""The doctor reports what is wrong with a machine, and how to fix it."""

import os
import pwd
import socket
import time

import pytest
from test_cli import lab

from lab_env.platform import services
from lab_env.platform.errors import LabError
from lab_env.platform.install import bootstrap, java
from lab_env.platform.processes import system
from lab_env.platform.processes.state import folder
from lab_env.platform.services import doctor, minio
from lab_env.platform.settings import settings
from lab_env.platform.setup import set_up


@pytest.fixture(autouse=True)
def no_services(home, monkeypatch):
    monkeypatch.setattr(doctor, "corrupt_jars", list)  # it reads every jar; test_setup holds it


def finding(subject: str) -> doctor.Finding:
    """Return the doctor's worst finding on a subject."""
    order = ["ok", "warn", "fail"]
    found = [finding for finding in doctor.run_checks() if finding.subject == subject]
    return max(found, key=lambda finding: order.index(finding.verdict))


def test_secret_settings_are_named_but_not_shown(configure):
    configure(s3_access_key="an-access-key", s3_secret_key="a-secret-key")
    fact = finding("settings").fact
    assert "LAB_S3_ACCESS_KEY" in fact and "LAB_S3_SECRET_KEY" in fact and "LAB_HOME=" in fact
    assert "-key" not in fact


def test_a_lab_that_others_can_reach_is_among_the_findings(configure):
    assert finding("network").verdict == "ok"
    configure(bind="0.0.0.0")
    assert finding("network").verdict == "warn"


@pytest.fixture
def nameless(monkeypatch):
    """A user who has no entry in /etc/passwd."""
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    with pytest.raises(KeyError):
        pwd.getpwuid(os.getuid())


def test_a_user_without_a_name_is_said_before_spark_fails(nameless):
    assert finding("user").verdict == "fail"
    assert "User id 54321 has no entry in /etc/passwd" in finding("user").fact
    for start in (services.up, lambda: set_up(print)):
        with pytest.raises(LabError, match="User id 54321 has no entry"):
            start()


def test_a_user_without_a_home_folder_is_said(nameless, monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", "LAB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    settings.cache_clear()
    (only,) = doctor.run_checks()
    assert only.fact == "This user has no home folder."
    with pytest.raises(SystemExit):
        bootstrap._cache()


def test_one_wrong_setting_is_said_once_and_nothing_else(tmp_path):
    done = lab("doctor", home=tmp_path / "lab", LAB_KAFKA_PORT="99999")
    assert done.returncode == 1
    assert done.stdout.count("FAIL") == 1
    assert done.stdout.count("LAB_KAFKA_PORT='99999' is not allowed") == 1
    assert "a whole number from 1024 to 65535" in done.stdout
    assert "ok" not in done.stdout


def test_a_busy_port_is_named_with_its_setting_and_is_no_warning(configure):
    assert finding("ports").fix == ""
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        configure(metastore_port=port)
        found = finding("ports")
    assert found.verdict == "ok" and f"{port} (LAB_METASTORE_PORT)" in found.fact


@pytest.mark.parametrize(
    ("verdicts", "status", "sentence"),
    [
        (["ok", "ok"], 0, "All good."),
        (["ok", "warn"], 0, "The lab works. Look at: memory."),
        (["fail", "warn"], 1, "To fix: disk."),
    ],
)
def test_the_last_line_is_the_verdict(lab_command, monkeypatch, verdicts, status, sentence):
    found = [
        doctor.Finding(subject, verdict, "a fact", "" if verdict == "ok" else "do this")
        for subject, verdict in zip(["disk", "memory"], verdicts, strict=True)
    ]
    monkeypatch.setattr(doctor, "run_checks", lambda session: found)
    done = lab_command("doctor")
    assert done.returncode == status
    assert done.stdout.splitlines()[-1] == sentence
    assert done.stdout.count("do this") == len([v for v in verdicts if v != "ok"])


def test_a_healthy_lab_takes_one_screen_and_starts_a_session(tmp_path):
    done = lab("doctor", LAB_HOME=str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert len(done.stdout.splitlines()) <= 25
    assert "Spark starts and counts" in done.stdout


def test_a_session_that_does_not_start_is_not_all_good(tmp_path):
    done = lab("doctor", LAB_HOME=str(tmp_path), LAB_SPARK_MEMORY="400m")
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "System memory" in said and "lab logs spark-doctor" in said
    assert said.endswith("To fix: session.")


@pytest.mark.parametrize(
    ("machine", "fix"),
    [
        ("x86_64", "run: make setup"),
        ("aarch64", "install your system's: apt install openjdk-17-jre-headless"),
    ],
)
def test_a_machine_without_java_17_is_told_where_there_is_one(
    monkeypatch, configure, tmp_path, machine, fix
):
    monkeypatch.setattr(java.sys, "platform", "linux")
    monkeypatch.setattr(java.platform, "machine", lambda: machine)
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    configure(cache=tmp_path / "cache")
    monkeypatch.setattr(doctor, "find_java", java.find_java.__wrapped__)
    found = finding("java")
    assert found.verdict == "fail" and found.fix.startswith(fix)


def test_too_little_memory_is_a_warning_which_in_wsl_names_the_file_to_change(
    monkeypatch, tmp_path
):
    kernel = tmp_path / "version"
    monkeypatch.setattr(system, "KERNEL", kernel)
    monkeypatch.setattr(doctor, "NEEDED_MEMORY", 1_000_000)
    found = finding("memory")
    assert found.verdict == "warn" and "LAB_SPARK_MEMORY" in found.fix
    assert ".wslconfig" not in found.fix
    kernel.write_text("Linux version 5.15.167.4-microsoft-standard-WSL2 (root@f9c826d3017f)")
    assert "memory=6GB below [wsl2] in .wslconfig" in next(doctor._memory()).fix
    monkeypatch.setattr(doctor, "NEEDED_MEMORY", 0)
    assert next(doctor._memory()).fix == ""


@pytest.mark.parametrize(
    ("limit", "verdict"), [("COMFORTABLE_DISK", "warn"), ("LEAST_DISK", "fail")]
)
def test_a_disk_that_is_nearly_full_is_said(monkeypatch, limit, verdict):
    monkeypatch.setattr(doctor, "COMFORTABLE_DISK", 1_000_000_000)
    monkeypatch.setattr(doctor, "LEAST_DISK", 0)
    monkeypatch.setattr(doctor, limit, 1_000_000_000)
    found = finding("disk")
    assert found.verdict == verdict
    assert "free some space, or set LAB_" in found.fix


def test_a_disk_on_which_minio_refuses_writes_is_said_before_it_starts(monkeypatch, home):
    monkeypatch.setattr(minio, "LEAST_FREE", 1.0)
    assert finding("disk").fact.startswith("MinIO refuses writes on a disk with less than 1 % free")
    with pytest.raises(LabError, match="MinIO refuses writes"):
        minio.MinIO().program({"api": 1, "console": 2})


def test_few_open_files_are_said(monkeypatch):
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda kind: (256, 1024))
    assert finding("open files").fix == "raise the limit: ulimit -Hn 4096"


def test_a_clock_that_went_back_is_said(home):
    log = folder("logs") / "kafka.log"
    log.touch()
    os.utime(log, (time.time() + 3600,) * 2)
    assert finding("clock").verdict == "warn"
