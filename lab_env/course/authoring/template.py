"""The rules of a lesson; each violation is reported with its file and line.

The rules require that every objective is practised in an exercise, that every exercise has hints
and wrong answers for CI to try, and that the learner's notebook shows no answer.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise, zip_longest

from lab_env.course.authoring.proof_rules import parsed, problems_of_proofs
from lab_env.course.checking import checks_of_lesson
from lab_env.course.problems import Problem
from lab_env.course.sections import CLOSING, OPENING
from lab_env.course.source import EXPECT, FILE_NAME, Cell, Lesson, check_call
from lab_env.platform.errors import LabError

FRONT = 'title: a text; minutes: {teach: 10, do: 10}; needs: ["01"]; services: [minio, kafka]'
DEFAULT_SERVICES = {"minio", "kafka"}  # a test compares them with what `Lab.start` starts
STRETCH_MINUTES = 45  # at most, from one place to pause to the next
_TIMING = re.compile(r"\*For instructors\.\* (\d+) minutes\b")
_PAUSE = re.compile(r"^\*\*[^*\n]*\bplace to pause\b[^*\n]*\*\*", re.MULTILINE)


def problems_of(lesson: Lesson) -> list[Problem]:
    """Return every violation in a lesson; if the front matter has violations, only those."""
    rules = (
        _headings,
        _minutes,
        _timed_sections,
        _pauses,
        _objectives,
        _exercises,
        _predictions,
        _start,
        _stubs,
        _leaks,
        _checks,
    )
    return list(_front(lesson)) or [
        problem for rule in (*rules, problems_of_proofs) for problem in rule(lesson)
    ]


def _front(lesson: Lesson) -> Iterator[Problem]:
    if not FILE_NAME.fullmatch(lesson.name):
        what = "A source is named NN_slug.py: two digits, then lower-case letters."
        yield lesson.problem(1, what)
    match lesson.front:
        case {
            "title": str(),
            "minutes": {"teach": int(), "do": int()},
            "needs": [*needs],
            "services": [*services],
        } if all(isinstance(name, str) for name in needs + services):
            return
    yield lesson.problem(1, f"The front matter needs {FRONT}.")


def _headings(lesson: Lesson) -> Iterator[Problem]:
    title = f"# {lesson.number} · {lesson.front['title']}"
    first = lesson.cells[0] if lesson.cells else None
    if not first or first.text.split("\n")[0] != title:
        line = first.line if first else 1
        yield lesson.problem(line, f"The first cell begins with the heading: {title}")
    found = list(lesson.second_level())
    starts_at_once = found and found[0][0] == OPENING[-1]  # lesson 00: first run a cell
    opening = (OPENING[-1], *OPENING[:-1]) if starts_at_once else OPENING
    nothing = ("nothing", 1, None)
    pairs = [
        *zip_longest(opening, found[: len(opening)], fillvalue=nothing),
        *zip(CLOSING, found[-len(CLOSING) :], strict=False),
    ]
    for wanted, (actual, line, _) in pairs:
        if actual != wanted:
            yield lesson.problem(line, f"Here belongs '## {wanted}', not {actual!r}.")
            return


def _minutes(lesson: Lesson) -> Iterator[Problem]:
    """Require that the minutes in the instructor's notes add up to those in the front matter."""
    stated = sum(lesson.front["minutes"].values())
    total = sum(minutes for _, minutes in _timings(lesson))
    if total != stated:
        what = f"The notes' minutes add up to {total}; the front matter says {stated}."
        yield lesson.problem(1, what)
    for name, line, cell in lesson.second_level():
        if name == OPENING[2] and f"{stated} minutes" not in " ".join(cell.text.split()):
            yield lesson.problem(line, f"'## {name}' does not say '{stated} minutes'.")


def _timed_sections(lesson: Lesson) -> Iterator[Problem]:
    """Require an instructor's note with minutes in each section."""
    noted = [cell.line for cell, _ in _timings(lesson)]
    sections = list(lesson.second_level())[len(OPENING) :]
    for (name, line, _), (_, end, _) in pairwise(sections[: 1 - len(CLOSING)]):
        if not any(line < at < end for at in noted):
            what = f"'## {name}' ends without a note '*For instructors.* 15 minutes.'"
            yield lesson.problem(line, what)


