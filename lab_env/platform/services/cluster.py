"""A Spark cluster: Spark's own standalone master and two workers of one core each, for lesson 21.

PySpark's wheel contains Spark's cluster. The master assigns workers to applications, and each
worker starts executors for them. Master, workers and drivers share a secret, because otherwise
anyone with access to the master could run code on its workers. The object store's keys are in the
workers' environment, which executors inherit: no page, argument or log shows them.
"""

import contextlib
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import psutil

from lab_env.platform.errors import LabError
from lab_env.platform.install.java import java_home, java_program
from lab_env.platform.install.maven import pyspark_home
from lab_env.platform.jvm import QUICK_COMPILER, SAME_EVERYWHERE
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.ports import accepts
from lab_env.platform.processes.state import secrets, write_private
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.processes.system import memory
from lab_env.platform.services.base import LOG4J2, Finding, NotReady, Service, request_json
from lab_env.platform.services.minio import credentials_as
from lab_env.platform.settings import settings

WORKERS = (1, 2)
SCALA = "2.12"  # of PySpark's jars; Spark's own scripts would detect it

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
MEMORY = 2.0  # gigabytes: 0.6 for master and workers, plus two executors
MASTER_SECONDS = 30  # until a newly started master accepts workers

JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    *QUICK_COMPILER,
    *SAME_EVERYWHERE,
    "-Dlog4j2.configurationFile=log4j2.properties",
)

PROPERTIES = {
    "spark.authenticate": "true",
    # A web page opened by another user of this machine must not be able to end applications.
    "spark.ui.killEnabled": "false",
    # Remove an executor's files and logs ten minutes after its application ends.
    "spark.worker.cleanup.enabled": "true",
    "spark.worker.cleanup.interval": "60",
    "spark.worker.cleanup.appDataTtl": "600",
    # The master forgets a worker after this many silent seconds.
    "spark.worker.timeout": "20",
}


@dataclass(frozen=True)
class Worker:
    """One worker of the cluster, with the process ids of its executors.

    Their keys are the ids of application and executor, as in `("app-20261123051200-0000", "1")`.
    """

    number: int  # 1 or 2
    program: str  # name of its supervised program, for `lab logs`
    alive: bool  # the master considers it alive
    pid: int  # 0 if it does not run
    executors: dict[tuple[str, str], int]
    page: str  # URL of its web page


