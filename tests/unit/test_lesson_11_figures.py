"""Lesson 11 counts a row as delivered twice if both runs have it from the same commit."""

import pandas as pd

from lab_env.lessons.l11.figures import Deliveries
from lab_env.tables.hudi.timeline import Instant

TIMES = (("100", "150"), ("200", "250"), ("300", "350"))
INSTANTS = [Instant(*times, "commit", "completed") for times in TIMES]


def delivered(*rows: tuple[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["_hoodie_commit_time", "order_id"])


FIRST = delivered(("100", "O-1"), ("200", "O-2"))


def test_a_row_is_twice_only_when_both_runs_have_it_of_the_same_commit():
    second = delivered(("200", "O-2"), ("300", "O-1"))
    counts = Deliveries("200", FIRST, second).counts(INSTANTS)
    assert counts.sum().to_dict() == {"first": 1, "second": 1, "twice": 1}
    assert counts.loc["200", "twice"] == 1
