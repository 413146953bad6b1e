"""Extracts definitions and their comments from a module's source, so nobody copies code by hand.

The caller must also extract everything that the definitions use; a linter finds what is missing.
"""

import ast
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

LAB = __name__.partition(".")[0]


@dataclass(frozen=True)
class Definition:
    """A top-level statement of a module."""

    names: frozenset[str]  # that it defines; empty for an expression
    text: str  # including the comment and the empty lines above it
    lab: bool  # it imports from the lab
    imports: bool  # it is an import


def docstring(module: ModuleType) -> str:
    """Return a module's docstring as written in its source."""
    return _definitions(module)[0].text.strip("\n")


def definitions(module: ModuleType, *names: str) -> str:
    """Return the source of the named constants, classes and functions, in the module's order."""
    chosen = [one for one in _definitions(module) if one.names & set(names)]
    if missing := set(names) - frozenset().union(*(one.names for one in chosen)):
        raise KeyError(f"{module.__name__} does not define {', '.join(sorted(missing))}")
    return _joined(chosen)


def imports(module: ModuleType) -> str:
    """Return a module's imports, except imports from the lab."""
    return _joined([one for one in _definitions(module) if one.imports and not one.lab])


def body(module: ModuleType) -> str:
    """Return everything that follows a module's imports."""
    return _joined([one for one in _definitions(module)[1:] if not one.imports])


def _joined(chosen: list[Definition]) -> str:
    return "\n".join(one.text for one in chosen).strip("\n")


def _definitions(module: ModuleType) -> list[Definition]:
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    lines, end, found = text.splitlines(), 0, []
    for node in ast.parse(text).body:
        source = "\n".join(lines[end : node.end_lineno])
        end = node.end_lineno or 0
        imported = isinstance(node, ast.Import | ast.ImportFrom)
        from_lab = isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == LAB
        found.append(Definition(_names(node), source, from_lab, imported))
    return found


def _names(node: ast.stmt) -> frozenset[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return frozenset({node.name})
    targets = node.targets if isinstance(node, ast.Assign) else []
    return frozenset(target.id for target in targets if isinstance(target, ast.Name))
