"""What the system tells about processes, and that it tells nothing of one that is gone."""

import os
import subprocess
import sys

import psutil
import pytest

from lab_env.errors import LabError
from lab_env.processes import system
from lab_env.processes.system import allows, environment_of, mapped_files, memory_of


def test_a_running_program_shows_its_environment_and_memory_and_a_gone_one_nothing():
    child = subprocess.Popen(
        ["cat"],
        env=os.environ | {"PLANTED": "here"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process = psutil.Process(child.pid)
    try:
        os.write(child.stdin.fileno(), b"!")
        assert os.read(child.stdout.fileno(), 1) == b"!"  # it is the program by now, not its fork
        assert environment_of(process)["PLANTED"] == "here"
        assert memory_of(process) > 0
    finally:
        child.kill()
        child.communicate()
    assert environment_of(process) == {} and memory_of(process) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_a_mapped_file_is_listed(tmp_path):
    (tmp_path / "archive").write_bytes(b"mapped")
    hold = "import mmap, sys; file = open(sys.argv[1], 'r+b'); kept = mmap.mmap(file.fileno(), 0);"
    hold += "print('ready', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(tmp_path / "archive")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ready\n"
        assert tmp_path / "archive" in mapped_files(child.pid)


@pytest.mark.parametrize(
    ("words", "allowed"), [(("env",), True), (("false",), False), (("/no/such/tool",), False)]
)
def test_whether_a_machine_allows_something_is_tried(words, allowed):
    assert allows(words) is allowed


def test_only_root_gives_up_its_rights_and_by_the_first_way_that_the_machine_allows(monkeypatch):
    monkeypatch.setattr(system, "_WITHOUT_ROOT", (("/no/such/tool",), ("env", "A=1"), ("env",)))
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert system.without_root("PostgreSQL") == ()
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert system.without_root("PostgreSQL") == ("env", "A=1")
    monkeypatch.setattr(system, "_WITHOUT_ROOT", ())
    with pytest.raises(LabError, match="PostgreSQL refuses to run as root") as refused:
        system.without_root("PostgreSQL")
    assert refused.value.next_step == "start the lab as another user."


@pytest.mark.skipif(os.getuid() != 0, reason="only root has rights to give up")
@pytest.mark.parametrize("words", system._WITHOUT_ROOT, ids=lambda words: words[0])
def test_a_program_without_root_is_another_user_and_reads_what_only_root_may(tmp_path, words):
    if not allows(words):
        pytest.skip(f"this machine does not allow {words[0]}")
    secret = tmp_path / "closed" / "secret"
    secret.parent.mkdir(mode=0o700)
    secret.touch(mode=0o600)
    look = "import os, sys; print(os.geteuid(), os.access(sys.argv[1], os.R_OK))"
    command = [*words, sys.executable, "-I", "-c", look, str(secret)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["65534", "True"], done.stderr
