"""Recorded full runs of `lab bench` and the tour: this lab's last run, or the course's own.

The other modules of this package draw the charts that lessons show of these runs.
"""

import gzip
import json
import shutil
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.processes.state import folder
from lab_env.shop.model import DATA

SINKS = ("json", "cow", "mor")  # that the benchmark compares


def keep(part: str, found: dict) -> None:
    """Save a full run as this lab's recorded run.

    Args:
        part: `tour`, `backlog`, `sinks`, `growth`, `tuning` or `formats`.
        found: the run's report, as plain data for JSON.
    """
    _own(part).write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))


def shown(part: str) -> dict:
    """Return the last full run of this lab, or the run that comes with the course if there is none.

    Args:
        part: `tour`, `backlog`, `sinks`, `growth`, `tuning` or `formats`.
    """
    own = _own(part)
    return _read(own) if own.exists() else delivered(part)


def deliver(part: str) -> Path:
    """Make this lab's last full run the one that comes with the course; return its file.

    Args:
        part: as in `keep`.

    Raises:
        LabError: there is no full run.
    """
    if not _own(part).exists():
        raise LabError(f"There is no complete run of {part}.", f"run: lab bench {part} --full")
    return Path(shutil.copy(_own(part), DATA / _file(part)))


def delivered(part: str) -> dict:
    """Return the run that comes with the course.

    Args:
        part: `tour`, `backlog`, `sinks`, `growth`, `tuning` or `formats`.
    """
    return _read(DATA / _file(part))


def _own(part: str) -> Path:
    return folder("bench") / _file(part)


def _file(part: str) -> str:
    return f"{part}.json.gz"


def _read(path: Path) -> dict:
    return json.loads(gzip.decompress(path.read_bytes()))
