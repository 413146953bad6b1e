"""Makes mutants of a reference answer: copies that each differ from it in one place.

The mutation operators were chosen before the first run. Python is mutated in its syntax tree, SQL
strings are mutated with sqlglot, and a `CALL`, which sqlglot cannot parse, as text.
"""

import ast
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import exp


@dataclass(frozen=True)
class Mutant:
    """A copy of an answer with one small change; `code` is the whole changed answer."""

    operator: str
    change: str
    code: str


# A replacement of a node: None where the node goes away.
Replacements = Iterator[tuple[ast.AST | None, str]]

COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
# Functions, methods and attributes that are easily taken for each other.
NAMES = {
    "max": "min", "min": "max", "max_by": "min_by", "min_by": "max_by", "ceil": "floor",
    "floor": "ceil", "int": "ceil", "round": "int", "sorted": "list", "any": "all", "all": "any",
    "sum": "max", "count": "countDistinct", "countDistinct": "count", "first": "last",
    "last": "first", "union": "intersect", "completed": "requested", "requested": "completed",
    "before": "after", "after": "before", "startswith": "endswith", "where": "distinct",
}  # fmt: skip
# Values of options, and what else they may be.
VALUES = {
    "upsert": ("insert", "bulk_insert"), "insert": ("upsert",), "bulk_insert": ("insert",),
    "delete": ("upsert",), "insert_overwrite": ("upsert", "insert_overwrite_table"),
    "snapshot": ("read_optimized", "incremental"), "read_optimized": ("snapshot",),
    "incremental": ("snapshot",), "true": ("false",), "false": ("true",),
    "append": ("overwrite", "ignore"), "overwrite": ("append",), "update": ("complete",),
    "complete": ("append",), "earliest": ("latest",), "latest": ("earliest",),
    "COPY_ON_WRITE": ("MERGE_ON_READ",), "MERGE_ON_READ": ("COPY_ON_WRITE",),
    "inner": ("left",), "left": ("inner",), "left_anti": ("left_semi",), "outer": ("inner",),
    "left_semi": ("left_anti",), "full": ("inner",), "equal": ("inconclusive",),
    "lower": ("higher",), "higher": ("lower",), "latest_state": ("cdc",), "cdc": ("latest_state",),
    "scheduleandexecute": ("schedule",), "schedule": ("scheduleandexecute",),
}  # fmt: skip
TYPES = {"double": "string", "string": "binary", "int": "string", "long": "int", "bigint": "int"}
MODULES = {"F", "T", "W", "lab", "spark", "json", "math", "time", "pd", "np", "Window", "self"}
SQL_CALLS = {"sql", "expr", "where", "filter", "selectExpr", "having"}
SQL_START = re.compile(r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE|MERGE|CREATE|CALL|SET)\b", re.I)
ARGUMENT = re.compile(r",?\s*(\w+)\s*=>\s*('[^']*'|[\w.{}]+)")


def mutants(code: str) -> list[Mutant]:
    """Return all distinct mutants of an answer, which is passed without its `lab.check`."""
    tree = ast.parse(code)
    known, changes = {ast.unparse(tree)}, set()
    found = []
    for path, node in _nodes(tree, ()):
        for operator, replace in OPERATORS.items():
            for new, change in replace(node):
                try:
                    changed = ast.unparse(ast.fix_missing_locations(_replaced(tree, path, new)))
                    compile(changed, "<mutant>", "exec")
                except (ValueError, SyntaxError, TypeError):
                    continue
                if changed in known:
                    continue
                known.add(changed)
                label = change
                while label in changes:  # the same change at another place
                    label += " (again)"
                changes.add(label)
                found.append(Mutant(operator, label, changed))
    return found


Path = tuple[tuple[str, int | None], ...]


def _nodes(node: ast.AST, path: Path) -> Iterator[tuple[Path, ast.AST]]:
    """Yield each node that may be changed, with its path from the root."""
    yield path, node
    if isinstance(node, ast.JoinedStr):  # changed as a whole
        for place, part in enumerate(node.values):
            if isinstance(part, ast.FormattedValue):
                yield from _nodes(part.value, (*path, ("values", place), ("value", None)))
        return
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            for place, item in enumerate(value):
                if isinstance(item, ast.AST) and not _is_docstring(node, name, place):
                    yield from _nodes(item, (*path, (name, place)))
        elif isinstance(value, ast.AST):
            yield from _nodes(value, (*path, (name, None)))


def _is_docstring(node: ast.AST, name: str, place: int) -> bool:
    return (
        name == "body"
        and place == 0
        and isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
        and ast.get_docstring(node) is not None
    )


