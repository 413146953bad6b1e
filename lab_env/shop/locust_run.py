"""Run Locust users in the notebook's own process, and collect the requests that they report.

On import Locust patches Python's standard library, which would break a notebook's kernel. Import
this module first: it disables that (`LOCUST_SKIP_MONKEY_PATCH`), so `import locust` becomes
harmless. The users are greenlets: they run while the notebook waits with `gevent.sleep`. See
Locust's page "Using Locust as a library".
"""

import logging
import os
import sys
import time

import pandas as pd

from lab_env.platform.errors import LabError

_asked = os.environ.get("LOCUST_SKIP_MONKEY_PATCH")
os.environ["LOCUST_SKIP_MONKEY_PATCH"] = "1"
try:
    import gevent
    import locust
    from locust.env import Environment
finally:  # a Locust started as a separate program needs its patches
    if _asked is None:
        del os.environ["LOCUST_SKIP_MONKEY_PATCH"]

# A failing task repeats many times per second; `errors` keeps its exceptions.
logging.getLogger("locust").setLevel(logging.CRITICAL + 1)

COLUMNS = ("second", "type", "name", "ms", "failed")
WATCH_S = 0.1  # seconds between two counts of the users


class LocustRun:
    """Run of users, as a context manager: the body runs alongside them, and its end waits for them.

    In the body, wait with `gevent.sleep`; `time.sleep` would block the users, too.

    Args:
        users: number of users, started together; ignored with a shape.
        seconds: duration; None when a shape ends the run.
        shape: Locust load shape, which sets the number of users over time.
        at_most: maximum duration of a run with a shape, in seconds.

    Attributes:
        errors: exceptions raised by the tasks, in order.
    """

    def __init__(
        self,
        user: type[locust.User],
        users: int = 10,
        seconds: float | None = None,
        shape: type[locust.LoadTestShape] | None = None,
        at_most: float = 60,
    ):
        if seconds is None and shape is None:
            raise LabError("This run has no end.", "give it seconds=... or a shape=...")
        self._users = users
        self._length = at_most if seconds is None else seconds
        self._reports: list[dict] = []
        self._counts: list[tuple[float, int]] = []
        self.errors: list[Exception] = []
        self._environment = Environment(user_classes=[user], shape_class=shape() if shape else None)
        self._environment.events.request.add_listener(self._note)
        self._environment.events.user_error.add_listener(self._note_error)
        self._runner = self._environment.create_local_runner()
        self._began = time.perf_counter()

    def __enter__(self) -> "LocustRun":
        self._began = time.perf_counter()
        if self._environment.shape_class:
            self._runner.start_shape()
        else:
            self._runner.start(self._users, spawn_rate=self._users)
        self._shaping = self._runner.shape_greenlet
        self._watcher = gevent.spawn(self._watch)
        return self

    def __exit__(self, kind, error, trace) -> None:
        try:
            if kind is None:
                self._wait()
        finally:
            self._runner.quit()  # calls each user's `on_stop`
            self._watcher.kill()
        if self.errors:
            first = f"{type(self.errors[0]).__name__}: {self.errors[0]}"
            print(f"{len(self.errors)} tasks failed, the first with {first}", file=sys.stderr)

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._began

    @property
    def reports(self) -> pd.DataFrame:
        """All requests that the users reported, one row each.

        `second` counts from the start, `ms` is the response time; further columns have the fields
        of the request's context.
        """
        return pd.DataFrame(self._reports) if self._reports else pd.DataFrame(columns=COLUMNS)

    @property
    def requests(self) -> pd.DataFrame:
        """Locust's own statistics, one row per request type and name.

        Raises:
            LabError: no user reported anything.
        """
        rows = [
            (
                entry.method,
                entry.name,
                entry.num_requests,
                entry.num_failures,
                entry.get_response_time_percentile(0.5),
                entry.get_response_time_percentile(0.95),
            )
            for entry in self._environment.stats.entries.values()
        ]
        if not rows:
            raised = "; ".join(map(repr, self.errors[:1]))
            next_step = "check that the user's tasks send something and report it."
            raise LabError("Locust counted no requests.", next_step, raised)
        columns = ["type", "name", "requests", "failures", "p50_ms", "p95_ms"]
        table = pd.DataFrame(rows, columns=columns)
        return table.sort_values(["type", "name"], ignore_index=True)

    @property
    def user_counts(self) -> pd.Series:
        """Number of running users, indexed by seconds since the start."""
        return pd.Series(dict(self._counts), name="users", dtype=int)

    def _wait(self) -> None:
        """Wait for the end of the run; re-raise a shape's error."""
        shaping = self._shaping  # false, like every greenlet, when it has ended
        while self.elapsed < self._length and (shaping is None or not shaping.ready()):
            gevent.sleep(0.02)
        if shaping is not None and shaping.exception:
            raise shaping.exception

    def _watch(self) -> None:
        while True:
            self._counts.append((self.elapsed, self._runner.user_count))
            gevent.sleep(WATCH_S)

    def _note(self, request_type, name, response_time, exception=None, context=None, **_) -> None:
        row = (self.elapsed, request_type, name, response_time, exception is not None)
        self._reports.append(dict(zip(COLUMNS, row, strict=True)) | dict(context or {}))

    def _note_error(self, exception, **_) -> None:
        self.errors.append(exception)
