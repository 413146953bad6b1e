"""Profiles the writer under the tour's load: where do the seconds between two triggers go?

async-profiler samples the threads of the writer's JVM, py-spy its Python workers.
"""

import json
import platform
import signal
import subprocess
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from zipfile import ZipFile

from lab_env.lab.handle import Lab, reset_lesson
from lab_env.lessons.recorded import SINKS
from lab_env.lessons.recorded.profile import profile_chart, share_table
from lab_env.pipeline.handle import Writer
from lab_env.platform import services
from lab_env.platform.brokers import broker
from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import Progress, cache
from lab_env.platform.install.jars import fetch_jars, jar_folder
from lab_env.platform.install.java import java_home
from lab_env.platform.install.versions import versions
from lab_env.platform.install.wheels import fetch_wheel
from lab_env.platform.settings import settings
from lab_env.workbench.bench import shares
from lab_env.workbench.bench.machine import stamp
from lab_env.workbench.bench.rounds import NAMESPACE
from lab_env.workbench.tour.tour import RATE, SECONDS, start_writer

DAY = 86_400  # s
PRINT = ("print", "--events", "profiler.WallClockSample", "--stack-depth", "2048")
FLAMES = ("--wall", "--threads", "--output", "html", "--include")
IN_FLAMES = ".*(stream execution thread|Executor task|stdout writer|AsyncCompact).*"


def profile_tour(target: Path, report_progress: Progress = print) -> dict:
    """Profile a writer under the tour's load; save picture, flame graph and figures in `target`.

    Returns:
        `made`, `cores`, `problems`; the number of `batches` of each sink of `SINKS`; and by sink
        and share the `seconds` between two triggers, which add up to the mean time between them.

    Raises:
        LabError: the master is not local; the Java is no JDK, whose jcmd attaches the profiler and
            whose jfr reads its file; or the clock passed midnight (UTC), because samples have no
            date.
    """
    jdk = java_home() / "bin"
    if not settings().spark_master.startswith("local"):
        raise LabError("Executors in other processes are not profiled.", "unset LAB_SPARK_MASTER.")
    if not all((jdk / tool).exists() for tool in ("jcmd", "jfr")):
        raise LabError(f"{java_home()} has no jcmd or no jfr.", "set JAVA_HOME to a JDK 17.")
    target.mkdir(exist_ok=True)
    fetch_jars("profiler", report_progress)
    spy = cache() / f"py-spy-{versions()['wheels']['py-spy']['version']}"
    fetch_wheel("py-spy", spy, report_progress)
    samples, stacks = target / "writer.jfr", target / "workers.txt"
    reset_lesson(NAMESPACE)
    lab, source = Lab(NAMESPACE, services.endpoints()), settings().source
    topic, writer = lab.topic("profile"), lab.writer("profile")
    broker.ensure_topic(lab.endpoints.broker(source), topic)
    try:
        start_writer(writer, lab, topic, SECONDS)
        writer.wait_first_batches()
        report_progress(f"{RATE} events/s for {SECONDS} s")
        load = lab.load(topic, source, users=10, show=False, seconds=SECONDS, rate=RATE)
        with load, _sampling(writer, jdk / "jcmd", samples, spy / "bin/py-spy", stacks):
            before, began = len(writer.progress()), time.time() % DAY
            while load.running:
                time.sleep(0.5)
            batches, ended = writer.progress()[before:]["sink"].value_counts(), time.time() % DAY
        tasks = _tasks(writer.state()["ui"])
    finally:
        writer.stop()
        reset_lesson(NAMESPACE)
    if ended < began:
        raise LabError("The clock passed midnight, UTC.", "run it again.")
    report_progress("reading the samples ...")
    threads = shares.timelines(_run(jdk / "jfr", *PRINT, samples).splitlines())
    python = shares.python_parts(stacks.read_text().splitlines() if stacks.exists() else [])
    found = shares.seconds((began, ended), threads, tasks, python)
    number = {sink: max(1, int(batches.get(sink, 0))) for sink in SINKS}
    result = stamp() | {
        "problems": [] if python else ["py-spy could not read the Python workers."],
        "batches": number,
        "seconds": {s: _per_batch(found[s], number[s]) for s in SINKS},
    }
    (target / "profile.json").write_text(json.dumps(result, indent=1))
    (target / "profile.svg").write_text(profile_chart(result))
    converter, flames = f"{jar_folder('profiler')}/*", target / "flames.html"
    _run(jdk / "java", "-cp", converter, "Main", *FLAMES, IN_FLAMES, samples, flames)
    report_progress(f"picture: {target / 'profile.svg'} · flame graph: {flames}")
    return result


def _per_batch(seconds: shares.Parts, batches: int) -> shares.Parts:
    """Divide each share's seconds by the number of batches; all shares, in a batch's order."""
    return {name: round(seconds.get(name, 0.0) / batches, 4) for name in shares.SHARES}


def _run(*command: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, env={"TZ": "UTC", "LC_ALL": "C"})
    if done.returncode:
        raise LabError(f"{words[0]} failed.", "run it again.", done.stderr or done.stdout)
    return done.stdout


@contextmanager
def _sampling(
    writer: Writer, jcmd: Path, samples: Path, spy: Path, stacks: Path
) -> Generator[None]:
    """Sample a writer's JVM and workers during the body; without permission, not the workers."""
    java = next(process for process in writer.processes() if "java" in process.name())
    arm = platform.machine() in ("aarch64", "arm64")
    system = "macos" if platform.system() == "Darwin" else f"linux-{'arm64' if arm else 'x64'}"
    with ZipFile(next(jar_folder("profiler").glob("async-profiler-*.jar"))) as jar:
        library = jar.extract(f"{system}/libasyncProfiler.so", samples.parent)

    def order(options: str) -> None:
        # The inner quotes are jcmd's: it would split the options at their commas.
        _run(jcmd, java.pid, "JVMTI.agent_load", library, f'"{options}"')

    stacks.unlink(missing_ok=True)
    daemon = next(child for child in java.children() if "python" in child.name().lower())
    record = [spy, "record", "--subprocesses", "--format", "raw", "--output", stacks]
    record += ["--pid", str(daemon.pid)]
    order(f"start,event=wall,interval=5ms,threads,file={samples}")
    spying = subprocess.Popen(record, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        spying.send_signal(signal.SIGINT)  # it writes its file
        order("stop")
        spying.wait(60)


def _tasks(ui: str) -> list[shares.Task]:
    """Read the finished tasks of the only application from Spark's REST API."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def read(path: str) -> list[dict]:
        return json.load(opener.open(f"{ui}/api/v1/applications{path}", timeout=120))

    found = []
    for stage in read(f"/{read('')[0]['id']}/stages?details=true"):
        for task in (stage.get("tasks") or {}).values():
            if "duration" in task:
                launch = datetime.fromisoformat(task["launchTime"].replace("GMT", "+00:00"))
                began = launch.timestamp() % DAY
                # A busy driver notices the end late, when the thread has another task.
                ended = began + (task["duration"] - task["schedulerDelay"]) / 1000
                found.append(shares.Task(stage["schedulingPool"], began, ended))
    return found


def text_table(result: dict) -> str:
    """Return the shares for the terminal, with the sum of each column."""
    frame = share_table(result)
    frame.loc["between two triggers, s"] = frame.sum()
    return frame.to_string(float_format="{:.2f}".format)
