"""A lesson runs twice in a kernel without a network; the kernel is killed at the end.

One kernel and one lab for the whole module, in a network namespace with only a loopback device. If
the machine does not allow such a namespace, the network test is skipped and the others run. The
environment is that of a Turkish user with other work and a proxy that does not exist, the path has
non-ASCII letters, the machine's name does not resolve, and /tmp is mounted noexec, except the lab's
folder.
"""

import json
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from hostile_home import LONG_PATH, hostile_home
from instance import Instance
from linux import WITHOUT_NETWORK
from own_lab import allowed, lab_environment, not_here

from lab_env.platform.processes.system import allows, in_namespace
from lab_env.platform.settings import REPOSITORY

pytestmark = pytest.mark.services

# The whole pipeline in a minute: services, Spark, a Hudi table, live load, Kafka read by Spark.
NOTEBOOK = REPOSITORY / "solutions" / "00_welcome.ipynb"
SCRIPT = Path(__file__).with_name("kernel_run.py")
NOEXEC = "mount --bind /tmp /tmp && mount -o remount,bind,noexec /tmp"
PROXY = {name: "http://127.0.0.1:9" for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY")}


@pytest.fixture(scope="module")
def facts(tmp_path_factory) -> dict:
    """Results of `kernel_run.py`."""
    home = tmp_path_factory.mktemp("kernel") / LONG_PATH
    instance = Instance(home, {})
    strict = {"LAB_STRICT": "1", "JUPYTER_PREFER_ENV_PATH": "1"}
    user = hostile_home(tmp_path_factory.mktemp("user"), "tr")
    # What only `lab jupyter` can keep away: the kernel has run it before the first cell.
    user |= {"IPYTHONDIR": str(home / "ipython"), "PYTHONSTARTUP": "", "PYTHONWARNINGS": ""}
    home.mkdir(parents=True)
    mounts = f'{NOEXEC} && mount -t tmpfs none "$0"'
    if REPOSITORY.is_relative_to("/tmp"):  # its own .venv must run
        mounts += f" && mount --bind '{REPOSITORY}' '{REPOSITORY}'"
        mounts += f" && mount -o remount,bind,exec '{REPOSITORY}'"
    unfit = in_namespace("--mount", mounts, str(home))
    nameless = in_namespace("--uts", "hostname nowhere-at-all")  # a name that does not resolve
    namespaces = [words for words in (WITHOUT_NETWORK, unfit, nameless) if allows(words)]
    done = subprocess.run(
        [*chain(*namespaces), sys.executable, SCRIPT, NOTEBOOK],
        env=user | lab_environment(home) | strict | PROXY,
        cwd=NOTEBOOK.parent,
        capture_output=True,
        text=True,
        timeout=allowed(300),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert instance.processes() == []
    return json.loads(done.stdout)


def test_a_lesson_runs_with_the_network_cut(facts):
    if not allows(WITHOUT_NETWORK):
        not_here("this machine allows no network namespace")
    assert facts["interfaces"] == ["lo"]
    assert facts["errors"][0] == ""


def test_a_lesson_runs_behind_a_proxy_and_with_a_tmp_that_runs_no_program(facts):
    if not facts["noexec"]:
        not_here("this machine allows no mount namespace")
    assert facts["errors"][0] == ""
    assert facts["answers"] == "200 200"


def test_a_lesson_runs_twice_in_one_kernel(facts):
    assert facts["errors"] == ["", ""]


def test_a_killed_kernel_stops_neither_a_service_nor_a_writer(facts):
    assert set(facts["before"]) == {"minio", "kafka", "writer-lesson-00-kept"}
    assert all(facts["before"].values())
    assert facts["after"] == facts["before"]
    assert facts["object"] == "by the kernel"
