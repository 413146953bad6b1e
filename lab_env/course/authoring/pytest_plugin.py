"""A pytest plugin that tests the exercises of every notebook that nbmake runs.

In a learner's notebook, every exercise must report `not attempted`. In a worked notebook, every
exercise must pass. With `--other-answers`, the learner's cells must also run with a right answer
other than the reference, and in the worked notebook each declared right answer must pass and each
wrong one get its own message. `pyproject.toml` enables the
plugin, so `pytest --nbmake notebooks solutions` tests all of this.
"""

import json
import os
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import psutil
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbmake import nb_run
from nbmake.pytest_items import NotebookItem

from lab_env.course.authoring import times, tried
from lab_env.course.authoring.executed import keep
from lab_env.course.authoring.kernel import CHECK
from lab_env.course.registry import Exercise, LessonEntry, lessons
from lab_env.course.sections import ENTRY_LIMIT_S, sections
from lab_env.platform.jvm import EXIT_SECONDS, MemoryUse, nearly_full

# Processor seconds of a kernel and its Spark, without the other answers: limits of a folder's
# average, and of each notebook. They depend less on the machine's other work than elapsed seconds.
BUDGETS = {"notebooks": (42, 60), "solutions": (60, 80)}
DEMO_SECONDS = 60
# Notebooks that start several Sparks: the cluster, the learner's own pipeline, streams to kill.
LONG, LONG_SECONDS = ("21", "22", "exactly-once"), 150
MARGIN = 1.5  # beside other work a notebook uses half as much again
FEWEST = 10  # notebooks by which a machine is compared with that of the recorded run
# Elapsed seconds until a section can begin, where `ENTRY_LIMIT_S` is too few: what 15e looks back
# on are the failures of the section above it, a killed connector, a lost slot and a new snapshot.
LATE_SECTIONS = {"15e": 90}
SLOWEST = 5  # lessons whose time to enter is printed


# Runs in the notebook's kernel when its last cell is done: the memory of its JVM, if it has one.
PRINT_MEMORY = """
import json
import sys
from dataclasses import astuple

from lab_env.platform.jvm import memory_use

if "pyspark" in sys.modules and (gateway := sys.modules["pyspark"].SparkContext._gateway):
    print(json.dumps({name: astuple(use) for name, use in memory_use(gateway.jvm).items()}))
else:
    print("{}")
"""


# Runs in the kernel of a worked notebook after the cell of an exercise.
TRIAL_SECONDS = 600  # for all answers of one exercise
TRY_ANSWERS = """
from lab_env.course.authoring.other_answers import try_answers

try_answers("{id}", globals())
"""

GO_ON = """
from lab_env.course.authoring.other_answers import go_on_with_right_answers

go_on_with_right_answers()
"""


TRIED_BEFORE = pytest.StashKey[dict[str, str]]()

# An executed notebook, and its JVM's memory at the end.
Executed = tuple[NotebookNode, dict[str, MemoryUse]]


class NotProven(Exception):
    """A notebook ran, but an exercise, proof or process failed its test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--other-answers`."""
    what = "other answers of worked notebooks to try: all, or those changed since they were tried"
    parser.addoption("--other-answers", choices=("all", "changed"), default="all", help=what)


def pytest_configure(config: pytest.Config) -> None:
    """Read which answers were tried before this run, which records what it tries."""
    config.stash[TRIED_BEFORE] = tried.recorded()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    """Run a notebook, record its checks and processes, then test the results."""
    if not isinstance(item, NotebookItem):
        return (yield)
    worked, began = item.path.parent.name == "solutions", datetime.now(UTC)
    entry = lessons().get(item.path.stem[:2])
    tried_as = tried.fingerprint(entry.number) if entry else ""
    others = entry is not None and _are_to_try(item.config, entry.number, tried_as)
    with tempfile.TemporaryDirectory(prefix="lab-proof-") as folder:
        outcomes = Path(folder) / "outcomes.jsonl"
        observed = {
            "LAB_OUTCOMES": str(outcomes),
            "LAB_PROGRESS": str(Path(folder) / "progress.json"),
            "LAB_STRICT": str(int(worked)),
            "LAB_ERROR_CARDS": "0",  # nbmake takes a cell whose error is a card for a good one
            # A kernel of the user's own must not win over the one of this environment.
            "JUPYTER_PREFER_ENV_PATH": "1",
        }
        runs: list[Executed] = []
        environment = patch.dict(os.environ, observed)
        with environment, _processes() as used, _noted(runs, worked, others, used):
            result = yield
        lines = outcomes.read_text("utf-8").splitlines() if outcomes.exists() else []
    own = used.seconds() - used.parts.get(times.OTHERS, {}).get("processor", 0.0)
    item.user_properties.append(("processor_seconds", own))
    facts = [json.loads(line) for line in lines]
    item.user_properties.append(
        (times.PARTS, {"parts": used.parts, "checks": check_seconds(facts)})
    )
    notebook, memory = runs[-1]
    wrong = nearly_full(memory) + used.left_behind() + failed_proofs(facts)
    if entry:
        about = [fact for fact in facts if "exercise" in fact]
        wrong += shortcomings(entry, worked, about, others)
    if wrong:
        raise NotProven(f"{item.path.name}: " + "; ".join(wrong))
    if entry and worked and others:
        tried.keep(entry.number, tried_as)
    if entry and not worked:
        entered = entry_seconds(entry.number, notebook, began)
        item.user_properties.append(("entry_seconds", entered))
    notebook.metadata["processor_seconds"] = round(own, 1)
    keep(notebook, item.path)
    return result


