"""A failed stop is reported; the store's credentials reach only programs that read the store."""

import json
import re
import subprocess
import sys
from xmlrpc.client import Fault

import pytest

from lab_env.pipeline.handle import Writer
from lab_env.platform.errors import LabError
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.state import folder
from lab_env.platform.services import SERVICES, doctor, kafka, metastore, trino
from lab_env.platform.settings import CREDENTIALS, Endpoints, settings
from lab_env.shop import load

SECRET = "a-secret-of-the-store"


@pytest.fixture
def external(tmp_path, monkeypatch, configure):
    """A lab on an external store, whose keys come from the environment."""
    for name in CREDENTIALS:
        monkeypatch.setenv(name, SECRET)
    endpoint = "https://s3.example.org"
    configure(home=tmp_path / "lab", s3_endpoint=endpoint, s3_bucket="passed-on")
    monkeypatch.setattr(trino, "archive_folder", lambda name: tmp_path)
    monkeypatch.setattr(trino, "wheel_java_home", lambda version: tmp_path)
    monkeypatch.setattr(metastore, "_class_path", lambda: "")
    monkeypatch.setattr(metastore, "java_program", lambda: "java")
    monkeypatch.setattr(kafka, "_format_storage", lambda folder, ports: None)
    monkeypatch.setattr(kafka, "_java", lambda *options: ["java"])


def description(name: str) -> str:
    """Return the text of the file from which a process starts a service."""
    service = SERVICES[name]
    supervisor._describe(service.program(service.preferred_ports()))
    return (supervisor._programs() / f"{name}.json").read_text()


@pytest.mark.parametrize("name", ["kafka", "kinesis"])
def test_a_service_that_does_not_read_the_store_gets_no_credentials(external, name):
    assert SECRET not in description(name)
    assert json.loads(description(name))["env"]["LAB_S3_BUCKET"] == "passed-on"


def test_a_load_gets_no_credentials(external, monkeypatch, tmp_path):
    given = {}

    def popen(command, env, **more):
        given.update(env)
        raise FileNotFoundError

    monkeypatch.setattr(load, "ensure_topic", lambda bootstrap, topic: None)
    monkeypatch.setattr(load.subprocess, "Popen", popen)
    with pytest.raises(FileNotFoundError):
        load.Load("127.0.0.1:1", "t", tmp_path, show=False).start()
    assert given["LAB_S3_BUCKET"] == "passed-on" and SECRET not in given.values()


@pytest.mark.parametrize("name", ["metastore", "trino"])
@pytest.mark.parametrize("own_keys", [True, False], ids=["keys", "the machine's"])
def test_a_service_that_reads_the_store_gets_its_credentials_by_name(
    external, monkeypatch, configure, name, own_keys
):
    if not own_keys:
        configure(s3_access_key="")
    given = {key for key, value in json.loads(description(name))["env"].items() if value == SECRET}
    assert given and not {key for key in given if key.startswith("LAB_")}
    assert "AWS_SESSION_TOKEN" in given  # of LAB_S3_SESSION_TOKEN, or the machine's
    monkeypatch.delenv("LAB_S3_SESSION_TOKEN")
    settings.cache_clear()
    # The machine's would belong to other keys.
    assert ("AWS_SESSION_TOKEN" in json.loads(description(name))["env"]) is not own_keys


@pytest.mark.parametrize("key", [SECRET, ""], ids=["keys", "the machine's"])
def test_a_writer_gets_its_credentials_by_name(external, monkeypatch, key):
    started = []
    monkeypatch.setattr(supervisor, "start", started.append)
    monkeypatch.setattr(supervisor, "remove", lambda name: None)
    monkeypatch.setattr("lab_env.pipeline.handle.jar_folder", lambda name: "jars")
    monkeypatch.setattr("lab_env.pipeline.handle.java.java_home", lambda: "java")
    monkeypatch.setattr("lab_env.pipeline.handle.cds_archive.java_options", lambda options: options)
    endpoints = Endpoints("https://s3.example.org", key, key, "us-east-1", "b", "127.0.0.1:1")
    Writer("writer-test").start(endpoints, "t", "s3a://b/x")
    assert started[0].env["AWS_SECRET_ACCESS_KEY"] == SECRET
    assert ("AWS_SESSION_TOKEN" in started[0].env) is (key == "")


