"""The register of the articles' claims: each has a lesson, a verdict, and a way it was measured."""

import csv
from collections import Counter

import pytest

from lab_env.settings import REPOSITORY

with (REPOSITORY / "data" / "claims.csv").open(newline="", encoding="utf-8") as file:
    CLAIMS = list(csv.DictReader(file))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["claim"][:40])
def test_a_claim_is_judged_in_a_lesson_that_is_there(claim):
    assert all(value and value.strip() for value in claim.values())
    assert claim["article"] in ("first", "second", "both")
    (source,) = (REPOSITORY / "solutions" / "src").glob(f"{claim['lesson']}_*.py")
    assert "assert " in source.read_text(encoding="utf-8")


def test_no_claim_is_judged_twice():
    assert Counter(claim["claim"] for claim in CLAIMS).most_common(1)[0][1] == 1


def test_every_lesson_of_part_one_judges_claims():
    assert {claim["lesson"] for claim in CLAIMS} >= {"01", "02", "03", "04"}
