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


def _changes_no_verdict(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
            return True
    return False