def test_the_supervisor_whose_environment_every_program_inherits_has_no_credentials(
    external, monkeypatch
):
    given = {}

    class Ended:
        def __init__(self, command, env, **_):
            given.update(env)

        def poll(self):
            return 1

    monkeypatch.setattr(supervisor.subprocess, "Popen", Ended)
    monkeypatch.setattr(supervisor, "_make_socket_folder", lambda: None)
    with pytest.raises(LabError):
        supervisor._spawn()
    assert supervisor.SUPERVISED in given
    assert SECRET not in given.values()


def answering(monkeypatch, answers: dict[str, BaseException]) -> None:
    """Make some of the supervisor's methods fail with these errors."""

    def call(method, *arguments, timeout=20):
        if method in answers:
            raise answers[method]

    monkeypatch.setattr(supervisor, "_call", call)


@pytest.mark.parametrize(
    "answer",
    [
        Fault(supervisor.BAD_NAME, "BAD_NAME"),
        Fault(supervisor.NOT_RUNNING, "NOT_RUNNING"),
        FileNotFoundError(),
        ConnectionRefusedError(),
    ],
    ids=lambda answer: str(answer) or type(answer).__name__,
)
def test_what_does_not_run_is_stopped_already(monkeypatch, answer):
    answering(monkeypatch, {"stopProcess": answer})
    supervisor.stop("kafka")


@pytest.mark.parametrize(
    ("answer", "why"),
    [(Fault(30, "FAILED: kafka"), "FAILED: kafka"), (TimeoutError("timed out"), "timed out")],
    ids=["refused", "no answer"],
)
def test_a_program_that_does_not_stop_is_an_error_and_is_not_forgotten(
    home, monkeypatch, answer, why
):
    answering(monkeypatch, {"stopProcess": answer})
    description = supervisor._programs() / "kafka.json"
    description.write_text("{}")
    with pytest.raises(LabError, match=f"kafka could not be stopped: {why}") as failed:
        supervisor.remove("kafka")
    assert "lab down" in failed.value.next_step
    assert description.exists()


def test_a_supervisor_that_keeps_a_program_is_an_error(home, monkeypatch):
    answering(monkeypatch, {"removeProcessGroup": Fault(91, "STILL_RUNNING: kafka")})
    monkeypatch.setattr(supervisor, "is_running", lambda: True)
    with pytest.raises(LabError, match="kafka could not be removed: STILL_RUNNING"):
        supervisor.remove("kafka")


def test_a_program_is_asked_to_end_by_its_own_signal(home):
    for program in (
        supervisor.Program("postgres", ["/bin/true"], stop_signal="INT"),
        supervisor.Program("kafka", ["/bin/true"]),
    ):
        supervisor._describe(program)
    supervisor._write_config()
    text = (home / "run" / "supervisord.conf").read_text()
    signals = dict(re.findall(r"\[program:(\w+)\][^\[]*\nstopsignal=(\w+)", text))
    assert signals == {"postgres": "INT", "kafka": "TERM"}


def test_a_supervisor_that_this_terminal_does_not_reach_is_named_and_ended_by_down(home):
    working = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], cwd=folder("logs")
    )
    (folder("run", 0o700) / "supervisord.pid").write_text(f"{working.pid}\n")
    with pytest.raises(LabError, match="this terminal does not reach them"):
        supervisor.ensure_supervisor()
    assert [f.verdict for f in doctor._reach()] == ["fail"]
    supervisor.shutdown()
    assert working.poll() is not None
    assert [*doctor._reach()] == []


def test_a_socket_in_a_folder_of_another_user_is_not_trusted(home, monkeypatch, tmp_path):
    monkeypatch.setattr(supervisor, "_socket", lambda: tmp_path / "supervisor.sock")
    tmp_path.chmod(0o755)
    (tmp_path / "supervisor.sock").touch()
    with pytest.raises(LabError, match="belongs to another user"):
        supervisor.status()
