"""The colleague: a second notebook kernel with its own Spark, started by this one.

The lesson runs code there, freezes its JVM in the middle of a write, and resumes or kills it.
"""

import atexit
import contextlib
import os
import re
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from queue import Empty
from typing import Any, ClassVar

import psutil
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from lab_env.lab.faults.freeze import frozen
from lab_env.lab.faults.freeze import kill as kill_tree
from lab_env.lab.faults.gate import Gate, Rule
from lab_env.lessons.l18.locks import Holding, LockWatch, lock_roots
from lab_env.pipeline.handle import lesson_environment
from lab_env.platform import store
from lab_env.platform.errors import LabError
from lab_env.platform.processes.environment import mark_of_lesson, programs_of_lesson
from lab_env.platform.processes.supervisor import log_path
from lab_env.platform.processes.tree import jvm_below, kill_processes
from lab_env.tables.hudi.timeline import parse_data_name

YOU, COLLEAGUE = "you", "colleague"
COMMITTED = "committed"
KILLED = "killed"
LOOK_S = 0.05  # between two looks at what she says
TIMEOUT_S = 120

START = """
import sys
sys.path.insert(0, {folder!r})
from pathlib import Path
from lab_env.pipeline.session import SHORT_LIFE, session_of_environment
spark = session_of_environment("colleague", SHORT_LIFE, Path({log!r}))
"""


class WriteFailed(LabError):
    """The colleague's code failed, or its write ended before it could be frozen."""

    def __init__(self, outcome: str):
        super().__init__(f"The colleague failed: {outcome}", "run this cell again.")
        self.outcome = outcome


@dataclass
class Running:
    """A write in this or the colleague's notebook, running or ended."""

    who: str  # `you` or `colleague`
    began: float  # seconds since 1970
    ended: float = 0.0  # seconds since 1970; 0 while it runs
    frozen: tuple[float, float] = (0.0, 0.0)  # begin and end, seconds since 1970
    outcome: str = ""  # `committed`, `killed`, or the error; empty while it runs
    printed: str = ""  # output of the code
    instant: str = ""  # the instant in which it was frozen
    locks: list[Holding] = field(default_factory=list)  # from the freeze to the end

    def __repr__(self) -> str:
        return f"{self.who}: {self.outcome or 'still running'}"


def attempt(write: Callable, *arguments: Any, **options: Any) -> Running:
    """Call a function that writes; record its outcome, and do not raise its error."""
    run = Running(YOU, time.time())
    try:
        write(*arguments, **options)
        run.outcome = COMMITTED
    except Exception as error:
        run.outcome = why_failed(str(error))
    run.ended = time.time()
    return run


