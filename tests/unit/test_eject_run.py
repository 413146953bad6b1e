"""run.sh of an ejected project gives Spark an environment and a temporary folder of its own.

A script takes Spark's place: it prints its environment and its arguments.
"""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from hostile_home import hostile_home

from lab_env.platform.settings import Endpoints
from lab_env.workbench.eject.project import OTHER_KEYS, eject, settings_for, shell_lines

SPARK = """#!/bin/sh
touch "$TMPDIR/a copy of the jars"
env -0
printf '\\0'
printf '%s\\0' "$@"
if [ -n "${STAYS:-}" ]; then exec >/dev/null; exec sleep 60; fi
"""
OWN = ("SPARK_HOME", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
OWN_PYTHON = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
FOREIGN = ("SPARK_", "PYSPARK_", "PYTHON", "HADOOP_", "_JAVA", "JDK_", "MASTER", "AWS_PROFILE")
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
HERE = Endpoints("http://127.0.0.1:1", "key", "secret", "us-east-1", "lakehouse", "127.0.0.1:1")


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def project(tmp_path) -> Path:
    """A project whose Python names the script as its Spark; its folder has a space."""
    folder = tmp_path / "a project"
    eject(folder)
    program(tmp_path / "spark/bin/spark-submit", SPARK)
    program(folder / ".venv/bin/python", f"#!/bin/sh\necho '{tmp_path}/spark'\n")
    return folder


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """Variables of a user with other work, and the store's keys."""
    return hostile_home(tmp_path, "tr") | KEYS | {"MASTER": "spark://nowhere", "HOSTNAME": "here"}


def run(project: Path, *arguments: str, environment: dict[str, str]) -> tuple[dict, list[str]]:
    """Return Spark's environment, and its arguments."""
    command = [str(project / "run.sh"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    variables, _, words = done.stdout.partition("\0\0")
    return dict(line.split("=", 1) for line in variables.split("\0")), words.split("\0")[:-1]


@pytest.mark.parametrize("master", [[], ["--master", "local[2]"], ["--master=local"]], ids=str)
def test_variables_of_other_work_do_not_reach_a_spark_on_this_machine(project, environment, master):
    found, words = run(project, *master, environment=environment)
    seen = {name for name in found if name.startswith(FOREIGN)}
    assert seen == {*OWN, *OWN_PYTHON}
    assert found["SPARK_HOME"] == str(project.parent / "spark")
    assert found["PYSPARK_PYTHON"] == str(project / ".venv/bin/python")
    assert (found["AWS_ACCESS_KEY_ID"], found["AWS_SECRET_KEY"]) == ("key", "secret")
    assert words[-len(master) - 1 :] == [*master, str(project / "job.py")]


def test_a_cluster_keeps_its_spark_its_configuration_and_its_python(project, environment):
    clusters = {
        "SPARK_HOME": str(project.parent / "spark"),
        "SPARK_CONF_DIR": "/etc/spark",
        "HADOOP_CONF_DIR": "/etc/hadoop",
        "PYSPARK_PYTHON": "/opt/python",
    }
    found, _ = run(project, "--master", "yarn", environment=environment | clusters)
    assert (clusters | KEYS).items() <= found.items()
    seen = {name for name in found if name.startswith(FOREIGN)}
    assert seen == {*clusters, "PYSPARK_DRIVER_PYTHON"}


def test_spark_on_this_machine_asks_for_no_host_name_unless_the_user_names_one(
    project, environment
):
    found, _ = run(project, environment=environment)
    assert (found["SPARK_LOCAL_IP"], found["SPARK_LOCAL_HOSTNAME"]) == ("127.0.0.1", "localhost")
    theirs = {"SPARK_LOCAL_IP": "10.0.0.1", "SPARK_LOCAL_HOSTNAME": "me.example"}
    found, _ = run(project, environment=environment | theirs)
    assert theirs.items() <= found.items()


@pytest.mark.parametrize(("listed", "expected"), [("C.utf8", "C.UTF-8"), ("es_EC.utf8", None)])
def test_the_language_is_english_where_the_machine_has_such_a_locale(
    project, environment, tmp_path, listed, expected
):
    program(tmp_path / "bin/locale", f"#!/bin/sh\necho POSIX\necho {listed}\n")
    environment["PATH"] = f"{tmp_path / 'bin'}:{environment['PATH']}"
    found, words = run(project, environment=environment)
    assert found.get("LC_ALL") == expected
    options = words[words.index("--driver-java-options") + 1]
    assert "-Duser.language=en" in options and options in words
    assert any(w.startswith("spark.executor") and "-Duser.language=en" in w for w in words)


def test_a_profile_counts_only_without_keys(project, environment):
    without = {name: value for name, value in environment.items() if name not in KEYS}
    assert run(project, environment=without)[0]["AWS_PROFILE"] == "nowhere"


def test_a_killed_run_leaves_files_only_until_the_next_start_which_spares_those_of_a_running_one(
    project, environment
):
    temporary = Path(environment["TMPDIR"])
    stay = [
        subprocess.Popen([project / "run.sh"], env=environment | {"STAYS": "true"}, stdout=pipe)
        for pipe in (subprocess.PIPE, subprocess.PIPE)
    ]
    killed, running = stay
    try:
        for process in stay:
            process.stdout.read()  # until it has printed everything
        folders = {process.pid: temporary / f"orders-stream.here@{process.pid}" for process in stay}
        assert set(temporary.iterdir()) == {*folders.values()}
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        assert [path.name for path in folders[killed.pid].iterdir()] == ["a copy of the jars"]
        elsewhere = temporary / f"orders-stream.here.too@{killed.pid}"
        elsewhere.mkdir()
        found, words = run(project, environment=environment)
    finally:
        for process in stay:
            process.kill()
            process.wait()
            process.stdout.close()
    own = Path(found["TMPDIR"])
    assert set(temporary.iterdir()) == {folders[running.pid], elsewhere, own}
    assert own.stat().st_mode & 0o777 == 0o700
    options = words[words.index("--driver-java-options") + 1]
    assert options.endswith(f'"-Djava.io.tmpdir={own}"')


def test_a_run_with_the_process_id_of_a_killed_one_takes_its_place(project, environment):
    # In a container that is started again, it has the same.
    script = 'mkdir "$TMPDIR/orders-stream.here@$$"; exec "$0"'
    command = ["bash", "-c", script, str(project / "run.sh")]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    (folder,) = Path(environment["TMPDIR"]).iterdir()
    assert [path.name for path in folder.iterdir()] == ["a copy of the jars"]


def test_the_lines_of_the_lab_put_its_keys_in_the_place_of_others(home, environment):
    script = "\n".join([*shell_lines(HERE, "orders", "s3a://lakehouse/lab"), "env -0"])
    answer = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, check=True)
    found = dict(line.split("=", 1) for line in answer.stdout.decode().split("\0")[:-1])
    assert KEYS.items() <= found.items() and found.keys().isdisjoint(OTHER_KEYS)
    assert {name for name in OTHER_KEYS if name in environment} > {"AWS_PROFILE"}


def test_the_lines_of_a_lab_with_a_token_or_without_keys_keep_what_gives_access(home):
    with_token = Endpoints(**vars(HERE) | {"s3_session_token": "token"})
    lines = shell_lines(with_token, "orders", "s3a://lakehouse/lab")
    assert "export AWS_SESSION_TOKEN=token" in lines and "AWS_SESSION_TOKEN" not in lines[0]
    without_keys = Endpoints(**vars(HERE) | {"s3_access_key": "", "s3_secret_key": ""})
    assert not any("AWS_" in line for line in shell_lines(without_keys, "orders", "s3a://b/lab"))


def test_only_what_the_job_needs_is_passed_on(home, monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    found = settings_for(HERE, "orders", "s3a://lakehouse/lab")
    assert "127.0.0.1" in found["no_proxy"]
    assert not {"TZ", "LC_ALL", "MATPLOTLIBRC", "AWS_CONFIG_FILE"} & found.keys()
