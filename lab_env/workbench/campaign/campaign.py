"""Runs a campaign group by group, saves a result per case, and writes a page at the end.

A campaign can be stopped at any time: results are kept, the page shows the remaining cases as *not
run*, and `resume` continues. If a fault has damaged a group's tables, the group continues with new
ones.
"""

import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import groupby

from rich.console import Console
from rich.markup import escape

from lab_env.lab.handle import Lab, namespace_of, reset_lesson
from lab_env.lessons.recorded import campaign as recorded
from lab_env.lessons.recorded.campaign import Result
from lab_env.lessons.recorded.campaign_plan import PLANTED, SINKS, Case, find_case, make_plan
from lab_env.pipeline.sinks import table_path
from lab_env.platform import services
from lab_env.platform.errors import LabError
from lab_env.platform.processes.locks import exclusive
from lab_env.platform.processes.state import folder
from lab_env.shop.ledger.book import ledger_directory
from lab_env.tables.hudi_rs import KEYS, read_rows
from lab_env.workbench.campaign import report
from lab_env.workbench.campaign.clones import verdict_of
from lab_env.workbench.campaign.faults import outcome_of, run_case
from lab_env.workbench.campaign.group import NAMESPACE, Group
from lab_env.workbench.campaign.judge import judge_rows, planted_losses
from lab_env.workbench.campaign.records import Records

Say = Callable[[str], None]
OWN = ("minio", "kafka")  # the lab's own servers, which a campaign freezes and kills


class Campaign:
    """One campaign; its size is `small`, `full`, or `planted` to test the campaign itself."""

    def __init__(self, seed: int, size: str, say: Say):
        self.plan = (find_case((), PLANTED),) if size == PLANTED else make_plan(seed, size)
        self.seed, self.size, self.say = seed, size, say
        self.records = Records(seed, size)
        self.lab: Lab | None = None

    def run(self, minutes: float | None = None) -> None:
        """Run the remaining cases; start no new one after the given number of minutes."""
        deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
        todo = self.records.open_cases(self.plan)
        for number, cases in groupby(todo, key=lambda case: case.group):
            self._run_group(number, list(cases), deadline)
            if time.monotonic() > deadline:
                return

    def run_case(self, case: Case, times: int = 1) -> list[Result]:
        """Run one case several times on its own tables; replace its earlier result.

        The first unexpected result is saved; if there is none, the first result.
        """
        results = []
        for _ in range(times):
            results += self._run_group(case.group, [case], float("inf"))
        failed = [result for result in results if not result.ok]
        if results:
            kept = (failed or results)[0]
            kept.evidence["repeated"] = f"{len(failed)} of {len(results)} not as expected"
            self.records.save(kept)
        return results

    def _run_group(self, number: int, cases: list[Case], deadline: float) -> list[Result]:
        """Run cases on one pair of tables; after a failure, continue on a new pair."""
        results: list[Result] = []
        while len(results) < len(cases) and time.monotonic() < deadline:
            attempt = self._free_attempt(number)
            label = self._label(number, attempt)
            results += self._on_new_tables(label, number, attempt, cases[len(results) :], deadline)
        return results

    def _label(self, number: int, attempt: int) -> str:
        return f"{self.seed}-{self.size}-g{number:02d}-{attempt}"

    def _free_attempt(self, number: int) -> int:
        """Return the number of the group's next attempt; skip numbers for which a ledger exists."""
        attempt = self.records.attempt(number)
        prefix = f"{namespace_of(NAMESPACE)}."
        while ledger_directory(prefix + self._label(number, attempt)).exists():
            attempt += 1
        return attempt

    def _on_new_tables(
        self, label: str, number: int, attempt: int, cases: list[Case], deadline: float
    ) -> list[Result]:
        endpoints = services.endpoints()
        self.say(f"group {number}, tables {label}")
        group = Group(endpoints, label, self.seed + number)
        self.records.save_group(number, attempt, {"label": label, "began_at": time.time()})
        began, results = time.time(), []
        try:
            group.begin()
            with group.watched():
                for case in cases:
                    if time.monotonic() > deadline:
                        break
                    result = Result(case.id, case.fault, number, attempt, case.where)
                    run_case(group, case, result)
                    results.append(result)
                    self.records.save(result)
                    self.say(_line(result))
                    if not result.ok:
                        break  # these tables may be spoiled
                group.rest()
        except Exception as error:
            self.say(f"group {number}: {error}")
            if not results:
                raise
        finally:
            group.end()
        facts = {"label": label, "began_at": began, "ended_at": time.time()}
        facts["processor_seconds"] = round(group.processor_seconds, 1)
        facts["reached"] = group.reached()
        facts["seen"] = group.seen()
        facts |= self._cross_check(group, results)
        self.records.save_group(number, attempt, facts)
        return results

    def _cross_check(self, group: Group, results: list[Result]) -> dict:
        """Check the group's tables with Spark, too, and test the judge with planted losses."""
        facts: dict = {"spark": {}, "judge": {}}
        if self.size == PLANTED:
            return facts  # the ledger has the loss, not the tables
        ledger = group.feeder.ledger.frame()
        spark = self._spark()

        def read(table: str):
            return spark.read.format("hudi").load(table).select(*KEYS).toPandas()

        for sink in SINKS:
            judged = judge_rows(ledger, read(table_path(group.base, sink)), sink, "Spark")
            facts["spark"][sink] = asdict(judged) | {"ok": judged.ok, "text": str(judged)}
        spoiled = [result for result in results if not result.ok]
        if not spoiled:
            rows = read_rows(group.endpoints, table_path(group.base, "cow"))
            facts["judge"] = planted_losses(ledger, rows)
        for result in results:
            if table := result.evidence.get("table"):
                sink = table.rpartition("_")[2]
                result.readers["Spark"] = verdict_of(group, lambda t=table: read(t), sink)
                result.outcome = outcome_of(result.readers)
                self.records.save(result)
        return facts

    def _spark(self):
        if self.lab is None:
            self.lab = Lab(NAMESPACE, services.endpoints())
        return self.lab.spark

    def close(self) -> None:
        """Stop the Spark session of the cross-checks."""
        if self.lab is not None:
            self.lab.spark.stop()

    def problems(self) -> list[str]:
        """Return a sentence about each unexpected result; empty if all are as expected."""
        return report.problems(self.plan, self.records.results(), self.records.groups())


