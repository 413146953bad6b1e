"""Fakes that several unit tests use."""

from pathlib import Path

# Runs a file, by its name in quotes, as if Python 3.14 had started it.
AS_PYTHON_314 = (
    "import runpy, sys; sys.version_info = (3, 14, 0, 'final', 0);"
    " runpy.run_path({!r}, run_name='__main__')"
)


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


class Clock:
    """Fake clock; the test sets its time, in seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now
