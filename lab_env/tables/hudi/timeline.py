"""Parses Hudi's file names and instant times, for table version 8 and later.

An instant time is a string of 17 digits, from year to millisecond, in UTC: `20261120091500705`.

Source: Apache Hudi's technical specification, sections on the timeline and on file naming.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_COMPLETED = re.compile(r"(?P<requested>\d+)_(?P<completed>\d+)\.(?P<action>[a-z]+)")
_PENDING = re.compile(r"(?P<requested>\d+)(?:\.(?P<action>[a-z]+))?\.(?P<state>requested|inflight)")
_BASE = re.compile(r"(?P<group>.+)_(?P<token>\d+-\d+-\d+)_(?P<instant>\d+)\.(?:parquet|orc|hfile)")
_LOG = re.compile(
    r"\.(?P<group>.+)_(?P<instant>\d+)\.log\.(?P<version>\d+)_(?P<token>\d+-\d+-\d+)(?P<cdc>\.cdc)?"
)
WRITING_ACTIONS = (
    "commit",
    "deltacommit",
    "replacecommit",
    "compaction",
    "logcompaction",
    "clustering",
)


@dataclass(frozen=True, order=True)
class Instant:
    """One action on the timeline.

    Hudi names the file that completes a compaction `commit`, that of a log compaction
    `deltacommit`, and that of a clustering `replacecommit`. A `Snapshot` lists them as compaction,
    logcompaction and clustering.
    """

    requested: str  # requested time, an instant time
    completed: str  # completion time; empty while the action is pending
    action: str  # commit, deltacommit, compaction, clean and so on
    state: str  # completed, inflight or requested

    @property
    def writes(self) -> bool:
        """True if this kind of action writes data files."""
        return self.action in WRITING_ACTIONS


@dataclass(frozen=True)
class DataName:
    """Parts of a data file's name."""

    group: str  # the file group's id
    instant: str  # requested time of the action that wrote the file
    kind: str  # base, log or cdc


def parse_timeline_name(name: str) -> Instant | None:
    """Parse a timeline file's name; None for any other name."""
    if match := _COMPLETED.fullmatch(name):
        return Instant(match["requested"], match["completed"], match["action"], "completed")
    if match := _PENDING.fullmatch(name):
        # The name of an inflight commit omits the action.
        return Instant(match["requested"], "", match["action"] or "commit", match["state"])
    return None


def parse_timeline_key(key: str) -> Instant | None:
    """Parse the key of a file in a table's active timeline; None for any other file.

    The key may be relative to the table or complete. Files of the metadata table's own timeline
    also return None.
    """
    folder, _, name = f"/{key}".rpartition("/")
    if folder.endswith("/.hoodie/timeline") and "/.hoodie/metadata/" not in folder:
        return parse_timeline_name(name)
    return None


def parse_data_name(name: str) -> DataName | None:
    """Parse a data file's name; None for any other name."""
    if match := _BASE.fullmatch(name):
        return DataName(match["group"], match["instant"], "base")
    if match := _LOG.fullmatch(name):
        return DataName(match["group"], match["instant"], "cdc" if match["cdc"] else "log")
    return None


def is_instant(text: str) -> bool:
    """True if a text has the form of an instant time, with or without milliseconds."""
    return len(text) in (14, 17) and text.isdigit()


def to_datetime(instant: str) -> datetime:
    """Convert an instant time to a datetime in UTC; missing milliseconds are 0."""
    digits = f"{instant:0<17}"
    return datetime.strptime(f"{digits[:14]}.{digits[14:17]}", "%Y%m%d%H%M%S.%f").replace(
        tzinfo=UTC
    )


def to_seconds(instant: str) -> float:
    """Convert an instant time to seconds since 1970."""
    return to_datetime(instant).timestamp()


def from_seconds(seconds: float) -> str:
    """Return the instant time nearest to a time in seconds since 1970.

    It rounds to the nearest millisecond: with a time rounded down, an incremental query from this
    instant would again return a commit completed at exactly this time.
    """
    nearest = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=round(seconds * 1000))
    return f"{nearest:%Y%m%d%H%M%S}{nearest.microsecond // 1000:03d}"


def seconds_between(begin: str, end: str) -> float:
    """Return the seconds from one instant time to another."""
    return (to_datetime(end) - to_datetime(begin)).total_seconds()
