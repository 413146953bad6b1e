"""Every proof cell can fail, and every claim of the articles points to one that measures it.

An assertion can fail if it asks about a value that comes, by however many steps, from the lab.
`measured_names` follows the assignments of a notebook to find those values.
"""

import ast
import csv
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from lab_env.course.authoring.demo_rules import demo_sources
from lab_env.course.source import LESSONS, Cell, read_lesson, sources
from lab_env.platform.settings import REPOSITORY

with (REPOSITORY / "data" / "claims.csv").open(newline="", encoding="utf-8") as file:
    CLAIMS = list(csv.DictReader(file))
COLUMNS = ("claim", "article", "lesson", "verdict", "measured_by", "cell")


def proofs_of(path: Path) -> dict[str, tuple[Cell, list[str]]]:
    """By cell id: each proof of a lesson or demo, and the code from its top to that proof."""
    found, code = {}, []
    lesson = read_lesson(path)
    for cell, cell_id in zip(lesson.cells, lesson.cell_ids(), strict=True):
        if cell.shown and cell.kind == "code" and not cell.text.startswith("%%"):  # writes a file
            code.append(cell.text)
            if cell.proof:
                found[cell_id] = cell, list(code)
    return found


PROOFS = {
    (path.stem[:2] if path in sources() else path.stem, cell_id): proof
    for path in [*sources(), *demo_sources(LESSONS)]
    for cell_id, proof in proofs_of(path).items()
}

parse = cache(ast.parse)


def refers_to(node: ast.AST, names: set[str]) -> bool:
    return bool(names_in([node]) & names)


def names_in(nodes: list[ast.AST]) -> set[str]:
    """The variables in some code; of an assignment's targets: those that it sets or changes."""
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def bindings(tree: ast.AST) -> Iterator[tuple[set[str], ast.AST]]:
    """For each place where code gives names a value: the names, and what the value is made of."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets):
                yield names_in(targets), node.value
            case ast.AugAssign() | ast.AnnAssign() | ast.NamedExpr():
                yield names_in([node.target]), node
            case ast.For():
                inside = (names for part in node.body for names, _ in bindings(part))
                yield names_in([node.target]).union(*inside), node.iter
            case ast.comprehension():
                yield names_in([node.target]), node.iter
            case ast.Try(handlers=handlers):
                yield {handler.name for handler in handlers if handler.name}, node
            case ast.withitem(optional_vars=ast.AST()):
                yield names_in([node.optional_vars]), node.context_expr
            case ast.FunctionDef() | ast.ClassDef():
                yield {node.name}, node
            case ast.Call(func=ast.Attribute(value=target)):
                yield names_in([target]), node  # it may change, as a list does by `append`


@cache
def imports(cell: str) -> tuple[set[str], set[str]]:
    """The names that a cell imports: from the lab, and from elsewhere."""
    ours, foreign = set(), set()
    for node in ast.walk(parse(cell)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            of_lab = getattr(node, "module", "").startswith("lab_env")
            imported = {alias.asname or alias.name for alias in node.names}
            (ours if of_lab else foreign).update(imported)
    return ours, foreign


@cache
def steps(cell: str) -> list[tuple[set[str], set[str]]]:
    """For each binding of a cell: the names that it sets, and those that its value is made of."""
    return [(bound, names_in([source])) for bound, source in bindings(parse(cell))]


def measured_names(cells: list[str]) -> set[str]:
    """The names that come from the lab after these cells: imported from it, or made of that."""
    names = set().union(*(imports(cell)[0] for cell in cells))
    foreign = set().union(*(imports(cell)[1] for cell in cells))
    every_step = [step for cell in cells for step in steps(cell)]
    while True:
        found = [bound for bound, source in every_step if source & names]
        more = set().union(*found) - foreign - names
        if not more:
            return names
        names |= more


def can_fail(test: ast.expr, names: set[str]) -> bool:
    """Whether a condition depends on one of these names, and is not true in any case."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            return all(can_fail(value, names) for value in values)
        case ast.BoolOp(op=ast.And(), values=values):
            return any(can_fail(value, names) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return refers_to(operand, names)
        case ast.Tuple() | ast.List() | ast.Dict() | ast.Set() | ast.JoinedStr():
            return False  # true because it is not empty
        case ast.Compare(left=left, comparators=[right]) if ast.dump(left) == ast.dump(right):
            return False
        case ast.Compare(ops=[ast.GtE()], comparators=[ast.Constant(value=0)]):
            return False  # a count or a time is never less
    return refers_to(test, names)


def asserts_that_run(statements: list[ast.stmt]) -> Iterator[ast.Assert]:
    """The asserts of a cell, but those of functions and of branches that are never taken."""
    for node in statements:
        match node:
            case ast.Assert():
                yield node
            case ast.FunctionDef() | ast.ClassDef():
                continue
            case ast.If(test=ast.Constant()):
                yield from asserts_that_run(node.body if node.test.value else node.orelse)
            case _:
                for part in ("body", "orelse", "finalbody"):
                    yield from asserts_that_run(getattr(node, part, []))


def measures(cells: list[str]) -> bool:
    """Whether the last of these cells asserts, and each assertion asks what the lab has shown."""
    names = measured_names(cells)
    tests = [found.test for found in asserts_that_run(parse(cells[-1]).body)]
    return bool(tests) and all(can_fail(test, names) for test in tests)


@pytest.mark.parametrize("place", PROOFS, ids="-".join)
def test_every_assertion_of_a_proof_can_fail(place):
    _, code = PROOFS[place]
    assert measures(code)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["claim"][:40])
