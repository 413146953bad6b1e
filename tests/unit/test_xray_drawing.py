"""The X-ray's drawing contains every name, and its legend explains the symbols used.

`tests/browser/test_xray_pages.py` checks in a browser that nothing overlaps or is cut off.
"""

import re
from html import unescape

import pytest
from xray_pictures import TABLES, changed, many_groups, many_instants, over_days, rivals
from xray_tables import DAY, T1, T2, T4, base, committed, done, log, stat, table


@pytest.fixture(params=TABLES, scope="module")
def picture(request):
    return TABLES[request.param]()


def hovers(picture) -> str:
    return "\n".join(map(unescape, re.findall(r'title="([^"]*)"', picture._repr_html_())))


@pytest.mark.parametrize("count", [1, 7, 60, 200])
def test_every_full_name_appears_under_the_pointer(count):
    picture = many_groups(count, min(count, 5))
    names = hovers(picture)
    assert [file.name for file in picture.files if file.name not in names] == []
    assert [
        i for i in picture.instants if i.requested not in names or i.completed not in names
    ] == []
    assert picture.path in names


def test_the_text_form_names_what_the_pointer_names(picture):
    words = repr(picture)
    for file in (*picture.files, *picture.gone_files):
        assert file.name in words and file.group in words and file.partition in words
        assert f"{file.size:,} bytes" in words
    for instant in picture.instants:
        line = next(line for line in words.splitlines() if f"requested {instant.requested}" in line)
        assert instant.action in line and (instant.completed or instant.state) in line
    for part, row in picture.parts().iterrows():
        assert (
            f"{part} {row.objects} (" in words
            and f"{part} {row.objects} (" in picture._repr_html_()
        )


def test_beyond_200_file_groups_it_says_what_is_left_out():
    picture = many_groups(500, 40)
    assert "and 300 more file groups" in picture._repr_html_()
    assert "more file groups" not in many_groups(200, 40)._repr_html_()
    words = repr(picture)
    assert [file for file in picture.files if file.name not in words] == []


def test_many_instants_share_the_first_column_and_are_named_there():
    picture = many_instants(90)
    assert "earlier" in picture._repr_html_()
    names = hovers(picture)
    assert [instant for instant in picture.instants if instant.requested not in names] == []
    assert "earlier" not in many_instants(30)._repr_html_()


def test_files_of_one_slice_and_instant_share_a_box_that_names_them_all():
    logs = [log(T2, version=number) for number in (1, 2)]
    picture = table(*done(T1), *done(T2), base(T1), *logs)
    assert "<b>2 logs</b>" in picture._repr_html_()
    assert all(name.rpartition("/")[2] in hovers(picture) for name in logs)


def test_the_time_between_instants_is_written_from_seconds_to_days():
    html = over_days()._repr_html_()
    for words in ("+4 h", "+1 min", "+1 d", ">11-18<", ">11-20<", ">11-21<"):
        assert words in html, words


def test_what_a_write_added_rewrote_and_removed_is_said():
    picture = changed()
    html = picture._repr_html_()
    assert {f.group for f in picture.gone_files} == {"a-0", "b-0"}
    assert {f.group for f in picture.rewritten_files} == {"a-0", "c-0"}
    for word in ("new", "rewritten", "removed"):
        assert f"<em>{word}</em>" in html and f"{word} since the last look" in repr(picture)
    assert "new since the last look" in html and "removed since the last look" in html
    unmarked = many_groups(7)
    assert "since" not in unmarked._repr_html_() and "since" not in repr(unmarked)


def test_the_legend_explains_only_what_is_there():
    plain = table(*done(T1), base(T1))._repr_html_().partition("</style>")[2]
    assert "an instant: one action" in plain and "solid:" in plain
    assert "dashed:" not in plain and "hollow" not in plain and "not committed" not in plain
    html = changed()._repr_html_()
    for words in ("solid:", "hollow: not complete", "not committed: no reader sees it", "cdc log"):
        assert words in html


def test_a_files_job_and_its_damage_are_told_in_both_forms():
    picture = rivals()
    assert picture.writers == {T1: "the stream", T2: "backfill", T4: "the stream"}
    assert "by the stream" in hovers(picture) and ", by backfill" in repr(picture)
    why = f"{log(T4)}: block 1 ends within its first length"
    assert why in repr(picture) and why in unescape(picture._repr_html_())
    assert "damaged" not in repr(changed())


def test_the_metadata_tables_partitions_are_listed():
    folder = ".hoodie/metadata"
    names = ("files/a", "files/b", "record_index/a", ".hoodie/x")
    picture = table(*done(T1), base(T1), *(f"{folder}/{name}" for name in names))
    for form in (repr(picture), picture._repr_html_()):
        assert "files 2 (2.0 KB)" in form and "record_index 1 (1.0 KB)" in form
    assert list(picture.metadata_partitions.index) == ["files", "record_index"]


def test_rows_are_counted_where_commits_record_them():
    contents = {done(T1)[0]: committed("INSERT", stat(base(T1), written=1234, inserted=1234))}
    picture = table(*done(T1), base(T1), contents=contents)
    assert picture.rows == 1234
    assert "1,234 rows" in picture._repr_html_() and "1,234 rows" in repr(picture)
    with_log = table(*done(T1), *done(T2), base(T1), log(T2), contents=contents)
    assert with_log.rows is None


def test_an_unpartitioned_and_an_empty_table_say_so():
    assert "(no partitions)" in table(*done(T1), base(T1, day=""))._repr_html_()
    assert "no write yet" in table()._repr_html_() and DAY not in table()._repr_html_()
