"""Read versions.toml, which pins every artefact that is not in requirements.lock."""

import tomllib
from functools import lru_cache
from pathlib import Path

VERSIONS = Path(__file__).with_name("versions.toml")


@lru_cache(maxsize=1)
def versions() -> dict:
    """Pins by kind (`wheels`, `go`, `archives`, `jars`) and name."""
    return tomllib.loads(VERSIONS.read_text())
