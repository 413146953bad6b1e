"""Lesson 18: no wrong split passes by luck, a colleague's writes, and the holders of locks."""

import contextlib
import itertools
import random
from dataclasses import replace
from queue import Empty
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from kazoo.exceptions import NoNodeError

from lab_env.course.answers import Unreadable
from lab_env.course.checking import NotYet, checks_of_lesson
from lab_env.lessons.l18.checks import batches_of, expect_no_conflict, one_lock_for_both
from lab_env.lessons.l18.colleague import (
    COLLEAGUE,
    COMMITTED,
    YOU,
    Colleague,
    Running,
    WriteFailed,
    attempt,
    why_failed,
)
from lab_env.lessons.l18.figures import Race, draw_race
from lab_env.lessons.l18.locks import Holding, LockWatch, Node, holdings_of, lock_roots
from lab_env.platform.errors import LabError

FILES = {key: (f"day={(key - 1) // 100}", f"file-{(key - 1) // 50}") for key in range(1, 301)}


def judged(answer, chosen) -> None:
    """Judge a function that chooses which corrections (by number) to write during a batch."""
    corrections = sorted(chosen.sample(range(1, 301), 90))
    for batch in batches_of(chosen):
        allowed = [f"O-{key}" for key in answer(corrections, batch)]
        expect_no_conflict(allowed, corrections, batch, FILES)


def days_of(keys):
    return {FILES[key][0] for key in keys}


def other_days(corrections, batch):
    return [key for key in corrections if FILES[key][0] not in days_of(batch)]


def other_files(corrections, batch):
    busy = {FILES[key] for key in batch}
    return [key for key in corrections if FILES[key] not in busy]


@pytest.mark.parametrize("seed", range(20))
def test_a_split_by_day_or_by_file_passes_and_no_lucky_one(seed):
    for right in (other_days, other_files):
        judged(right, random.Random(seed))
    lucky = {
        "one day": lambda keys, batch: [key for key in keys if key <= 100],
        "another day": lambda keys, batch: [key for key in keys if 100 < key <= 200],
        "the days before": lambda keys, batch: [
            key for key in keys if FILES[key][0] < min(days_of(batch))
        ],
        "the days after": lambda keys, batch: [
            key for key in keys if FILES[key][0] > max(days_of(batch))
        ],
        "other orders": lambda keys, batch: [key for key in keys if key not in batch],
        "nothing": lambda keys, batch: [],
    }
    for answer in lucky.values():
        with pytest.raises(NotYet):
            judged(answer, random.Random(seed))


@pytest.mark.parametrize("check", checks_of_lesson("18").values())
def test_something_else_than_a_function_is_unreadable(check):
    with pytest.raises(Unreadable, match="A function"):
        check(None, {"hoodie.write.concurrency.mode": "x"})


@pytest.fixture
def lab(monkeypatch):
    monkeypatch.setattr("lab_env.lessons.l18.checks.scratch_copy", lambda *a: "s3a://b/t")
    return SimpleNamespace(path=lambda name: name)


def test_options_that_are_no_dictionary_are_unreadable(lab):
    with pytest.raises(Unreadable, match="dictionary"):
        one_lock_for_both(lab, lambda job, table: [job, table])


def test_a_typo_in_the_options_is_a_card_and_no_error(lab, monkeypatch):
    @contextlib.contextmanager
    def frozen_while_writing(table, code):
        raise WriteFailed("HoodieException: Unable to load class")
        yield

    colleague = SimpleNamespace(share=dict, frozen_while_writing=frozen_while_writing)
    monkeypatch.setattr(Colleague, "of", lambda lab: colleague)
    with pytest.raises(NotYet, match="Unable to load class"):
        one_lock_for_both(lab, lambda job, table: {})


def test_without_a_colleague_the_error_says_where_to_begin():
    with pytest.raises(LabError) as error:
        Colleague.of(SimpleNamespace(namespace="lesson-18"))
    assert "first cell" in error.value.next_step


def colleague_who(is_alive: bool, messages=()) -> Colleague:
    """Return a colleague without a kernel, whose notebook answers with these messages."""
    mara, said = Colleague.__new__(Colleague), iter(messages)
    mara._manager = SimpleNamespace(is_alive=lambda: is_alive)
    mara._last = "code"

    def next_message(timeout):
        for message in said:
            return message
        raise Empty

    mara._client = SimpleNamespace(
        execute=lambda code, store_history: "code", get_iopub_msg=next_message
    )
    mara._start = Running(COLLEAGUE, 1.0, ended=2.0, outcome=COMMITTED)
    return mara


def message(kind: str, **content) -> dict:
    return {"parent_header": {"msg_id": "code"}, "msg_type": kind, "content": content}


def test_after_a_colleague_was_killed_the_error_says_how_to_start_another():
    with pytest.raises(LabError, match="has ended") as error:
        colleague_who(is_alive=False).run("1 + 1")
    assert "colleague = Colleague(lab)" in error.value.next_step


def test_what_her_write_failed_with_is_part_of_the_error():
    said = [
        message("error", ename="Py4JJavaError", evalue=STACK),
        message("status", execution_state="idle"),
    ]
    with pytest.raises(WriteFailed) as error:
        colleague_who(is_alive=True, messages=said).run("write()")
    assert error.value.outcome.startswith("HoodieWriteConflictException")


CAUSE = (
    "Caused by: org.apache.hudi.exception.HoodieWriteConflictException: "
    "java.util.ConcurrentModificationException: Cannot resolve"
)
STACK = f"""An error occurred while calling o92.save.
: org.apache.spark.SparkException: Writing job failed
\tat org.apache.spark.Something(Some.scala:1)
{CAUSE}
\tat org.apache.hudi.More(More.java:2)
Caused by: java.util.ConcurrentModificationException: Cannot resolve
"""


