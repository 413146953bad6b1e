"""The query sheet's table of readers has the counts of the recorded run."""

import re

from lab_env.lessons.recorded import delivered
from lab_env.lessons.recorded.readers import conditions, counts_of
from lab_env.platform.settings import REPOSITORY

SHEET = (REPOSITORY / "docs" / "query_sheet.md").read_text(encoding="utf-8")
SECTION = SHEET.partition("## What readers see")[2].partition("\n## ")[0]
TABLES = {"Hudi COW": "Copy-on-Write", "Hudi MOR": "Merge-on-Read"}
COUNTED = ["reads", "stale", "half a commit", "error"]


def test_the_query_sheet_has_the_counts_of_the_recorded_run():
    rows = re.findall(r"^\| ([^|]+) \| ([\w-]+-on-\w+) \| (.+) \|$", SECTION, re.MULTILINE)
    told = {(table, reader): tuple(counts.split(" | ")) for reader, table, counts in rows}
    counts = counts_of(delivered("readers"))[COUNTED].astype(object)
    counts = counts.where(counts.notna(), "–")
    recorded = {
        (TABLES[table], reader): tuple(map(str, row))
        for (table, reader), row in zip(counts.index, counts.itertuples(index=False), strict=True)
    }
    assert told == recorded
    assert conditions(delivered("readers")) in SECTION.replace("\n", " ")


def test_nothing_went_back_or_came_too_early_in_the_recorded_run():
    counts = counts_of(delivered("readers"))
    assert (counts[["older than before", "not complete"]].fillna(0) == 0).all(axis=None)
    assert (counts["missed or again"].dropna() == 0).all()
