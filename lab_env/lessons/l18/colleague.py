"""A colleague's notebook: a second IPython kernel with a Spark of its own, started by this one.

A lesson runs code there, freezes her JVM in the middle of a write, and lets it go on or kills it.
"""

import atexit
import contextlib
import os
import re
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from queue import Empty
from typing import Any, ClassVar

import psutil
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from lab_env.errors import LabError
from lab_env.faults.freeze import frozen
from lab_env.faults.freeze import kill as kill_tree
from lab_env.hudi.timeline import parse_data_name, parse_timeline_key
from lab_env.install import cds_archive, java
from lab_env.install.jars import jar_folder
from lab_env.lessons.l18.locks import Holding, LockWatch
from lab_env.lessons.l18.writer import description
from lab_env.pipeline import session
from lab_env.processes.environment import mark, marked_processes
from lab_env.processes.supervisor import log_path
from lab_env.processes.system import environment_of
from lab_env.processes.tree import kill_processes, process_tree

# Which lesson started a colleague: one that a killed kernel left behind is found by it.
COLLEAGUE_MARK = "STREAMING_LAKEHOUSE_LESSON_COLLEAGUE"
YOU, COLLEAGUE = "you", "colleague"
COMMITTED = "committed"
KILLED = "killed"
LOOK_S = 0.01  # between two looks at the store
TIMEOUT_S = 120

START = "from lab_env.lessons.l18.writer import start_session\nspark = start_session()"


@dataclass
class Running:
    """A write that runs, or has run, here or in the colleague's notebook.

    Args:
        who: `you` or `colleague`.
        began: when, in seconds since 1970.
        ended: when; 0 while it runs.
        frozen: when it was frozen and when it went on, in seconds since 1970.
        outcome: `committed`, `killed`, or what its error says; empty while it runs.
        printed: what it printed.
        instant: the instant that it was frozen in.
        locks: who held which lock while it was frozen and until it ended.
    """

    who: str
    began: float
    ended: float = 0.0
    frozen: tuple[float, float] = (0.0, 0.0)
    outcome: str = ""
    printed: str = ""
    instant: str = ""
    locks: list[Holding] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{self.who}: {self.outcome or 'still running'}"


def attempt(write: Callable, *arguments: Any, **options: Any) -> Running:
    """Call a function that writes, and note how that ended instead of failing.

    Args:
        write: the function.
        arguments: of it.
        options: its named arguments.
    """
    run = Running(YOU, time.time())
    try:
        write(*arguments, **options)
        run.outcome = COMMITTED
    except Exception as error:
        run.outcome = why_failed(str(error))
    run.ended = time.time()
    return run


