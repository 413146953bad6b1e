"""Every proof can fail, and every claim in the articles is linked to a proof that measures it."""

import ast
import csv
from collections import Counter

import pytest

from lab_env.course.authoring.demo_rules import demo_sources
from lab_env.course.source import LESSONS, read_lesson, sources
from lab_env.platform.settings import REPOSITORY

with (REPOSITORY / "data" / "claims.csv").open(newline="", encoding="utf-8") as file:
    CLAIMS = list(csv.DictReader(file))
COLUMNS = ("claim", "article", "lesson", "verdict", "measured_by", "cell")


PROOFS = {
    (path.stem[:2] if path in sources() else path.stem, cell_id): cell
    for path in [*sources(), *demo_sources(LESSONS)]
    for lesson in [read_lesson(path)]
    for cell, cell_id in zip(lesson.cells, lesson.cell_ids(), strict=True)
    if cell.proof
}


def can_fail(test: ast.expr) -> bool:
    """Return True if a condition uses a variable and is not always true."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            return all(map(can_fail, values))
        case ast.Tuple() | ast.List() | ast.Dict() | ast.Set() | ast.JoinedStr():
            return False  # true because it is not empty
        case ast.Compare(left=left, comparators=[right]) if ast.dump(left) == ast.dump(right):
            return False
        case ast.Compare(ops=[ast.GtE()], comparators=[ast.Constant(value=0)]):
            return False  # a count or a time is never less
    return any(isinstance(part, ast.Name) for part in ast.walk(test))


@pytest.mark.parametrize("place", PROOFS, ids="-".join)
def test_every_assertion_of_a_proof_can_fail(place):
    for node in ast.walk(ast.parse(PROOFS[place].text)):
        if isinstance(node, ast.Assert):
            assert can_fail(node.test), ast.unparse(node)


@pytest.mark.parametrize(
    "condition", ["True", "1 == 1", "(n == 7, 'seven')", "n == 7 or True", "n == n", "n >= 0"]
)
def test_a_condition_that_is_always_true_is_found(condition):
    assert not can_fail(ast.parse(condition, mode="eval").body)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["claim"][:40])
def test_a_claim_points_to_a_named_proof(claim):
    assert tuple(claim) == COLUMNS
    assert all(value and value.strip() for value in claim.values())
    assert claim["article"] in ("first", "second", "both")
    place = claim["lesson"], claim["cell"]
    assert place in PROOFS, f"lesson {place[0]} has no proof named {place[1]!r}"
    # A name, not an id that changes with the cell's text.
    assert PROOFS[place].options.get("name") == claim["cell"]


def test_no_claim_is_judged_twice():
    assert Counter(claim["claim"] for claim in CLAIMS).most_common(1)[0][1] == 1
