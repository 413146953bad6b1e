"""`lab jupyter` opens JupyterLab on lesson 00, on this machine only; `lab demo` opens a demo."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from ipaddress import ip_address
from pathlib import Path

import nbformat
import psutil
import pytest
from hostile_home import hostile_home
from instance import instance_of_this_run, programs_showing
from own_lab import allowed, listening, wait_until

from lab_env.course.jupyterlab.cells import run_cell
from lab_env.course.jupyterlab.running import kernel_client, running_jupyterlab
from lab_env.course.publishing import demos
from lab_env.platform.processes.tree import is_alive, process_tree
from lab_env.platform.settings import REPOSITORY

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def jupyter(services, tmp_path_factory):
    """Address and process of a JupyterLab whose LAB_HOME was given as a relative path.

    Its user has another Jupyter and IPython configured.
    """
    instance = instance_of_this_run()
    settings = {k: v for k, v in instance.environment.items() if k.startswith("LAB_")}
    process = subprocess.Popen(
        [Path(sys.executable).with_name("lab"), "jupyter", "--no-browser"],
        cwd=instance.home.parent,
        env=hostile_home(tmp_path_factory.mktemp("user"), "tr")
        | settings
        | {"LAB_HOME": instance.home.name},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        address = next(line for line in process.stdout if line.startswith("JupyterLab: "))
        wait_until(lambda: answers(address.split()[1]), 60)
        started = psutil.Process(process.pid).children()
        (jupyterlab,) = (child for child in started if "jupyterlab" in child.cmdline())
        yield address.split()[1], jupyterlab
    finally:
        process.terminate()
        process.wait(allowed(30))
        process.stdout.close()


def answers(address: str) -> bool:
    try:
        return urllib.request.urlopen(address, timeout=5).status == 200
    except urllib.error.HTTPError as error:
        return bool(error.close())
    except OSError:
        return False


def ask(address: str, path: str) -> dict:
    """Request a path of JupyterLab's API with the token; return the response."""
    server, token = re.match(r"(http://[^/]+)/.*\?token=([^#]+)", address).groups()
    request = urllib.request.Request(server + path, headers={"Authorization": f"token {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def test_its_address_is_lesson_00(jupyter):
    address, _ = jupyter
    assert re.match(r"http://127\.0\.0\.1:\d+/lab/tree/work/00_welcome\.ipynb\?token=", address)
    assert answers(address)
    lesson = ask(address, "/api/contents/work/00_welcome.ipynb?content=0")
    assert lesson["type"] == "notebook"


def test_make_lab_is_this_command():
    plan = ["make", "--dry-run", "--no-print-directory", "lab"]
    done = subprocess.run(plan, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.endswith(" lab_env/platform/install/bootstrap.py jupyter\n")


def test_where_it_runs_the_command_names_it_and_starts_no_second_one(jupyter):
    instance = instance_of_this_run()
    done = instance.lab("jupyter", "--no-browser")
    assert f"JupyterLab runs already: {jupyter[0]}" in done.stdout.splitlines()
    assert jupyter[0].partition("/tree/")[0] in instance.lab().stdout


def test_only_the_token_opens_it(jupyter):
    address, _ = jupyter
    assert "started" in ask(address, "/api/status")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        ask(re.sub("token=.*", "token=guessed", address), "/api/status")


def test_it_listens_on_this_machine_only(jupyter):
    _, process = jupyter
    hosts = listening([process])
    assert hosts and all(ip_address(host).is_loopback for host in hosts)


def test_its_kernels_know_the_same_lab_and_nothing_of_other_work(jupyter):
    _, process = jupyter
    assert process.environ()["LAB_HOME"] == os.environ["LAB_HOME"]
    found = running_jupyterlab()
    with kernel_client(found.fresh_kernel("work/00_welcome.ipynb")) as client:
        run_cell(client, nbformat.v4.new_code_cell(IN_A_KERNEL), 60)


IN_A_KERNEL = """
import os
import matplotlib
from lab_env import Lab
assert "SPARK_REMOTE" not in os.environ
assert matplotlib.rcParams["figure.dpi"] > 7
"""


def test_a_demo_is_ready_when_its_page_is_opened(jupyter):
    instance = instance_of_this_run()
    assert "choose from: cdc, exactly-once, incremental" in instance.lab("demo", "nothing").stderr
    command = instance.begin("demo", "snapshot", "--no-browser")
    try:
        address = next(line.split()[1] for line in command.stdout if line.startswith("Ready: "))
        path = "work/demos/snapshot.ipynb"
        assert f"/lab/tree/{path}?" in address
        sessions = {found["path"]: found for found in ask(address, "/api/sessions")}
        session = sessions[path]  # so the page takes this kernel
        cells = [
            cell
            for cell in ask(address, f"/api/contents/{path}")["content"]["cells"]
            if cell["cell_type"] == "code"
        ]
        prepared = [cell for cell in cells if cell["execution_count"]]
        assert cells[: len(prepared)] == prepared and len(prepared) < len(cells)
        assert 'class="xray"' in str(prepared[-1]["outputs"])
        # What the speaker has left to run, runs in the kernel that is there.
        with demos.kernel_client(session["kernel"]["id"]) as kernel:
            for cell in cells[len(prepared) :]:
                answer = kernel.execute_interactive(cell["source"], timeout=120)
                assert answer["content"]["status"] == "ok", answer["content"]
        server = jupyter[1].pid  # it uses the JupyterLab that runs
        family = [process for process in process_tree(server)[1:] if is_alive(process)]
        arguments = [" ".join(process.cmdline()) for process in family]
        for part in ("ipykernel", "org.apache.spark.deploy.SparkSubmit"):
            assert any(part in line for line in arguments), arguments
        for key in instance.store_keys():
            assert programs_showing(key) == []
        again = instance.lab("demo", "snapshot", "--no-browser")  # ends: it uses that JupyterLab
        assert again.returncode == 0 and address in again.stdout
        token = address.partition("token=")[2].partition("#")[0]
        assert len(token) > 20 and programs_showing(token) == []
    finally:
        command.communicate(timeout=allowed(60))  # it ends by itself, and leaves the server
    assert command.returncode == 0 and answers(address)
