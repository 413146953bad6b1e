"""Prometheus: stores the metrics of the pipelines and evaluates alert rules, for lesson 19.

Set-up leaves it out: the first `lab up prometheus` builds it from its Go modules. The build has no
web UI, which would need JavaScript tools; the API, rules and console templates all work.
"""

import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import yaml

from lab_env.platform.errors import LabError
from lab_env.platform.install.archives import size_in_words
from lab_env.platform.install.cache import Progress, cache, clear_partial
from lab_env.platform.install.go_build import build_program, built_program
from lab_env.platform.install.versions import versions
from lab_env.platform.install.wheels import drop_build_leftovers
from lab_env.platform.processes.state import home
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.services.base import Finding, NotReady, Service, open_local, run_tool
from lab_env.platform.services.exporter import Exporter
from lab_env.platform.settings import settings

PACKAGE = Path(__file__).with_name("monitoring")
CONSOLE = "consoles/pipeline.html"
RULES, SCRAPE = "rules", "scrape"  # folders of files named after their lesson
OWN = "lab"  # the lab's own files there

EVALUATION_S = 1  # a lesson waits for its alert, so everything happens every second
CLEAR_ATTEMPTS = 10
SETTINGS = {
    "global": {
        "scrape_interval": "1s",
        "scrape_timeout": "1s",
        "evaluation_interval": f"{EVALUATION_S}s",
    },
    "rule_files": [f"{RULES}/*.yml"],
    "scrape_config_files": [f"{SCRAPE}/*.yml"],
    "storage": {"tsdb": {"retention": {"time": "6h", "size": "200MB"}}},
}


class Prometheus(Service):
    name = "prometheus"
    title = "Prometheus"
    port_names = ("http",)
    external_setting = "prometheus_url"
    needs = ("exporter",)
    contents = "metrics"
    variables = "LAB_PROMETHEUS_URL"
    fetched_on_demand = True
    own_for_lessons = True

    def fetch(self, report_progress: Progress) -> None:
        if not _server().exists():
            if missing := self.missing_resources():
                what = f"{self.title}: {missing}."
                next_step = "free some, or set LAB_CACHE to a folder on a larger disk; then run: "
                raise LabError(what, f"{next_step}lab up {self.name}")
            report_progress(f"{self.title}: {_cost()}, once")
            build_program(self.name, report_progress)
            drop_build_leftovers()
            clear_partial()

    def program(self, ports: dict[str, int]) -> Program:
        """Write the lab's own scrape job and alert rules, and describe the process."""
        if not _server().exists():
            raise LabError("Prometheus has not been built yet.", "run: lab up prometheus")
        for folder in (RULES, SCRAPE):
            (self.folder / folder).mkdir(exist_ok=True)
            for file in (self.folder / folder).glob("*.yml"):
                # A reset removes the lesson's folder, even while this server is stopped.
                if not (home() / "lessons" / file.stem).is_dir():
                    file.unlink()
        shutil.copy(PACKAGE / "alerts.yml", self.folder / RULES / f"{OWN}.yml")
        target = Exporter().address().removeprefix("http://")
        own = {"job_name": "pipeline", "static_configs": [{"targets": [target]}]}
        _write_yaml(self.folder / "prometheus.yml", SETTINGS | {"scrape_configs": [own]})
        # Relative to the working folder: the configuration treats paths as patterns.
        return Program(
            name=self.name,
            argv=[
                *(str(_server()), "--config.file=prometheus.yml", "--storage.tsdb.path=data"),
                f"--web.listen-address={settings().bind}:{ports['http']}",
                # Reload by HTTP, and deletion of a lesson's series. Neither needs a login: every
                # program on this machine can do it, or stop the server.
                *("--web.enable-lifecycle", "--web.enable-admin-api"),
                # No page from another origin may read its answers.
                "--web.cors.origin=https?://(localhost|127[.]0[.]0[.]1)(:[0-9]+)?",
                f"--web.console.templates={PACKAGE / 'consoles'}",
                f"--web.console.libraries={PACKAGE / 'consoles'}",
                "--log.level=warn",
            ],
            cwd=self.folder,
        )

    def check(self) -> None:
        try:
            open_local(f"{self.address()}/-/ready").close()
        except urllib.error.HTTPError as error:
            raise NotReady(f"it answers {error.code}: {_text(error)}") from None
        except OSError as error:
            raise NotReady(f"it does not answer ({error})") from None

    def links(self) -> dict[str, str]:
        if self.external or not self.running():
            return {}
        return {"Console of the pipelines": f"{self.address()}/{CONSOLE}"}

    def missing_resources(self) -> str:
        if _server().exists():
            return ""
        needed = versions()["go"][self.name]["build_megabytes"]
        free = shutil.disk_usage(cache()).free / 1e6
        if free >= needed:
            return ""
        return f"{size_in_words(needed)} of disk must be free to build it; only {free:.0f} MB is"

    def clear(self, namespace: str) -> dict[str, int]:
        """Remove a lesson's rules, targets and series; an external server keeps its data."""
        if self.external:
            return {}
        series, removed = [f'{{namespace="{namespace}"}}'], 0
        for folder in (RULES, SCRAPE):
            file = self.folder / folder / f"{namespace}.yml"
            if file.exists():
                series += _series_of(file)
                file.unlink()
                removed += 1
        if removed:
            self.reload()
        query = urlencode({"match[]": series}, doseq=True)
        for _ in range(CLEAR_ATTEMPTS):
            self._post(f"/api/v1/admin/tsdb/delete_series?{query}")
            # A scrape or evaluation in progress stores its result afterwards.
            time.sleep(2 * EVALUATION_S)
            if not self._kept(series):
                break
        return {"files of rules and targets": removed}

    def diagnose(self) -> Iterator[Finding]:
        if not self.external:
            missing = f"not built; lab up {self.name} builds it once ({_cost()})"
            yield Finding(self.name, "ok", str(_server() if _server().exists() else missing))

    # For lessons ----------------------------------------------------------------------------------

    def use_rules(self, namespace: str, text: str) -> None:
        """Replace a lesson's alert rules with those in a text that begins with `groups:`.

        If Prometheus rejects them, the previous ones stay, and a `LabError` gives the reason.
        """
        self._refuse_external("rules")
        _check("rules", text, "check", "rules", "--lint=none", "rules.yml")
        self._use(RULES, namespace, text)

    def use_scrape(self, namespace: str, text: str) -> None:
        """Like `use_rules`, but for scrape jobs; the text begins with `scrape_configs:`."""
        self._refuse_external("targets")
        _check("jobs", text, "check", "config", "all.yml")
        self._use(SCRAPE, namespace, text)

    def reload(self) -> None:
        """Reload configuration, rules and jobs; raise `LabError` if Prometheus rejects them."""
        self._post("/-/reload")

    def _use(self, folder: str, namespace: str, text: str) -> None:
        (home() / "lessons" / namespace).mkdir(parents=True, exist_ok=True)
        file = self.folder / folder / f"{namespace}.yml"
        before = file.read_text() if file.exists() else None
        file.write_text(text)
        try:
            self.reload()
        except LabError:
            file.unlink() if before is None else file.write_text(before)
            raise

    def _kept(self, series: list[str]) -> bool:
        """True if any of these series has a value from the last five minutes."""
        from lab_env.platform.metrics_client import query  # pandas: not for each start of the lab

        recent = " or ".join(f"last_over_time({selector}[5m])" for selector in series)
        return not query(self.address(), recent).empty

    def _post(self, path: str) -> None:
        request = urllib.request.Request(f"{self.address()}{path}", method="POST")
        try:
            open_local(request, timeout=20).close()
        except urllib.error.HTTPError as error:
            what = f"Prometheus refuses {path.partition('?')[0]}: {_text(error)}"
            raise LabError(what, f"read its log: lab logs {self.name}") from None
        except OSError as error:
            what = f"Prometheus at {self.address()} does not answer ({error})."
            raise LabError(what, f"run: lab up {self.name}") from None

    def _refuse_external(self, what: str) -> None:
        if self.external:
            raise LabError(
                f"The lab cannot add {what} to the Prometheus in LAB_PROMETHEUS_URL.",
                "add them to its own configuration, or unset LAB_PROMETHEUS_URL.",
            )


