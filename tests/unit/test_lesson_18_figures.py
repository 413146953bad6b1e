"""Lesson 18 derives a lock's holders over time from sequential nodes, and draws two writers."""

import itertools
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from lab_env.lessons.l18.colleague import COLLEAGUE, COMMITTED, YOU, Running
from lab_env.lessons.l18.figures import Race, draw_race
from lab_env.lessons.l18.locks import Holding, LockWatch, Node, holdings_of, lock_roots
from lab_env.platform.errors import LabError

LOCK = "/lesson-18/orders"


def test_who_waits_in_the_queue_does_not_hold_the_lock_yet():
    nodes = [Node(LOCK, 8, COLLEAGUE, 11.0, 13.0), Node(LOCK, 7, YOU, 10.0, 12.0)]
    assert holdings_of(nodes, 20.0) == [
        Holding(LOCK, YOU, 10.0, 12.0),
        Holding(LOCK, COLLEAGUE, 12.0, 13.0),
    ]


def test_a_node_that_is_still_there_holds_until_now_and_other_locks_do_not_matter():
    nodes = [Node(LOCK, 7, YOU, 10.0), Node("/other", 1, COLLEAGUE, 10.5, 11.0)]
    assert holdings_of(nodes, 20.0) == [
        Holding(LOCK, YOU, 10.0, 20.0),
        Holding("/other", COLLEAGUE, 10.5, 11.0),
    ]


def test_one_that_gave_up_waiting_never_held_it():
    nodes = [Node(LOCK, 7, YOU, 10.0, 15.0), Node(LOCK, 8, COLLEAGUE, 11.0, 14.0)]
    assert holdings_of(nodes, 20.0) == [Holding(LOCK, YOU, 10.0, 15.0)]


class Nodes:
    """Stand-in for a kazoo client, with a tree of nodes that the test can change."""

    def __init__(self, tree: dict[str, list[str]]):
        self.tree = tree

    def get_children(self, path: str) -> list[str]:
        from kazoo.exceptions import NoNodeError

        if path not in self.tree:
            raise NoNodeError
        return list(self.tree[path])

    def exists(self, path: str):
        class Stat:
            ctime = 10_000

        return Stat


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