def _are_to_try(config: pytest.Config, lesson: str, fingerprint: str) -> bool:
    unchanged = config.stash[TRIED_BEFORE].get(lesson) == fingerprint
    return config.getoption("other_answers") == "all" or not unchanged


def check_seconds(facts: list[dict]) -> dict[str, float]:
    """Return the seconds of each passed check of a notebook's own answer."""
    return {
        f["exercise"]: f["seconds"] for f in facts if f["outcome"] == "passed" and "seconds" in f
    }


def failed_proofs(facts: list[dict]) -> list[str]:
    """Return the failed proofs; in a learner's notebook they only show a card, without an error."""
    return [f"{f['proof']} {f['text']}" for f in facts if f["outcome"] == "differs"]


def shortcomings(
    entry: LessonEntry, worked: bool, facts: list[dict], others: bool = True
) -> list[str]:
    """Return a sentence for each exercise whose reported results are not the required ones.

    `others`: the worked notebook must have tried the other answers.
    """
    found = []
    known = {exercise.id for exercise in entry.exercises}
    checks = [fact for fact in facts if not {"right", "wrong"} & fact.keys()]
    wanted = "passed" if worked else "not attempted"
    for exercise in entry.exercises:
        kinds = [fact["outcome"] for fact in checks if fact["exercise"] == exercise.id]
        if not kinds or set(kinds) != {wanted}:
            found.append(f"exercise {exercise.id} is {', '.join(kinds) or 'not checked'}")
        if worked and others:
            found += _misjudged(exercise, facts)
    found += [f"{name} is no exercise" for name in {f["exercise"] for f in checks} - known]
    return found


def _misjudged(exercise: Exercise, facts: list[dict]) -> Iterator[str]:
    """Yield a sentence per right answer that did not pass, or wrong one without its own message."""
    for number in range(len(exercise.right)):
        for name, fact in _tried(exercise, "right", number, facts):
            if fact["outcome"] != "passed":
                yield f"{name}: {fact['outcome']} {fact['text']}".strip()
    for number, wrong in enumerate(exercise.wrong):
        for name, fact in _tried(exercise, "wrong", number, facts):
            if fact["outcome"] not in ("not yet", "error in your code"):
                yield f"{name}: {fact['outcome']} {fact['text']}".strip()
            elif wrong.expect not in fact["text"]:
                yield f"{name} got {fact['text']!r} instead of {wrong.expect!r}"


def _tried(
    exercise: Exercise, kind: str, number: int, facts: list[dict]
) -> Iterator[tuple[str, dict]]:
    name = f"{kind} answer {number + 1} of {exercise.id}"
    never = {"outcome": "was not tried", "text": ""}
    found = [f for f in facts if (f["exercise"], f.get(kind)) == (exercise.id, number)]
    for fact in found or [never]:
        yield name, fact


def entry_seconds(lesson: str, executed: NotebookNode, began: datetime) -> dict[str, float]:
    """Return the seconds until each section is ready, by section name, not counting proofs."""
    first = next(cell for cell in executed.cells if cell.cell_type == "code")
    start = _time(first, "iopub.status.busy") - began
    return {
        section.name: sum(map(_duration, section.cells_above(executed)), start).total_seconds()
        for section in sections(lesson)
    }


def _duration(cell: NotebookNode) -> timedelta:
    return _time(cell, "shell.execute_reply") - _time(cell, "iopub.status.busy")


def _time(cell: NotebookNode, event: str) -> datetime:
    return datetime.fromisoformat(cell.metadata["execution"][event])


