"""A campaign can be interrupted and resumed; tables on which a case failed are not used again."""

from contextlib import nullcontext
from unittest.mock import MagicMock

import pytest
from typer.testing import CliRunner

from lab_env.cli import app
from lab_env.lessons.recorded.campaign import Result
from lab_env.lessons.recorded.campaign_plan import find_case, make_plan
from lab_env.lessons.recorded.verdicts import verdicts
from lab_env.platform.errors import LabError
from lab_env.shop.ledger.book import ledger_directory
from lab_env.workbench.campaign import campaign as module
from lab_env.workbench.campaign.campaign import Campaign
from lab_env.workbench.campaign.faults import run_case
from lab_env.workbench.campaign.group import Stuck
from lab_env.workbench.campaign.records import Records


class FakeGroup:
    """Stub for a group's pipeline: it starts nothing, and records its label."""

    labels: list[str]

    def __init__(self, endpoints, label, seed):
        type(self).labels.append(label)
        self.processor_seconds = 1.0

    def begin(self): ...

    def rest(self): ...

    def watched(self):
        return nullcontext()

    def seen(self):
        return {}

    def reached(self):
        return ["clean", "compaction", "rollback"]

    def end(self):
        return self.processor_seconds


@pytest.fixture
def run(home, monkeypatch):
    """Create a small campaign whose faults do nothing; `outcomes` sets the outcome of a case."""
    FakeGroup.labels = []
    clock = [0.0]
    outcomes: dict[str, str] = {}

    def fake_case(group, case, result: Result):
        clock[0] += 60
        result.outcome = outcomes.get(case.id, verdicts()[case.fault].expect[0])

    monkeypatch.setattr(module, "Group", FakeGroup)
    monkeypatch.setattr(module, "run_case", fake_case)
    monkeypatch.setattr(module.services, "endpoints", lambda: None)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Campaign, "_cross_check", lambda *_: {"spark": {}, "judge": {}})

    def start() -> Campaign:
        return Campaign(17, "small", say=lambda line: None)

    start.outcomes = outcomes
    return start


def test_a_whole_campaign_uses_one_pair_of_tables_a_group_and_has_no_problems(run):
    campaign = run()
    campaign.run()
    assert len(campaign.records.results()) == 18 and campaign.problems() == []
    assert FakeGroup.labels == ["17-small-g01-1", "17-small-g02-1"]
    assert list(campaign.records.groups()) == ["01-1", "02-1"]


def test_a_campaign_that_is_cut_off_goes_on_with_what_has_not_run(run):
    run().run(minutes=3.5)
    assert len(Records(17, "small").results()) == 4
    run().run()
    assert len(Records(17, "small").results()) == 18
    assert FakeGroup.labels == ["17-small-g01-1", "17-small-g01-2", "17-small-g02-1"]
    run().run()  # nothing is left
    assert len(FakeGroup.labels) == 3


def test_tables_whose_records_were_lost_are_not_used_again(run):
    """Their topic already has the same events, which would then occur twice."""
    ledger_directory("campaign.17-small-g01-1").mkdir(parents=True)
    run().run()
    assert FakeGroup.labels == ["17-small-g01-2", "17-small-g02-1"]


def test_after_a_failure_the_other_cases_of_the_group_get_new_tables(run):
    run.outcomes["004"] = "wrong"
    campaign = run()
    campaign.run()
    attempts = {r.case: r.attempt for r in campaign.records.results().values()}
    assert attempts == {f"{n:03d}": 2 if 4 < n <= 10 else 1 for n in range(1, 19)}
    (problem,) = campaign.problems()
    assert "Case 004" in problem and "wrong, expected survived" in problem


def test_a_case_can_be_repeated_and_a_failure_among_the_repetitions_stands(run):
    campaign = run()
    case = find_case(campaign.plan, "004")
    assert [r.outcome for r in campaign.run_case(case, times=2)] == ["survived"] * 2
    run.outcomes["004"] = "stuck"
    campaign.run_case(case)
    kept = campaign.records.results()["004"]
    assert kept.outcome == "stuck" and kept.evidence["repeated"] == "1 of 1 not as expected"


def test_a_store_that_is_not_the_labs_own_is_not_killed(home, configure):
    configure(s3_endpoint="http://127.0.0.1:1")
    done = CliRunner().invoke(app, ["campaign"])
    assert isinstance(done.exception, LabError) and "these are external" in str(done.exception)


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [(Stuck("not in 240 s"), "stuck"), (RuntimeError("a bug of the campaign"), "broken")],
)
def test_what_goes_wrong_in_a_case_is_its_outcome_and_never_a_pass(trouble, outcome):
    case = make_plan(17, "small")[0]
    result = Result(case.id, case.fault, 1, 1, case.where)
    group = MagicMock(**{"ensure_running.side_effect": trouble})
    group.thread_dump.return_value = "main: waiting"
    group.evidence.return_value = {"receipts": {"cow": "between batches, 3 is done"}}
    run_case(group, case, result)
    assert result.outcome == outcome and not result.ok
    assert str(trouble) in result.evidence["error"] and result.evidence["receipts"]
