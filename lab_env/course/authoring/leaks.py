"""Searches files to be published for the lab's secrets: executed notebooks and site pages."""

import json
import os
from contextlib import suppress
from pathlib import Path

from lab_env.platform.settings import settings

# Every generated secret is longer; a shorter value would be found in any text.
MIN_LENGTH = 16


def known_secrets() -> dict[str, str]:
    """Return this lab's secrets by name: generated ones, and an external object store's keys."""
    home = settings().home
    tokens = {
        f"{program}_{kind}": values[kind]
        for program, values in _read(home / "state.json").items()
        for kind in ("token", "key")
        if kind in values
    }
    keys = {
        "LAB_S3_SECRET_KEY": settings().s3_secret_key.get_secret_value(),
        "LAB_S3_SESSION_TOKEN": settings().s3_session_token.get_secret_value(),
        "AWS_SECRET_ACCESS_KEY": os.environ.get("AWS_SECRET_ACCESS_KEY", ""),
    }
    found = _read(home / "secrets.json") | tokens | keys
    return {name: value for name, value in found.items() if len(value) >= MIN_LENGTH}


def secrets_in(text: str | bytes) -> list[str]:
    """Return the names of the lab's secrets in a file's content; bytes are decoded as UTF-8."""
    searched = text.encode() if isinstance(text, str) else text
    return [name for name, secret in known_secrets().items() if secret.encode() in searched]


def _read(path: Path) -> dict:
    with suppress(FileNotFoundError):
        return json.loads(path.read_text())
    return {}
