"""Finds an exercise's answer without a running notebook: in its saved copy or the lesson's source.

The cells above an exercise start services, write tables and show pictures. So only those statements
are run that bind a name which the answer uses, directly or through other names.
"""

import ast
import json
import linecache
import symtable
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Any

from lab_env.course import registry
from lab_env.course.copies import name_of
from lab_env.course.source import LESSONS, check_call, read_lesson, without_check
from lab_env.lab.handle import Lab
from lab_env.lab.job.packing import Session
from lab_env.lab.ladder.target import target_of
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints, settings

OWN = "own"
REFERENCE = "reference"
GIVEN = frozenset({"spark", "lab"})
IN_PLACE = ("add", "append", "extend", "pop", "setdefault", "update")


@dataclass(frozen=True)
class Statement:
    """One top-level statement of a notebook: the names that it binds, changes and uses."""

    node: ast.stmt
    file: str
    binds: frozenset[str]
    changes: frozenset[str]
    uses: frozenset[str]


def find_answer(exercise_id: str, endpoints: Endpoints, which: str = OWN) -> Any:
    """Return an exercise's answer, for example its function.

    Args:
        which: `own`, the one in the learner's saved notebook; `reference`; or `right-1`, `wrong-2`
            and so on: another answer of the lesson's source.

    Raises:
        LabError: there is no such answer, or it needs a value that only a running notebook has.
    """
    exercise = registry.exercise(exercise_id)
    cells = _own_cells(exercise) if which == OWN else _source_cells(exercise, which)
    given = frozenset(target_of(exercise.id).given)
    return _evaluated(exercise, cells, endpoints, Session(), given)


def reference_of(exercise_id: str, endpoints: Endpoints, spark: Any) -> Any:
    """Return an exercise's reference answer, which uses this Spark session."""
    exercise = registry.exercise(exercise_id)
    return _evaluated(exercise, _source_cells(exercise, REFERENCE), endpoints, spark)


def _evaluated(
    exercise: registry.Exercise,
    cells: Iterable[tuple[str, str]],
    endpoints: Endpoints,
    spark: Any,
    given: Set[str] = frozenset(),
) -> Any:
    """Return the value of an exercise's answer after the cells' statements that it needs."""
    statements = [s for name, code in cells for s in _statements(code, name)]
    [wanted] = [s.uses for s in _statements(exercise.answer, "<the answer>")]
    lab = Lab(exercise.id[:2], endpoints)
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark, "lab": lab}
    for statement in needed(statements, wanted, GIVEN | given):
        _run(statement, namespace)
    return eval(exercise.answer, namespace)


def needed(
    statements: list[Statement], names: Iterable[str], given: Set[str] = GIVEN
) -> list[Statement]:
    """Return, in order, the statements without which the names would not have their values.

    Names that are `given` need none.
    """
    wanted, chosen = set(names) - given, []
    for statement in reversed(statements):
        if wanted & (statement.binds | statement.changes):
            chosen.append(statement)
            wanted -= statement.binds
            wanted |= statement.uses - given
    return chosen[::-1]


def _own_cells(exercise: registry.Exercise) -> Iterator[tuple[str, str]]:
    """Yield the code cells of the learner's saved notebook, up to the one of the exercise.

    The reference takes the place of an earlier answer that is still a stub, as in the notebook.
    """
    path = settings().work / name_of(exercise.id[:2])
    if not path.exists():
        raise LabError(f"You have no copy of lesson {exercise.id[:2]}.", "run: lab jupyter")
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
        code = _without_magics("".join(cell["source"]))
        if cell["cell_type"] != "code" or _magic(code):
            continue
        call = check_call(code)
        if call and _is_stub(code):
            if call[0] == exercise.id:
                break
            code = registry.exercise(call[0]).solution
        yield f"<cell {number} of {path.name}>", without_check(code)
        if call and call[0] == exercise.id:
            return
    raise LabError(
        f"Exercise {exercise.id} is not solved in {path}.",
        "fill in its cell, save the notebook, and run the command again.",
    )


