"""Lesson 21's checks: wrong ways to count give wrong numbers, and a lag's growth is computed."""

import pytest

from lab_env.lessons.l21.checks import Load, counts, made_up_lists


def test_each_wrong_way_to_count_gives_another_number_in_each_list():
    for _ in range(50):
        for tasks in made_up_lists()[:-1]:
            assert len(set(counts(tasks).values())) == len(counts(tasks))


def test_the_lag_grows_by_what_the_cores_do_not_do():
    load = Load(rate=2_000, a=1.0, b=0.001, freshness=10, partitions=12)
    assert load.interval == 5 and load.exact == pytest.approx(2.5)
    assert load.behind(2) == pytest.approx(400)  # 2 cores do 8,000 rows in 4 of 5 s
    assert load.behind(3) == 0