def _replaced(tree: ast.Module, path: Path, new: ast.AST | None) -> ast.Module:
    """Copy the tree with the node at a path replaced, or removed if `new` is None."""
    copied = deepcopy(tree)
    parent: Any = copied
    for name, place in path[:-1]:
        value = getattr(parent, name)
        parent = value if place is None else value[place]
    name, place = path[-1]
    if place is None:
        setattr(parent, name, deepcopy(new))
    elif new is None:
        del getattr(parent, name)[place]
        if name == "body" and not parent.body:
            parent.body = [ast.Pass()]
    else:
        getattr(parent, name)[place] = deepcopy(new)
    return copied


def _short(node: ast.AST | str) -> str:
    text = " ".join((node if isinstance(node, str) else ast.unparse(node)).split())
    return text if len(text) <= 60 else f"{text[:40]} … {text[-17:]}"


def _to(old: ast.AST | str, new: ast.AST | str) -> str:
    return f"{_short(old)} → {_short(new)}"


def _with(node, **fields):
    """Copy a node with some fields changed."""
    changed = deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def call_left_out(node: ast.AST) -> Replacements:
    """Remove a call: `rows.where(x).sort()` becomes `rows.sort()`, or `f(x)` becomes `x`."""
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Attribute):
        base = node.func.value
        if not (isinstance(base, ast.Name) and base.id in MODULES):
            arguments = ", ".join(map(_short, [*node.args, *(k.value for k in node.keywords)]))
            yield base, f"without .{node.func.attr}({_short(arguments)})"
            return
    if len(node.args) == 1 and not node.keywords:
        yield node.args[0], _to(node, node.args[0])


def entry_left_out(node: ast.AST) -> Replacements:
    """Remove an argument, a list element, a dictionary entry, or a comprehension's condition."""
    if isinstance(node, ast.Call):
        for place, keyword in enumerate(node.keywords):
            rest = [k for n, k in enumerate(node.keywords) if n != place]
            yield _with(node, keywords=rest), f"without {_short(keyword)} in {_short(node.func)}"
        for place, argument in enumerate(node.args if len(node.args) > 1 else []):
            rest = [a for n, a in enumerate(node.args) if n != place]
            yield _with(node, args=rest), f"without {_short(argument)} in {_short(node.func)}"
    elif isinstance(node, ast.Dict):
        for place, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            keys = [k for n, k in enumerate(node.keys) if n != place]
            values = [v for n, v in enumerate(node.values) if n != place]
            name = f"{_short(key)}: {_short(value)}" if key else f"**{_short(value)}"
            yield _with(node, keys=keys, values=values), f"without {name}"
    elif isinstance(node, ast.List | ast.Tuple | ast.Set) and isinstance(
        getattr(node, "ctx", ast.Load()), ast.Load
    ):
        for place, element in enumerate(node.elts if len(node.elts) > 1 else []):
            rest = [e for n, e in enumerate(node.elts) if n != place]
            yield _with(node, elts=rest), f"without {_short(element)} in {_short(node)}"
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield _with(node, ifs=[]), f"without if {_short(node.ifs[0])}"


def statement_dropped(node: ast.AST) -> Replacements:
    """Remove a statement or a returned value, or end a loop after its first iteration."""
    kept = ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Pass
    if isinstance(node, ast.Return):
        if node.value is not None and getattr(node.value, "value", ...) is not None:
            yield _with(node, value=None), f"without {_short(node)}"
    elif isinstance(node, ast.stmt) and not isinstance(node, kept):
        yield None, f"without {_short(node)}"
    if isinstance(node, ast.For | ast.While):
        yield _with(node, body=[*node.body, ast.Break()]), f"one turn of {_short(node)}"


def comparison(node: ast.AST) -> Replacements:
    """Replace a comparison: `<=` by `<`, `!=` by `==`, `not in` by `in`, and so on."""
    if isinstance(node, ast.Compare):
        for other in COMPARISONS.get(type(node.ops[0]), ()):
            changed = _with(node, ops=[other(), *node.ops[1:]])
            yield changed, _to(node, changed)


def logic(node: ast.AST) -> Replacements:
    """Swap `and` and `or`, keep only one side, remove a `not`, or always take one branch."""
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _with(node, op=other), _to(node, _with(node, op=other))
        for place, _ in enumerate(node.values):
            rest = [v for n, v in enumerate(node.values) if n != place]
            changed = rest[0] if len(rest) == 1 else _with(node, values=rest)
            yield changed, _to(node, changed)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        yield node.operand, _to(node, node.operand)
    elif isinstance(node, ast.If):
        for value in (True, False):
            yield _with(node, test=ast.Constant(value)), f"if {_short(node.test)} → if {value}"
    elif isinstance(node, ast.IfExp):
        for branch in (node.body, node.orelse):
            yield branch, _to(node, branch)