def test_the_reason_of_a_failed_write_is_the_exception_of_hudi():
    assert why_failed(STACK) == (
        "HoodieWriteConflictException: ConcurrentModificationException: Cannot resolve"
    )
    lost = STACK.replace("ConcurrentModification", "io.FileNotFound")
    closed = lost.replace(
        "java.util.io.FileNotFoundException: Cannot resolve\n\tat", "not closed\n\tat"
    )
    assert why_failed(closed) == (
        "HoodieWriteConflictException: not closed (FileNotFoundException: Cannot resolve)"
    )
    assert why_failed("name 'upsert' is not defined") == "name 'upsert' is not defined"


def test_an_attempt_notes_its_end_and_does_not_fail():
    good, bad = attempt(dict, a=1), attempt(int, "O-17")
    assert good.outcome == COMMITTED and good.ended >= good.began
    assert "invalid literal" in bad.outcome


LOCK = "/lesson-18/orders"


def test_who_waits_in_the_queue_does_not_hold_the_lock_yet_and_who_gives_up_never_does():
    waits, mine = Node(LOCK, 8, COLLEAGUE, 11.0, 13.0), Node(LOCK, 7, YOU, 10.0, 12.0)
    held, then = Holding(LOCK, YOU, 10.0, 12.0), Holding(LOCK, COLLEAGUE, 12.0, 13.0)
    assert holdings_of([waits, mine], 20.0) == [held, then]
    assert holdings_of([replace(waits, gone=11.5), mine], 20.0) == [held]


def test_a_node_that_is_still_there_holds_until_now_and_other_locks_do_not_matter():
    nodes = [Node(LOCK, 7, YOU, 10.0), Node("/other", 1, COLLEAGUE, 10.5, 11.0)]
    of_other = Holding("/other", COLLEAGUE, 10.5, 11.0)
    assert holdings_of(nodes, 20.0) == [Holding(LOCK, YOU, 10.0, 20.0), of_other]


class Nodes:
    """Stand-in for a kazoo client, with a tree of nodes that the test can change."""

    def __init__(self, tree: dict[str, list[str]]):
        self.tree = tree

    def get_children(self, path: str) -> list[str]:
        if path not in self.tree:
            raise NoNodeError
        return list(self.tree[path])

    def exists(self, path: str):
        return SimpleNamespace(ctime=10_000)


def watched(tree: dict[str, list[str]], writer, roots=("/lesson-18", "/tmp")) -> LockWatch:
    watch = LockWatch(Nodes(tree), roots, writer)
    while len(watch._nodes) < sum("lock-" in name for names in tree.values() for name in names):
        watch._over.wait(0.01)
    return watch


def test_the_watch_finds_explicit_and_implicit_locks_at_any_depth():
    deep = "/lake/lesson-18/scratch/two"
    tree = {"/lesson-18": ["orders"], "/tmp": ["ab12"], "/tmp/ab12": ["lock_key"]}
    tree |= {"/lake/lesson-18": ["scratch"], "/lake/lesson-18/scratch": ["two"]}
    tree |= {LOCK: ["_c_1-lock-0000000003"], "/tmp/ab12/lock_key": ["_c_2-lock-0000000000"]}
    tree |= {deep: ["_c_3-lock-0000000007"]}
    lab = SimpleNamespace(namespace="lesson-18", base="s3a://lake/lesson-18")
    watch = watched(tree, lambda: YOU, lock_roots(lab))
    for path in (LOCK, "/tmp/ab12/lock_key", deep):
        tree[path] = []
    while watch._open:
        watch._over.wait(0.01)
    held = watch.stop()
    assert {(h.path, h.writer) for h in held} == {
        (LOCK, YOU),
        ("/tmp/ab12/lock_key", YOU),
        (deep, YOU),
    }


def test_a_lock_that_is_seen_while_the_writers_change_belongs_to_nobody():
    tree = {"/lesson-18": ["orders"], LOCK: ["_c_1-lock-0000000003"]}
    turns = itertools.cycle((YOU, COLLEAGUE))
    watch = watched(tree, lambda: next(turns))
    assert {holding.writer for holding in watch.stop()} == {""}


def test_a_watch_that_fails_says_so_instead_of_showing_no_locks():
    class Gone(Nodes):
        def get_children(self, path):
            raise ConnectionError("closed")

    watch = LockWatch(Gone({}), ("/lesson-18",), lambda: YOU)
    watch._thread.join(5)
    with pytest.raises(LabError, match="ConnectionError: closed"):
        watch.stop()


def test_the_drawing_shows_each_writer_its_frozen_time_its_commit_and_its_error():
    runs = {
        YOU: Running(YOU, 11.0, 13.0, outcome=COMMITTED),
        COLLEAGUE: Running(
            COLLEAGUE, 10.0, 15.0, (10.5, 13.2), "HoodieWriteConflictException: <no>"
        ),
    }
    race = Race(
        runs, [(YOU, 12.9)], {YOU: 20_000}, {COLLEAGUE: 30_000}, [Holding(LOCK, YOU, 12.5, 12.9)]
    )
    drawing = ElementTree.fromstring(draw_race(race))
    titles = [element.text for element in drawing.iter() if element.tag.endswith("title")]
    assert "frozen" in titles and titles.count("commit complete") == 1
    assert "HoodieWriteConflictException: <no>" in titles
    assert f"you holds {LOCK} for 400 ms" in titles
    words = " ".join(drawing.itertext())
    assert "20 KB committed" in words and "30 KB wasted" in words and "5.0 s" in words
