"""Lesson 05 judges by the files that writes made: each way to be wrong has its own reason."""

from dataclasses import replace

import pytest

from lab_env.course.checking import NotYet, Passed
from lab_env.hudi.model import Snapshot
from lab_env.hudi.timeline import Instant
from lab_env.lessons.l05.checks import (
    EVIDENCE,
    TEN,
    TEN_AND_NEW,
    FilesOfTwoUpserts,
    Sizes,
    Trial,
    TwoUpserts,
    TypeForAWorkload,
    WhereItHolds,
    _compacted,
    _key_index,
    _logs_of_deletes,
    _logs_of_updates,
    _rewritten_for_inserts,
)

MADE = {TEN: "log", TEN_AND_NEW: "base"}


def reason_of(verdict) -> str:
    assert isinstance(verdict, NotYet)
    return verdict.reason


@pytest.mark.parametrize("alone", [True, False])
def test_a_log_and_a_rewritten_base_file_pass_and_the_note_tells_only_what_was_seen(alone):
    verdict = FilesOfTwoUpserts.judge(TwoUpserts(MADE, MADE, alone))
    assert isinstance(verdict, Passed)
    assert ("a file group of its own" in verdict.note) == alone


@pytest.mark.parametrize(
    ("ten", "mixed", "reason"),
    [
        ("base", "base", "a change of a known order goes to a log"),
        ("log", "log", "The second made no log"),
        ("log", "base and log", "went into the same new base file"),
        ("log", "none", "went into the same new base file"),
    ],
)
def test_wrong_files_of_an_upsert_get_their_reason(ten, mixed, reason):
    facts = TwoUpserts({TEN: ten, TEN_AND_NEW: mixed}, MADE, True)
    assert reason in reason_of(FilesOfTwoUpserts.judge(facts))


SIZES = Sizes(
    answer={"archive": "cow", "status feed": "mor", "repricing": "cow"},
    insert={"cow": 23_000, "mor": 23_010},
    ten={"cow": 23_100, "mor": 2_800},
    all={"cow": 23_200, "mor": 168_000},
)


def choosing(**kinds: str) -> Sizes:
    named = {name.replace("_", " "): kind for name, kind in kinds.items()}
    return replace(SIZES, answer=SIZES.answer | named)


def test_the_type_that_writes_less_passes_and_compaction_is_counted():
    assert isinstance(TypeForAWorkload.judge(SIZES), Passed)
    assert SIZES.workloads()["status feed"] == {"cow": 462_000, "mor": 79_000}
    assert SIZES.workloads()["repricing"] == {"cow": 23_200, "mor": 191_000}


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (choosing(archive="mor"), "base files on both types"),
        (choosing(status_feed="cow"), "990 orders that did not change"),
        (choosing(repricing="mor"), "the log alone is larger"),
        (choosing(repricing="both"), "give 'cow' or 'mor'"),
    ],
)
def test_a_type_that_writes_more_gets_the_bytes(facts, reason):
    assert reason in reason_of(TypeForAWorkload.judge(facts))


def test_the_run_decides_not_the_textbook():
    cheap_logs = replace(SIZES, all={"cow": 23_200, "mor": 50}, insert={"cow": 100, "mor": 100})
    assert "repricing" in reason_of(TypeForAWorkload.judge(cheap_logs))


BOTH, MOR = frozenset({"cow", "mor"}), frozenset({"mor"})
HOLDS = dict(zip(EVIDENCE, (MOR, MOR, MOR, BOTH, frozenset()), strict=True))
SAID = dict(zip(EVIDENCE, ("mor", "mor", "mor", "both", "neither"), strict=True))


def test_each_statement_where_the_files_have_it_passes():
    assert isinstance(WhereItHolds.judge(Trial(SAID, HOLDS)), Passed)


@pytest.mark.parametrize("statement", EVIDENCE)
def test_a_wrong_place_gets_the_evidence_for_that_statement(statement):
    wrong = "cow" if SAID[statement] != "cow" else "mor"
    verdict = WhereItHolds.judge(Trial(SAID | {statement: wrong}, HOLDS))
    assert EVIDENCE[statement] in reason_of(verdict)


def test_a_word_that_is_no_answer_is_told_so():
    statement = next(iter(EVIDENCE))
    verdict = WhereItHolds.judge(Trial(SAID | {statement: "yes"}, HOLDS))
    assert "'both' or 'neither'" in reason_of(verdict)


def table(*writes: list[tuple[str, str]], compacted: bool = False, metadata: str = "files"):
    """A table whose writes recorded these files: kind, and the base file that each replaced."""
    instants, records = [], {}
    for number, files in enumerate(writes):
        at = f"2026112010{number:02d}00000"
        action = "compaction" if compacted and number == len(writes) - 1 else "commit"
        instants.append(Instant(at, at, action, "completed"))
        stats = [_stat(kind, replaced, at) for kind, replaced in files]
        records[action, at] = {"partitionToWriteStats": {"day": stats}, "operationType": "UPSERT"}
    bookkeeping = tuple(
        ("metadata", f".hoodie/metadata/{part}/x", 1) for part in (".hoodie", metadata)
    )
    return Snapshot(
        "s3a://b/t", "t", "MERGE_ON_READ", 9, tuple(instants), (), (), bookkeeping, records=records
    )


def _stat(kind: str, replaced: str, at: str) -> dict:
    name = f"g-0_0-1-1_{at}.parquet" if kind == "base" else f".g-0_{at}.log.1_0-1-1"
    counts = ("numWrites", "numInserts", "numUpdateWrites", "numDeletes", "fileSizeInBytes")
    return {"fileId": "g-0", "path": f"day/{name}", "prevBaseFile": replaced} | dict.fromkeys(
        counts, 1
    )


NEW, REWRITTEN, LOG = [("base", "")], [("base", "older")], [("log", "")]
AS_MOR = table(NEW, LOG, LOG, LOG, REWRITTEN, REWRITTEN, compacted=True)
AS_COW = table(NEW, REWRITTEN, REWRITTEN, REWRITTEN, REWRITTEN)


@pytest.mark.parametrize(
    ("test", "of_mor", "of_cow"),
    [
        (_logs_of_updates, True, False),
        (_logs_of_deletes, True, False),
        (_compacted, True, False),
        (_rewritten_for_inserts, True, True),
        (_key_index, False, False),
    ],
)
def test_the_evidence_is_read_from_what_the_writes_recorded(test, of_mor, of_cow):
    assert (test(AS_MOR), test(AS_COW)) == (of_mor, of_cow)


def test_evidence_that_is_not_there_is_not_found():
    apart = table(NEW, LOG, LOG, LOG, NEW, metadata="record_index")
    assert not _rewritten_for_inserts(apart) and _key_index(apart)
