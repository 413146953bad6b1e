"""The X-ray of a Hudi table: its timeline and its files, read from the store's listing alone."""

from lab_env.xray.model import Snapshot
from lab_env.xray.reader import xray

__all__ = ["Snapshot", "xray"]