class Colleague:
    """A notebook kernel of its own, with its own Spark; it ends with this notebook's kernel.

    Args:
        lab: the lesson's handle.
    """

    _running: ClassVar[dict[str, "Colleague"]] = {}

    def __init__(self, lab):
        self._lab = lab
        if previous := self._running.pop(lab.namespace, None):
            previous.close()
        _kill_leftovers(lab.namespace)
        java_options = cds_archive.java_options(session.LESSON_JAVA_OPTIONS)
        environment = {
            **os.environ,
            **mark(),
            **description(lab, jar_folder("spark"), java.java_home(), java_options),
            COLLEAGUE_MARK: lab.namespace,
        }
        # No folder of kernels: the Python of this kernel, whatever else is installed.
        self._manager = KernelManager(kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
        with log_path(f"{lab.namespace}-colleague").open("wb") as log:
            self._manager.start_kernel(env=environment, stdout=log, stderr=log)
        self.pid = _pid_of(self._manager)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        atexit.register(self.close)
        self._client.wait_for_ready(timeout=TIMEOUT_S)
        self._last = ""
        self._running[lab.namespace] = self
        self._start = self.begin(f"import sys\nsys.path.insert(0, {str(lab.folder)!r})\n{START}")

    @classmethod
    def of(cls, lab) -> "Colleague":
        """The colleague of a lesson.

        Raises:
            LabError: none was started.
        """
        if lab.namespace not in cls._running:
            raise LabError("There is no colleague yet.", "run the lesson from its first cell.")
        return cls._running[lab.namespace]

    @property
    def jvm(self) -> psutil.Process | None:
        """The JVM of her Spark, which does all the work on tables; None without one."""
        jvms = (p for p in process_tree(self.pid) if "java" in _name(p))
        return next(jvms, None)

    def share(self, **values: Any) -> None:
        """Set variables in her notebook: text, numbers, lists and dictionaries of these."""
        lines = [f"{name} = {value!r}" for name, value in values.items()]
        self.run("\n".join(lines))

    def run(self, code: str) -> None:
        """Run code in her notebook, wait until it is done, and print what it printed.

        Raises:
            LabError: the code failed.
        """
        done = self._run(code)
        print(done.printed, end="")
        if done.outcome != COMMITTED:
            raise LabError(f"The colleague failed: {done.outcome}", "run this cell again.")

    def begin(self, code: str) -> Running:
        """Start code in her notebook and do not wait; `finish` does."""
        running = Running(COLLEAGUE, time.time())
        self._last = self._client.execute(code, store_history=False)
        return running

    def finish(self, running: Running, seconds: float = TIMEOUT_S) -> Running:
        """Wait until her code is done, and note how it ended.

        Raises:
            LabError: it is not done in time.
        """
        deadline = time.monotonic() + seconds
        while not running.ended:
            if not self._listen(running, 1) and time.monotonic() > deadline:
                why = f"The colleague's notebook is not done after {seconds:.0f} s."
                raise LabError(why, "run the lesson from its first cell again.")
        return running

    def _listen(self, running: Running, seconds: float) -> bool:
        """Note the next thing that her notebook says; False if it says nothing in this time."""
        try:
            message = self._client.get_iopub_msg(timeout=seconds)
        except Empty:
            return False
        if message["parent_header"].get("msg_id") == self._last:
            _note(running, message)
        return True

    @contextlib.contextmanager
    def frozen_while_writing(
        self, table: str, code: str, moment: Callable[["Halfway"], bool] | None = None
    ) -> Generator[Running]:
        """Start her code, freeze her in the middle of its write while the body runs, let her go on.

        Args:
            table: the table that her code writes to.
            code: what she runs.
            moment: when to freeze her; by default when a data file of her write is in the store.

        Raises:
            LabError: her write ended before it could be frozen.
        """
        self.finish(self._start)
        moment = moment or (lambda halfway: halfway.data > 0)
        known = {i.requested for i in _instants(self._lab, table)}
        with self._locks() as locks:
            running = self.begin(code)
            with contextlib.ExitStack() as stack:
                running.instant = self._freeze(table, known, moment, stack, running)
                begun = time.time()
                try:
                    yield running
                finally:
                    running.frozen = (begun, time.time())
            if not running.outcome:
                self.finish(running)
        running.locks = locks

    @contextlib.contextmanager
    def _locks(self) -> Generator[list[Holding]]:
        """Watch the locks while the body runs; then the list is filled."""
        held: list[Holding] = []
        if "zookeeper" not in self._lab.needs:
            yield held
            return
        with self._lab.zookeeper() as client:
            watch = LockWatch(client, self._lab.namespace, self._writer_of)
            try:
                yield held
            finally:
                held += watch.stop()

    def _writer_of(self, port: int) -> str:
        """Whose connection has this local port."""
        jvm = self.jvm
        ports = {own.laddr.port for own in jvm.net_connections("tcp")} if jvm else set()
        return COLLEAGUE if port in ports else YOU

    def kill(self, running: Running) -> None:
        """Kill her whole notebook (SIGKILL), frozen or not."""
        self.close()
        running.outcome, running.ended = KILLED, time.time()

    def close(self) -> None:
        """End her notebook and her Spark at once."""
        if psutil.pid_exists(self.pid) and self._manager.is_alive():
            kill_tree(self.pid)
        with contextlib.suppress(Exception):
            self._client.stop_channels()
            self._manager.cleanup_resources()

    def _run(self, code: str) -> Running:
        self.finish(self._start)
        return self.finish(self.begin(code))

    def _freeze(self, table, known, moment, stack: contextlib.ExitStack, running: Running) -> str:
        """Freeze her JVM at the moment; returns the instant of her write."""
        deadline = time.monotonic() + TIMEOUT_S
        jvm = self.jvm
        if jvm is None:
            raise LabError("The colleague has no Spark.", "run the lesson from its first cell.")
        while time.monotonic() < deadline:
            halfway = _halfway(self._lab, table, known)
            while self._listen(running, 0):
                pass
            if running.ended and running.outcome != COMMITTED:
                raise LabError(f"The colleague failed: {running.outcome}", "run the cell again.")
            if halfway.completed:
                self.finish(running)
                raise LabError(
                    "The colleague's write was complete before it could be frozen.",
                    "run this cell again.",
                )
            if moment(halfway):
                freezing = contextlib.ExitStack()
                freezing.enter_context(frozen(jvm.pid))
                halfway = _settled(lambda: _halfway(self._lab, table, known))
                if moment(halfway) and not halfway.completed:
                    stack.push(freezing)
                    return halfway.requested
                freezing.close()
            time.sleep(LOOK_S)
        raise LabError("The colleague wrote nothing.", "run the lesson from its first cell again.")


@dataclass(frozen=True)
class Halfway:
    """How far a write has come, as the store shows it.

    Args:
        requested: its instant; empty before it is on the timeline.
        inflight: whether the instant is inflight.
        data: data files of the instant.
        completed: whether the instant is complete.
    """

    requested: str
    inflight: bool
    data: int
    completed: bool


def _halfway(lab, table: str, known: set[str]) -> Halfway:
    keys = [found.key for found in lab.files(table)]
    instants = [i for key in keys if (i := parse_timeline_key(key)) and i.requested not in known]
    if not instants:
        return Halfway("", False, 0, False)
    newest = max(instant.requested for instant in instants)
    states = {instant.state for instant in instants if instant.requested == newest}
    names = (key.rpartition("/")[2] for key in keys if "/.hoodie/" not in key)
    parsed = [name for name in map(parse_data_name, names) if name is not None]
    data = sum(name.instant == newest for name in parsed)
    return Halfway(newest, "inflight" in states, data, "completed" in states)


def _instants(lab, table: str) -> list:
    keys = (found.key for found in lab.files(table))
    return [instant for key in keys if (instant := parse_timeline_key(key)) is not None]


def _settled(look: Callable[[], Any]) -> Any:
    """What two looks in a row agree on."""
    before, now = None, look()
    while now != before:
        time.sleep(0.05)
        before, now = now, look()
    return now


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


def why_failed(text: str) -> str:
    """The exception of Hudi that says why a write failed, without its package and its stack.

    Args:
        text: a Python error's text, with Java's stack trace in it.
    """
    pattern = r"(?:Caused by: |^: |\n: |^)((?:[a-z]\w*\.)+(\w+(?:Exception|Error)))(?:: (.*))?"
    found = [(m[2], m[3] or "") for m in re.finditer(pattern, text)]
    if not found:
        return text.strip().splitlines()[0]
    name, why = next((f for f in found if f[0].startswith("Hoodie")), found[0])
    why = re.sub(r"(?:[a-z]\w*\.)+(\w+(?:Exception|Error))", r"\1", why)
    told = f"{name}: {why}" if why else name
    root, detail = found[-1]
    return told if root in told else f"{told} ({root}: {detail})"


def _pid_of(manager: KernelManager) -> int:
    pid = getattr(manager.provisioner, "pid", None)
    if pid is None:
        raise LabError("The colleague's notebook did not start.", "run this cell again.")
    return pid


def _kill_leftovers(namespace: str) -> None:
    left = [p for p in marked_processes() if environment_of(p).get(COLLEAGUE_MARK) == namespace]
    kill_processes(left)


def _name(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return process.name()
    return ""