def main(
    seed: int,
    size: str,
    minutes: float | None,
    resume: bool,
    case: str | None,
    times: int,
    console: Console,
) -> int:
    """Run a campaign, or one case of it, and write its page; return the exit status.

    The status is 0 only if all results are as expected.
    """

    def say(line: str) -> None:
        console.print(f"  {escape(line)}")

    plan = make_plan(seed, size)
    chosen = find_case(plan, case) if case else None
    if external := [s.title for s in services.SERVICES.values() if s.external and s.name in OWN]:
        raise LabError(
            f"A campaign kills the lab's own servers; these are external: {', '.join(external)}.",
            "unset LAB_S3_ENDPOINT and LAB_KAFKA_BOOTSTRAP for the campaign.",
        )
    with exclusive(folder("campaign") / "lock"):
        services.up(progress=say)
        campaign = Campaign(seed, PLANTED if chosen and chosen.id == PLANTED else size, say)
        if not resume and not chosen:
            campaign.records.clear()
            reset_lesson(NAMESPACE)
        try:
            if chosen:
                campaign.run_case(chosen, times)
            else:
                campaign.run(minutes)
        finally:
            campaign.close()
            _write_page(campaign)
    return _finish(campaign, console)


def _write_page(campaign: Campaign) -> None:
    page = report.campaign_page(
        campaign.seed,
        campaign.size,
        campaign.plan,
        campaign.records.results(),
        campaign.records.groups(),
    )
    campaign.records.page.write_text(page)
    results = campaign.records.results()
    recorded.keep(campaign.seed, campaign.size, results, campaign.records.folder / recorded.FILE)


def _finish(campaign: Campaign, console: Console) -> int:
    """Print the results; return the exit status."""
    problems = campaign.problems()
    for row in recorded.summary(campaign.plan, campaign.records.results()):
        console.print(escape(report.in_words(row)))
    for problem in problems:
        console.print(f"[red]{escape(problem)}[/red]")
    console.print(f"Report: {campaign.records.page}")
    return 1 if problems else 0


def _line(result: Result) -> str:
    recovery = "" if result.recovery_seconds is None else f", back in {result.recovery_seconds} s"
    mark = "ok" if result.ok else "NOT AS EXPECTED"
    return (
        f"{result.case} {result.fault} ({result.where}): {result.outcome}{recovery}; "
        f"landed {result.landed or 'nowhere'}; {result.seconds:.0f} s; {mark}"
    )
