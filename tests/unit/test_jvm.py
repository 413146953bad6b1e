"""The lab's JVMs: options that must be used together, and the first cause of a failure in a log."""

import json
import subprocess
from pathlib import Path

import pytest

from lab_env.lab.handle import Lab
from lab_env.pipeline import session
from lab_env.pipeline.handle import Writer
from lab_env.platform.jvm import MemoryUse, exhaustion_in, explained, nearly_full, start_mark
from lab_env.platform.processes import supervisor
from lab_env.platform.services import SERVICES, connect, doctor, postgres, prometheus, trino
from lab_env.platform.settings import Endpoints
from lab_env.workbench.bench import backlog, config, growth

QUICK, CODE_CACHE = "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"
ENDPOINTS = Endpoints("http://127.0.0.1:1", "k", "s", "us-east-1", "b", "127.0.0.1:2")


@pytest.fixture
def built(tmp_path, monkeypatch, configure) -> dict[str, str]:
    """Every JVM command and set of JVM options that the lab builds, by purpose."""
    configure(home=tmp_path / "lab")
    found = {}

    def format_storage(command: list[str], cwd: Path, **_) -> subprocess.CompletedProcess:
        found["kafka storage"] = " ".join(map(str, command))
        (cwd / "fresh").mkdir()
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", format_storage)
    monkeypatch.setattr(trino, "archive_folder", lambda name: tmp_path)
    monkeypatch.setattr(trino, "wheel_java_home", lambda version: tmp_path)
    monkeypatch.setattr(connect, "archive_folder", lambda name: tmp_path)
    monkeypatch.setattr(connect, "jar_folder", lambda name: tmp_path)
    monkeypatch.setattr(postgres, "_server", lambda: tmp_path)
    monkeypatch.setattr(prometheus, "_server", lambda: tmp_path)
    monkeypatch.setattr(postgres, "_create_data", lambda folder, initdb: None)
    monkeypatch.setattr(postgres, "without_root", lambda title: ())
    for name, service in SERVICES.items():
        argv = service.program(service.preferred_ports()).argv
        found[name] = " ".join(map(str, argv))
    monkeypatch.setattr(supervisor, "start", lambda program: None)
    monkeypatch.setattr(supervisor, "remove", lambda name: None)
    for short in (True, False):
        writer = Writer(f"writer-{short}").start(ENDPOINTS, "t", "s3a://b/x", short=short)
        job = json.loads((writer.folder / "job.json").read_text())
        found[f"writer, short={short}"] = job["java_options"]
    sessions = []
    monkeypatch.setattr(session, "build_session", lambda *args, **_: sessions.append(args))
    _ = Lab("00", ENDPOINTS).spark
    found["lesson"] = sessions[0][4]["spark.driver.extraJavaOptions"]
    for full in (True, False):
        for part in (config.sinks_config, growth.growth_config, backlog.backlog_config):
            found[f"{part.__name__}, full={full}"] = part(full=full).java_options
    return found


def test_no_jvm_has_the_quick_compiler_without_room_for_its_code(built):
    quick = {what for what, options in built.items() if QUICK in options}
    servers = {"kafka", "kafka storage", "metastore", "trino", "connect"}
    assert quick >= servers | {"writer, short=True", "lesson"}
    assert {what for what in quick if CODE_CACHE not in built[what]} == set()


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("VM warning: CodeCache is full. Compiler has been disabled.", "code cache"),
        ("java.lang.VirtualMachineError: Out of space in CodeCache for method", "code cache"),
        ("java.lang.OutOfMemoryError: Java heap space", "out of memory"),
        ("java.lang.OutOfMemoryError: GC overhead limit exceeded", "out of memory"),
        ("java.lang.OutOfMemoryError: Metaspace", "metaspace"),
        ("java.lang.OutOfMemoryError: unable to create native thread: possibly", "threads"),
    ],
)
def test_the_first_cause_in_a_log_is_found_not_its_consequence(tmp_path, line, cause):
    log = tmp_path / "a.log"
    log.write_text(f"INFO fine\n{line}\njava.lang.NoSuchMethodException: no such method\n")
    assert cause in exhaustion_in(log).cause
    told = explained("java.lang.NoSuchMethodException: no such method", log)
    assert told.index(cause) < told.index("NoSuchMethodException")


def test_what_a_former_run_ran_out_of_is_over_when_the_program_starts_again(tmp_path):
    log = tmp_path / "a.log"
    log.write_text(f"{start_mark()}\nOutOfMemoryError: Java heap space\n{start_mark()}\nfine\n")
    assert exhaustion_in(log) is None
    assert explained("why", log) == "why" == explained("why", tmp_path / "no such log")


def test_the_doctor_names_the_program_and_what_it_ran_out_of(tmp_path, configure):
    configure(home=tmp_path / "lab")
    log = supervisor.log_path("writer-tour-pipeline")
    log.write_text(f"{start_mark()}\nwarning: CodeCache is full. Compiler has been disabled.\n")
    (found,) = (finding for finding in doctor.run_checks() if finding.subject == "jvm")
    assert found.verdict == "warn"
    assert "writer-tour-pipeline: the JVM's code cache is full" in found.fact
    assert "ReservedCodeCacheSize" in found.fix


def test_memory_above_four_fifths_of_its_limit_is_named():
    full = {
        "heap": MemoryUse(81, 100),
        "metaspace": MemoryUse(10**9, 0),  # no limit
        "code cache": MemoryUse(40_000_000, 48_000_000),
        "class space": MemoryUse(80, 100),
    }
    named = [sentence.split(" of the JVM")[0] for sentence in nearly_full(full)]
    assert named == ["The heap", "The code cache"]
