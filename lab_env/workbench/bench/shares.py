"""Turns a wall-clock profile of a writer into named shares of the time between two triggers.

A sink's streaming thread is always in exactly one share, so its shares add up to the whole. While
it waits for a job, the job's tasks decide: Spark's status says when each task ran and for which
sink, and the samples of the thread that ran it say what it did.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property

from lab_env.pipeline.sinks import HUDI_SINKS

WAITING, CORE = "waiting for the trigger", "waiting for a core"
FETCH, PYTHON, OTHER = "fetch", "Python", "other"
JOB = "a job"  # stands for the shares of its tasks
STEP = 0.01  # s

Parts = dict[str, float]  # by share
Table = tuple[tuple[str, str], ...]  # share, and what a frame of the stack looks like

# The first match wins. A job of a service counts as the service, whatever its tasks do.
GARBAGE: Table = (("garbage collection", r"GC_active|SafepointMechanism"),)
SERVICES: Table = (
    ("clean", r"hudi\.[\w.$]*(action\.clean|\.clean\b|cheduleCleaning)"),
    ("compaction", r"hudi\.[\w.$]*(action\.compact|\.compact\b|ompactIfNec|cheduleCompact)"),
    ("markers", r"hudi\.[\w.$]*Marker|FSUtils\.deleteSubPath"),
)
STREAM: Table = (
    (WAITING, r"Clock\.waitTillTime"),
    *GARBAGE,
    *SERVICES,
    ("commit", r"TableMetadataWriter"),  # with its jobs
    (JOB, r"DAGScheduler\.runJob"),
    ("commit", r"FileStreamSinkLog|ManifestFileCommitProtocol|\.hudi\."),
    ("offsets, checkpoint", r"OffsetReader|KafkaMicroBatchStream|HDFSMetadataLog|AsyncLog"),
    ("planning", r"catalyst|QueryExecution|execution\.SparkPlan|constructNextBatch|runBatch"),
)
TASK: Table = (
    *GARBAGE,
    (PYTHON, r"BasePythonRunner|PythonWorkerFactory"),
    (FETCH, r"\.kafka010\."),
    (CORE, r"ThreadPoolExecutor\.getTask"),  # Spark has launched the task, its thread still sleeps
    ("start, end of a task", r"JavaDeserializationStream|JavaSerializerInstance\.deserialize"),
    *SERVICES,
    ("combining", r"SizeEstimator|spark\.Aggregator|ExternalAppendOnlyMap|HoodieWriteHelper"),
    ("tagging", r"hudi\.index|\.tagLocation|HoodieIndex|BucketIndex"),
    ("writing", r"hudi\.(io|execution|table\.action)|OutputWriter|DataWriter|FileFormatWriter"),
    ("planning", r"expressions\.codegen"),
    ("shuffle, cache", r"spark\.(shuffle|storage)|ShuffleWriteProcessor"),
    ("start, end of a task", r"Executor\$TaskRunner\.run"),
)
# Stacks of py-spy; time between two tasks has no share.
WORKER: Table = (
    ("", r"main \([^;]*;read_int|;manager \([^;]*$"),
    ("Python: reading", r"load_stream"),
    ("Python: its function", r";func \("),
    ("Python: writing back", r"dump_stream"),
    ("Python: start", r";worker \("),
)
# In the order of a batch.
SHARES = (
    *(WAITING, "offsets, checkpoint", "planning", CORE, "start, end of a task", FETCH, PYTHON),
    *("Python: start", "Python: reading", "Python: its function", "Python: writing back"),
    *("combining", "shuffle, cache", "tagging", "writing", "markers", "commit", "clean"),
    *("compaction", "garbage collection", OTHER),
)


@dataclass
class Timeline:
    """One thread's samples in order; a sample holds until the next one."""

    name: str = ""  # the last one: Spark renames a thread for each task
    times: list[float] = field(default_factory=list)  # s since midnight
    ticks: list[int] = field(default_factory=list)  # of the profiler, with the same stack
    stacks: list[str] = field(default_factory=list)  # innermost frame first

    def at(self, moment: float) -> str:
        """Return the stack at a moment; empty before the first sample and after the last."""
        place = bisect_right(self.times, moment)
        if not place or (place == len(self.times) and moment >= self.ended):
            return ""
        return self.stacks[place - 1]

    @cached_property
    def ended(self) -> float:
        """End of the last sample, from the mean time between two ticks."""
        before = sum(self.ticks[:-1])
        pace = (self.times[-1] - self.times[0]) / before if before else STEP
        return self.times[-1] + self.ticks[-1] * pace