def arithmetic(node: ast.AST) -> Replacements:
    """Swap `+` and `-`, `*` and `/`, `&` and `|`, or keep only one side."""
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        changed = _with(node, op=ARITHMETIC[type(node.op)]())
        yield changed, _to(node, changed)
        for side in (node.left, node.right):
            yield side, _to(node, side)


def name_swapped(node: ast.AST) -> Replacements:
    """Replace a name by a similar one: `min` by `max`, `int` by `ceil`, `last` by `first`."""
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name) and called.id in NAMES:
            other = NAMES[called.id]
            name = f"__import__('math').{other}" if other in ("ceil", "floor") else other
            yield _with(node, func=ast.parse(name, mode="eval").body), f"{_short(node)} → {other}"
        elif isinstance(called, ast.Attribute) and called.attr in NAMES:
            other = NAMES[called.attr]
            changed = _with(node, func=_with(called, attr=other))
            yield changed, _to(node, changed)
    elif isinstance(node, ast.Attribute) and node.attr in ("completed", "requested"):
        changed = _with(node, attr=NAMES[node.attr])
        yield changed, _to(node, changed)


def value_of_option(node: ast.AST) -> Replacements:
    """Replace the value of a Spark, Hudi or Kafka option by another valid one."""
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value), f"{node.value} → {not node.value}"
    elif isinstance(node.value, str):
        for other in VALUES.get(node.value, ()):
            yield ast.Constant(other), _to(repr(node.value), repr(other))


def constant(node: ast.AST) -> Replacements:
    """Change the last digit of a number by one, in strings too."""
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
        return
    value = node.value
    if isinstance(value, int | float):
        digits = len(str(value).partition(".")[2]) if isinstance(value, float) else 0
        step = Decimal(1).scaleb(-digits)  # of its last digit
        for number in (Decimal(str(value)) + step, Decimal(str(value)) - step):
            other = type(value)(number)
            yield ast.Constant(other), f"{value!r} → {other!r}"
    elif isinstance(value, str) and value.isdecimal():
        for number in {int(value) + 1, max(int(value) - 1, 0)}:
            yield ast.Constant(str(number)), f"{value!r} → {str(number)!r}"
    elif isinstance(value, str) and (found := re.fullmatch(r"(\d+) (\w+)", value)):
        for number in (int(found[1]) + 1, int(found[1]) - 1):  # "2 minutes"
            yield ast.Constant(f"{number} {found[2]}"), f"{value!r} → {number} {found[2]!r}"


def type_of_column(node: ast.AST) -> Replacements:
    """Change a column's type to one that loses or changes values."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        kind = node.value.casefold()
        other = "double" if kind.startswith("decimal") else TYPES.get(kind)
        if other:
            yield ast.Constant(other), _to(repr(node.value), repr(other))
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "lit"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ):
        text = ast.Constant(str(node.args[0].value).lower())
        changed = _with(node, args=[text])
        yield changed, _to(node, changed)


def sql(node: ast.AST) -> Replacements:
    """Change SQL in the same ways: remove a filter or column, swap `<` and `<=`, and so on."""
    found = _sql_text(node)
    if found is None:
        return
    text, values = found
    for changed, change in _sql_mutants(text):
        new = _as_string(changed, values)
        if new is not None:
            yield new, f"SQL {_sql_label(change, values)}"


OPERATORS: dict[str, Callable[[ast.AST], Replacements]] = {
    operator.__name__: operator
    for operator in (
        call_left_out,
        entry_left_out,
        statement_dropped,
        comparison,
        logic,
        arithmetic,
        name_swapped,
        value_of_option,
        constant,
        type_of_column,
        sql,
    )
}


def _sql_text(node: ast.AST) -> tuple[str, list[ast.expr]] | None:
    """Return a string's SQL, with placeholders for an f-string's values, and the values."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text, values = node.value, []
    elif isinstance(node, ast.JoinedStr):
        text, values = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
            else:
                text += f"zz{len(values)}zz"
                values.append(part)
    else:
        return None
    looks = SQL_START.match(text) or re.search(r"\s(AND|OR|=|<|>|AS|IN|\+|-|\*)\s|\(", text)
    return (text, values) if looks and " " in text.strip() else None


def _as_string(text: str, values: list[ast.expr]) -> ast.AST | None:
    """Convert SQL back to a string literal, replacing the placeholders by the f-string's values."""
    if not values:
        return ast.Constant(text)
    parts: list[ast.expr] = []
    for place, part in enumerate(re.split(r"zz(\d+)zz", text, flags=re.I)):
        if place % 2:
            parts.append(values[int(part)])
        elif part:
            parts.append(ast.Constant(part))
    return ast.JoinedStr(parts)


def _sql_label(change: str, values: list[ast.expr]) -> str:
    def spelt(found: re.Match) -> str:
        return ast.unparse(ast.JoinedStr([values[int(found[1])]]))[2:-1]

    return re.sub(r"zz(\d+)zz", spelt, change, flags=re.I)


