"""Runs every mutant of an exercise's reference answer through its check, and records the results.

There are two families. A mutant of the code has one change in the answer's code; an effect mutant
is the answer unchanged, and what it yields is disturbed. A mutant that passes reveals a gap in the
check, unless nobody can tell it from the answer. If so, the lesson's source gives the reason in a
cell with the option `equivalent` or `harmless`.
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
from typing import Any

import nbformat
from py4j.protocol import Py4JError

from lab_env.course import registry
from lab_env.course.authoring.build import COURSE
from lab_env.course.authoring.code_lines import code_of_check
from lab_env.course.authoring.effects import Disturbed
from lab_env.course.authoring.kernel import CHECK, observed_kernel
from lab_env.course.authoring.mutants import Mutant, mutants
from lab_env.course.exercises import Exercises, run_cell
from lab_env.course.jupyterlab import cells
from lab_env.course.outcomes import report
from lab_env.platform.errors import LabError

MOST_MUTANTS = 200  # of one exercise
MUTANT_SECONDS = 90  # then it waits for something that never comes, and counts as refused
CRASHES = ("NameError", "TypeError", "AttributeError", "SyntaxError", "UnboundLocalError")
ENDED = "ended Spark"
TRY = """
from lab_env.course.authoring.mutation import try_mutants

try_mutants("{id}", "{family}", {begin}, globals())
"""
CODE, EFFECTS = FAMILIES = ("code", "effects")
RECORDS = {CODE: "mutants.json", EFFECTS: "effects.json"}
ABSENT = "did not happen"  # such as a row less, when there was none


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
    """Hash the reference answer and the code of its check, ignoring imports and docstrings."""
    text = (COURSE.lesson(exercise.id[:2]) / "checks.py").read_text(encoding="utf-8")
    code = f"{exercise.solution}\n{code_of_check(text, exercise.id)}"
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def recorded(lesson: str, family: str = CODE) -> dict[str, Trial]:
    """Read a lesson's recorded trials, by exercise; empty if there are none."""
    path = COURSE.lesson(lesson) / RECORDS[family]
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {
        name: Trial(**(trial | {"survived": tuple(trial["survived"])}))
        for name, trial in kept.items()
    }


def keep(family: str, trials: dict[str, Trial]) -> None:
    """Save trials of one lesson's exercises, replacing their earlier trials."""
    [lesson] = {name[:2] for name in trials}
    kept = dict(sorted((recorded(lesson, family) | trials).items()))
    text = json.dumps({name: asdict(trial) for name, trial in kept.items()}, indent=1)
    (COURSE.lesson(lesson) / RECORDS[family]).write_text(text + "\n", encoding="utf-8")


def try_all(chosen: str, say: Callable[[str], None]) -> dict[str, dict[str, Trial]]:
    """Run a lesson's worked notebook; after each chosen exercise's cell, run its mutants.

    `chosen` is a lesson, `05`, or an exercise, `05.1`. Returns each family's trials by exercise.
    """
    entry = registry.lessons().get(chosen[:2])
    ids = [x.id for x in entry.exercises if x.id.startswith(chosen)] if entry else []
    if entry is None or not ids:
        raise LabError(f"There is no lesson or exercise {chosen!r}.", "see lab.progress().")
    notebook = nbformat.read(COURSE.worked / f"{entry.name}.ipynb", as_version=4)
    # Before the run: a change made meanwhile was not tried.
    hashes = {name: fingerprint(registry.exercise(name)) for name in ids}
    facts: list[dict[str, Any]] = []
    while left := _left(ids, facts):
        found: list[dict[str, Any]] = []
        try:
            with observed_kernel(COURSE.worked) as (client, found):
                _run_to_the_last(client, notebook, left, say)
        except LabError:
            if not any(fact.get("outcome") == ENDED for fact in found):
                raise
            say("A mutant has ended Spark: the notebook runs again.")
        facts += found
    return {
        family: {name: _trial_of(name, family, hashes[name], facts) for name in ids}
        for family in FAMILIES
    }


