"""`make test` starts as many processes as the machine's cores and memory allow."""

import builtins
import os

import pytest
from jobs import free_gigabytes, jobs

from lab_env.platform.settings import REPOSITORY, settings


@pytest.mark.parametrize(
    ("cores", "gigabytes", "processes"),
    [(2, 24, 3), (4, 24, 4), (8, 64, 8), (8, 15, 3), (2, 7, 1), (1, 24, 1), (2, 0.5, 1)],
)
def test_a_run_takes_the_cores_as_far_as_memory_reaches(cores, gigabytes, processes):
    assert jobs(cores, gigabytes) == processes


def test_a_run_leaves_the_learners_own_notebooks_alone():
    assert not settings().work.is_relative_to(REPOSITORY)


def test_free_memory_is_some_gigabytes():
    assert 0.1 < free_gigabytes() < 10_000


def test_without_proc_all_the_memory_that_is_installed_counts(monkeypatch):
    def there_is_none(path):
        raise FileNotFoundError(path)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", there_is_none)
        found = free_gigabytes()
    assert found * 1e9 == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
