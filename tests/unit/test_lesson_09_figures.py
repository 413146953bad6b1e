"""Lesson 09's grid has each query's answer and files, in the order of the moments."""

from lab_env.lessons.l09.figures import Answer, QueryGrid

ANSWERS = {
    ("before", "mor", "snapshot"): Answer({"paid": 0}, 2, 0, 40_000),
    ("before", "mor", "read-optimised"): Answer({"paid": 0}, 2, 0, 40_000),
    ("after", "mor", "snapshot"): Answer({"paid": 250}, 2, 1, 100_000),
    ("after", "mor", "read-optimised"): Answer({"paid": 0}, 2, 0, 40_000),
}


def test_each_row_follows_the_order_of_the_moments():
    grid = QueryGrid(ANSWERS, "paid")
    assert grid.answers_of("mor") == {"snapshot": [0, 250], "read-optimised": [0, 0]}
    assert list(grid.frame("logs").loc[("mor", "snapshot")]) == [0, 1]
    assert grid.frame("bytes").loc[("mor", "read-optimised"), "after"] == 40_000
