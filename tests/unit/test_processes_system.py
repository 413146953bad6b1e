"""What the system tells about processes, and that it tells nothing of one that is gone."""

import os
import subprocess
import sys

import psutil
import pytest

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
