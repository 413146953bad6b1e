"""Runs every mutant of an exercise's reference answer through its check, and records the results.

A mutant that passes reveals a gap in the check, unless it behaves like the answer. If so, the
lesson's source gives the reason in a cell with the option `equivalent`.
"""

import ast
import hashlib
import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nbformat
from py4j.protocol import Py4JError

from lab_env.course import registry
from lab_env.course.authoring.build import COURSE
from lab_env.course.authoring.code_lines import code_lines
from lab_env.course.authoring.kernel import CHECK, observed_kernel
from lab_env.course.authoring.mutants import mutants
from lab_env.course.exercises import Exercises, run_cell
from lab_env.course.jupyterlab import cells
from lab_env.course.outcomes import report
from lab_env.platform.errors import LabError

MUTANT_SECONDS = 90  # then it waits for something that never comes, and counts as refused
CRASHES = ("NameError", "TypeError", "AttributeError", "SyntaxError", "UnboundLocalError")
ENDED = "ended Spark"
TRY = """
from lab_env.course.authoring.mutation import try_mutants

try_mutants("{id}", {begin}, globals())
"""


@dataclass(frozen=True)
class Trial:
    """The results of an exercise's mutants; `survived` has a description of each that passed.

    `refused` counts those that failed the check or ended Spark, `crashed` those that raised a name,
    type, attribute or syntax error.
    """

    of: str
    refused: int
    crashed: int
    survived: tuple[str, ...]

    @property
    def tried(self) -> int:
        return self.refused + self.crashed + len(self.survived)


def fingerprint(exercise: registry.Exercise) -> str:
    """Hash the reference answer and the lesson's checks, ignoring imports and docstrings."""
    text = (COURSE.lesson(exercise.id[:2]) / "checks.py").read_text(encoding="utf-8")
    code = "\n".join([exercise.solution, *code_lines(text)])
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def recorded(lesson: str) -> dict[str, Trial]:
    """Read a lesson's recorded trials, by exercise; empty if there are none."""
    path = _record_of(lesson)
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {
        name: Trial(**(trial | {"survived": tuple(trial["survived"])}))
        for name, trial in kept.items()
    }


def _record_of(lesson: str) -> Path:
    return COURSE.lesson(lesson) / "mutants.json"


def keep(trials: dict[str, Trial]) -> None:
    """Save trials of one lesson's exercises, replacing their earlier trials."""
    [lesson] = {name[:2] for name in trials}
    kept = dict(sorted((recorded(lesson) | trials).items()))
    text = json.dumps({name: asdict(trial) for name, trial in kept.items()}, indent=1)
    _record_of(lesson).write_text(text + "\n", encoding="utf-8")


def try_all(chosen: str, say: Callable[[str], None]) -> dict[str, Trial]:
    """Run a lesson's worked notebook; after each chosen exercise's cell, run its mutants.

    `chosen` is a lesson, `05`, or an exercise, `05.1`.
    """
    entry = registry.lessons().get(chosen[:2])
    ids = [x.id for x in entry.exercises if x.id.startswith(chosen)] if entry else []
    if entry is None or not ids:
        raise LabError(f"There is no lesson or exercise {chosen!r}.", "see lab.progress().")
    notebook = nbformat.read(COURSE.worked / f"{entry.name}.ipynb", as_version=4)
    counts = {name: len(mutants(registry.exercise(name).solution)) for name in ids}
    # Before the run: a change made meanwhile was not tried.
    hashes = {name: fingerprint(registry.exercise(name)) for name in ids}
    facts: list[dict[str, Any]] = []
    while left := {n: tried for n in ids if (tried := len(_of(n, facts))) < counts[n]}:
        found: list[dict[str, Any]] = []
        try:
            with observed_kernel(COURSE.worked) as (client, found):
                _run_to_the_last(client, notebook, left, counts, say)
        except LabError:
            if not any(fact.get("outcome") == ENDED for fact in found):
                raise
            say("A mutant has ended Spark: the notebook runs again.")
        facts += found
    return {name: _trial_of(name, hashes[name], facts) for name in ids}


