"""Reads versions.toml: every artefact that set-up fetches beside requirements.lock, pinned."""

import tomllib
from functools import lru_cache
from pathlib import Path

VERSIONS = Path(__file__).with_name("versions.toml")


@lru_cache(maxsize=1)
def versions() -> dict:
    """The pins, by kind (`wheels`, `go`, `archives`, `jars`) and name."""
    return tomllib.loads(VERSIONS.read_text())
