"""A mistyped command prints one sentence and the next step, and exits with a non-zero status."""

import os
import subprocess
import sys

import psutil
import pytest

from lab_env.platform.processes.environment import MARK
from lab_env.platform.processes.system import environment_of
from lab_env.platform.settings import settings


def lab(*arguments: str, home="/nonexistent", **more: str) -> subprocess.CompletedProcess:
    """Run a `lab` command in a separate process, as a user does."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LAB_")}
    environment |= {"LAB_HOME": str(home), "LAB_CACHE": str(settings().cache), **more}
    command = [sys.executable, "-I", "-m", "lab_env.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def left_running(home) -> list[psutil.Process]:
    """Return the processes of a lab that are still running."""
    return [p for p in psutil.process_iter() if environment_of(p).get(MARK) == str(home)]


@pytest.mark.parametrize(
    ("arguments", "variables", "status", "sentence", "next_step"),
    [
        (("up", "kafak"), {}, 1, "There is no service 'kafak'.", "choose from: minio, kafka"),
        (
            ("bench", "lode"),
            {},
            1,
            "The benchmark has no part lode",
            "choose from: set-up, start-up",
        ),
        (("logs", "kafka"), {}, 1, "There is no log of 'kafka'.", "lab up"),
        (("status",), {"LAB_KAFKA_PROT": "1"}, 1, "LAB_KAFKA_PROT is not a setting", "LAB_KAFKA_P"),
        (("status",), {"LAB_S3_ENDPOINT": "notaurl"}, 1, "LAB_S3_ENDPOINT='notaurl'", "https://"),
        (("up",), {"LAB_KAFKA_BOOTSTRAP": "nohost"}, 1, "not host:port", "set LAB_KAFKA_BOOT"),
        (("status",), {"LAB_KAFKA_PORT": "99999"}, 1, "LAB_KAFKA_PORT='99999'", "set LAB_KAFKA_P"),
        (
            ("up",),
            {"LAB_MINIO_BINARY": "/no/minio"},
            1,
            "is not a program",
            "set it to a MinIO program",
        ),
        (("ledger",), {}, 1, "The services are not running", "lab up"),
        (("reset", "00"), {}, 1, "The services are not running", "lab up"),
        (("reset", "99"), {}, 1, "There is no lesson '99'.", "choose from: 00"),
        (("pu",), {}, 2, "No such command 'pu'", ""),
        (("up", "--fast"), {}, 2, "No such option", ""),
        (("tour", "--rate", "0"), {}, 2, "Invalid value for '--rate'", ""),
    ],
)
def test_a_mistake_gets_one_sentence_and_a_next_step(
    lab_command, tmp_path, arguments, variables, status, sentence, next_step
):
    done = lab_command(*arguments, LAB_HOME=str(tmp_path / "lab"), **variables)
    assert done.returncode == status, done.stderr
    assert sentence in done.stderr
    assert next_step in done.stderr
    assert "Traceback" not in done.stderr
    assert left_running(tmp_path / "lab") == []


def test_a_mistyped_command_gets_one_suggestion(lab_command):
    assert lab_command("statsu").stderr.count("Did you mean 'status'?") == 1


def test_a_home_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    done = lab("status", home=tmp_path / "file")
    assert done.returncode == 1
    assert f"LAB_HOME={tmp_path / 'file'} cannot be used" in done.stderr


def test_an_unexpected_error_is_short_and_its_details_are_kept(tmp_path):
    (tmp_path / "run").write_text("a file where the lab needs a folder")
    done = lab("down", home=tmp_path)
    assert done.returncode == 1
    assert "Something unexpected happened: FileExistsError" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in (tmp_path / "logs" / "lab-error.log").read_text()


def test_status_answers_at_once(tmp_path):
    # Processor seconds: another program's load must not decide.
    def used() -> float:
        times = os.times()
        return times.children_user + times.children_system

    before = used()
    done = lab("status", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert used() - before < 1
    assert done.stdout.count("stopped") == 2


def test_down_without_services_is_fine(tmp_path):
    assert lab("down", home=tmp_path).returncode == 0
