"""Runs a notebook twice in one kernel, then kills the kernel; `test_kernel.py` reads its output.

    python kernel_run.py NOTEBOOK

It needs no network except the loopback device, and prints one JSON object.
"""

import json
import os
import signal
import socket
import sys
import time

import nbformat
import psutil
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from lab_env.platform import services, store
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.environment import JAVA_TEMPORARY, adapt
from lab_env.platform.processes.system import is_noexec

WRITER = "writer-lesson-00-kept"
# A program of the same kind as a writer: supervised, and not started again when it ends.
START_WRITER = f"""
import sys
from lab_env.platform.processes import supervisor
script = "import time; time.sleep(600)"
supervisor.start(supervisor.Program({WRITER!r}, [sys.executable, "-c", script], autorestart=False))
"""
PUT_OBJECT = """
from lab_env.platform import store
s3 = store.client(lab.endpoints)
s3.put_object(Bucket=lab.endpoints.bucket, Key="kept", Body=b"by the kernel")
"""

# What other lessons use: more HTTP clients, and a native library of Java's (Snappy).
CLIENTS = """
import boto3, requests
from urllib.request import urlopen
spark.range(9).write.mode("overwrite").parquet(lab.path("snappy"))
health = f"{lab.endpoints.s3_endpoint}/minio/health/live"
found = f"{urlopen(health).status} {requests.get(health).status_code}"
bucket = boto3.resource("s3", endpoint_url=lab.endpoints.s3_endpoint).Bucket(lab.endpoints.bucket)
bucket.put_object(Key="found", Body=found.encode())
"""


def main(path: str) -> None:
    """Run the notebook, kill its kernel, and print the facts."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    end = next(i for i, cell in enumerate(notebook.cells) if "spark.stop()" in cell.source)
    notebook.cells.insert(end, nbformat.v4.new_code_cell(CLIENTS))
    client = NotebookClient(notebook, timeout=120)
    facts = {"interfaces": [name for _, name in socket.if_nameindex()]}
    with client.setup_kernel():
        facts["errors"] = [run_all(client), run_all(client)]
        for code in (START_WRITER, PUT_OBJECT):
            client.execute_cell(nbformat.v4.new_code_cell(code), 0)
        before = program_pids()
        kill(client)
    adapt()  # only now: the kernel inherited this environment
    time.sleep(1)  # a program that dies with the kernel needs a moment to do so
    facts |= {"before": before, "after": program_pids()}
    facts["object"] = store.read(services.endpoints(), "kept").decode()
    passed = not any(facts["errors"])
    facts["answers"] = store.read(services.endpoints(), "found").decode() if passed else ""
    facts["noexec"] = is_noexec(JAVA_TEMPORARY)
    print(json.dumps(facts))


def run_all(client: NotebookClient) -> str:
    """Run every cell; return the first error, or an empty string."""
    started = time.monotonic()
    try:
        for index, cell in enumerate(client.nb.cells):
            client.execute_cell(cell, index)
    except CellExecutionError as error:
        return str(error)
    print(f"a pass took {time.monotonic() - started:.1f} s", file=sys.stderr)
    return ""


def program_pids() -> dict[str, int]:
    """Return the process id of each program that the lab supervises."""
    return {program.name: program.pid for program in supervisor.status()}


def kill(client: NotebookClient) -> None:
    """Kill the kernel's process group immediately, as JupyterLab does when a kernel hangs.

    The process tree is not killed, because the supervisor may be in it: `Lab.start` starts it.
    """
    kernel = psutil.Process(client.km.provisioner.pid)
    os.killpg(kernel.pid, signal.SIGKILL)
    psutil.wait_procs([kernel], timeout=10)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    finally:
        services.down()