def _sql_mutants(text: str) -> Iterator[tuple[str, str]]:
    if re.match(r"\s*CALL\b", text, re.I):
        yield from _procedure_mutants(text)
        return
    try:
        parsed = sqlglot.parse_one(text, dialect="spark")
    except (sqlglot.ParseError, sqlglot.TokenError):
        return
    if isinstance(parsed, exp.Command | exp.Column | exp.Literal):
        return
    for place, node in enumerate(list(parsed.walk())):
        for new, change in _sql_changes(node):
            copied = parsed.copy()
            target = list(copied.walk())[place]
            if target is copied:
                if new is None:
                    continue
                copied = new.copy()
            elif new is None:
                target.pop()
            else:
                target.replace(new.copy())
            yield copied.sql(dialect="spark"), change


def _procedure_mutants(text: str) -> Iterator[tuple[str, str]]:
    """Mutate a `CALL`: remove an argument, change its number by one, or replace its value."""
    for found in ARGUMENT.finditer(text):
        without = text[: found.start()] + text[found.end() :]
        yield re.sub(r"\(\s*,", "(", without), f"without {found[1]} => {found[2]}"
        value = found[2].strip("'")
        others = VALUES.get(value, ())
        if value.isdecimal():
            others = (str(int(value) + 1), str(max(int(value) - 1, 0)))
        for other in others:
            new = found[2].replace(value, other)
            begin, end = found.span(2)
            yield text[:begin] + new + text[end:], f"{found[1]} => {found[2]} → {new}"


SQL_COMPARISONS: dict[type, tuple[type, ...]] = {
    exp.LT: (exp.LTE, exp.GTE),
    exp.LTE: (exp.LT, exp.GT),
    exp.GT: (exp.GTE, exp.LTE),
    exp.GTE: (exp.GT, exp.LT),
    exp.EQ: (exp.LTE, exp.GTE, exp.NEQ),
    exp.NEQ: (exp.EQ,),
    exp.And: (exp.Or,),
    exp.Or: (exp.And,),
    exp.Add: (exp.Sub,),
    exp.Sub: (exp.Add,),
    exp.Mul: (exp.Div,),
    exp.Div: (exp.Mul,),
}
SQL_FUNCTIONS: dict[type, type] = {
    exp.Max: exp.Min,
    exp.Min: exp.Max,
    exp.Sum: exp.Max,
    exp.ArgMax: exp.ArgMin,
    exp.ArgMin: exp.ArgMax,
    exp.Ceil: exp.Floor,
    exp.Floor: exp.Ceil,
}


def _sql_changes(node: Any) -> Iterator[tuple[exp.Expression | None, str]]:
    spelt = _short(node.sql(dialect="spark"))
    kind = type(node)
    for other in SQL_COMPARISONS.get(kind, ()):
        new = other(this=node.this.copy(), expression=node.expression.copy())
        yield new, _to(spelt, new.sql(dialect="spark"))
    if isinstance(node, exp.And | exp.Or):
        for side in (node.this, node.expression):
            yield side, _to(spelt, side.sql(dialect="spark"))
    elif kind in SQL_FUNCTIONS:
        new = SQL_FUNCTIONS[kind](**{k: v for k, v in node.args.items() if v is not None})
        yield new, _to(spelt, new.sql(dialect="spark"))
    elif isinstance(node, exp.Where | exp.Having | exp.Order | exp.Distinct | exp.When | exp.Limit):
        yield None, f"without {spelt}"
    elif isinstance(node, exp.Not):
        yield node.this, _to(spelt, node.this.sql(dialect="spark"))
    elif isinstance(node, exp.Literal) and not node.is_string:
        for step in (1, -1):
            new = exp.Literal.number(str(float(node.name) + step).removesuffix(".0"))
            yield new, _to(spelt, new.name)
    elif isinstance(node, exp.Cast):
        yield node.this, _to(spelt, node.this.sql(dialect="spark"))
    elif isinstance(node, exp.Ordered):
        new = node.copy()
        new.set("desc", not node.args.get("desc"))
        yield new, _to(spelt, new.sql(dialect="spark"))
    elif isinstance(node, exp.Join) and node.args.get("side"):
        new = node.copy()
        new.set("side", None)
        yield new, _to(spelt, new.sql(dialect="spark"))
    elif isinstance(node, exp.Coalesce):
        yield node.this, _to(spelt, node.this.sql(dialect="spark"))
    items: list[exp.Expression] = []
    if isinstance(node, exp.Select | exp.Group | exp.In | exp.Tuple):
        items = list(node.expressions)
    for place, item in enumerate(items if len(items) > 1 else []):
        new = node.copy()
        del new.expressions[place]
        yield new, f"without {_short(item.sql(dialect='spark'))} in {kind.__name__.upper()}"
