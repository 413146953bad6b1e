"""Runs a learner's locustfile in its own process and collects its output.

Locust changes Python's standard library as soon as it is imported, which a notebook's kernel does
not survive; so a notebook only writes the file and looks at the result.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

from lab_env.errors import LabError
from lab_env.settings import without_credentials

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0

# Lines of Locust's report: type, name, requests, failures; and type, name, the percentiles 50, 66,
# 75, 80, 90, 95 and higher ones in milliseconds. (With `--json` Locust empties its report.)
_COUNTS = re.compile(r"^(\S+) +(\S+) +(\d+) +(\d+)\(.*\|", re.MULTILINE)
_PERCENTILES = re.compile(r"^(\S+) +(\S+) +((?:\d+ +){11}\d+)$", re.MULTILINE)


class LocustRun:
    """One headless run of a locustfile: a context manager that waits for its end.

    Args:
        locustfile: the file; what Locust says is kept beside it.
        users: number of simulated users; they start at once.
        seconds: length of the run, from the moment at which all users run; None when the file's
            own load shape ends it.
        at_most: seconds after which a run without a length is ended in any case.
        variables: environment variables for the file.

    Attributes:
        command: what was started, as one would type it.
    """

    # Not with `--run-time`: its clock already runs while Locust loads the file, so that a run of
    # two seconds was found to be one second long.
    def __init__(
        self,
        locustfile: Path,
        users: int = 10,
        seconds: float | None = 5,
        at_most: float = 60,
        **variables: str,
    ):
        self.locustfile = Path(locustfile)
        self._length = at_most if seconds is None else seconds
        self._variables = variables
        arguments = ["-f", str(self.locustfile), "--headless", "--only-summary"]
        if seconds is not None:
            arguments += ["--users", str(users), "--spawn-rate", str(users)]
        self.command = shlex.join(["locust", *arguments])
        # Should this process die, Locust ends by itself a minute later. A shape ends by itself
        # anyway.
        net = [] if seconds is None else ["--run-time", f"{seconds + 60:.0f}s"]
        self._arguments = [sys.executable, "-P", "-m", "locust", *arguments, *net]
        self._process: subprocess.Popen  # since `start`

    def start(self) -> "LocustRun":
        """Start Locust and return when its users run.

        Raises:
            LabError: it does not start; the log says why.
        """
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._arguments,
                cwd=self.locustfile.parent,
                env=without_credentials(os.environ) | self._variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        last_call = time.monotonic() + START_TIMEOUT_S
        while "All users spawned" not in self.log and "Shape test" not in self.log:
            if self._process.poll() is not None:
                raise LabError("Locust did not start this file.", "mend the file.", self.log)
            if time.monotonic() > last_call:
                self.stop()
                raise LabError("Locust's users did not start in time.", "try again.", self.log)
            time.sleep(0.05)
        self.began = time.time()
        return self

    def wait(self) -> "LocustRun":
        """Wait for the run's duration, then end it as Ctrl+C in a terminal would."""
        try:
            self._process.wait(max(0.0, self.began + self._length - time.time()))
        except subprocess.TimeoutExpired:
            self.stop()
        return self

    def stop(self) -> None:
        """End the run: Locust reports what it has counted, and no process is left."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def __enter__(self) -> "LocustRun":
        return self.start()

    def __exit__(self, kind, error, trace) -> None:
        if kind:
            self.stop()
        else:
            self.wait()

    @property
    def log(self) -> str:
        """Everything that Locust printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def report(self) -> str:
        """Locust's own closing report: requests, failures, response times, errors."""
        _, found, report = self.log.partition("Type     Name")
        return found + report

    @property
    def requests(self) -> pd.DataFrame:
        """What Locust counted.

        Returns:
            One row a request type and name: type, name, requests, failures, p50_ms, p95_ms.

        Raises:
            LabError: Locust ended without its numbers.
        """
        rows = {
            (kind, name): [int(requests), int(failures)]
            for kind, name, requests, failures in _COUNTS.findall(self.report)
        }
        if not rows:
            raise LabError("Locust counted no requests.", "see what it printed.", self.log[-2000:])
        times = {
            (kind, name): [float(shares.split()[0]), float(shares.split()[5])]
            for kind, name, shares in _PERCENTILES.findall(self.report)
        }
        columns = ["type", "name", "requests", "failures", "p50_ms", "p95_ms"]
        lines = [(*key, *counts, *times[key]) for key, counts in rows.items()]
        table = pd.DataFrame(lines, columns=columns)
        return table.sort_values(["type", "name"], ignore_index=True)

    @property
    def _log(self) -> Path:
        return self.locustfile.with_suffix(".log")
