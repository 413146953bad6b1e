"""The lines of a module that can change a verdict, for fingerprints that outlive better words."""

import ast
from collections.abc import Iterator


def code_lines(text: str) -> Iterator[str]:
    """Yield the lines of a module, without imports, docstrings and empty lines."""
    words = {
        number
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt) and _changes_no_verdict(node)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    for number, line in enumerate(text.splitlines(), 1):
        if number not in words and line.strip():
            yield line


def code_of_check(text: str, exercise_id: str) -> str:
    """Return the code of an exercise's check, and of all that it uses of its module `text`."""
    statements = ast.parse(text).body
    defined = {name: statement for statement in statements for name in _names(statement)}
    used = [statement for statement in statements if _checks(statement, exercise_id)]
    for statement in used:  # which grows meanwhile
        names = (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
        used += {defined[name]: None for name in names if defined.get(name) not in [None, *used]}
    code = (ast.unparse(statement) for statement in statements if statement in used)
    return "\n".join(line for part in code for line in code_lines(part))


def _names(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign() | ast.AnnAssign():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            nodes = (node for target in targets for node in ast.walk(target))
            yield from (node.id for node in nodes if isinstance(node, ast.Name))


def _checks(statement: ast.stmt, exercise_id: str) -> bool:
    marks = statement.decorator_list if isinstance(statement, ast.FunctionDef) else []
    return f"check({exercise_id!r})" in map(ast.unparse, marks)


def _changes_no_verdict(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
            return True
    return False
