"""Recorded full runs of the workbench: the last one of this lab, else the one of the course.

The modules beside it draw the charts that lessons show of them.
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
    """Keep a full run of this lab as its recorded run.

    Args:
        part: `tour`, `backlog`, `sinks`, `growth`, `tuning` or `formats`.
        found: its report, as plain data.
    """
    _own(part).write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))


def shown(part: str) -> dict:
    """The last full run of this lab; before the first, the run that comes with the course.

    Args:
        part: `tour`, `backlog`, `sinks`, `growth`, `tuning` or `formats`.
    """
    own = _own(part)
    return _read(own) if own.exists() else delivered(part)


def deliver(part: str) -> Path:
    """Make this lab's last full run the one that comes with the course; return the file.

    Args:
        part: as in `keep`.

    Raises:
        LabError: there is no full run.
    """
    if not _own(part).exists():
        raise LabError(f"There is no complete run of {part}.", f"run: lab bench {part} --full")
    return Path(shutil.copy(_own(part), DATA / _file(part)))


def delivered(part: str) -> dict:
    """The run that comes with the course.

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