def _source_cells(exercise: registry.Exercise, which: str) -> Iterator[tuple[str, str]]:
    """Yield the code cells of the lesson's source up to the exercise's, with the chosen answer.

    The reference comes before another answer, which may use its imports and constants.
    """
    [path] = LESSONS.glob(f"l{exercise.id[:2]}/{exercise.id[:2]}_*.py")
    for cell in read_lesson(path).cells:
        if cell.kind != "code" or not cell.shown or cell.proof or _magic(cell.versions.worked):
            continue
        if cell.exercise == exercise.id:
            for name in dict.fromkeys((REFERENCE, which)):
                yield f"<{name} answer of {exercise.id}>", _other_answer(exercise, name)
            return
        yield f"<line {cell.line} of {path.name}>", without_check(cell.versions.worked)


def _other_answer(exercise: registry.Exercise, which: str) -> str:
    known = {REFERENCE: exercise.solution}
    known |= {f"right-{n}": code for n, code in enumerate(exercise.right, 1)}
    known |= {f"wrong-{n}": answer.code for n, answer in enumerate(exercise.wrong, 1)}
    if which not in known:
        raise LabError(
            f"Exercise {exercise.id} has no answer {which!r}.", f"choose from: {', '.join(known)}."
        )
    return known[which]


def _without_magics(code: str) -> str:
    """Remove the magics around Python code; cells in other languages stay as they are."""
    lines = code.splitlines()
    kept = [line for line in lines if not line.startswith(("%%time", "%%capture"))]
    # A line of text may begin like a magic.
    if _magic("\n".join(kept)):
        kept = [line for line in kept if not line.startswith(("%", "!"))]
    return "\n".join(kept)


def _magic(code: str) -> bool:
    """True if a cell is not plain Python: it begins with a magic, or is not finished."""
    try:
        ast.parse(code)
    except SyntaxError:
        return True
    return False


def _is_stub(code: str) -> bool:
    nodes = list(ast.walk(ast.parse(code)))
    indices = [n.slice for n in nodes if isinstance(n, ast.Subscript)]  # as in Callable[..., None]
    meant = {id(n) for index in indices for n in ast.walk(index)}
    return any(isinstance(n, ast.Constant) and n.value is ... and id(n) not in meant for n in nodes)


def _statements(code: str, file: str) -> Iterator[Statement]:
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    for node in ast.parse(code).body:
        table = symtable.symtable(ast.unparse(node), file, "exec")
        bound = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
        changed = _changed(node)
        if isinstance(node, ast.For | ast.If | ast.With | ast.Try | ast.AugAssign):
            bound, changed = set(), changed | bound  # the value before may matter, too
        own = {node.name} if isinstance(node, ast.FunctionDef) else set()
        uses = (_used(table) | changed) - own
        yield Statement(node, file, frozenset(bound), frozenset(changed), frozenset(uses))


def _changed(node: ast.stmt) -> set[str]:
    """Return the name whose value a statement changes in place: `a["x"] = b`, `a.update(b)`."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
            return {name}
        case ast.Expr(ast.Call(ast.Attribute(value=ast.Name(id=name), attr=method))):
            return {name} if method in IN_PLACE else set()
    return set()


def _used(table: symtable.SymbolTable) -> set[str]:
    """Return the notebook's names that a statement uses, also inside the functions it defines."""
    top = table.get_type() == "module"
    used = {
        s.get_name() for s in table.get_symbols() if (s.is_referenced() if top else s.is_global())
    }
    return used.union(*map(_used, table.get_children()))


def _run(statement: Statement, namespace: dict[str, Any]) -> None:
    code = compile(ast.Module([statement.node], []), statement.file, "exec")
    try:
        exec(code, namespace)
    except Exception as error:
        what = ", ".join(sorted(statement.binds | statement.changes))
        raise LabError(
            f"The answer uses `{what}`, which cannot be made outside the notebook: {error}",
            "attack it from the notebook, with lab.attack.",
        ) from None
