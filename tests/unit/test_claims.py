"""The register of the articles' claims: each has a lesson, a verdict, and a cell that measures it."""

import ast
import csv
from collections import Counter

import pytest

from lab_env.authoring.source import read_lesson, sources
from lab_env.settings import REPOSITORY

with (REPOSITORY / "data" / "claims.csv").open(newline="", encoding="utf-8") as file:
    CLAIMS = list(csv.DictReader(file))
COLUMNS = ("claim", "article", "lesson", "verdict", "measured_by", "cell")


@pytest.fixture(scope="module")
def worked_cells():
    """The cells of each worked notebook by lesson and cell id."""
    lessons = [read_lesson(path) for path in sources()]
    return {
        (lesson.number, cell_id): cell
        for lesson in lessons
        for cell, cell_id in zip(lesson.cells, lesson.cell_ids(), strict=True)
        if cell.shown
    }


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["claim"][:40])
def test_a_claim_is_measured_by_a_cell_that_asserts(claim, worked_cells):
    assert tuple(claim) == COLUMNS
    assert all(value and value.strip() for value in claim.values())
    assert claim["article"] in ("first", "second", "both")
    place = claim["lesson"], claim["cell"]
    assert place in worked_cells, f"lesson {place[0]} has no cell named {place[1]!r}"
    cell = worked_cells[place]
    assert cell.options.get("name") == claim["cell"]  # not an id that changes with the cell's text
    assert cell.kind == "code"
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(cell.text)))


def test_no_claim_is_judged_twice():
    assert Counter(claim["claim"] for claim in CLAIMS).most_common(1)[0][1] == 1


def test_every_lesson_of_part_one_judges_claims():
    assert {claim["lesson"] for claim in CLAIMS} >= {"01", "02", "03", "04"}