class Colleague:
    """A second notebook kernel with its own Spark; it ends with this notebook's kernel.

    Raises `LabError` if the object store's endpoint uses HTTPS.
    """

    _running: ClassVar[dict[str, "Colleague"]] = {}

    def __init__(self, lab):
        self._lab = lab
        if previous := self._running.pop(lab.namespace, None):
            previous.close()
        kill_processes(programs_of_lesson(lab.namespace))  # of an earlier kernel
        self._gate = _gate_to(lab.endpoints.s3_endpoint)  # her way to the store
        endpoints = replace(lab.endpoints, s3_endpoint=self._gate.url)
        told = lesson_environment(endpoints) | mark_of_lesson(lab.namespace)
        # No folder of kernels: the Python of this kernel, whatever else is installed.
        self._manager = KernelManager(kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
        with log_path(f"{lab.namespace}-colleague").open("wb") as log:
            self._manager.start_kernel(env={**os.environ, **told}, stdout=log, stderr=log)
        self.pid = _pid_of(self._manager)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        atexit.register(self.close)
        self._client.wait_for_ready(timeout=TIMEOUT_S)
        self._last = ""
        self._at_work = COLLEAGUE  # who alone can take a lock now
        self._running[lab.namespace] = self
        spark_log = lab.spark_log.with_name(f"spark-{lab.namespace}-colleague.log")
        self._start = self.begin(START.format(folder=str(lab.folder), log=str(spark_log)))

    @classmethod
    def of(cls, lab) -> "Colleague":
        """Return the lesson's colleague; raise a LabError if none was started."""
        if lab.namespace not in cls._running:
            raise LabError("There is no colleague yet.", "run the lesson from its first cell.")
        return cls._running[lab.namespace]

    @property
    def jvm(self) -> psutil.Process | None:
        """The colleague's Spark JVM, which does all work on tables; None if there is none."""
        return jvm_below(self.pid)

    def share(self, **values: Any) -> None:
        """Set variables in the colleague's notebook: text, numbers, and lists or dictionaries."""
        lines = [f"{name} = {value!r}" for name, value in values.items()]
        self.run("\n".join(lines))

    def run(self, code: str) -> None:
        """Run code in the colleague's notebook, wait until it ends, and print its output.

        Raises `WriteFailed` if the code failed.
        """
        self.finish(self._start)
        done = self.finish(self.begin(code))
        print(done.printed, end="")
        if done.outcome != COMMITTED:
            raise WriteFailed(done.outcome)

    def begin(self, code: str) -> Running:
        """Start code in the colleague's notebook without waiting; call `finish` to wait."""
        self._require_life()
        running = Running(COLLEAGUE, time.time())
        self._last = self._client.execute(code, store_history=False)
        return running

    def finish(self, running: Running, seconds: float = TIMEOUT_S) -> Running:
        """Wait until the code has ended, and record its outcome.

        Raises `LabError` if it does not end in time, or if the colleague's kernel has ended.
        """
        deadline = time.monotonic() + seconds
        while not running.ended:
            if self._listen(running, 1):
                continue
            self._require_life()
            if time.monotonic() > deadline:
                why = f"The colleague's notebook is not done after {seconds:.0f} s."
                raise LabError(why, "run the lesson from its first cell again.")
        return running

    def _require_life(self) -> None:
        if not self._manager.is_alive():
            what = "Your colleague's notebook has ended."
            raise LabError(what, "run: colleague = Colleague(lab), then this cell again.")

    def _listen(self, running: Running, seconds: float) -> bool:
        """Record the next message from the colleague's kernel; False if none arrives in time."""
        try:
            message = self._client.get_iopub_msg(timeout=seconds)
        except Empty:
            return False
        if message["parent_header"].get("msg_id") == self._last:
            _note(running, message)
        return True

    @contextlib.contextmanager
    def frozen_while_writing(self, table: str, code: str) -> Generator[Running]:
        """Start the code, freeze it in the middle of its write while the body runs, then resume it.

        It is frozen after its write has stored a data file and before it commits. It then holds no
        lock, so the body can take one. Raises `WriteFailed` if the write ended before that.
        """
        self.finish(self._start)
        with self._locks() as locks, contextlib.ExitStack() as stack:
            # Armed before she begins: she may be quicker than the next lines.
            data = self._gate.arm("data", "hold_after", part=f"{store.key_of(table)}/")
            running = self.begin(code)
            running.instant = self._freeze(data, stack, running)
            begun, self._at_work = time.time(), YOU
            try:
                yield running
            finally:
                running.frozen, self._at_work = (begun, time.time()), COLLEAGUE
                stack.close()
            if not running.outcome:
                self.finish(running)
        running.locks = locks

    @contextlib.contextmanager
    def _locks(self) -> Generator[list[Holding]]:
        """Watch the locks while the body runs; the yielded list is filled afterwards.

        While the colleague is frozen, only you can take a lock; otherwise only the colleague can.
        """
        held: list[Holding] = []
        if "zookeeper" not in self._lab.needs:
            yield held
            return
        with self._lab.zookeeper() as client:
            watch = LockWatch(client, lock_roots(self._lab), lambda: self._at_work)
            try:
                yield held
            finally:
                held += watch.stop()

    def kill(self, running: Running) -> None:
        """Kill the colleague's whole notebook (SIGKILL), frozen or not."""
        self.close()
        running.outcome, running.ended = KILLED, time.time()

    def close(self) -> None:
        """Kill the colleague's notebook and its Spark immediately."""
        if psutil.pid_exists(self.pid) and self._manager.is_alive():
            kill_tree(self.pid)
        with contextlib.suppress(Exception):
            self._client.stop_channels()
            self._manager.cleanup_resources()
        with contextlib.suppress(RuntimeError):  # it is closed
            self._gate.close()

    def _freeze(self, data: Rule, stack: contextlib.ExitStack, running: Running) -> str:
        """Freeze the JVM after it has written a data file; return the write's instant.

        The gate holds back the store's response until the JVM is frozen, so the JVM cannot have
        started its commit.
        """
        try:
            jvm = self.jvm
            if jvm is None:
                raise LabError("The colleague has no Spark.", "run the lesson from its first cell.")
            key = self._wait(data, running)
            name = parse_data_name(key.rpartition("/")[2])
            assert name is not None  # or the gate had not held it
            if name.kind == "base":  # of which she asks the length: then she knows that it is there
                self._wait(self._gate.arm("read", "hold_after", part=key), running)
            stack.enter_context(frozen(jvm.pid))
        finally:
            self._gate.disarm()
        return name.instant

    def _wait(self, rule: Rule, running: Running) -> str:
        """Wait until the gate holds a request that matches the rule; return its object key."""
        deadline = time.monotonic() + TIMEOUT_S
        while not rule.wait(LOOK_S):
            while self._listen(running, 0):
                pass
            if running.ended:
                failed = running.outcome != COMMITTED
                raise WriteFailed(running.outcome if failed else "it wrote no data file")
            self._require_life()
            if time.monotonic() > deadline:
                self._manager.interrupt_kernel()
                raise WriteFailed(f"nothing was written in {TIMEOUT_S} s")
        assert rule.request is not None
        return rule.request.key


def _note(running: Running, message: dict) -> None:
    kind, content = message["msg_type"], message["content"]
    if kind == "stream":
        running.printed += content["text"]
    elif kind in ("execute_result", "display_data"):
        running.printed += content["data"].get("text/plain", "") + "\n"
    elif kind == "error":
        running.outcome = why_failed(f"{content['ename']}: {content['evalue']}")
    elif kind == "status" and content["execution_state"] == "idle":
        running.outcome = running.outcome or COMMITTED
        running.ended = time.time()


def forget_heartbeats(lab, table: str) -> None:
    """Delete a table's heartbeats; Hudi treats a missing one as expired."""
    store.delete_prefix(lab.endpoints, store.key_of(f"{table}/.hoodie/.heartbeat") + "/")


def why_failed(text: str) -> str:
    """Extract Hudi's exception, without its package, from an error with a Java stack trace."""
    pattern = r"(?:Caused by: |^: |\n: |^)((?:[a-z]\w*\.)+(\w+(?:Exception|Error)))(?:: (.*))?"
    found = [(m[2], m[3] or "") for m in re.finditer(pattern, text)]
    if not found:
        return text.strip().splitlines()[0]
    name, why = next((f for f in found if f[0].startswith("Hoodie")), found[0])
    why = re.sub(r"(?:[a-z]\w*\.)+(\w+(?:Exception|Error))", r"\1", why)
    told = f"{name}: {why}" if why else name
    root, detail = found[-1]
    return told if root in told else f"{told} ({root}: {detail})"


def _gate_to(endpoint: str) -> Gate:
    if endpoint.startswith("https"):
        what = "The colleague reaches the store through a gate that speaks plain HTTP."
        raise LabError(what, "run this lesson with the lab's own store: unset LAB_S3_ENDPOINT.")
    return Gate(endpoint)


def _pid_of(manager: KernelManager) -> int:
    pid = getattr(manager.provisioner, "pid", None)
    if pid is None:
        raise LabError("The colleague's notebook did not start.", "run this cell again.")
    return pid
