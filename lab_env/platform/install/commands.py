"""Run the programs that fetch and build, show their progress and explain their failures."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.install.bootstrap import OFFLINE
from lab_env.platform.install.cache import Progress

SILENT_S = 30  # at most so many seconds pass without a line


def run_logged(
    command: Sequence[object],
    log: Path,
    report_progress: Progress,
    describe: Callable[[], str],
    **options,
) -> tuple[int, str]:
    """Run a command to completion with its output in `log`; return exit status and output.

    `report_progress` gets the result of `describe`, with the elapsed seconds, when it has changed
    (checked every second) and at least every half minute. `options` go to `subprocess.Popen`.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command], stdout=output, stderr=subprocess.STDOUT, **options
        )
        started = reported_at = time.monotonic()
        reported = ""
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
                    break
                now, description = time.monotonic(), describe()
                if description != reported or now - reported_at >= SILENT_S:
                    report_progress(f"{description}, {now - started:.0f} s")
                    reported, reported_at = description, now
        except BaseException:
            process.terminate()
            process.wait()
            raise
    return process.returncode, log.read_text(errors="replace")


def fetch_error(what: str, log: str) -> LabError:
    """Build the error for a failed download or build; its cause decides the next step."""
    if "No space left" in log:
        return LabError("The disk is full.", "free some space, then run: make setup")
    lines = [line for line in log.splitlines() if line.strip(" .") and "...." not in line]
    return LabError(what, OFFLINE, "\n".join(lines[-8:]))
