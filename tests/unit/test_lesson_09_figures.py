"""The grid shows each query's answer and files, and colours a cell by the bytes that it read."""

import pandas as pd

from lab_env.lessons.l09.figures import Answer, QueryGrid, draw_totals

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


def test_a_cell_shows_its_files_and_the_dearest_has_the_strongest_colour():
    page = QueryGrid(ANSWERS, "paid")._repr_html_()
    dear = next(cell for cell in page.split("<td") if "100 KB" in cell)
    cheap = next(cell for cell in page.split("<td") if "40 KB" in cell)
    assert "2 base + 1 log" in dear and "log" not in cheap

    def strength(cell: str) -> float:
        return float(cell.split("rgba(")[1].split(")")[0].split(",")[3])

    assert strength(dear) > 2 * strength(cheap)


def test_the_chart_names_both_sums_and_each_moment():
    drawn = draw_totals(
        pd.DataFrame(
            {"snapshot": [100, 100], "read_optimized": [100, 140]}, index=["compacted", "split"]
        )
    )
    for text in (">100<", ">140<", ">compacted<", ">split<", ">read-optimised<"):
        assert text in drawn
