"""A learner's writer on an external cluster; an executor is killed while it runs a task.

The argument is the file for the results. The program runs in the driver's network; the master, the
workers and their executors are in another network.
"""

import json
import sys
import time
import urllib.request
from pathlib import Path

import psutil

from lab_env.lab.faults.freeze import frozen
from lab_env.lab.handle import Lab, reset_lesson
from lab_env.pipeline.checkpoint import read_checkpoint
from lab_env.pipeline.guard import table_receipt
from lab_env.pipeline.layout import FOLDERS, checkpoint_path
from lab_env.platform import services
from lab_env.platform.brokers.kafka_client import confluent_options
from lab_env.platform.errors import LabError
from lab_env.platform.processes.tree import kill_processes
from lab_env.platform.services import SERVICES
from lab_env.platform.settings import settings
from lab_env.tables.hudi_rs import read_rows

SINK, EVENTS, BATCH = "cow", 1500, 500


def main(report: Path) -> None:
    up(seconds=30)
    lab = Lab("tour", services.endpoints())
    lab.replay(n=EVENTS)
    writer = lab.writer()
    job = {"short": True, "sinks": (SINK,), "trigger_seconds": 0, "max_offsets": BATCH}
    began = time.monotonic()
    writer.start(lab.endpoints, lab.topic("orders"), lab.base, **job)
    writer.wait_running(180)
    api = Driver(writer.state()["ui"])
    killed = api.kill_busy_executor()
    failed = api.failed_tasks()
    shown = programs_showing_secrets(lab.endpoints.kafka_bootstrap)
    writer.wait_until(lambda: writer.state()["state"] == "stopped", "the end of the topic", 240)
    found = {
        "seconds": time.monotonic() - began,
        "killed": killed,
        "shown": shown,
        "failed_tasks": failed,
        "batches": [
            b.number for b in read_checkpoint(lab.endpoints, checkpoint_path(lab.base, SINK))
        ],
        "objects": sorted({file.key.split("/")[0] for file in lab.files(lab.base)}),
        "topic": lab.topic("orders"),
        "buckets": table_receipt(lab.endpoints, lab.path(FOLDERS[SINK])).buckets,
        "master": settings().spark_master,
        "external": [name for name, service in SERVICES.items() if service.external],
    }
    verdict = lab.ledger().reconcile_table(read_rows(lab.endpoints, lab.path(FOLDERS[SINK])), SINK)
    found |= {"ok": verdict.ok, "rows": verdict.rows, "verdict": str(verdict)}
    found["cleared"] = reset_lesson("tour")
    report.write_text(json.dumps(found))


def up(seconds: float) -> None:
    """Start using the external services; retry, because a new broker may not be registered yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            services.up(progress=print)
            return
        except LabError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def programs_showing_secrets(bootstrap: str) -> list[str]:
    """Return the names of programs whose arguments contain the store's key or Kafka's password."""
    password = confluent_options(bootstrap)["sasl.password"]
    secrets = (settings().s3_secret_key.get_secret_value(), password)
    lines = {p: "\0".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])}
    return [p.name() for p, line in lines.items() if any(secret in line for secret in secrets)]


class Driver:
    """The driver's REST interface.

    Args:
        url: URL of the driver's web UI.
    """

    def __init__(self, url: str):
        (application,) = self._get(f"{url}/api/v1/applications")
        self.id = application["id"]
        self._api = f"{url}/api/v1/applications/{self.id}"

    def kill_busy_executor(self, seconds: float = 120) -> str:
        """Kill an executor that has a task; return its id."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for executor in self._get(f"{self._api}/executors"):
                if executor["activeTasks"] and executor["id"] != "driver":
                    process = self._process_of(executor["id"])
                    with frozen(process.pid):  # what is seen now holds when it is killed
                        if not self._has_task(executor["id"]):
                            continue
                        kill_processes([process])
                    return executor["id"]
            time.sleep(0.05)
        raise TimeoutError(f"no executor had a task in {seconds:.0f} s")

    def failed_tasks(self, seconds: float = 60) -> int:
        """Wait for the first failed task; return the number of failed tasks."""
        deadline = time.monotonic() + seconds
        failed = 0
        while not failed and time.monotonic() < deadline:
            time.sleep(0.2)
            failed = sum(stage["numFailedTasks"] for stage in self._get(f"{self._api}/stages"))
        return failed

    def _has_task(self, executor: str) -> bool:
        time.sleep(0.2)  # the driver notes what the executor had sent before
        known = {one["id"]: one["activeTasks"] for one in self._get(f"{self._api}/executors")}
        return known.get(executor, 0) > 0

    def _process_of(self, executor: str) -> psutil.Process:
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            if self.id in line and line[line.index("--executor-id") + 1] == executor:
                return process
        raise ProcessLookupError(f"executor {executor}")

    @staticmethod
    def _get(url: str):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=10) as answer:
            return json.load(answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