def _run_to_the_last(
    client: Any,
    notebook: nbformat.NotebookNode,
    begins: dict[str, int],
    counts: dict[str, int],
    say: Callable[[str], None],
) -> None:
    """Run a notebook to the last chosen exercise; `begins` has each one's first mutant to try."""
    waiting = set(begins)
    for cell in notebook.cells:
        if not waiting:
            return
        if cell.cell_type != "code":
            continue
        cells.run_cell(client, cell, cells.CELL_TIMEOUT_S)
        checked = CHECK.search(cell.source)
        if checked and (name := checked[1]) in waiting:
            waiting.remove(name)
            say(f"{name}: {counts[name] - begins[name]} mutants")
            trial = nbformat.v4.new_code_cell(TRY.format(id=name, begin=begins[name]))
            cells.run_cell(client, trial, counts[name] * MUTANT_SECONDS)


def _of(exercise_id: str, facts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [f for f in facts if f.get("exercise") == exercise_id and "mutant" in f]


def _trial_of(exercise_id: str, of: str, facts: Iterable[dict[str, Any]]) -> Trial:
    own = _of(exercise_id, facts)
    kinds = Counter(fact["outcome"] for fact in own)
    survived = tuple(fact["mutant"] for fact in own if fact["outcome"] == "passed")
    return Trial(of, kinds["refused"] + kinds[ENDED], kinds["crashed"], survived)


def try_mutants(exercise_id: str, begin: int, namespace: dict[str, Any]) -> None:
    """Run mutants with copies of the notebook's variables, and report the check's verdict on each.

    If a mutant ends Spark's JVM, report it as refused and raise a LabError.
    """
    exercises: Exercises = namespace["lab"].exercises
    exercise = registry.exercise(exercise_id)
    if exercise_id not in exercises.solved:
        raise LabError(f"The reference answer of {exercise_id} does not pass.", "mend its check.")
    for mutant in mutants(exercise.solution)[begin:]:
        began = time.monotonic()
        kind, text = outcome_of(mutant.code, exercise, exercises, namespace)
        dead = not _runs(namespace.get("spark"))
        kind = ENDED if dead else kind
        seconds = round(time.monotonic() - began, 1)
        report(
            exercise=exercise_id,
            mutant=mutant.change,
            operator=mutant.operator,
            outcome=kind,
            text=text,
            seconds=seconds,
        )
        if dead:
            raise LabError("Spark's JVM has ended.", "run the notebook again.")


def _runs(spark: Any) -> bool:
    """True if the session's JVM responds; Hudi's streaming sink exits the JVM if a batch fails."""
    try:
        return spark is None or bool(spark.sparkContext._jvm.System.currentTimeMillis())
    except (Py4JError, OSError):
        return False


def outcome_of(
    code: str, exercise: registry.Exercise, exercises: Exercises, namespace: dict[str, Any]
) -> tuple[str, str]:
    """Run an answer and its check; return `passed`, `refused` or `crashed`, and the card's text."""
    own = {k: v for k, v in namespace.items() if k not in _set_by(exercise.solution)}
    spark = namespace.get("spark")
    others = {query.id for query in spark.streams.active} if spark else set()
    try:
        with _at_most(MUTANT_SECONDS):
            run_cell(code, f"<mutant of {exercise.id}>", own)
            outcome = exercises.judge(exercise.id, eval(exercise.answer, own))
        kind, text = outcome.kind, outcome.text
    except Exception as error:
        kind, text = "error in your code", f"{type(error).__name__}: {error}"
    finally:
        with suppress(Py4JError, OSError):  # the JVM may have ended
            for query in spark.streams.active if spark else ():
                if query.id not in others:
                    query.stop()
    if kind == "passed":
        return "passed", text
    crashed = kind == "error in your code" and text.startswith(CRASHES)
    return ("crashed" if crashed else "refused"), text


def _set_by(answer: str) -> set[str]:
    """Return the variables that the reference answer assigns; mutants must not see their values."""
    targets = [
        target
        for line in ast.parse(answer).body
        if isinstance(line, ast.Assign)
        for target in line.targets
    ]
    return {
        name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
    }


@contextmanager
def _at_most(seconds: int) -> Generator[None]:
    """Raise TimeoutError in the body after this time; works only in the main thread."""

    def end(*_: object) -> None:
        raise TimeoutError(f"It did not end within {seconds} s.")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
