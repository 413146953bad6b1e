"""Lesson 17's checks call a sink as if in a new process, and accept no wrong way of counting."""

from collections import Counter, defaultdict, deque
from random import Random

import pytest

from lab_env.lessons.l17.checks import made_partitions, new_process, ways_of_counting

KNOWN: set[int] = set()


def remember(number):
    KNOWN.add(number)


def deliver(number, seen=[]):  # noqa: B006  it is what this test is about
    remember(number)
    seen.append(number)
    return sorted(KNOWN), list(seen)


def test_a_new_process_remembers_nothing_of_the_last_one():
    first = new_process(deliver)
    assert first(1) == ([1], [1]) and first(2) == ([1, 2], [1, 2])
    assert new_process(deliver)(3) == ([3], [3])
    assert not KNOWN


class Memory:
    """A class like one in a notebook; its instance holds a sink's state."""

    def __init__(self):
        self.seen = []


@pytest.mark.parametrize(
    ("memory", "add"),
    [
        (set(), lambda memory, number: memory.add(number)),
        (deque(), lambda memory, number: memory.append(number)),
        (defaultdict(int), lambda memory, number: memory.update({number: 1})),
        (Counter(), lambda memory, number: memory.update([number])),
        (Memory(), lambda memory, number: memory.seen.append(number)),
    ],
)
def test_a_new_process_forgets_what_a_closure_or_an_object_remembered(memory, add):
    def known():
        return list(memory.seen if isinstance(memory, Memory) else memory)

    def deliver_with_memory(number, retry=True):
        add(memory, number)
        return deliver_with_memory(number, retry=False) if retry else set(known())

    assert new_process(deliver_with_memory)(1) == {1}
    assert new_process(deliver_with_memory)(2) == {2}
    assert not known()


def test_no_wrong_way_of_counting_is_lucky():
    for seed in range(300):
        missing, doubled, before_first, mixed = ways_of_counting(made_partitions(Random(seed)))
        assert missing > 0 < doubled and before_first and mixed != missing