def _left(ids: list[str], facts: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return by exercise and family the first mutant that was not tried yet, where one is left."""
    begins: dict[str, dict[str, int]] = {}
    for name in ids:
        for family in FAMILIES:
            found = _of(name, family, facts)
            tried = sum("mutant" in fact for fact in found)
            if not found or tried < found[-1]["of"]:
                begins.setdefault(name, {})[family] = tried
    return begins


def _run_to_the_last(
    client: Any,
    notebook: nbformat.NotebookNode,
    begins: dict[str, dict[str, int]],
    say: Callable[[str], None],
) -> None:
    """Run a notebook to the last chosen exercise, and each one's mutants from where they begin."""
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
            for family, begin in begins[name].items():
                say(f"{name}: mutants of its {family}")
                code = TRY.format(id=name, family=family, begin=begin)
                trial = nbformat.v4.new_code_cell(code)
                cells.run_cell(client, trial, MOST_MUTANTS * MUTANT_SECONDS)


def _of(exercise_id: str, family: str, facts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [f for f in facts if f.get("exercise") == exercise_id and f.get("family") == family]


def _trial_of(exercise_id: str, family: str, of: str, facts: Iterable[dict[str, Any]]) -> Trial:
    own = _of(exercise_id, family, facts)
    kinds = Counter(fact["outcome"] for fact in own)
    survived = tuple(fact["mutant"] for fact in own if fact["outcome"] == "passed")
    return Trial(of, kinds["refused"] + kinds[ENDED], kinds["crashed"], survived)


def try_mutants(exercise_id: str, family: str, begin: int, namespace: dict[str, Any]) -> None:
    """Run mutants with copies of the notebook's variables, and report the check's verdict on each.

    If a mutant ends Spark's JVM, report it as refused and raise a LabError.
    """
    exercises: Exercises = namespace["lab"].exercises
    exercise = registry.exercise(exercise_id)
    if exercise_id not in exercises.solved:
        raise LabError(f"The reference answer of {exercise_id} does not pass.", "mend its check.")
    found = _mutants(exercise, family, exercises, namespace)
    about = {"exercise": exercise_id, "family": family, "of": len(found)}
    if not begin:
        report(**about, outcome="counted")
    for mutant in found[begin:]:
        began = time.monotonic()
        disturbed = Disturbed(exercises.lab, mutant.change) if family == EFFECTS else None
        kind, text = outcome_of(mutant.code, exercise, exercises, namespace, disturbed)
        dead = not _runs(namespace.get("spark"))
        if dead:
            kind = ENDED
        elif disturbed and disturbed.broken:
            raise LabError(f"{exercise_id}, {mutant.change}: {disturbed.broken}")
        elif disturbed and not disturbed.happened:
            kind = ABSENT
        seconds = round(time.monotonic() - began, 1)
        report(**about, mutant=mutant.change, outcome=kind, text=text, seconds=seconds)
        if dead:
            raise LabError("Spark's JVM has ended.", "run the notebook again.")


def _mutants(
    exercise: registry.Exercise, family: str, exercises: Exercises, namespace: dict[str, Any]
) -> list[Mutant]:
    """Return an exercise's mutants; those of its effects follow from a run of its check."""
    if family == CODE:
        return mutants(exercise.solution)
    seen = Disturbed(exercises.lab)
    kind, text = outcome_of(exercise.solution, exercise, exercises, namespace, seen)
    if kind != "passed":
        raise LabError(f"The reference answer of {exercise.id}, only watched, fails: {text}")
    return [Mutant(EFFECTS, name, exercise.solution) for name in seen.names]


def _runs(spark: Any) -> bool:
    """True if the session's JVM responds; Hudi's streaming sink exits the JVM if a batch fails."""
    try:
        return spark is None or bool(spark.sparkContext._jvm.System.currentTimeMillis())
    except (Py4JError, OSError):
        return False


def outcome_of(
    code: str,
    exercise: registry.Exercise,
    exercises: Exercises,
    namespace: dict[str, Any],
    disturbed: Disturbed | None = None,
) -> tuple[str, str]:
    """Run an answer and its check; return `passed`, `refused` or `crashed`, and the card's text."""
    own = {k: v for k, v in namespace.items() if k not in _set_by(exercise.solution)}
    spark = namespace.get("spark")
    others = {query.id for query in spark.streams.active} if spark else set()
    try:
        with _at_most(MUTANT_SECONDS):
            run_cell(code, f"<mutant of {exercise.id}>", own)
            answer = eval(exercise.answer, own)
            outcome = exercises.judge(exercise.id, disturbed.wrap(answer) if disturbed else answer)
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