def _pauses(lesson: Lesson) -> Iterator[Problem]:
    """Require that no more than `STRETCH_MINUTES` pass without a place to pause."""
    timings, stretch = {cell.line: n for cell, n in _timings(lesson)}, 0
    for cell in _notes_before_pauses(lesson):
        if cell.kind == "markdown" and not cell.instructor and _PAUSE.search(cell.text):
            stretch = 0
        stretch += timings.get(cell.line, 0)
        if cell.line in timings and stretch > STRETCH_MINUTES:
            what = f"{stretch} minutes without '**... place to pause**'; {STRETCH_MINUTES} at most."
            yield lesson.problem(cell.line, what)


def _timings(lesson: Lesson) -> Iterator[tuple[Cell, int]]:
    """Yield each instructor's note that states minutes, with the minutes since the note before."""
    for cell in lesson.cells:
        if cell.instructor and (found := _TIMING.match(cell.text)):
            yield cell, int(found[1])


def _notes_before_pauses(lesson: Lesson) -> list[Cell]:
    """Return the lesson's cells, with each note that follows a place to pause moved before it."""
    cells = list(lesson.cells)
    for position in range(1, len(cells)):
        before, cell = cells[position - 1 : position + 1]
        if cell.instructor and _PAUSE.search(before.text):
            cells[position - 1 : position + 1] = cell, before
    return cells


def _objectives(lesson: Lesson) -> Iterator[Problem]:
    declared = {cell.exercise for cell in lesson.cells if cell.exercise}
    named: set[str] = set()
    for _, line, ids in lesson.objectives():
        if not ids:
            yield lesson.problem(line, "This objective names no exercise; end it with (NN.N).")
        for exercise_id in ids:
            named.add(exercise_id)
            if exercise_id not in declared:
                yield lesson.problem(line, f"There is no exercise {exercise_id} in this lesson.")
    for cell in lesson.cells:
        if cell.exercise and cell.exercise not in named:
            yield lesson.problem(cell.line, f"No objective names exercise {cell.exercise}.")


def _exercises(lesson: Lesson) -> Iterator[Problem]:
    cells = lesson.cells
    hints, right, wrong = (
        {getattr(cell, kind) for cell in cells} for kind in ("hint", "right", "wrong")
    )
    answers = [cell for cell in cells if cell.exercise]
    found = [cell.exercise for cell in answers]
    expected = [f"{lesson.number}.{n}" for n in range(1, len(found) + 1)]
    if found != expected:
        line = answers[0].line if answers else 1
        yield lesson.problem(line, f"The exercises are numbered {', '.join(expected)}.")
    headings = lesson.exercise_titles()
    for cell in cells:
        if cell.right and not cell.text.startswith("# "):
            what = "A right answer begins with a comment that says when one would take it."
            yield lesson.problem(cell.line, what)
    for cell in answers:
        name = cell.exercise
        has = {
            "line marked '# SOLUTION'": cell.versions.answers,
            "hint": name in hints,
            "wrong answer": name in wrong,
            "right answer in another style": name in right,
        }
        for what in (what for what, there in has.items() if not there):
            yield lesson.problem(cell.line, f"Exercise {name} has no {what}.")
        if name not in headings:
            what = f"A cell before it needs the heading '### Exercise {name} · Title'."
            yield lesson.problem(cell.line, what)
    for cell in cells:
        target = cell.hint or cell.right or cell.wrong or cell.equivalent or cell.harmless
        if target and target not in found:
            yield lesson.problem(cell.line, f"There is no exercise {target} in this lesson.")
        if (cell.hint and cell.kind != "markdown") or (
            (cell.exercise or cell.right or cell.wrong) and cell.kind != "code"
        ):
            yield lesson.problem(cell.line, "Hints are markdown cells, answers are code cells.")
        if cell.wrong and not EXPECT.match(cell.text):
            yield lesson.problem(
                cell.first_line,
                "A wrong answer begins with '# expect: ' and a part of the message it must get.",
            )


