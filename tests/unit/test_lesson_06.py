"""Lesson 06 counts logs, derives compaction times from listings, and reads each query's input."""

import random
from datetime import UTC, datetime

import pytest

from lab_env.lessons.l06.checks import logs_to_merge, made_up_table
from lab_env.lessons.l06.figures import (
    Compaction,
    Step,
    Work,
    as_table,
    batches_of,
    compactions_of,
    during,
)
from lab_env.platform.store import StoredObject
from lab_env.tables.hudi.table import DataFile, Snapshot
from lab_env.tables.hudi.timeline import Instant
from lab_env.tables.probes.inputs import input_of


@pytest.mark.parametrize("seed", range(20))
def test_no_lucky_function_counts_the_logs_of_a_made_up_table(seed):
    table = made_up_table(random.Random(seed))
    counts = [len(found.logs) for found in table.current]
    lucky = (counts[0], max(counts), sum(counts), max(len(found.logs) for found in table.slices))
    assert logs_to_merge(table) not in lucky
    assert sum(file.kind == "log" for file in table.files) > sum(counts)


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()


def at(second: int) -> str:
    return f"202611201200{second:02d}000"


def table(instants, files, since=None) -> Snapshot:
    return Snapshot(
        "s3a://b/t", "t", "MERGE_ON_READ", 9, tuple(instants), tuple(files), since=since
    )


def file(kind: str, second: int, size: int) -> DataFile:
    return DataFile("day", "group", at(second), kind, f"{kind}-{second}", size, committed=True)


FIRST = table([Instant(at(0), at(1), "deltacommit", "completed")], [file("base", 0, 2048)])
COMPACTED = table(
    [
        *FIRST.instants,
        Instant(at(2), at(3), "deltacommit", "completed"),
        Instant(at(4), at(5), "compaction", "completed"),
    ],
    [*FIRST.files, file("log", 2, 1024), file("base", 4, 4096)],
    since=FIRST,
)
STEPS = [
    Step(0, NOON, NOON + 1.2, NOON + 1.7, 2048, None, FIRST),
    Step(1, NOON + 2, NOON + 5.2, NOON + 5.6, 4096, None, COMPACTED),
]


def test_a_step_tells_what_was_written_and_whether_the_write_compacted():
    assert as_table(STEPS).to_dict("list") == {
        "logs": [0, 0],
        "KB read by query": [2, 4],
        "KB log written": [0, 1],
        "KB base written": [2, 4],
        "s to write": [1.2, 3.2],
        "s to query": [0.5, 0.4],
        "compacted": ["", "yes"],
    }


def test_a_pending_plan_is_no_compaction_of_that_step():
    pending = table([*FIRST.instants, Instant(at(4), "", "compaction", "requested")], [], FIRST)
    assert not Step(1, 0, 1, 2, 0, None, pending).compacted


def test_the_timeline_tells_when_a_compaction_was_planned_begun_and_complete():
    timeline, modified = ".hoodie/timeline/", datetime(2026, 11, 20, 12, 0, 6, 500_000, tzinfo=UTC)
    names = (
        f"{timeline}{at(1)}_{at(2)}.deltacommit",
        f"{timeline}{at(5)}.compaction.requested",
        f"{timeline}{at(5)}.compaction.inflight",
        f"{timeline}{at(5)}_{at(8)}.commit",
        f"{timeline}{at(9)}.compaction.requested",
        f".hoodie/metadata/{timeline}{at(3)}.compaction.requested",
    )
    found = compactions_of([StoredObject(f"x/t/{name}", 1, modified) for name in names])
    assert found == [Compaction(NOON + 5, NOON + 6.5, NOON + 8), Compaction(NOON + 9, None, None)]


def test_a_stream_worked_in_the_batches_that_had_rows():
    progress = [
        {
            "batchId": number,
            "numInputRows": rows,
            "timestamp": "2026-11-20T12:00:01.500Z",
            "durationMs": {"triggerExecution": 250},
        }
        for number, rows in ((0, 5), (1, 0))
    ]
    assert batches_of(progress) == [Work("0", NOON + 1.5, NOON + 1.75)]


@pytest.mark.parametrize(("group", "read"), [("a", 70), ("b", 5), ("c", 0)])
def test_the_input_of_a_job_group_is_that_of_its_stages(group, read):
    jobs = [
        {"jobGroup": "a", "stageIds": [1, 2]},
        {"jobGroup": "a", "stageIds": [2, 3]},
        {"jobGroup": "b", "stageIds": [4]},
        {"stageIds": [5]},
    ]
    stages = [
        {"stageId": number, "inputBytes": size}
        for number, size in ((1, 10), (2, 20), (3, 30), (3, 10), (4, 5), (5, 100))
    ]
    assert input_of(group, jobs, stages) == read


def test_the_writes_that_went_on_while_a_compaction_ran():
    works = [Work("0", 0, 2), Work("1", 2.5, 4), Work("2", 5, 6)]
    assert during(works, Compaction(0.5, 1.5, 3)) == ["0", "1"]
    assert during(works, Compaction(0.5, 4.2, 4.8)) == []
