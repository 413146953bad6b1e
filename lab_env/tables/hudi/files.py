"""Access to a table's files: the interface the reader needs, and a local-folder implementation."""

from pathlib import Path
from typing import Protocol


class TableFiles(Protocol):
    """A table's files in any storage; a file's key is its path in the table, with slashes."""

    path: str  # the table's path, as its user writes it

    def sizes(self) -> dict[str, int]:
        """Size of each file in bytes, by key."""

    def read(self, key: str) -> bytes:
        """Content of one file; FileNotFoundError if a writer has archived or deleted it."""


class LocalFolder:
    """A table in a local folder; Hadoop's checksum files are left out."""

    def __init__(self, path: str | Path):
        self.path = str(path)

    def sizes(self) -> dict[str, int]:
        """Size of each file in bytes, by key."""
        root = Path(self.path)
        return {
            file.relative_to(root).as_posix(): file.stat().st_size
            for file in sorted(root.rglob("*"))
            if file.is_file() and file.suffix != ".crc"
        }

    def read(self, key: str) -> bytes:
        """Content of one file."""
        return (Path(self.path) / key).read_bytes()