def run_promtool(*arguments: str, folder: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool in a folder, capturing its output as text."""
    program = built_program(Prometheus.name, "promtool")
    found = str(program) if program.exists() else shutil.which("promtool")
    if not found:
        own = "unset LAB_PROMETHEUS_URL and " if Prometheus().external else ""
        raise LabError("promtool is not installed.", f"{own}run: lab up prometheus")
    return run_tool([found, *arguments], folder)


def _check(what: str, text: str, *command: str) -> None:
    """Check a text with promtool, which reads it from the file `rules.yml` or `jobs.yml`."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{what}.yml").write_text(text)
        _write_yaml(Path(folder) / "all.yml", {"scrape_config_files": ["jobs.yml"]})
        checked = run_promtool(*command, folder=folder)
    if checked.returncode:
        raise LabError(
            f"Prometheus refuses these {what}: {_reason(checked)}", f"correct the {what}."
        )


def _server() -> Path:
    return built_program(Prometheus.name)


def _cost() -> str:
    pin = versions()["go"][Prometheus.name]
    return f"{size_in_words(pin['megabytes'])} to fetch and {pin['minutes']} minutes to build"


def _write_yaml(path: Path, content: dict) -> None:
    partial = path.with_suffix(".new")
    partial.write_text(yaml.safe_dump(content, sort_keys=False))
    os.replace(partial, path)


def _series_of(file: Path) -> list[str]:
    """Selectors of the series that a lesson's rules or jobs have created."""
    content = yaml.safe_load(file.read_text()) or {}
    jobs = [job["job_name"] for job in content.get("scrape_configs") or ()]
    rules = [rule for group in content.get("groups") or () for rule in group.get("rules") or ()]
    return [
        *(f'{{job="{job}"}}' for job in jobs),
        *(f'{{alertname="{rule["alert"]}"}}' for rule in rules if "alert" in rule),
        *(rule["record"] for rule in rules if "record" in rule),
    ]


def _reason(checked: subprocess.CompletedProcess[str]) -> str:
    """Extract promtool's error message, without file names."""
    lines = [line.strip() for line in (checked.stderr or checked.stdout).splitlines()]
    said = [line for line in lines if line and not line.startswith(("FAILED", "Checking"))]
    return " ".join(said) or "promtool gives no reason."


def _text(error: urllib.error.HTTPError) -> str:
    return error.read().decode(errors="replace").strip() or error.reason
