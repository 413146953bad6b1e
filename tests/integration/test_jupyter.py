"""`lab jupyter` opens JupyterLab on lesson 00, for this machine only."""

import json
import re
import subprocess
import urllib.error
import urllib.request
from ipaddress import ip_address

import psutil
import pytest
from instance import Instance
from own_lab import lab_environment
from test_services import wait_until

from lab_env.settings import REPOSITORY

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory):
    """The address and process of a JupyterLab whose LAB_HOME was given as a relative path."""
    home = tmp_path_factory.mktemp("jupyter") / "a lab"
    instance = Instance(home, lab_environment(home))
    instance.environment["LAB_HOME"] = "a lab"
    process = subprocess.Popen(
        [*instance.command, "jupyter", "--no-browser"],
        cwd=home.parent,
        env=instance.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        address = next(line for line in process.stdout if line.startswith("JupyterLab: "))
        wait_until(lambda: answers(address.split()[1]), 60)
        yield address.split()[1], psutil.Process(process.pid), home
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
        instance.environment["LAB_HOME"] = str(home)
        assert instance.lab("down").returncode == 0
        assert instance.processes() == []


def answers(address: str) -> bool:
    """Whether an address answers with success."""
    try:
        return urllib.request.urlopen(address, timeout=5).status == 200
    except urllib.error.HTTPError as error:
        return bool(error.close())
    except OSError:
        return False


def ask(address: str, path: str) -> dict:
    """What JupyterLab's API says to whoever has the token."""
    server, token = re.fullmatch(r"(http://[^/]+)/.*\?token=(.+)", address).groups()
    request = urllib.request.Request(server + path, headers={"Authorization": f"token {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_its_address_is_lesson_00(jupyter):
    address, _, _ = jupyter
    assert re.match(r"http://127\.0\.0\.1:\d+/lab/tree/work/00_welcome\.ipynb\?token=", address)
    assert answers(address)
    lesson = ask(address, "/api/contents/work/00_welcome.ipynb?content=0")
    assert lesson["type"] == "notebook"


def test_make_lab_is_this_command():
    plan = ["make", "--dry-run", "--no-print-directory", "lab"]
    done = subprocess.run(plan, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ".venv/bin/lab jupyter"


def test_only_the_token_opens_it(jupyter):
    address, _, _ = jupyter
    assert "started" in ask(address, "/api/status")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        ask(re.sub("token=.*", "token=guessed", address), "/api/status")


def test_it_listens_on_this_machine_only(jupyter):
    _, process, _ = jupyter
    connections = process.net_connections("tcp")
    hosts = {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    assert hosts and all(ip_address(host).is_loopback for host in hosts)


def test_its_kernels_know_the_same_lab(jupyter):
    _, process, home = jupyter
    assert process.environ()["LAB_HOME"] == str(home)
