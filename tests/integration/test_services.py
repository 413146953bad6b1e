"""The services start, keep running, lose no data and leave nothing behind, even after crashes."""

import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
import tempfile
from http.client import HTTPConnection
from ipaddress import ip_address
from pathlib import Path

import psutil
import pytest
from dummy_service import Dummy
from instance import Instance, programs_showing, running_instance
from linux import needs_linux
from own_lab import allowed, free_ports, lab_environment, listening, wait_until

from lab_env.lab.faults.freeze import kill
from lab_env.lab.faults.outages import paused
from lab_env.lab.handle import reset_lesson
from lab_env.platform import services as lab_services
from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import cache
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.environment import MARK
from lab_env.platform.processes.state import MARKER
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.processes.tree import process_tree, wait_until_ended
from lab_env.platform.services import doctor, manager
from lab_env.platform.services.minio_program import find_minio
from lab_env.platform.settings import REPOSITORY, settings
from lab_env.shop.ledger.book import Ledger

pytestmark = pytest.mark.services


KEPT = b"from before"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A running lab with data, in a path with a space, percent sign, semicolon and hash sign."""
    home = tmp_path_factory.mktemp("services") / "my lab; 100% #1"
    with running_instance(home) as instance:
        instance.put_object("kept", KEPT)
        instance.send("kept", KEPT)
        yield instance


@pytest.fixture
def running(lab):
    """The running lab, restarted if the previous test stopped it."""
    if len(lab.processes()) != 3:
        lab.up()
    return lab


@pytest.fixture
def stopped(lab):
    """The lab, not running; shut down if the previous test left it running."""
    if lab.processes():
        lab.down()
    return lab


def assert_nothing_is_lost(lab: Instance) -> None:
    assert lab.get_object("kept") == KEPT
    assert KEPT in lab.records("kept")


def test_up_spares_what_runs_and_down_ends_it_all(running, tmp_path):
    before = {name: row["pid"] for name, row in running.status().items()}
    load = running.begin("load", "--seconds", "120", "--processes", "2")
    other_lab = subprocess.Popen(["sleep", "600"], env=os.environ | {MARK: str(tmp_path)})
    try:
        next(line for line in load.stdout if " acknowledged in " in line)
        family = process_tree(load.pid)
        assert len(family) >= 3  # with two worker processes
        running.up()
        assert {name: row["pid"] for name, row in running.status().items()} == before
        assert load.poll() is None
        running.down()
        assert wait_until_ended(family[1:], 1) == []
        load.communicate(timeout=20)
        assert load.returncode is not None
        assert other_lab.poll() is None
    finally:
        for process in (load, other_lab):
            process.kill()
            process.wait()
    # The load ended before the broker: every send had its answer.
    states = Ledger(running.home / "ledger" / "lab.orders").frame()["state"]
    assert set(states) == {"acked"}


def test_up_from_two_terminals_at_once_starts_one_of_each_with_its_data(stopped):
    load = subprocess.Popen(["sleep", "600"], env=os.environ | {MARK: str(stopped.home)})
    try:
        terminals = [stopped.begin("up") for _ in range(2)]
        outputs = [terminal.communicate(timeout=120)[0] for terminal in terminals]
        assert [terminal.returncode for terminal in terminals] == [0, 0], outputs
        assert load.poll() is None  # it is no leftover of a crash
    finally:
        load.kill()
        load.wait()
    commands = [" ".join(process.cmdline()) for process in stopped.processes()]
    assert sum("supervisord" in command for command in commands) == 1, commands
    assert len(commands) == 3, commands
    assert_nothing_is_lost(stopped)


def test_killed_services_come_back_by_themselves_and_have_lost_nothing(running):
    before = {name: row["pid"] for name, row in running.status().items()}
    for pid in before.values():
        kill(pid)
    wait_until(lambda: [p.pid in before.values() for p in running.processes()] == [False] * 3)
    wait_until(lambda: {row["state"] for row in running.status().values()} == {"ready"})
    after = running.status()
    assert {name: row["restarts"] for name, row in after.items()} == dict.fromkeys(before, 1)
    assert_nothing_is_lost(running)


def test_up_heals_a_killed_supervisor_and_nothing_is_lost(running):
    orphans = [p for p in running.processes() if p.pid != running.supervisor_pid()]
    os.kill(running.supervisor_pid(), signal.SIGKILL)
    assert "left from a crash" in running.lab("doctor").stdout
    running.up()
    assert [orphan for orphan in orphans if orphan.is_running()] == []
    assert len(running.processes()) == 3
    assert_nothing_is_lost(running)


def test_down_ends_the_orphans_of_a_killed_supervisor(running):
    os.kill(running.supervisor_pid(), signal.SIGKILL)
    wait_until(lambda: len(running.processes()) == 2)
    running.down()


def test_a_busy_port_gives_another_one_and_purge_removes_the_data(tmp_path):
    home = tmp_path / "busy"
    settings = lab_environment(home)
    instance = Instance(home, settings)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", int(settings["LAB_MINIO_PORT"])))
        busy.listen()
        try:
            assert instance.lab("up", "minio").returncode == 0
            assert not instance.address("minio").endswith(settings["LAB_MINIO_PORT"])
            instance.put_object("key", b"body")
        finally:
            done = instance.lab("down", "--purge")
            assert done.returncode == 0
    assert "tables, topics" in done.stdout
    assert {path.name for path in home.iterdir()} == {"run", MARKER}


def test_every_port_is_of_this_machine_only(running):
    found = listening(running.processes())
    assert found and all(ip_address(address).is_loopback for address in found)


def test_the_stores_keys_are_in_private_files_only_and_in_no_log(running):
    assert stat.S_IMODE((running.home / "secrets.json").stat().st_mode) == 0o600
    shown = running.lab("status").stdout + running.lab("doctor").stdout
    for key in running.store_keys():
        assert key not in shown
        readable = [
            path
            for path in running.home.rglob("*")
            if path.is_file()
            and key.encode() in path.read_bytes()
            and (path.stat().st_mode & 0o077 or path.parent == running.home / "logs")
        ]
        assert readable == []
        assert programs_showing(key) == []


def test_a_forged_upload_needs_the_access_key_of_this_lab(running):
    """MinIO accepts a write with a forged signature if the access key is known (CVE-2026-40344)."""
    access, secret = running.store_keys()
    for key in ("lab", "minioadmin", secret):
        assert forged_put(running.address("minio"), key) == 403
    if find_minio().origin == "set-up":
        assert forged_put(running.address("minio"), access) == 200  # or MinIO has a login again


def forged_put(address: str, access_key: str) -> int:
    """Upload an archive for the store to unpack, signed with zeros; return the HTTP status."""
    signed = f"Credential={access_key}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host"
    connection = HTTPConnection(address, timeout=20)
    headers = {
        "Authorization": f"AWS4-HMAC-SHA256 {signed}, Signature={'0' * 64}",
        "X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "X-Amz-Date": "20260101T000000Z",
        "X-Amz-Decoded-Content-Length": "1024",
        "X-Amz-Meta-Snowball-Auto-Extract": "true",
    }
    connection.request("PUT", "/lakehouse/forged.tar", bytes(1024), headers)
    return connection.getresponse().status


def test_a_service_that_cannot_start_says_why_with_its_log(running, tmp_path):
    broken = tmp_path / "minio"
    broken.write_text("#!/bin/sh\nfor n in $(seq 50); do echo line $n of it; done\nexit 3\n")
    broken.chmod(0o755)
    home = tmp_path / "broken"
    instance = Instance(home, lab_environment(home) | {"LAB_MINIO_BINARY": str(broken)})
    try:
        done = instance.lab("up", "minio")
        assert done.returncode == 1
        assert "MinIO does not start" in done.stderr
        shown = [line for line in done.stderr.splitlines() if line.startswith("line ")]
        assert shown == [f"line {n} of it" for n in range(31, 51)]
        assert "Next step: run: lab doctor" in done.stderr
        assert instance.processes() == []
    finally:
        instance.lab("down", "--purge")


def on_the_store_of(other: Instance, home: Path, **more: str) -> Instance:
    """Return a lab that uses another lab's store; `more` are further settings."""
    access, secret = other.store_keys()
    store = {
        "LAB_S3_ENDPOINT": f"http://{other.address('minio')}",
        "LAB_S3_ACCESS_KEY": access,
        "LAB_S3_SECRET_KEY": secret,
    }
    return Instance(home, lab_environment(home) | store | more)


