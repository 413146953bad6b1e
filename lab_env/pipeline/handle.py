"""Streaming writers as supervised processes: start one, follow its progress, stop or kill it.

The process itself is `lab_env.pipeline.writer`. Notebooks, tests and the tour use this handle. It
keeps no state: everything it needs is in the writer's folder.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import psutil

from lab_env.pipeline import landing, session
from lab_env.pipeline import writer as process
from lab_env.pipeline.checkpoint import newest_commit
from lab_env.pipeline.layout import checkpoint_path
from lab_env.platform.errors import LabError
from lab_env.platform.install import cds_archive, java
from lab_env.platform.install.jars import jar_folder
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.ports import accepts
from lab_env.platform.processes.state import folder
from lab_env.platform.processes.tree import kill_processes
from lab_env.platform.settings import Endpoints, machine_credentials, settings

RUNNING = "running"
PATIENCE_S = 300  # for slow machines; one that fails or dies ends the wait at once


def lesson_environment(endpoints: Endpoints) -> dict[str, str]:
    """Environment variables for a program that starts its session with `session_of_environment`."""
    java_options = cds_archive.java_options(session.LESSON_JAVA_OPTIONS)
    return session.session_environment(
        endpoints, jar_folder("spark"), java.java_home(), java_options
    )


class Writer:
    """One supervised streaming writer, identified by the name of its program."""

    def __init__(self, name: str):
        self.name = name
        self.folder: Path = folder("writers") / name

    def start(
        self,
        endpoints: Endpoints,
        topic: str,
        base: str,
        short: bool = False,
        jvm_options: str = "",
        **job,
    ) -> "Writer":
        """Start the writer; a running writer of the same name is stopped first.

        Args:
            topic: Kafka topic to read, or Kinesis stream with `source="kinesis"`.
            base: folder of the tables and checkpoints, for example `s3a://lakehouse/tour`.
            short: True for a writer that runs only a minute or two: its JVM then uses only the
            quick compiler (C1), as a lesson's session does.
            jvm_options: additional JVM options; they override the others.
            job: other fields of `lab_env.pipeline.writer.Job`.

        Raises:
            LabError: the tables need a lock (`LAB_LOCK`), and ZooKeeper does not answer.
        """
        lock = endpoints.zookeeper if settings().lock == "zookeeper" else ""
        if lock := job.setdefault("lock", lock):
            _require(lock)
        supervisor.remove(self.name)
        java_options = session.LESSON_JAVA_OPTIONS if short else session.JAVA_OPTIONS
        job_file = process.Job(
            name=self.name,
            topic=topic,
            base=base,
            folder=str(self.folder),
            log=str(supervisor.log_path(self.name)),
            jars=str(jar_folder("spark")),
            java_home=str(java.java_home()),
            java_options=f"{cds_archive.java_options(java_options)} {jvm_options}".strip(),
            **job,
        ).save()
        # Without keys of the object store, the machine's own role or variables apply.
        keys = {} if endpoints.s3_access_key else machine_credentials()
        supervisor.start(
            supervisor.Program(
                self.name,
                process.command(job_file),
                env=keys | session.environment(endpoints),
                autorestart=False,
                stop_seconds=60,
            )
        )
        return self

    def state(self) -> dict:
        """The writer's last reported state, corrected if its process has ended.

        `state` is starting, running, stopped, failed, stalled or ended (its process ended without a
        report, for example after a kill); the other keys give details.
        """
        try:
            told = json.loads((self.folder / "state.json").read_text())
        except FileNotFoundError:
            told = {"state": "starting"}
        status = supervisor.status_of(self.name)
        if told["state"] in ("starting", RUNNING) and not (status and status.alive):
            return told | {"state": "ended", "error": "its process is gone"}
        return told

    def progress(self) -> pd.DataFrame:
        """Committed batches, one row each; a long run drops its oldest ones.

        `started` is in UTC; `start_offsets` and `end_offsets` are dicts from topic partition to
        offset. `unknown_events` counts valid events with fields that the pipeline drops, and
        `unknown_fields` names such fields; only the dead-letter query reports both.
        """
        columns = ["sink", "batch", "started", "rows", "seconds", "start_offsets", "end_offsets"]
        columns += ["unknown_events", "unknown_fields"]
        batches = process.noted_batches(self.folder / "progress.jsonl")
        frame = pd.DataFrame(batches, columns=[*columns, "durations_ms"])
        return frame.drop_duplicates(["sink", "batch"], keep="last", ignore_index=True)

    def committed(self, endpoints: Endpoints) -> dict[str, dict[int, int]]:
        """Newest committed position of each sink, from its checkpoint in the object store.

        Progress reports are not enough after a restart: a writer may be killed after it commits a
        batch and before it reports it.

        Returns:
            For each sink, a dict from topic partition to the offset of the next message to read;
            for Kinesis, from shard to the number of records read. Empty without a commit.
        """
        job = process.Job.load(self.folder / "job.json")
        paths = {sink: checkpoint_path(job.base, sink) for sink in job.sinks}
        if job.source == "kinesis":
            folder = landing.landing_path(job.base)
            reached = {
                sink: landing.committed_position(endpoints, path, folder)
                for sink, path in paths.items()
            }
            return {sink: at.counts() if at else {} for sink, at in reached.items()}
        commits = {sink: newest_commit(endpoints, path) for sink, path in paths.items()}
        return {sink: commit[1] if commit else {} for sink, commit in commits.items()}

    def lag(self, endpoints: Endpoints, end_offsets: dict[int, int]) -> dict[str, int]:
        """Number of messages that each sink has not committed yet.

        `end_offsets` has the end offset of each topic partition; later messages do not count.
        """
        return {
            sink: sum(
                max(0, end - reached.get(partition, 0)) for partition, end in end_offsets.items()
            )
            for sink, reached in self.committed(endpoints).items()
        }

    def wait_until(
        self,
        condition: Callable[[], bool],
        what: str,
        seconds: float = PATIENCE_S,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait for a condition; if the writer ends first, raise an error with the end of its log.

        Args:
            what: the condition in words, for the error.
            on_tick: called twice per second, for progress output.

        Raises:
            LabError: the writer ended, or the timeout expired.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            state, problem = self.state(), ""
            if state["state"] not in ("starting", RUNNING):
                if condition():
                    return
                reason = state.get("error", "no reason given")[:600]
                problem = f"{state['state']} before {what}: {reason}"
            elif time.monotonic() > deadline:
                problem = f"timed out after {seconds:.0f} s, before {what}."
            if problem:
                raise LabError(
                    f"The writer {self.name} {problem}",
                    f"read its log: lab logs {self.name}",
                    supervisor.log_tail(self.name),
                )
            on_tick()
            time.sleep(0.5)

    def wait_running(self, seconds: float = PATIENCE_S) -> None:
        """Wait until its queries have started."""
        self.wait_until(lambda: self.state()["state"] == RUNNING, "its queries started", seconds)

    def wait_first_batches(self, seconds: float = PATIENCE_S) -> None:
        """Wait until every sink has committed a batch, even an empty one."""
        job = process.Job.load(self.folder / "job.json")
        self.wait_until(
            lambda: set(job.sinks) <= set(self.progress()["sink"]),
            "every sink committed its first batch",
            seconds,
        )

    def wait_caught_up(
        self,
        endpoints: Endpoints,
        end_offsets: dict[int, int],
        seconds: float = PATIENCE_S,
        **kwargs,
    ) -> None:
        """Wait until every sink has committed everything up to `end_offsets`; see `wait_until`."""
        self.wait_until(
            lambda: not any(self.lag(endpoints, end_offsets).values()),
            "every sink has committed the whole topic",
            seconds,
            **kwargs,
        )

    def stop(self) -> None:
        """Stop the writer; kill it if it has not stopped after a minute."""
        supervisor.stop(self.name)

    def kill(self) -> None:
        """Kill the writer and its JVM (SIGKILL), as a crash would; nothing restarts it."""
        kill_processes(self.processes())
        deadline = time.monotonic() + 5
        while (status := supervisor.status_of(self.name)) and status.alive:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)  # the supervisor notices it within a second

    def processes(self) -> list[psutil.Process]:
        """Processes of the writer: the Python driver and the JVM; empty if it is not running."""
        return supervisor.processes_of(self.name)


def _require(zookeeper: str) -> None:
    """Raise an error if ZooKeeper is down, as the first batch would wait minutes for the lock."""
    if not any(accepts(server, 3) for server in zookeeper.split(",")):
        raise LabError(f"ZooKeeper at {zookeeper} does not answer.", "run: lab up zookeeper")
