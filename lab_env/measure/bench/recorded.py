"""Full runs that are kept: those that come with the course, each until this lab has made its own."""

import json
from pathlib import Path

from lab_env.runtime.state import folder
from lab_env.shop.model import DATA


def keep(part: str, found: dict) -> None:
    """Keep a full run of this lab: from now on it is the one that is shown.

    Args:
        part: `sinks` or `growth`.
        found: what it found, as plain data.
    """
    _own(part).write_text(json.dumps(found))


def shown(part: str) -> dict:
    """The last full run of this lab; before the first one the run that comes with the course.

    Args:
        part: `sinks` or `growth`.
    """
    own = _own(part)
    return json.loads(own.read_text()) if own.exists() else delivered(part)


def delivered(part: str) -> dict:
    """The run that comes with the course.

    Args:
        part: `sinks` or `growth`.
    """
    return json.loads((DATA / f"{part}.json").read_text())


def _own(part: str) -> Path:
    return folder("bench") / f"{part}.json"
