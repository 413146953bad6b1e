"""A lesson's handle on Prometheus: set rules and targets, query, wait for an alert."""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import yaml

from lab_env.platform import metrics_client
from lab_env.platform.errors import LabError
from lab_env.platform.services import Prometheus
from lab_env.platform.settings import settings

GONE = "gone"


@dataclass(frozen=True)
class RulesTest:
    """Result of `promtool test rules`."""

    ok: bool  # every test passed
    output: str  # promtool's: expected and actual alerts


class PrometheusHandle:
    """Prometheus for one lesson."""

    def __init__(
        self,
        server: Prometheus,
        namespace: str,
        promtool: Callable[..., subprocess.CompletedProcess[str]],
    ):
        self._server = server
        self._namespace = namespace
        self._promtool = promtool

    @property
    def url(self) -> str:
        """URL of the server."""
        return self._server.address()

    @property
    def console(self) -> str:
        """URL of the page that shows the pipelines while they run."""
        return settings().browser_url(f"{self.url}/consoles/pipeline.html")

    def scrape(self, text: str) -> None:
        """Replace this lesson's scrape jobs with this YAML, which begins with `scrape_configs:`.

        If Prometheus rejects them, the previous ones stay in effect.
        """
        self._server.use_scrape(self._namespace, text)

    def rules(self, text: str) -> None:
        """Replace this lesson's alert rules with this YAML, which begins with `groups:`.

        If Prometheus rejects them, the previous ones stay in effect.
        """
        self._server.use_rules(self._namespace, text)

    def query(self, promql: str) -> pd.DataFrame:
        """Evaluate an expression now; return one row per series, with its labels and `value`."""
        return metrics_client.query(self.url, promql)

    def query_range(self, promql: str, seconds: float = 60, step: float = 1) -> pd.DataFrame:
        """Evaluate an expression over the last `seconds`; return `time`, labels and `value`."""
        now = time.time()
        return metrics_client.query_range(self.url, promql, now - seconds, now, step)

    def alerts(self) -> pd.DataFrame:
        """Return the pending and firing alerts: name, state, value, since (UTC), labels."""
        return metrics_client.alerts(self.url)

    def wait_for_alert(self, name: str, state: str = "firing", seconds: float = 30) -> float:
        """Wait until an alert is `pending`, `firing` or `gone` (neither); return the seconds taken.

        If that takes longer than `seconds`, raise `LabError`.
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
                    "check what its expression returns: lab.prometheus.query(...)",
                )
            time.sleep(0.2)

    def test_rules(self, rules: str, tests: str) -> RulesTest:
        """Test rules on invented series with `promtool test rules`; needs no server.

        The tests are YAML as in promtool's test files; `rule_files` may be left out.
        """
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "rules.yml").write_text(rules)
            try:
                content = yaml.safe_load(tests) | {"rule_files": ["rules.yml"]}
            except (yaml.YAMLError, TypeError) as error:
                raise LabError(f"The tests are not valid YAML: {error}", "correct them.") from None
            (Path(folder) / "tests.yml").write_text(yaml.safe_dump(content, sort_keys=False))
            done = self._promtool("test", "rules", "tests.yml", folder=folder)
        output = re.sub(r"\n{3,}", "\n\n", f"{done.stdout}\n{done.stderr}".strip())
        return RulesTest(done.returncode == 0, output)
