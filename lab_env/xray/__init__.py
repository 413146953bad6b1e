"""The X-ray of a Hudi table: timeline, files and commits, read from the store beside Spark."""

from lab_env.hudi.commits import Commit
from lab_env.hudi.model import Snapshot
from lab_env.hudi.reader import xray

__all__ = ["Commit", "Snapshot", "xray"]
