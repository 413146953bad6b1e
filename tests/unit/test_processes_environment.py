"""Environment variables are adapted to the machine; a lesson finds only its own programs."""

import os
import subprocess
import sys
import time
from unittest.mock import patch
from urllib.request import getproxies, proxy_bypass

import pytest

from lab_env.platform.processes import environment
from lab_env.platform.processes.environment import (
    JAVA_OPTIONS,
    PROXIES,
    adapt,
    adaptations,
    clean_environment,
    mark_of_lesson,
    programs_of_lesson,
)
from lab_env.platform.services import doctor
from lab_env.platform.settings import settings


@pytest.fixture
def plain(home, monkeypatch):
    """A machine without a proxy; yields its set of noexec folders, initially empty."""
    noexec = set()
    monkeypatch.setattr(environment, "is_noexec", noexec.__contains__)
    monkeypatch.setattr(doctor, "is_noexec", noexec.__contains__)
    with patch.dict(os.environ):
        for name in (*PROXIES, "no_proxy"):
            for spelling in (name, name.upper()):
                os.environ.pop(spelling, None)
        os.environ.pop(JAVA_OPTIONS, None)
        yield noexec


def special() -> dict[str, str]:
    """Return the variables that only this machine needs."""
    return {k: v for k, v in adaptations().items() if k in ("no_proxy", "NO_PROXY", JAVA_OPTIONS)}


def test_a_machine_like_any_other_needs_no_variables(plain):
    assert special() == {}
    assert [*doctor._proxy(), *doctor._java_libraries()] == []


def test_variables_of_other_work_are_left_out_and_the_doctor_names_them(plain, monkeypatch):
    monkeypatch.setattr(environment, "left_out", doctor.left_out)
    theirs = ("AWS_PROFILE", "SPARK_REMOTE", "_JAVA_OPTIONS", "LOCUST_TAGS", "PYTHONPATH", "PGHOST")
    os.environ |= dict.fromkeys(theirs, "theirs") | {"TZ": "Asia/Kolkata", "LAB_ID": "7"}
    os.environ["LC_ALL"] = "tr_TR.UTF-8"
    found = clean_environment()
    assert not found.keys() & {*theirs} and found["LC_ALL"] == "C.UTF-8"
    adapt()
    assert not os.environ.keys() & {*theirs} and time.tzname == ("UTC", "UTC")
    (finding,) = doctor._foreign_variables()
    assert all(name in finding.fact for name in (*theirs, "LAB_ID"))


@pytest.mark.parametrize("elsewhere", ["LAB_S3_ENDPOINT", "LAB_KINESIS_ENDPOINT"])
def test_a_lab_with_servers_of_aws_keeps_the_machines_profile(plain, elsewhere):
    os.environ |= {"AWS_PROFILE": "mine", elsewhere: "https://example.org"}
    settings.cache_clear()
    adapt()
    assert os.environ["AWS_PROFILE"] == "mine" and "AWS_CONFIG_FILE" not in adaptations()


def test_a_small_temporary_folder_is_replaced_for_java_spark_and_python(plain, home, monkeypatch):
    monkeypatch.setattr(environment, "LEAST_TEMPORARY", float("inf"))
    assert adaptations()["TMPDIR"] == str(home / "tmp")
    assert special() == {JAVA_OPTIONS: f'"-Djava.io.tmpdir={home / "tmp"}"'}


@pytest.mark.parametrize("proxy", ["http_proxy", "HTTPS_PROXY", "ALL_PROXY"])
@pytest.mark.parametrize(
    ("given", "lower", "upper"),
    [
        ({}, "localhost,127.0.0.1", "localhost,127.0.0.1"),
        ({"no_proxy": ".corp, 10.0.0.1"}, ".corp,10.0.0.1,localhost,127.0.0.1", ...),
        ({"NO_PROXY": "127.0.0.1"}, "127.0.0.1,localhost", ...),
        ({"no_proxy": "a", "NO_PROXY": "b"}, "a,localhost,127.0.0.1", "b,localhost,127.0.0.1"),
        ({"no_proxy": "*"}, "*", "*"),
    ],
)
def test_a_proxy_is_not_asked_for_this_machine(plain, proxy, given, lower, upper):
    os.environ |= {proxy: "http://proxy:3128"} | given
    expected = {"no_proxy": lower, "NO_PROXY": lower if upper is ... else upper}
    assert special() == expected
    assert expected.items() <= clean_environment().items()
    adapt()
    assert special() == expected  # once more changes nothing
    (finding,) = doctor._proxy()
    assert finding.verdict == "ok" and finding.fact.startswith(proxy)


def test_a_proxy_is_not_asked_for_the_address_that_the_servers_listen_on(plain):
    os.environ |= {"LAB_BIND": "192.168.1.7", "LAB_SPARK_DRIVER_HOST": "laptop.example.org"}
    os.environ["http_proxy"] = "http://proxy:3128"
    settings.cache_clear()
    adapt()
    assert getproxies()["http"] == "http://proxy:3128"
    for host in ("192.168.1.7:9000", "laptop.example.org:4040", "127.0.0.1:1", "localhost:1"):
        assert proxy_bypass(host)
    assert not proxy_bypass("s3.example.org")


@pytest.mark.parametrize("given", ["", "-Xss2m"])
def test_java_loads_its_libraries_elsewhere_where_tmp_is_noexec(plain, home, given):
    os.environ |= {JAVA_OPTIONS: given} if given else {}
    plain.add(environment.JAVA_TEMPORARY)
    adapt()
    assert special() == {JAVA_OPTIONS: os.environ[JAVA_OPTIONS]}  # once more changes nothing
    assert os.environ[JAVA_OPTIONS] == f'{given} "-Djava.io.tmpdir={home / "tmp"}"'.strip()
    assert (home / "tmp").is_dir()
    assert clean_environment()[JAVA_OPTIONS] == os.environ[JAVA_OPTIONS]
    (finding,) = doctor._java_libraries()
    assert finding.verdict == "ok" and str(home) in finding.fact
    plain.add(home)
    (finding,) = doctor._java_libraries()
    assert finding.verdict == "fail" and "LAB_HOME" in finding.fix


def test_a_temporary_folder_that_the_user_has_chosen_for_java_stays(plain):
    os.environ[JAVA_OPTIONS] = "-Djava.io.tmpdir=/scratch"
    plain.add(environment.JAVA_TEMPORARY)
    assert special() == {JAVA_OPTIONS: "-Djava.io.tmpdir=/scratch"}


def test_a_program_of_a_lesson_is_found_although_nobody_holds_it(home):
    home.mkdir()
    program = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"],
        env={**os.environ, **mark_of_lesson("lesson-18")},
        stdout=subprocess.PIPE,
    )
    try:
        assert program.stdout.readline()  # it is itself by now, not its fork
        assert [found.pid for found in programs_of_lesson("lesson-18")] == [program.pid]
        assert programs_of_lesson("lesson-17") == []
    finally:
        program.kill()
        program.communicate()
