"""The grammar of Hudi's file names, table version 8 and later: what a name alone tells.

Source: Apache Hudi's technical specification, sections on the timeline and on file naming.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_COMPLETED = re.compile(r"(?P<requested>\d+)_(?P<completed>\d+)\.(?P<action>[a-z]+)")
_PENDING = re.compile(r"(?P<requested>\d+)(?:\.(?P<action>[a-z]+))?\.(?P<state>requested|inflight)")
_BASE = re.compile(r"(?P<group>.+)_(?P<token>\d+-\d+-\d+)_(?P<instant>\d+)\.(?:parquet|orc|hfile)")
_LOG = re.compile(
    r"\.(?P<group>.+)_(?P<instant>\d+)\.log\.(?P<version>\d+)_(?P<token>\d+-\d+-\d+)(?P<cdc>\.cdc)?"
)


@dataclass(frozen=True)
class TimelineName:
    """What the name of a timeline file tells.

    Args:
        requested: when the action was asked for: digits, year to millisecond.
        completed: when it was complete, in the same form; None while it is pending.
        action: commit, deltacommit, clean, and so on.
        state: completed, inflight or requested.
    """

    requested: str
    completed: str | None
    action: str
    state: str


@dataclass(frozen=True)
class DataName:
    """What the name of a data file tells.

    Args:
        group: the file group's id.
        instant: requested time of the action that wrote it.
        kind: base, log or cdc.
    """

    group: str
    instant: str
    kind: str


def timeline_name(name: str) -> TimelineName | None:
    """Read the name of a file of the timeline; None when it is something else.

    Args:
        name: the last part of its key.
    """
    if match := _COMPLETED.fullmatch(name):
        return TimelineName(match["requested"], match["completed"], match["action"], "completed")
    if match := _PENDING.fullmatch(name):
        # Of an inflight commit the action is left out.
        return TimelineName(match["requested"], None, match["action"] or "commit", match["state"])
    return None


def data_name(name: str) -> DataName | None:
    """Read the name of a data file; None when it is something else.

    Args:
        name: the last part of its key.
    """
    if match := _BASE.fullmatch(name):
        return DataName(match["group"], match["instant"], "base")
    if match := _LOG.fullmatch(name):
        return DataName(match["group"], match["instant"], "cdc" if match["cdc"] else "log")
    return None


def clock(instant: str) -> str:
    """An instant's time of day, for example `09:15:00.705` for `20261120091500705`."""
    return f"{instant[8:10]}:{instant[10:12]}:{instant[12:14]}.{instant[14:17] or '000'}"


def moment(instant: str) -> datetime:
    """An instant as a time, UTC."""
    digits = f"{instant:0<17}"
    return datetime.strptime(f"{digits[:14]}.{digits[14:17]}", "%Y%m%d%H%M%S.%f").replace(
        tzinfo=UTC
    )


def seconds_between(begin: str, end: str) -> float:
    """Seconds from one instant to another."""
    return (moment(end) - moment(begin)).total_seconds()


def duration_text(seconds: float) -> str:
    """A time span for a reader: `0.4 s`, `42 s`, `3 min`, `5 h`, `2.5 d`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    unit, scale = (
        ("min", 60) if seconds < 3600 else ("h", 3600) if seconds < 86400 else ("d", 86400)
    )
    value = seconds / scale
    return f"{value:.1f} {unit}" if value < 9.95 and value % 1 else f"{value:.0f} {unit}"


def size_text(size: int) -> str:
    """Bytes for a reader: `912 B`, `2.1 KB`, `435 KB`, `1.2 MB`."""
    if size < 1000:
        return f"{size} B"
    for unit, scale in (("KB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if size < scale * 1000 or unit == "GB":
            break
    value = size / scale
    return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"


def date(instant: str) -> str:
    """An instant's date, for example `2026-11-20`."""
    return f"{instant[:4]}-{instant[4:6]}-{instant[6:8]}"
