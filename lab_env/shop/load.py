"""Live load on Kafka or Kinesis: runs Locust in its own process and shows live numbers.

Locust patches the standard library, which would break a notebook's kernel.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from lab_env.platform.brokers.broker import ensure_topic, is_kinesis
from lab_env.platform.display.card import card
from lab_env.platform.display.live import live_display
from lab_env.platform.errors import LabError
from lab_env.platform.settings import machine_credentials, settings, without_credentials
from lab_env.shop import RATE, USERS
from lab_env.shop.model import Shares

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
START_TIMEOUT_S = 60.0
COLUMNS = ("seconds", "users", "rate", "acked", "failures", "p50_ms", "p95_ms")


@dataclass
class Load:
    """Live load: use it as a context manager, or call `run()` to start it and wait for its end.

    As a context manager, it runs during the body. After the body it waits until `seconds` have
    elapsed, or stops the load if `seconds` is None.

    Args:
        bootstrap: address of the broker: Kafka's `host:port`, or Kinesis's URL.
        topic: created if missing.
        ledger_dir: the topic's ledger folder, which also gets the logs of the run.
        rate: total acknowledged events per second; None for no limit.
        seconds: duration; None to run until `stop`.
        processes: number of sending processes.
        web_port: port of Locust's web UI, or a free one if it is taken; None for no web UI.
        seed: seed of the shop's events; random by default.
        show: show live numbers.
        shares: override the settings' shares, as in `model.Shares.of`.
        environment: additional variables for Locust's processes.
    """

    bootstrap: str
    topic: str
    ledger_dir: Path
    rate: float | None = RATE
    users: int = USERS
    seconds: float | None = None
    processes: int = 1
    web_port: int | None = None
    seed: int | None = None
    show: bool = True
    shares: dict[str, float] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self):
        for name in ("rate", "users", "seconds", "processes"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise LabError(f"{name}={value} must be above 0.", f"give {name} a value above 0.")
        Shares.of(**self.shares)
        self.run_id = secrets.token_hex(3)
        # Kept by the ledger, so clearing the namespace deletes them.
        self.log = Path(self.ledger_dir, f"load-{self.run_id}.log").resolve()
        self._stats_file = self.log.with_suffix(".jsonl")
        self._process: subprocess.Popen | None = None
        self._stopped = False
        self._shown: threading.Thread | None = None

    def start(self) -> "Load":
        """Start the load and return as soon as it is running.

        Raises:
            LabError: the broker does not answer, or Locust does not start.
        """
        ensure_topic(self.bootstrap, self.topic)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        plan = {
            "bootstrap": self.bootstrap,
            "topic": self.topic,
            "ledger_dir": str(self.log.parent),
            "run": self.run_id,
            "rate": self.rate,
            "users": self.users,
            "seconds": self.seconds,
            "processes": self.processes,
            "seed": secrets.randbits(32) if self.seed is None else self.seed,
            "shares": self.shares,
            "stats_file": str(self._stats_file),
            "parent": os.getpid(),
        }
        # Processes that send to a Kinesis outside this lab sign with the machine's keys.
        paid = is_kinesis(self.bootstrap) and settings().kinesis_endpoint
        keys = machine_credentials() if paid else {}
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                self._command(),
                env=without_credentials(os.environ)
                | keys
                | self.environment
                | {"SHOP_LOAD": json.dumps(plan), "HOME": str(self.log.parent)},
                cwd=self.log.parent,  # Locust reads a configuration there and in the home folder
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_for_users()
        if self.show:
            self._shown = threading.Thread(target=self._show, daemon=True)
            self._shown.start()
        return self

    def wait(self) -> int:
        """Wait for the end of the load, and return the number of unacknowledged sends.

        Raises:
            LabError: Locust died, or the load was never started.
        """
        status = self._started.wait()
        if self._shown:
            self._shown.join()
        rows = self._rows()
        if not rows or not rows[-1]["final"] or status not in (0, 1):
            raise self._died(f"The load ended early with exit status {status}.")
        if self.seconds and not (self._stopped or self.web_port):
            self._check_length(rows, self.seconds)
        return rows[-1]["failures"]

    def _check_length(self, rows: list[dict], seconds: float) -> None:
        """Raise `LabError` if the load ran much shorter than asked, or sent nothing."""
        ran = rows[-1]["time"] - rows[0]["time"]
        if ran < 0.8 * seconds - 2:
            raise self._died(f"The load ended after {ran:.0f} of {seconds:g} s.")
        sent = rows[-1]["acked"] + rows[-1]["failures"]
        if sent == 0 and (self.rate or RATE) * seconds >= 10:
            raise self._died("The load sent nothing.")

    def stop(self) -> int:
        """End the load and return the number of unacknowledged sends.

        It collects all acknowledgements, and leaves no process behind.
        """
        self._stopped = True
        if self.running:
            self._started.send_signal(signal.SIGTERM)
            try:
                self._started.wait(settings().send_timeout_seconds + 15)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
        return self.wait()

    def run(self) -> "Load":
        """Start the load and wait for its end; raise `LabError` as `start` and `wait` do."""
        if self.seconds is None:
            raise LabError("This load has no end.", "give it a number of seconds.")
        with self:
            pass
        return self

    def __enter__(self) -> "Load":
        return self.start()

    def __exit__(self, kind, error, trace) -> None:
        if kind or self.seconds is None:
            self.stop()
        else:
            try:
                self.wait()
            except BaseException:
                self.stop()
                raise

    @property
    def running(self) -> bool:
        """True while the load is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of Locust, which is also its process group."""
        return self._started.pid

    @property
    def url(self) -> str | None:
        """Address of Locust's web UI for programs on this machine; None without a web UI."""
        return f"http://127.0.0.1:{self.web_port}" if self.web_port else None

    @property
    def page(self) -> str | None:
        """Address of Locust's web UI for a browser; None without a web UI."""
        return settings().browser_url(self.url) if self.url else None

    @property
    def acked(self) -> int:
        """Number of sends that the broker has acknowledged so far."""
        return self._newest("acked")

    @property
    def failures(self) -> int:
        """Number of sends that have failed or timed out so far."""
        return self._newest("failures")

    def _newest(self, number: str) -> int:
        rows = self._rows()
        return rows[-1][number] if rows else 0

    @property
    def stats(self) -> pd.DataFrame:
        """Statistics of the run over time, two rows per second.

        `seconds` count from the first row, `rate` is acknowledged sends per second, and p50_ms and
        p95_ms are response times of the last ten seconds.
        """
        rows = pd.DataFrame(self._rows(), columns=["time", *COLUMNS[1:2], *COLUMNS[3:]])
        rows["seconds"] = rows["time"] - rows["time"].min()
        rows[["p50_ms", "p95_ms"]] = rows[["p50_ms", "p95_ms"]].astype(float)
        # Over two rows: the processes report once per second.
        rows["rate"] = (rows["acked"].diff(2) / rows["seconds"].diff(2)).fillna(0.0)
        return rows[list(COLUMNS)]

    @property
    def _started(self) -> subprocess.Popen:
        if self._process is None:
            raise LabError("This load was not started.", "use it in a `with`, or call `run()`.")
        return self._process

    def _command(self) -> list[str]:
        command = [sys.executable, "-P", "-m", "locust", "-f", str(LOCUSTFILE)]
        command += ["--users", str(self.users), "--spawn-rate", str(self.users)]
        command += ["--stop-timeout", "1", "--only-summary", "--skip-log-setup"]
        if self.web_port is None:
            command += ["--headless"]
        else:
            self.web_port = _free_port(self.web_port)
            command += ["--web-host", "127.0.0.1", "--web-port", str(self.web_port), "--autostart"]
        if self.processes > 1:
            port = str(_free_port(0))
            command += ["--processes", str(self.processes), "--master-bind-host", "127.0.0.1"]
            command += ["--master-bind-port", port, "--master-port", port]
        return command

    def _wait_for_users(self) -> None:
        last_call = time.monotonic() + START_TIMEOUT_S
        while not any(row["users"] for row in self._rows()):
            if not self.running:
                raise self._died("The load did not start.")
            if time.monotonic() > last_call:
                os.killpg(self.pid, signal.SIGKILL)
                raise self._died(f"The load did not start within {START_TIMEOUT_S:.0f} s.")
            time.sleep(0.1)

    def _rows(self) -> list[dict]:
        if not self._stats_file.exists():
            return []
        text = self._stats_file.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        return [json.loads(line) for line in whole.splitlines()]

    def _died(self, what: str) -> LabError:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return LabError(what, "run: lab status   (then try again)", "\n".join(lines[-20:]))

    def _show(self) -> None:
        with live_display() as show:
            while self.running:
                show(self)
                time.sleep(0.5)
            show(self)

    def _repr_html_(self) -> str:
        last = self.stats.tail(1)
        figures = last.astype(object).set_axis([""]) if len(last) else None
        return card(self._title(), self.failures == 0, figures, link=self.page)

    def __str__(self) -> str:
        stats = self.stats
        if not len(stats):
            return self._title()
        last = stats.fillna(0).iloc[-1]
        busy = stats.loc[stats["acked"] == last["acked"], "seconds"].min()
        rate = (
            last["rate"]
            if self.running
            else (last["acked"] - stats["acked"].iloc[0]) / max(busy, 1.0)
        )
        return (
            f"{last['acked']:,.0f} acknowledged in {last['seconds']:.0f} s: {rate:,.0f}/s, "
            f"p50 {last['p50_ms']:.0f} ms, p95 {last['p95_ms']:.0f} ms, "
            f"{last['failures']:.0f} failures"
        )

    __repr__ = __str__

    def _title(self) -> str:
        return f"load on {self.topic} " + ("runs" if self.running else "has ended")


def _free_port(preferred: int) -> int:
    """Return the preferred port if it is free, else another one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", preferred))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