class Cluster(Service):
    name = "cluster"
    title = "Spark cluster"
    port_names = ("master", "ui", "worker_1", "worker_2")
    scheme = "spark://"
    needs = ("minio",)
    has_login = True

    @property
    def programs(self) -> tuple[str, ...]:
        return (self.name, *map(program_of, WORKERS))

    def program(self, ports: dict[str, int]) -> Program:
        """Write the files of all three programs and describe the master's process."""
        own = {
            "spark.master": f"{self.scheme}{settings().client_host}:{ports['master']}",
            "spark.authenticate.secret": secrets()["cluster_secret"],
        }
        text = "".join(f"{name}={value}\n" for name, value in (PROPERTIES | own).items())
        (self.folder / "log4j2.properties").write_text(LOG4J2)
        write_private(settings().cluster_properties, text)
        listens = ("--port", str(ports["master"]), "--webui-port", str(ports["ui"]))
        return self._program(self.name, MASTER, *listens)

    def worker_program(self, number: int) -> Program:
        """Describe a worker's process, which offers one core and the memory of one executor.

        It is stopped by killing its whole process group: while a worker shuts down normally, it may
        still start an executor, which nothing stops afterwards.
        """
        program = self._program(
            program_of(number),
            WORKER,
            *("--cores", "1", "--memory", settings().spark_executor_memory),
            *("--webui-port", str(self.port(f"worker_{number}"))),
            *("--work-dir", str(self.folder / f"worker-{number}"), self.address()),
            **credentials_as("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        )
        return replace(program, stop_signal="KILL")

    def start(self) -> None:
        """Start the master, and the workers as soon as it listens.

        A worker that finds no master waits five to fifteen seconds before it retries.
        """
        super().start()
        address = f"{settings().client_host}:{self.port('master')}"
        deadline = time.monotonic() + MASTER_SECONDS
        while time.monotonic() < deadline and not accepts(address, 1):
            time.sleep(0.1)
        for number in WORKERS:
            self.start_worker(number)

    def start_worker(self, number: int) -> None:
        """Start a worker unless it runs; the master sees it some seconds later."""
        status = supervisor.status_of(program_of(number))
        if status is None or not status.alive:
            supervisor.start(self.worker_program(number))

    def stop_worker(self, number: int) -> None:
        """Stop a worker with its executors; it stays stopped until `start_worker` or `lab up`."""
        supervisor.stop(program_of(number))

    def check(self) -> None:
        alive = self.master_state()["aliveworkers"]
        if alive < len(WORKERS):
            raise NotReady(f"{alive} of {len(WORKERS)} workers are alive")

    @property
    def page(self) -> str:
        """The master's web page; `/json/` below it returns its state."""
        return self.url("ui")

    def missing_resources(self) -> str:
        free = memory().available / 1e9
        return "" if free > MEMORY else f"{MEMORY} GB of memory must be free; only {free:.1f} GB is"

    def diagnose(self) -> Iterator[Finding]:
        if not self.running() and (missing := self.missing_resources()):
            fix = "close other programs, then run: lab up cluster"
            yield Finding(self.name, "warn", missing, fix)

    def links(self) -> dict[str, str]:
        return {"Spark cluster": self.page} if self.running() else {}

    def master_state(self) -> dict:
        """State of the master: workers, applications, cores; see Spark's `JsonProtocol`.

        It raises `NotReady` if nothing answers, or another program does.
        """
        try:
            state = request_json("GET", f"{self.page}/json/")
        except (OSError, ValueError) as error:
            raise NotReady(f"the master does not answer ({error})") from None
        if not isinstance(state, dict) or state.get("url") != self.address():
            raise NotReady(f"another program answers at {self.page}")
        return state

    def workers(self) -> list[Worker]:
        """Workers, with the process of each executor; raise `LabError` if the master is down."""
        try:
            state = self.master_state()
        except NotReady as why:
            raise LabError(f"{self.title}: {why}.", "run: lab up cluster") from None
        alive = [w["webuiaddress"] for w in state["workers"] if w["state"] == "ALIVE"]
        found = []
        for number in WORKERS:
            name, page = program_of(number), self.url(f"worker_{number}")
            processes = supervisor.processes_of(name)
            executors = {who: child.pid for child in processes[1:] if (who := _executor(child))}
            pid = processes[0].pid if processes else 0
            found.append(Worker(number, name, page in alive, pid, executors, page))
        return found

    def _program(self, name: str, main: str, *arguments: str, **env: str) -> Program:
        return Program(
            name=name,
            argv=[
                *(str(java_program()), *JVM, "-cp", f"{pyspark_home()}/jars/*", main),
                *("--host", settings().client_host),
                *("--properties-file", settings().cluster_properties.name),
                *arguments,
            ],
            env={
                "SPARK_HOME": str(pyspark_home()),
                "JAVA_HOME": str(java_home()),
                "SPARK_SCALA_VERSION": SCALA,
                "SPARK_LOCAL_IP": settings().client_host,  # of the web pages
                **env,
            },
            cwd=self.folder,
        )


def program_of(worker: int) -> str:
    """Name of a worker's program, for example `cluster-worker-1`."""
    return f"{Cluster.name}-worker-{worker}"


def _executor(process: psutil.Process) -> tuple[str, str] | None:
    """Ids of application and executor; None if the process is not an executor."""
    with contextlib.suppress(psutil.Error):
        arguments = process.cmdline()
        if EXECUTOR in arguments:
            value = dict(itertools.pairwise(arguments))
            return value["--app-id"], value["--executor-id"]
    return None
