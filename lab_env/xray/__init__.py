"""The X-ray of a Hudi table: timeline, files and commits, read from the store beside Spark."""

from lab_env.xray.commits import Commit
from lab_env.xray.model import Snapshot
from lab_env.xray.reader import xray

__all__ = ["Commit", "Snapshot", "xray"]
