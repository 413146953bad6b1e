"""Parsing of Hudi's file names and instant times."""

from datetime import UTC, datetime

import pytest
from xray_tables import T1, T2

from lab_env.tables.hudi.timeline import (
    Instant,
    from_seconds,
    is_instant,
    parse_data_name,
    parse_timeline_key,
    parse_timeline_name,
    seconds_between,
    to_seconds,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("name", "kind", "group"),
    [
        ("8c1e-2f-0_0-12-34_20261120090100000.parquet", "base", "8c1e-2f-0"),
        (".8c1e-2f-0_20261120090100000.log.1_0-12-34", "log", "8c1e-2f-0"),
        (".8c1e-2f-0_20261120090100000.log.1_0-12-34.cdc", "cdc", "8c1e-2f-0"),
    ],
)
def test_a_data_file_names_its_group_and_kind(name, kind, group):
    parsed = parse_data_name(name)
    assert (parsed.kind, parsed.group, parsed.instant) == (kind, group, "20261120090100000")


@pytest.mark.parametrize("name", [".hoodie_partition_metadata", "part-0000.parquet", "a.json"])
def test_other_files_are_no_data_files(name):
    assert parse_data_name(name) is None


@pytest.mark.parametrize(
    ("name", "instant"),
    [
        (f"{T1}_{T2}.commit", Instant(T1, T2, "commit", "completed")),
        (f"{T1}.deltacommit.requested", Instant(T1, "", "deltacommit", "requested")),
        (f"{T1}.inflight", Instant(T1, "", "commit", "inflight")),
        ("_version_", None),
        (f"{T1}_{T2}.commit.crc", None),
    ],
)
def test_a_timeline_file_names_its_instant(name, instant):
    assert parse_timeline_name(name) == instant


def test_only_the_tables_own_active_timeline_counts():
    name = f"{T1}_{T2}.commit"
    for folder in (".hoodie/timeline", "lesson-05/orders/.hoodie/timeline"):
        assert parse_timeline_key(f"{folder}/{name}").completed == T2
    for folder in (".hoodie/metadata/.hoodie/timeline", ".hoodie/timeline/history", ".hoodie", "d"):
        assert parse_timeline_key(f"t/{folder}/{name}") is None


def test_an_instant_time_is_utc_with_milliseconds():
    assert to_seconds("20261121120000250") == NOON + 0.25
    assert to_seconds("20261121120000") == NOON
    assert seconds_between(T1, T2) == 60


@pytest.mark.parametrize("milliseconds", [0, 1, 250, 705, 999])
def test_seconds_become_the_instant_time_that_they_came_from(milliseconds):
    instant = f"20261121120000{milliseconds:03d}"
    assert from_seconds(to_seconds(instant)) == instant


def test_a_batch_number_is_no_instant():
    assert is_instant(T1) and is_instant(T1[:14])
    assert not is_instant("9") and not is_instant("20261121T120000Z0")
