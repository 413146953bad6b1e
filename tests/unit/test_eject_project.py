"""An ejected project needs no lab and has the lab's options; ejecting never overwrites work."""

import hashlib
import importlib.util
import json
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from py4j.protocol import Py4JJavaError
from typer.testing import CliRunner

from lab_env.cli import app
from lab_env.pipeline import layout, options, session
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints
from lab_env.workbench.eject.definitions import definitions
from lab_env.workbench.eject.project import MANIFEST, SINKS, eject, project_files, settings_for


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("eject") / "a project"
    eject(folder)
    return folder


def module_of(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("ejected", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_names_nothing_of_the_lab(project):
    texts = {path: path.read_text() for path in project.rglob("*") if path.is_file()}
    assert len(texts) > 10
    assert [path for path, text in texts.items() if "lab_env" in text or "LAB_" in text] == []


@pytest.mark.parametrize("rules", [["check"], ["format", "--check"]], ids=" ".join)
def test_it_is_clean(project, rules):
    command = [sys.executable, "-m", "ruff", *rules, "--no-cache", str(project)]
    found = subprocess.run(command, capture_output=True, text=True, cwd=project)
    assert found.returncode == 0, found.stdout


def test_its_options_are_those_of_the_labs_pipeline(project):
    ejected = module_of(project / "orders" / "options.py")
    assert (ejected.COW, ejected.MOR) == (options.COW, options.MOR)
    assert ejected.LAKEHOUSE == session.LAKEHOUSE
    assert ejected.buckets(8) == options.buckets(8) and ejected.buckets(2) == {}
    job = (project / "job.py").read_text()
    assert all(f'"{sink}": "{layout.FOLDERS[sink]}"' in job for sink in SINKS)
    run = (project / "run.sh").read_text()
    assert all(option in run for option in session.ANYWHERE)


@pytest.fixture
def job(project, monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(project))
    yield module_of(project / "job.py")
    for name in [name for name in sys.modules if name.partition(".")[0] == "orders"]:
        del sys.modules[name]


def test_a_line_of_the_log_tells_messages_read_from_dead_letters_written(job):
    report = {
        "name": "dead",
        "batchId": 0,
        "numInputRows": 1240,
        "durationMs": {"triggerExecution": 1500},
        "sources": [{"metrics": {"maxOffsetsBehindLatest": "7"}}],
    }
    line = {"sink": "dead", "batch": 0, "rows_read": 1240, "seconds": 1.5, "behind": 7}
    assert job.line_of(report) == line
    report["observedMetrics"] = {"dead_letters": {"rows": 12}, "unknown_fields": {"events": 3}}
    assert job.line_of(report) == line | {"dead_letters": 12, "unknown_fields": 3}


@pytest.mark.parametrize(
    ("down", "sentence"),
    [("KAFKA_BOOTSTRAP", "Kafka does not answer"), ("S3_ENDPOINT", "The store does not answer")],
)
def test_the_job_names_a_server_that_does_not_answer_before_spark_starts(
    job, monkeypatch, down, sentence
):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        up, nobody = (f"127.0.0.1:{s.getsockname()[1]}" for s in (server, closed))
        servers = {"KAFKA_BOOTSTRAP": f"{nobody}, {up}", "S3_ENDPOINT": f"http://{up}"}
        settings = {"KAFKA_TOPIC": "orders", "TABLES": "s3a://b/t"} | servers
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        job.check_servers(job.Settings.of_environment())
        monkeypatch.setenv(down, servers[down].replace(up, nobody))
        with pytest.raises(
            SystemExit, match=f"{sentence} at .*\nNext step: start it, or set {down}"
        ):
            job.check_servers(job.Settings.of_environment())


class Refusal(Py4JJavaError):
    """S3A's error, as Spark passes it on."""

    def __init__(self, code: int):
        self.java_exception = self
        self.code = code

    def getMessage(self) -> str:
        reported = f"(Service: Amazon S3; Status Code: {self.code}; Error Code: none)"
        return f"getFileStatus on s3a://b/t: AmazonS3Exception: Forbidden {reported}"


KEY, TOKEN = {"AWS_ACCESS_KEY_ID": "key"}, {"AWS_SESSION_TOKEN": "theirs"}


@pytest.mark.parametrize(
    ("code", "variables", "advice"),
    [
        (403, KEY | TOKEN, "unset AWS_SESSION_TOKEN, unless it came with these keys"),
        (400, KEY | TOKEN, "unset AWS_SESSION_TOKEN"),
        (403, KEY, "set the keys of this store"),
        (403, {}, "or let this machine's role in"),
        (404, KEY | TOKEN, "create the bucket"),
    ],
)
def test_the_job_names_the_reason_why_the_store_refuses(job, monkeypatch, code, variables, advice):
    def refuse(*_) -> None:
        raise Refusal(code)

    settings = {"KAFKA_BOOTSTRAP": "k:1", "KAFKA_TOPIC": "orders", "TABLES": "s3a://b/t"}
    for name in (*KEY, *TOKEN):
        monkeypatch.delenv(name, raising=False)
    for name, value in (settings | variables).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(job.hadoop, "exists", refuse)
    with pytest.raises(job.guard.Refused) as refused:
        job.check_store(None, job.Settings.of_environment())
    said, next_step = str(refused.value).split("\nNext step: ")
    assert advice in next_step
    assert ("the store refuses the keys" in said) == (code != 404)


def test_the_heap_that_the_lab_is_set_to_goes_along(home, monkeypatch):
    monkeypatch.setenv("LAB_SPARK_MEMORY", "700m")
    here = Endpoints("http://127.0.0.1:1", "key", "secret", "us-east-1", "lakehouse", "127.0.0.1:1")
    assert settings_for(here, "orders", "s3a://lakehouse/lab")["DRIVER_MEMORY"] == "700m"


def test_a_definition_comes_with_its_comment_and_a_misspelt_one_is_an_error():
    text = definitions(options, "LOCK_RETRIES", "COW")
    assert text.startswith("COW = ORDERS | {") and "# Number of times a losing writer" in text
    with pytest.raises(KeyError, match="COWS"):
        definitions(options, "COWS")


def test_ejecting_again_changes_nothing_or_brings_an_unchanged_project_up_to_date(tmp_path):
    assert set(eject(tmp_path)) == set(project_files())
    assert (tmp_path / "run.sh").stat().st_mode & 0o111
    (tmp_path / ".venv").mkdir()  # what the reader adds does not count
    assert eject(tmp_path) == []
    job, sums = (tmp_path / name for name in ("job.py", MANIFEST))
    current = job.read_text()
    job.write_text("of an older version")  # with the sum that this version had noted
    old = json.loads(sums.read_text()) | {job.name: hashlib.sha256(job.read_bytes()).hexdigest()}
    sums.write_text(json.dumps(old))
    assert eject(tmp_path) == [job.name, MANIFEST]
    assert job.read_text() == current and eject(tmp_path) == []


@pytest.mark.parametrize("spoil", ["foreign", "changed", "deleted", "in the way", "a file"])
def test_a_folder_with_work_in_it_is_refused_and_stays_as_it_is(tmp_path, spoil):
    folder = tmp_path / "project"
    if spoil == "a file":
        folder.write_text("thesis")
    elif spoil == "foreign":
        folder.mkdir()
        (folder / "thesis.txt").write_text("thesis")
    else:
        eject(folder)
        if spoil == "changed":
            (folder / "job.py").write_text("mine")
        elif spoil == "deleted":
            (folder / "job.py").unlink()
        else:
            text = (folder / MANIFEST).read_text()
            lines = [line for line in text.splitlines() if "job.py" not in line]
            (folder / MANIFEST).write_text("\n".join(lines))
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    answer = CliRunner().invoke(app, ["eject", str(folder)])
    assert isinstance(answer.exception, LabError) and answer.exception.next_step
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before