def test_external_services_are_used_and_neither_started_nor_purged(running, tmp_path):
    # One living broker of several is enough.
    brokers = f"127.0.0.1:1,{running.address('kafka')}"
    instance = on_the_store_of(running, tmp_path / "external", LAB_KAFKA_BOOTSTRAP=brokers)
    instance.up()
    assert [row["state"] for row in instance.status().values()] == ["external", "external"]
    assert instance.processes() == []
    done = instance.lab("down", "--purge")
    assert done.returncode == 0, done.stderr
    assert "tables" not in done.stdout and "topics" not in done.stdout
    assert f"Kafka at {brokers} keeps what it has" in done.stdout
    assert_nothing_is_lost(running)


WRONG = {
    "LAB_S3_SECRET_KEY=wrong-password": "it refuses these keys for the bucket lakehouse (403)",
    "LAB_S3_ENDPOINT=http://127.0.0.1:1": "http://127.0.0.1:1 cannot be used: it does not answer",
    "LAB_S3_BUCKET=not-there": "it has no bucket not-there; create it there",
    "LAB_METASTORE_URI=thrift://127.0.0.1:1": "Hive Metastore at thrift://127.0.0.1:1",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_external_server_is_reported_before_anything_starts(running, tmp_path, wrong):
    name, _, value = wrong.partition("=")
    instance = on_the_store_of(running, tmp_path / "wrong", **{name: value})
    done = instance.lab("up", "metastore", timeout=allowed(60))
    assert done.returncode == 1 and instance.processes() == []
    assert WRONG[wrong] in done.stderr and name in done.stderr
    assert "wrong-password" not in done.stderr


def test_without_keys_the_machines_own_are_used(running, tmp_path):
    environment = (instance := on_the_store_of(running, tmp_path / "role")).environment
    environment["AWS_ACCESS_KEY_ID"] = environment.pop("LAB_S3_ACCESS_KEY")
    environment["AWS_SECRET_ACCESS_KEY"] = environment.pop("LAB_S3_SECRET_KEY")
    instance.up()


# A new service ----------------------------------------------------------------------------------


@pytest.fixture
def dummy(tmp_path, monkeypatch) -> Dummy:
    """A service registered by one line, in a separate lab as its only default service."""
    for name, value in lab_environment(tmp_path / "dummy lab").items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    monkeypatch.setitem(lab_services.SERVICES, "dummy", Dummy(*free_ports(1)))
    monkeypatch.setattr(manager, "DEFAULT", ("dummy",))
    monkeypatch.setattr(doctor, "corrupt_jars", list)  # it reads every jar
    yield lab_services.service("dummy")
    lab_services.down()
    settings.cache_clear()


def test_a_server_that_lives_a_moment_and_dies_again_is_given_up_and_starts_elsewhere(
    dummy, monkeypatch
):
    """If the server's port is taken by then, the next `up` chooses another port."""
    dying = Program(name="dummy", argv=["/bin/sh", "-c", "sleep 1.5; exit 1"])
    with monkeypatch.context() as patch:
        patch.setattr(dummy, "program", lambda ports: dying)
        with pytest.raises(LabError, match=r"does not start: its process ended 3 times"):
            lab_services.up(progress=lambda line: None)
    with socket.create_server(("127.0.0.1", dummy.port("http"))):
        lab_services.up(progress=lambda line: None)
        assert dummy.port("http") != dummy.preferred_port


def test_a_new_service_is_one_file_and_one_line_of_registration(dummy):
    def findings(subject: str) -> str:
        return "\n".join(f.fact for f in doctor.run_checks() if f.subject == subject)

    with socket.create_server(("127.0.0.1", dummy.preferred_port)):
        assert f"{dummy.preferred_port} (LAB_DUMMY_PORT)" in findings("ports")
    lines = []
    lab_services.up(progress=lines.append)
    assert lines == [f"The dummy is ready at {dummy.address()}"]
    assert dummy.fetched == 1

    (row,) = lab_services.status()
    assert (row.name, row.state, row.links) == ("dummy", "ready", {"Dummy": dummy.address()})
    assert lab_services.links()["Dummy"] == dummy.address()
    assert f"The dummy answers at {dummy.address()}" in findings("services")
    assert "dummy" in {finding.subject for finding in doctor.run_checks()}
    with paused("dummy"):
        assert lab_services.status()[0].state.startswith("not ready: it does not answer")

    for name in ("lesson-95.orders", "lesson-96.orders"):
        (dummy.folder / name).touch()
    assert reset_lesson("95")["files"] == 1
    assert [path.name for path in dummy.folder.iterdir()] == ["lesson-96.orders"]

    assert "dummy files" in lab_services.purged_contents()
    lab_services.down(purge=True)
    assert not (settings().home / "dummy").exists()
    assert not psutil.pid_exists(row.pid)


# Programs that are added while the services run, such as streaming writers ----------------------

ODD = """a, b = "c"; 'd' %e% #f $HOME \\ {1..2}"""


def wait_for_state(name: str, state: str) -> supervisor.ProgramStatus:
    """Wait until a program of this run's lab is in a state; return its status."""
    wait_until(lambda: supervisor.status_of(name).state == state, 20)
    return supervisor.status_of(name)


@pytest.fixture
def program(services):
    """A function that starts a supervised Python program, which is removed at the end."""

    def start(script: str, **more) -> None:
        argv = [sys.executable, "-u", "-c", script, ODD]
        supervisor.start(Program("writer-test", argv, env={"ODD": ODD}, **more))

    yield start
    supervisor.remove("writer-test")
    assert supervisor.status_of("writer-test") is None


def test_a_program_gets_its_arguments_and_variables_unchanged(program, tmp_path):
    script = "import os, sys; print([sys.argv[1], os.environ['ODD'], os.getcwd()])"
    supervisor.log_path("writer-test").unlink(missing_ok=True)
    program(script, autorestart=False, cwd=tmp_path)
    wait_until(lambda: len(supervisor.log_tail("writer-test").splitlines()) == 2, 20)
    assert supervisor.log_tail("writer-test", 1) == repr([ODD, ODD, str(tmp_path)])


def test_a_program_that_must_not_restart_stays_ended(program):
    program("import time; time.sleep(2); raise SystemExit(7)", autorestart=False)
    assert wait_for_state("writer-test", "EXITED").exit_code == 7


def test_a_killed_program_that_must_restart_does_and_is_counted(program):
    program("import time; time.sleep(60)")
    first = wait_for_state("writer-test", "RUNNING").pid
    kill(first)
    wait_until(lambda: supervisor.status_of("writer-test").pid not in (0, first), 20)
    # The new process counts itself as it starts; it has done so when it counts as running.
    assert wait_for_state("writer-test", "RUNNING").restarts == 1


def test_a_stopped_program_may_finish_its_work_first(program, tmp_path):
    script = (
        "import signal, sys, time, pathlib\n"
        "def end(*_):\n"
        "    time.sleep(1); pathlib.Path('finished').touch(); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "pathlib.Path('ready').touch(); time.sleep(60)\n"
    )
    program(script, cwd=tmp_path, autorestart=False)
    wait_until((tmp_path / "ready").exists)
    supervisor.stop("writer-test")
    assert (tmp_path / "finished").exists()
    assert supervisor.status_of("writer-test").pid == 0


def test_a_program_that_ignores_the_request_is_killed(program, tmp_path):
    script = (
        "import signal, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pathlib.Path('ready').touch(); time.sleep(60)"
    )
    program(script, cwd=tmp_path, stop_seconds=1)
    wait_until((tmp_path / "ready").exists)
    pid = wait_for_state("writer-test", "RUNNING").pid
    supervisor.stop("writer-test")
    assert not psutil.pid_exists(pid)


@needs_linux
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_has_a_lab_of_its_own():
    user = pwd.getpwnam("nobody")
    become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    parent = Path(tempfile.mkdtemp(prefix="lab-nobody-"))
    python = reachable_python(parent / "python", [*become, "env"])
    reachable_cache(parent / "cache")
    os.chown(parent, user.pw_uid, user.pw_gid)
    home = parent / "lab"
    settings = lab_environment(home) | {"HOME": str(parent), "LAB_CACHE": str(parent / "cache")}
    command = [*become, "env", "-C", str(parent), python, "-I", "-m", "lab_env.cli"]
    instance = Instance(home, settings, command)
    try:
        done = instance.lab("up")
        assert done.returncode == 0, done.stderr
        assert {process.uids().real for process in instance.processes()} == {user.pw_uid}
        instance.put_object("key", b"body")
        assert instance.lab("doctor").returncode == 0
    finally:
        instance.down()
        shutil.rmtree(parent)


def reachable_python(folder: Path, become: list[str]) -> str:
    """Create an environment like this one with a Python that the other user may run."""
    name = "python{}.{}".format(*sys.version_info)
    for base in (Path(sys.base_prefix) / "bin" / name, Path("/usr/bin") / name):
        if subprocess.run([*become, base, "-c", ""], capture_output=True, cwd="/").returncode == 0:
            subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
            packages = folder / "lib" / name / "site-packages"
            (packages / "this.pth").write_text(f"{sysconfig.get_path('purelib')}\n{REPOSITORY}\n")
            return str(folder / "bin" / "python")
    pytest.skip(f"no {name} that another user may run")


def reachable_cache(folder: Path) -> None:
    """Copy the cache's Java, jars and MinIO to a folder that the other user may read."""
    for entry in cache().iterdir():
        if entry.name.startswith(("jars", "java", "minio")):
            shutil.copytree(entry, folder / entry.name, copy_function=link_or_copy)


def link_or_copy(source: str, target: str) -> None:
    """Hard-link a file, or copy it if the target is on another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
