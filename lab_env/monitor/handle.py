"""A lesson's handle on Prometheus: give it rules and targets, ask it, wait for its alarm."""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd
import yaml

from lab_env.errors import LabError
from lab_env.monitor import client
from lab_env.settings import settings

GONE = "gone"


class Server(Protocol):
    """What the handle needs of the service."""

    def address(self) -> str:
        """Its URL."""

    def use_rules(self, namespace: str, text: str) -> None:
        """Take a lesson's alert rules."""

    def use_scrape(self, namespace: str, text: str) -> None:
        """Take a lesson's scrape jobs."""


@dataclass(frozen=True)
class RulesTest:
    """The verdict of `promtool test rules`.

    Args:
        ok: whether every test passed.
        output: what promtool said: expected and actual alerts.
    """

    ok: bool
    output: str


class PrometheusHandle:
    """Prometheus, as one lesson uses it.

    Args:
        server: the service.
        namespace: of the lesson.
        promtool: runs promtool with arguments in a folder.
    """

    def __init__(
        self,
        server: Server,
        namespace: str,
        promtool: Callable[..., subprocess.CompletedProcess[str]],
    ):
        self._server = server
        self._namespace = namespace
        self._promtool = promtool

    @property
    def url(self) -> str:
        """Its address."""
        return self._server.address()

    @property
    def console(self) -> str:
        """The page that shows the pipelines while they run."""
        return settings().browser_url(f"{self.url}/consoles/pipeline.html")

    def scrape(self, text: str) -> None:
        """Add scrape jobs, in place of those that this lesson gave before.

        Args:
            text: YAML as in Prometheus' configuration, beginning with `scrape_configs:`.

        Raises:
            LabError: Prometheus refuses them, and says why; the jobs before stay.
        """
        self._server.use_scrape(self._namespace, text)

    def rules(self, text: str) -> None:
        """Add alert rules, in place of those that this lesson gave before.

        Args:
            text: YAML as in a file of rules, beginning with `groups:`.

        Raises:
            LabError: Prometheus refuses them, and says why; the rules before stay.
        """
        self._server.use_rules(self._namespace, text)

    def query(self, promql: str) -> pd.DataFrame:
        """The value of an expression now: one row per series, its labels and `value`."""
        return client.query(self.url, promql)

    def query_range(self, promql: str, seconds: float = 60, step: float = 1) -> pd.DataFrame:
        """The values of an expression in the last seconds: `time`, labels and `value`."""
        now = time.time()
        return client.query_range(self.url, promql, now - seconds, now, step)

    def alerts(self) -> pd.DataFrame:
        """The alerts that are pending or firing: name, state, value, since (UTC), labels."""
        return client.alerts(self.url)

    def wait_for_alert(self, name: str, state: str = "firing", seconds: float = 30) -> float:
        """Wait until an alert is in a state.

        Args:
            name: of the alert.
            state: pending, firing, or `gone`: neither of them.
            seconds: timeout.

        Returns:
            The seconds that it took.

        Raises:
            LabError: the timeout expired.
        """
        began = time.monotonic()
        while True:
            alerts = self.alerts()
            states = set(alerts.loc[alerts["name"] == name, "state"]) or {GONE}
            waited = time.monotonic() - began
            if state in states:
                return waited
            if waited > seconds:
                raise LabError(
                    f"After {seconds:.0f} s the alert {name} is {' and '.join(sorted(states))},"
                    f" not {state}.",
                    "look at what its expression gives: lab.prometheus.query(...)",
                )
            time.sleep(0.2)

    def test_rules(self, rules: str, tests: str) -> RulesTest:
        """Try rules on made-up series, with `promtool test rules`; no server is needed.

        Args:
            rules: YAML as in a file of rules.
            tests: YAML as in promtool's test files; `rule_files` may be left out.

        Raises:
            LabError: there is no promtool, or the tests are no YAML.
        """
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "rules.yml").write_text(rules)
            try:
                content = yaml.safe_load(tests) | {"rule_files": ["rules.yml"]}
            except (yaml.YAMLError, TypeError) as error:
                raise LabError(f"The tests cannot be read: {error}", "correct them.") from None
            (Path(folder) / "tests.yml").write_text(yaml.safe_dump(content, sort_keys=False))
            done = self._promtool("test", "rules", "tests.yml", folder=folder)
        output = re.sub(r"\n{3,}", "\n\n", f"{done.stdout}\n{done.stderr}".strip())
        return RulesTest(done.returncode == 0, output)