def test_a_claim_points_to_a_named_proof(claim):
    assert tuple(claim) == COLUMNS
    assert all(value and value.strip() for value in claim.values())
    assert claim["article"] in ("first", "second", "both")
    place = claim["lesson"], claim["cell"]
    assert place in PROOFS, f"lesson {place[0]} has no proof named {place[1]!r}"
    cell, _ = PROOFS[place]
    assert cell.options.get("name") == claim["cell"]  # not an id that changes with the cell's text


BEFORE = "from lab_env import Lab\nlab = Lab.start('04')\nrows = lab.spark.range(5)\nlimit = 3"


@pytest.mark.parametrize(
    "cell",
    [
        "assert rows.count() > limit",
        "count = rows.count()\nassert count == 5 and limit == 3",
        "sizes = {}\nfor row in rows.collect():\n    sizes[row.id] = 1\nassert len(sizes) == 5",
        "found = []\nfound.append(rows.first())\nassert found",
        "def count():\n    return rows.count()\nassert not count() > 5",
        "try:\n    rows.count()\nexcept Exception as why:\n    said = str(why)\nassert 'x' in said",
        "for row in rows.collect():\n    assert row.id < 5",
    ],
)
def test_an_assert_about_a_measured_value_counts(cell):
    assert measures([BEFORE, cell])


@pytest.mark.parametrize(
    "cell",
    [
        "rows.count()",
        "assert True",
        "assert 1 == 1",
        "assert limit == 3",
        "assert sum([1, 2]) == limit",
        "assert (rows.count() == 7, 'seven rows')",
        "assert rows.count() == 7 or True",
        "assert rows == rows",
        "assert rows.count() >= 0",
        "if False:\n    assert rows.count() == 7",
        "def never():\n    assert rows.count() == 7",
        "assert f'{rows}'",
    ],
)
def test_an_assert_that_cannot_fail_does_not_count(cell):
    assert not measures([BEFORE, cell])


def test_no_claim_is_judged_twice():
    assert Counter(claim["claim"] for claim in CLAIMS).most_common(1)[0][1] == 1


def test_every_lesson_of_part_one_judges_claims():
    assert {claim["lesson"] for claim in CLAIMS} >= {"01", "02", "03", "04"}