def slowness(seconds: dict[str, float], recorded: times.Run) -> float:
    """Return how much slower this machine is than that of the recorded run; 1 if it is not.

    It is the median over the notebooks, so one that has become dearer does not hide itself.
    """
    before = {
        name: sum(cost.processor for part, cost in of.parts.items() if part != times.OTHERS)
        for name, of in recorded.notebooks.items()
    }
    ratios = [
        used / before[file]
        for name, used in seconds.items()
        if before.get(file := name.partition("::")[0])
    ]
    return max(1.0, median(ratios)) if len(ratios) >= FEWEST else 1.0


def late_sections(seconds: dict[str, float], processes: int, margin: float = 1.0) -> list[str]:
    """Return a sentence for each section that takes too long to enter.

    The limits are multiplied by the number of test processes, which share the machine.
    """
    return [
        f"Section {name} begins after {value:.0f} s; {most} s is the most."
        for name, value in sorted(seconds.items())
        if value > margin * (most := processes * _most_seconds_to_enter(name))
    ]


def _most_seconds_to_enter(section: str) -> float:
    most = LONG_SECONDS if section.startswith(LONG) else ENTRY_LIMIT_S
    return LATE_SECTIONS.get(section, most)


def over_budget(seconds: dict[str, float], margin: float = 1.0) -> list[str]:
    """Return a sentence for each notebook, and each folder's average, that exceeds its limit."""
    found = [
        f"{name} used {value:.0f} s; {most:g} s is the most."
        for name, value in sorted(seconds.items())
        if value > margin * (most := _most_seconds(name))
    ]
    for folder, mean in means_of_lessons(seconds).items():
        if mean > margin * (most := BUDGETS[folder][0]):
            found.append(f"The average of {folder} is {mean:.1f} s; {most:g} s is the most.")
    return found


def _most_seconds(name: str) -> float:
    if Path(name).name.startswith(LONG):
        return LONG_SECONDS
    return DEMO_SECONDS if _is_demo(name) else BUDGETS[name.partition("/")[0]][1]


def _is_demo(name: str) -> bool:
    return "demos/" in name


def means_of_lessons(seconds: dict[str, float]) -> dict[str, float]:
    """Return the lessons' average CPU seconds per folder, not counting the short demos."""
    lessons = {name: used for name, used in seconds.items() if not _is_demo(name)}
    kinds = {
        folder: [used for name, used in lessons.items() if name.startswith(f"{folder}/")]
        for folder in BUDGETS
    }
    return {folder: sum(used) / len(used) for folder, used in kinds.items() if used}