@dataclass(frozen=True)
class Task:
    """A Spark task; times in seconds since midnight."""

    sink: str
    began: float
    ended: float


@cache
def classify(stack: str, table: Table) -> str:
    """Return the share of a stack: the first one in the table with a matching frame."""
    return next((share for share, frames in table if re.search(frames, stack)), OTHER)


def timelines(printed: Iterable[str]) -> list[Timeline]:
    """Read the lines that `jfr print --events profiler.WallClockSample` prints."""
    found: dict[str, Timeline] = defaultdict(Timeline)
    moment, ticks, thread, frames = 0.0, 1, Timeline(), []
    for line in map(str.strip, printed):
        if line.startswith("startTime = "):
            hours, minutes, seconds = line.split()[2].split(":")
            moment = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
        elif line.startswith("sampledThread = "):
            name, _, key = line.removeprefix("sampledThread = ").rpartition(" (")
            thread, frames = found[key], []
            thread.name = name.strip('"')
        elif line.startswith("samples = "):
            ticks = int(line.split()[2])
        elif line == "}":
            thread.times.append(moment)
            thread.ticks.append(ticks)
            thread.stacks.append(";".join(frames))
        elif " line: " in line:
            frames.append(line.partition("(")[0])
    return list(found.values())


def assign(tasks: list[Task], workers: list[Timeline]) -> list[tuple[Task, Timeline]]:
    """Find the thread that ran each task: a free one that was busy, with frames of its sink."""
    found, busy_until = [], dict.fromkeys(range(len(workers)), 0.0)
    for task in sorted(tasks, key=lambda task: task.began):
        free = [number for number, until in busy_until.items() if until <= task.began + STEP]
        if free:
            chosen = max(free, key=lambda number: _fit(task, workers[number]))
            busy_until[chosen] = task.ended
            found.append((task, workers[chosen]))
    return found


def _fit(task: Task, worker: Timeline) -> int:
    stacks = [worker.at(moment) for moment in steps(task.began, task.ended)]
    own = ".hudi." if task.sink in HUDI_SINKS else "FileFormatWriter"
    return sum(("TaskRunner.run" in stack) + (own in stack) for stack in stacks)


def steps(began: float, ended: float) -> Iterable[float]:
    """Yield the moments of a window, every `STEP` seconds."""
    return (began + number * STEP for number in range(max(1, round((ended - began) / STEP))))


def seconds(
    window: tuple[float, float], threads: list[Timeline], tasks: list[Task], python: Parts
) -> dict[str, Parts]:
    """Return each sink's seconds by share; they add up to the window.

    Args:
        window: its begin and end, in seconds since midnight.
        python: how the workers' busy time divides into shares; empty if unknown.
    """
    named = ((re.match(r"stream execution thread for (\w+)", t.name), t) for t in threads)
    streams = {found[1]: thread for found, thread in named if found}
    assigned = assign(tasks, [t for t in threads if t.name.startswith("Executor task")])
    feeders = [thread for thread in threads if thread.name.startswith("stdout writer")]
    totals: dict[str, Parts] = {sink: defaultdict(float) for sink in streams}
    for moment in steps(*window):
        running = defaultdict(list)
        for task, thread in assigned:
            if task.began <= moment < task.ended:
                running[task.sink].append(classify(thread.at(moment), TASK))
        # A thread of its own fetches for each worker, and its name does not say for which. All
        # sinks fetch the same rows, so each worker waits for the same part.
        fetching = sum(".kafka010." in feeder.at(moment) for feeder in feeders)
        workers = sum(of_sink.count(PYTHON) for of_sink in running.values())
        waits = min(1.0, fetching / workers) if workers else 0.0
        for sink, stream in streams.items():
            share = classify(stream.at(moment), STREAM)
            parts = (running[sink] or [CORE]) if share == JOB else [share]
            for part in parts:
                fetched = waits if part == PYTHON else 0.0
                totals[sink][FETCH] += fetched * STEP / len(parts)
                totals[sink][part] += (1 - fetched) * STEP / len(parts)
    for total in totals.values():
        busy = total.pop(PYTHON, 0.0)
        for name, part in (python or {PYTHON: 1.0}).items():
            total[name] += busy * part
    return {sink: dict(total) for sink, total in totals.items()}


def python_parts(collapsed: Iterable[str]) -> Parts:
    """Divide the busy time in `py-spy record --format raw` into shares that add up to 1."""
    counts: Counter = Counter()
    for line in collapsed:
        stack, _, count = line.rpartition(" ")
        if (share := classify(stack, WORKER)) not in ("", OTHER):
            counts[share] += int(count)
    total = counts.total()
    return {share: count / total for share, count in counts.items()}
