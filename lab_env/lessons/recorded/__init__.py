"""Recorded full runs of `lab bench` and the tour: this lab's last run, or the course's own.

The other modules of this package evaluate these runs and draw charts of them for the lessons.
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
    """Save a full run of a part of `lab bench` as this lab's recorded run; `found` is JSON data."""
    _own(part).write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))


def shown(part: str) -> dict:
    """Return this lab's last full run of a part; if there is none, the course's own."""
    return _read(_own(part)) if _own(part).exists() else delivered(part)


def deliver(part: str) -> Path:
    """Replace the course's own run with this lab's last full run; return its file.

    Raises:
        LabError: this lab has no full run.
    """
    if not _own(part).exists():
        raise LabError(f"There is no complete run of {part}.", f"run: lab bench {part} --full")
    return Path(shutil.copy(_own(part), DATA))


def delivered(part: str) -> dict:
    """Return the course's own run of a part."""
    return _read(DATA / _own(part).name)


def _own(part: str) -> Path:
    return folder("bench") / f"{part}.json.gz"


def _read(path: Path) -> dict:
    return json.loads(gzip.decompress(path.read_bytes()))