def pytest_terminal_summary(terminalreporter) -> None:
    """Print the notebooks' times and those that exceed their limits."""
    if not (measured := _measured(terminalreporter)):
        return
    say = terminalreporter.write_line
    terminalreporter.section("notebooks")
    say("processor   elapsed")
    for name, of in sorted(measured.items()):
        say(f"{of['processor_seconds']:7.1f} s {of['elapsed']:7.1f} s  {name}")
    for folder, mean in means_of_lessons(_seconds(measured)).items():
        say(f"{mean:7.1f} s  on average in {folder}")
    held = f"held up to {MARGIN} times of it" if _budget_is_strict() else "not held"
    limits = ", ".join(
        f"{folder} {mean} on average and {most} at most" for folder, (mean, most) in BUDGETS.items()
    )
    say(
        f"The budget in processor seconds ({limits}, a demo {DEMO_SECONDS},"
        f" {', '.join(LONG)} {LONG_SECONDS}) is {held}."
    )
    say(
        f"The last sections that take longest to enter ({ENTRY_LIMIT_S} s of elapsed time for each"
        f" of {processes_of(terminalreporter.config)} test processes, {held}):"
    )
    last = {name[:2]: (value, name) for name, value in sorted(_entered(measured).items())}
    for value, name in sorted(last.values(), reverse=True)[:SLOWEST]:
        say(f"{value:7.1f} s  {name}")
    slower = _slowness(measured)
    say(f"Notebooks took {slower:.2f} times the processor seconds of the recorded run; so may all.")
    for sentence in _exceeded(measured, terminalreporter.config):
        say(f"over budget: {sentence}", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if the budget is strict and is exceeded by more than the margin."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not _budget_is_strict():  # a worker of pytest-xdist has no reporter
        return
    if _exceeded(_measured(reporter), session.config, MARGIN):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def _measured(reporter) -> dict[str, dict[str, Any]]:
    """Return the times of notebooks that ran to completion, from all test processes."""
    reports = (report for reports in reporter.stats.values() for report in reports)
    measured = {
        report.nodeid: {"elapsed": report.duration, **dict(report.user_properties)}
        for report in reports
        if getattr(report, "when", "") == "call"
    }
    return {name: of for name, of in measured.items() if "processor_seconds" in of}


def _entered(measured: dict[str, dict[str, Any]]) -> dict[str, float]:
    return {k: v for of in measured.values() for k, v in of.get("entry_seconds", {}).items()}


def _exceeded(measured: dict[str, dict], config: pytest.Config, margin: float = 1) -> list[str]:
    margin *= _slowness(measured)
    late = late_sections(_entered(measured), processes_of(config), margin)
    return over_budget(_seconds(measured), margin) + late


def _slowness(measured: dict[str, dict]) -> float:
    return slowness(_seconds(measured), times.read(times.RECORDED))


def _seconds(measured: dict[str, dict]) -> dict[str, float]:
    return {name: of["processor_seconds"] for name, of in measured.items()}


def processes_of(config: pytest.Config) -> int:
    """Return the number of test processes; 1 without pytest-xdist."""
    return config.getoption("numprocesses", default=None) or 1


def _budget_is_strict() -> bool:
    return os.environ.get("NOTEBOOK_BUDGET") == "strict"


@contextmanager
def _noted(runs: list[Executed], worked: bool, others: bool, used: "_Processes") -> Generator[None]:
    """Collect the notebooks that nbmake executes, and try the other answers after each exercise.

    This patches nbmake's client, because nbmake can save its result only by overwriting the source.
    """

    class Noted(NotebookClient):
        async def async_execute_cell(self, cell: NotebookNode, cell_index: int, *args, **options):
            if others and not worked and cell_index == 0:
                await self._run(GO_ON, 60)
            executed = await super().async_execute_cell(cell, cell_index, *args, **options)
            if cell.cell_type == "code":
                used.spent(times.CELLS if used.parts else times.START)
            if others and worked and (check := CHECK.search(cell.source)):
                await self._run(TRY_ANSWERS.format(id=check[1]), TRIAL_SECONDS)
                used.spent(times.OTHERS)
            if cell_index == len(self.nb.cells) - 1:  # later its kernel is gone
                runs.append((self.nb, await self._memory()))
            return executed

        async def _memory(self) -> dict[str, MemoryUse]:
            printed = await self._run(PRINT_MEMORY, 30)
            return {name: MemoryUse(*use) for name, use in json.loads(printed).items()}

        async def _run(self, code: str, seconds: int) -> str:
            """Run code in the kernel outside the notebook's cells; return its printed output."""
            printed: list[str] = []

            def keep_output(message: dict) -> None:
                printed.append(message["content"].get("text", ""))

            client: Any = self.kc  # annotated as one of several kinds, or none
            reply = await client.execute_interactive(
                code, store_history=False, output_hook=keep_output, timeout=seconds
            )
            if reply["content"]["status"] == "error":
                raise NotProven("\n".join(reply["content"]["traceback"]))
            return "".join(printed)

    with patch.object(nb_run, "NotebookClient", Noted):
        yield


class _Processes:
    """The kernel of a notebook, and its descendants in the same process session.

    The lab's services run in process sessions of their own and are not counted.
    """

    def __init__(self):
        self._this = psutil.Process()
        self._before = set(self._this.children())
        self._seconds: dict[psutil.Process, float] = {}
        self._spent = (0.0, time.monotonic())
        self.parts: dict[str, dict[str, float]] = {}

    def spent(self, part: str) -> None:
        """Count the processor and elapsed seconds since the last call to a part of the notebook."""
        self.look()
        before, self._spent = self._spent, (self.seconds(), time.monotonic())
        kept = self.parts.setdefault(part, {"processor": 0.0, "elapsed": 0.0})
        for name, then, now in zip(kept, before, self._spent, strict=True):
            kept[name] += now - then

    def look(self) -> None:
        """Record the current processes and the CPU time that each has used."""
        for kernel in set(self._this.children()) - self._before:
            with suppress(psutil.Error, OSError):
                for process in (kernel, *kernel.children(recursive=True)):
                    if os.getsid(process.pid) == kernel.pid:
                        times = process.cpu_times()
                        self._seconds[process] = times.user + times.system

    def seconds(self) -> float:
        return sum([*self._seconds.values()])  # a copy: the watcher may add to it

    def left_behind(self) -> list[str]:
        """Kill processes still alive after twice `EXIT_SECONDS`; return a sentence about each."""
        _, left = psutil.wait_procs(self._seconds, timeout=2 * EXIT_SECONDS)
        said = []
        for process in left:
            with suppress(psutil.NoSuchProcess):
                said.append(f"{process.name()} ({process.pid}) outlives the notebook's kernel")
                process.kill()
        return said


@contextmanager
def _processes() -> Generator[_Processes]:
    noted = _Processes()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            noted.look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield noted
    finally:
        ended.set()
        watcher.join()