def _predictions(lesson: Lesson) -> Iterator[Problem]:
    """Require a unique name and either choices or a tolerance for each prediction."""
    asked = set()
    for cell in lesson.cells:
        if not cell.shown:
            continue
        for call in ast.walk(parsed(cell)):
            match call:
                case ast.Call(ast.Attribute(attr="predict"), [ast.Constant(name), *_]):
                    if name in asked:
                        what = f"Another prediction is named {name}, too."
                        yield lesson.problem(cell.first_line + call.lineno - 1, what)
                    asked.add(name)
                    if not {"choices", "tolerance"} & {k.arg for k in call.keywords}:
                        what = "A prediction needs choices=(...) or, for a number, tolerance=..."
                        yield lesson.problem(cell.first_line + call.lineno - 1, what)


def _start(lesson: Lesson) -> Iterator[Problem]:
    cells = [cell for cell in lesson.cells if cell.kind == "code" and "Lab.start(" in cell.text]
    if not cells:
        yield lesson.problem(1, f'No cell calls Lab.start("{lesson.number}").')
        return
    call = cells[0].text.split("Lab.start(", 1)[1].split(")")[0]
    more = set(lesson.front.get("services") or []) - DEFAULT_SERVICES
    for word in (lesson.number, *sorted(more)):
        if f'"{word}"' not in call:
            yield lesson.problem(cells[0].line, f'Lab.start needs "{word}" in this lesson.')


def _stubs(lesson: Lesson) -> Iterator[Problem]:
    """Require stubs that are valid Python and define the names that they pass to the check."""
    for cell in lesson.cells:
        if not cell.exercise:
            continue
        trees = {}
        for version in ("worked", "stub"):
            code = getattr(cell.versions, version)
            try:
                trees[version] = ast.parse(code)
            except SyntaxError as error:
                yield lesson.problem(
                    cell.first_line + (error.lineno or 1) - 1,
                    f"The {version} version of this cell is no Python: {error.msg}.",
                )
        if len(trees) < 2:
            continue
        call = check_call(cell.versions.stub)
        if call is None or call[0] != cell.exercise:
            yield lesson.problem(
                cell.line, f'This cell must end with lab.check("{cell.exercise}", its answer).'
            )
            continue
        used = {n.id for n in ast.walk(ast.parse(call[1])) if isinstance(n, ast.Name)}
        for name in sorted(used & (_defined(trees["worked"]) - _defined(trees["stub"]))):
            yield lesson.problem(
                cell.line,
                f"The stub leaves {name!r} undefined; write '# PROMPT: {name} = ...' "
                "after BEGIN SOLUTION.",
            )


def _leaks(lesson: Lesson) -> Iterator[Problem]:
    shown = [
        (cell, {_plain(line) for line in cell.versions.stub.splitlines()})
        for cell in lesson.cells
        if cell.shown and not cell.instructor
    ]
    for cell in lesson.cells:
        for answer in cell.versions.answers:
            telling = [line for line in map(_plain, answer) if len(line) >= 12]
            value = _plain(answer[0]).partition(" = ")[2] if len(answer) == 1 else ""
            for other, lines in shown:
                whole = telling and all(line in lines for line in telling)
                spelt = len(value) >= 12 and value in _plain(other.versions.stub)
                if whole or spelt:
                    yield lesson.problem(
                        other.line,
                        f"The answer of exercise {cell.exercise} stands in the learner's notebook: "
                        f"{_plain(answer[0])}",
                    )


def _checks(lesson: Lesson) -> Iterator[Problem]:
    declared = {cell.exercise: cell.line for cell in lesson.cells if cell.exercise}
    try:
        known = checks_of_lesson(lesson.number)
    except LabError as error:
        yield lesson.problem(1, str(error))
        return
    module = f"lab_env/lessons/l{lesson.number}/checks.py"
    for name in declared.keys() - known.keys():
        yield lesson.problem(declared[name], f"Exercise {name} has no check in {module}.")
    for name in known.keys() - declared.keys():
        yield lesson.problem(1, f"{module} checks {name}, which this lesson does not have.")


def _defined(tree: ast.AST) -> set[str]:
    found = {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return found | {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}


def _plain(text: str) -> str:
    return " ".join(text.split())
