"""Fixtures of the unit tests: a fresh LAB_HOME and the `lab` command. No test starts Spark."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab_env import cli
from lab_env.platform.settings import settings


@pytest.fixture
def configure(monkeypatch) -> Iterator[Callable[..., None]]:
    """Function that changes settings by name, through environment variables as a user does."""

    def configure(**values: object) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"LAB_{name.upper()}", str(value))
        settings.cache_clear()

    yield configure
    monkeypatch.undo()
    settings.cache_clear()


@pytest.fixture
def home(tmp_path, configure) -> Path:
    """A fresh LAB_HOME for one test."""
    configure(home=tmp_path / "50% of a lab")
    return tmp_path / "50% of a lab"


@pytest.fixture
def lab_command(monkeypatch, capsys) -> Callable[..., subprocess.CompletedProcess]:
    """Function that runs a `lab` command in this process, with additional environment variables.

    A new process would spend most of its time on imports.
    """

    def give(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
        with monkeypatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("LAB_")]:
                patch.delenv(name)
            for name, value in {"LAB_CACHE": str(settings().cache), **variables}.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["lab", *arguments])
            settings.cache_clear()
            with pytest.raises(SystemExit) as ended:
                cli.main()
        settings.cache_clear()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, ended.value.code, said.out, said.err)

    return give
