"""The rules of proof cells: other cells contain no assertions and do not depend on proofs.

So `lab goto` can enter a section without running the proofs above it.
"""

import ast
import re
from collections.abc import Iterator

from lab_env.course.problems import Problem
from lab_env.course.source import Cell, Lesson

# What a learner sees or answers belongs in a cell in plain sight.
_VISIBLE = {"print", "display", "predict", "record_actual", "check", "use_reference"}
# What a proof would leave behind, for later cells to depend on.
_CHANGES = {
    *("save", "saveAsTable", "insertInto", "start", "cache", "persist", "unpersist"),
    *("createTempView", "createOrReplaceTempView", "produce", "replay", "put", "delete"),
}
_SQL_CHANGES = re.compile(
    r"\s*(CREATE|INSERT|UPDATE|DELETE|MERGE|DROP|ALTER|TRUNCATE|REFRESH|CALL) (?!show_)\w"
)


def problems_of_proofs(lesson: Lesson) -> Iterator[Problem]:
    """Yield every violation of these rules in a lesson or a demo."""
    from_proofs: set[str] = set()  # names that only a proof cell has set so far
    for cell in lesson.cells:
        if not cell.shown:
            continue
        tree = parsed(cell)
        if cell.proof:
            yield from _problems_of_proof(lesson, cell, tree)
            from_proofs |= _bound(tree)
            continue
        if not cell.teaches_assert and any(map(_asserts, ast.walk(tree))):
            what = 'Move this assertion to a cell of its own: # %% proof="what it proves".'
            yield lesson.problem(cell.line, what)
        if any(map(_raises, tree.body)):
            yield lesson.problem(cell.line, "A cell in plain sight does not raise by itself.")
        from_proofs -= _bound(tree)
        for name in sorted(from_proofs & _names(tree, ast.Load) - _inner(tree)):
            what = f"This cell uses {name!r} from a proof cell; set it in a visible cell."
            yield lesson.problem(cell.line, what)


def _problems_of_proof(lesson: Lesson, cell: Cell, tree: ast.Module) -> Iterator[Problem]:
    if cell.kind != "code" or cell.exercise or cell.instructor:
        yield lesson.problem(cell.line, "A proof is a code cell of its own.")
    elif not any(map(_asserts, ast.walk(tree))):
        yield lesson.problem(cell.line, "A proof cell asserts something.")
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    for name in sorted({getattr(func, "attr", getattr(func, "id", "")) for func in calls}):
        if name in _VISIBLE | _CHANGES:
            yield lesson.problem(cell.line, f"A proof cell asserts only; move {name}() out of it.")
    texts = (str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant))
    for found in filter(None, map(_SQL_CHANGES.match, texts)):
        what = f"A proof cell asserts only; move {found[1]} out of it."
        yield lesson.problem(cell.line, what)


def _asserts(node: ast.AST) -> bool:
    """True if a node is an `assert`, or a call such as `assert_frame_equal(...)`."""
    match node:
        case ast.Assert():
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name.startswith("assert")
    return False


def _raises(statement: ast.stmt) -> bool:
    made = ast.FunctionDef | ast.ClassDef
    return not isinstance(statement, made) and any(
        isinstance(node, ast.Raise) for node in ast.walk(statement)
    )


def parsed(cell: Cell) -> ast.Module:
    """Parse a cell's Python code; Markdown, cell magics and invalid code give an empty module."""
    python = cell.kind == "code" and not cell.text.startswith("%%")
    try:
        return ast.parse((cell.text if cell.proof else cell.versions.worked) if python else "")
    except SyntaxError:
        return ast.parse("")  # in an exercise's cell another rule names it


def _bound(tree: ast.Module) -> set[str]:
    made = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    made |= {n.asname or n.name for n in ast.walk(tree) if isinstance(n, ast.alias)}
    return (_names(tree, ast.Store) | made) - _inner(tree)


def _inner(tree: ast.Module) -> set[str]:
    """Return the names that exist only within a comprehension or function."""
    nodes = list(ast.walk(tree))
    loops = (_names(n.target, ast.Store) for n in nodes if isinstance(n, ast.comprehension))
    return {n.arg for n in nodes if isinstance(n, ast.arg)}.union(*loops)


def _names(tree: ast.AST, context: type) -> set[str]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {node.id for node in nodes if isinstance(node.ctx, context)}
