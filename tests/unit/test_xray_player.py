"""The player's text and HTML; `tests/integration/test_xray.py` plays real tables in a browser."""

import re
from html import unescape

import pytest
from xray_pictures import many_instants
from xray_tables import (
    DAY,
    T1,
    T2,
    T3,
    T4,
    T5,
    base,
    cleaned,
    committed,
    done,
    log,
    restored,
    stat,
    table,
    wrote,
)


@pytest.fixture(scope="module")
def life():
    """A table with an insert, an update into a log, a compaction, a clustering and a clean."""
    insert = stat(base(T1), written=1000, inserted=1000, size=435_000)
    update = stat(log(T2), written=20, updated=18, deleted=2, size=2_100)
    compacted = stat(base(T3), written=998, size=434_000)
    contents = {
        done(T1)[0]: committed("INSERT", insert),
        done(T2)[0]: committed("UPSERT", update),
        done(T3, "commit")[0]: committed("COMPACT", compacted),
        done(T4, "replacecommit")[0]: committed(
            "CLUSTER", stat(base(T4, "b-0"), written=998, group="b-0", size=430_000),
            replaced={DAY: ["a-0"]},
        ),
    }  # fmt: skip
    clean = cleaned(T5, base(T1), log(T2))
    return table(base(T3), base(T4, "b-0"), contents=contents | clean)


def steps_of(html: str) -> list[str]:
    return re.split(r'<div class="step" ', html)[1:]


def test_each_step_says_what_it_added_replaced_and_cleaned(life):
    words = repr(life.play())
    first, update, compaction, clustering, clean = re.split(r"\n(?=\d )", words)[1:]
    assert "completed 2026-11-20 09:01:02.000 UTC, requested 09:01:00.000 (2.0 s before)" in first
    assert "INSERT: 1,000 inserted" in first
    assert "added 1 base file (1,000 rows, 435 KB)" in first
    assert "UPSERT: 0 inserted, 18 updated, 2 deleted" in update
    assert "added 1 log (22 changes, 2.1 KB)" in update and "replaced" not in update
    assert "COMPACT: no row changed" in compaction
    superseded = "replaced 1 base file (1,000 rows, 435 KB) and 1 log (22 changes, 2.1 KB)"
    assert f"{superseded}: still stored, no longer read" in compaction
    assert "replaced 1 base file (998 rows, 434 KB)" in clustering
    assert "cleaned 1 base file (1,000 rows, 435 KB) and 1 log" in clean
    assert "added" not in clean and "replaced" not in clean


def test_the_page_says_what_the_text_says(life):
    html = unescape(life.play()._repr_html_())
    lines = repr(life.play()).splitlines()[1:]
    assert [line for line in lines if re.sub(r"^\d ", "", line).strip() not in html] == []


def test_without_its_script_the_newest_step_is_shown(life):
    html = life.play()._repr_html_()
    hidden = [step.startswith("hidden") for step in steps_of(html)]
    assert hidden == [True] * 4 + [False]
    assert re.search(r'<div class="controls"[^>]* hidden>', html)


def test_it_says_where_the_past_begins(life):
    begin = "begins at 2026-11-20 09:01:02.000 UTC, with the oldest action that the timeline"
    assert begin in repr(life.play())
    assert "the last 2 of 5 completed actions, from 2026-11-20 09:04:02.000" in repr(life.play(2))
    many = many_instants(90).play()
    assert len(many.past.moments) == 30 and "the last 30 of 90" in repr(many)
    known = wrote(T2, base(T2)) | cleaned(T3, base(T1))
    assert "before it (1) cannot be drawn" in repr(table(base(T2), contents=known).play())


def test_it_says_what_it_leaves_out():
    contents = wrote(T2, base(T2), base(T2, "c-0")) | restored(T4, T3)
    words = repr(table(base(T1), base(T2), base(T5, "b-0"), contents=contents).play())
    assert "From before: 1 base file (1.0 KB), whose writes are no longer recorded." in words
    assert f"undid 1 instant: {T3}" in words and "undone by a restore (1)" in words
    assert "Missing from the listing: 1 base file (3 rows, 1.0 KB) of the last step." in words
    assert "Not drawn: 1 base file (1.0 KB) of actions that are not complete" in words
    assert "the step before is not known" in words


def test_a_table_without_a_write_and_one_with_one_step_need_no_controls():
    for picture in (table(), table(base(T1), contents=wrote(T1, base(T1)))):
        assert "<script>" not in picture.play()._repr_html_()
    assert "No action on this table is complete yet." in repr(table().play())


def test_hostile_names_are_escaped():
    properties = "hoodie.table.name=<img src=x onerror=alert(1)>\nhoodie.table.version=9\n"
    picture = table(base(T1), contents=wrote(T1, base(T1)), properties=properties)
    assert "<img" not in picture.play()._repr_html_()
