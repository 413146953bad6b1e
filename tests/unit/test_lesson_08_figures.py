"""Lesson 08 derives a write's work on each file from the S3 client's log and two X-rays."""

import pandas as pd
import pytest
from xray_tables import OTHER_DAY, T1, T2, base, done, snapshot

from lab_env.lessons.l08.figures import Lookup, lookup_table
from lab_env.lessons.l08.ranges import HIT, MISS, range_chart
from lab_env.tables.probes.reads import Reads

TABLE = "t"  # its path in the bucket, as `snapshot` makes it


def request(name: str, start: int, size: int = 1000) -> str:
    return (
        f"09:00:00 DEBUG S3AInputStream: reopen(s3a://lakehouse/{TABLE}/{name}) for read from new "
        f"offset range[{start}-{size}], length=1, streamPosition=0, nextReadPosition={start}, "
        "policy=normal\n"
    )


def closed(name: str, size: int) -> str:
    return (
        f"09:00:00 DEBUG S3AInputStream: Statistics of stream {TABLE}/{name}\n"
        f"StreamStatistics{{counters=((stream_read_closed=2) (stream_read_bytes={size}) "
        f"(stream_read_total_bytes=9999));\ngauges=((x=1));\n}}\n"
    )


@pytest.fixture
def lookup() -> Lookup:
    """A write and four files: one rewritten, one read, one read only at its footer, one unread."""
    a, b, c = (base(T1, f"{group}-0") for group in "abc")
    old = (*done(T1), a, b, c, base(T1, "d-0", OTHER_DAY))
    index, listing = ".hoodie/metadata/record_index/x.log", ".hoodie/metadata/files/y.hfile"
    after = snapshot(*old, *done(T2), base(T2, "c-0"), index, since=snapshot(*old))
    reads = {a: (992, 500), b: (992, 500, 4), c: (992, 500, 4, 90), listing: (0,)}
    log = "".join(request(name, start) for name, starts in reads.items() for start in starts)
    log += "".join(closed(name, 500) for name in (a, b, c, c, listing))
    return Lookup(after, Reads(log), 1.0)


def test_reads_counts_places_and_adds_up_the_bytes_of_all_streams_of_an_object():
    log = (
        request("f", 992) + request("f", 500) + request("f", 992) + closed("f", 10) + closed("f", 5)
    )
    assert Reads(log).frame().to_dict("index") == {f"{TABLE}/f": {"places": 2, "bytes": 15}}
    assert Reads("nothing of interest\n").frame().empty


def test_each_file_is_told_by_the_most_that_was_done_with_it(lookup):
    found = {row.group[0]: row.found for row in lookup.files.itertuples()}
    assert found == {"a": "footer", "b": "rows", "c": "rewritten", "d": "none"}
    assert list(lookup.files["found"]) == ["rewritten", "rows", "footer", "none"]
    assert list(lookup.files["bytes"]) == [1000, 500, 500, 0]


def test_the_figures_count_data_files_and_the_metadata_table_apart(lookup):
    assert lookup_table({"BLOOM": lookup}).loc["BLOOM"].to_dict() == {
        "files opened": 3,
        "rows read in": 2,
        "rewritten": 1,
        "metadata files read": 1,
        "metadata files written": 1,
    }


def test_only_bars_that_meet_the_filter_are_marked():
    bars = pd.DataFrame({"low": [0.0, 10.0, 20.0], "high": [9.0, 19.0, 29.0]})
    hit_all = range_chart({"keys": bars}, {"keys": (0, 29)})
    hit_none = range_chart({"keys": bars}, {"keys": (40, 50)})
    assert HIT.lower() in hit_all and MISS.lower() not in hit_all
    assert HIT.lower() not in hit_none and MISS.lower() in hit_none
