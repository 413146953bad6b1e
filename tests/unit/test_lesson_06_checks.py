"""In lesson 06's made-up tables, no wrong way to count logs gives the right number."""

import random

import pytest

from lab_env.lessons.l06.checks import logs_to_merge, made_up_table


@pytest.mark.parametrize("seed", range(20))
def test_no_lucky_function_counts_the_logs_of_a_made_up_table(seed):
    table = made_up_table(random.Random(seed))
    counts = [len(found.logs) for found in table.current]
    lucky = (counts[0], max(counts), sum(counts), max(len(found.logs) for found in table.slices))
    assert logs_to_merge(table) not in lucky
    assert sum(file.kind == "log" for file in table.files) > sum(counts)
