"""A separate lab for each test run: its own LAB_HOME and free ports, to allow parallel runs.

The folder's name contains a space on purpose. No process of this lab may outlive the run.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import end_of_run
import pytest
from own_lab import lab_environment
from run_report import Cost, RunReport
from subjects import SUBJECTS, subject_of

from lab_env.platform.processes.environment import adapt
from lab_env.platform.settings import Endpoints, settings

# Whatever begins last must be short.
FIRST_TO_LAST = (
    "tests/integration/test_setup.py",
    "tests/integration/test_whole_tour.py",
    "solutions/20",
    "notebooks/20",
    "solutions/",
    "tests/integration/",
    "tests/browser/",
    "notebooks/21",
    "notebooks/22",
    "notebooks/demos/exactly-once",
    "notebooks/",
    "tests/cloud/",
    "tests/spark/",
    "tests/notebooks/",
    "tests/unit/",
)
LESSON = re.compile(r"(notebooks|solutions)/\d\d_")
KEPT_SETTINGS = ("LAB_CACHE", "LAB_MINIO_BINARY", "LAB_IVY_SETTINGS")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--prove`, and the options of `tests/spark/test_event_contract.py`."""
    subjects = ("none", *SUBJECTS, "all")
    parser.addoption("--prove", choices=subjects, help="run only the proof of a subject")
    parser.addoption("--messages", type=int, default=5_000, help="messages to judge twice")
    parser.addoption("--seed", type=int, default=1, help="the seed that makes them")


def pytest_configure(config: pytest.Config) -> None:
    """Give the run its own lab; notebook kernels inherit it."""
    for name in [name for name in os.environ if name.startswith("LAB_")]:
        if name not in KEPT_SETTINGS:
            del os.environ[name]
    config.lab_parent = Path(tempfile.mkdtemp(prefix="lab-tests-"))
    os.environ.update(lab_environment(config.lab_parent / "a lab"))
    os.environ[end_of_run.VARIABLE] = str(config.lab_parent)
    settings.cache_clear()
    adapt()
    # It notices the end of this process by the end of the pipe, which no other process holds.
    config.end_of_run = subprocess.Popen(
        [sys.executable, end_of_run.__file__, str(config.lab_parent)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    config.pluginmanager.register(Cost(str(config.lab_parent)))
    if not hasattr(config, "workerinput"):  # it is not one of several test processes
        config.pluginmanager.register(RunReport(config))


def pytest_sessionfinish() -> None:
    """Stop the run's lab now: pytest-xdist kills a process ten seconds after its session."""
    from lab_env.platform import services

    services.down()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the run's lab."""
    shutil.rmtree(config.lab_parent, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the longest files first and unit tests last, so that all processes end together."""
    items.sort(key=_turn)
    if config.getoption("other_answers", default="") == "all":
        for item in items:
            if LESSON.match(item.nodeid):
                item.add_marker(pytest.mark.proof("answers"))
    if chosen := config.getoption("prove"):
        others = [item for item in items if not _is_of(item, chosen)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if _is_of(item, chosen)]


def _is_of(item: pytest.Item, chosen: str) -> bool:
    subject = subject_of(item)
    return bool(subject) if chosen == "all" else subject == chosen.replace("none", "")


def _turn(item: pytest.Item) -> tuple[int, str]:
    """Return a test's sort key; tests of one file keep their order."""
    file = item.nodeid.partition("::")[0]
    begins = (name for name in FIRST_TO_LAST if file.startswith(name))
    return FIRST_TO_LAST.index(next(begins, FIRST_TO_LAST[-1])), file


@pytest.fixture(scope="session")
def services() -> Endpoints:
    """The running services of this test run."""
    from lab_env.platform import services

    return services.up(progress=lambda line: None)
