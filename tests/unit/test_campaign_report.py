"""A campaign's page: cases not run do not count as passed; failures show how to repeat them."""

import pytest

from lab_env.lessons.recorded import campaign as recorded
from lab_env.lessons.recorded.campaign import Result
from lab_env.lessons.recorded.campaign_plan import make_plan
from lab_env.lessons.recorded.verdicts import verdicts
from lab_env.workbench.campaign import report
from lab_env.workbench.campaign.records import Records

PLAN = make_plan(17, "small")


@pytest.fixture
def records(home):
    return Records(17, "small")


def result(number: int, outcome="survived", **more) -> Result:
    case = PLAN[number - 1]
    told = {"landed": case.where.split(",")[0], "recovery_seconds": 12.5, "seconds": 30} | more
    return Result(case.id, case.fault, case.group, 1, case.where, outcome, started_at=1e9, **told)


WRONG = {
    "cow": {
        "counts": {"missing": 2},
        "examples": {"missing": ["O-<b>1"]},
        "biographies": {"O-<b>1": ["create e1 at 10, event, acked, offset 0:3", "not shown"]},
    }
}


def page(records: Records) -> str:
    return report.campaign_page(17, "small", PLAN, records.results(), records.groups())


def test_a_campaign_that_has_not_run_has_not_passed(records):
    rows = recorded.summary(PLAN, {})
    assert sum(row.planned for row in rows) == 18 and all(row.run == 0 for row in rows)
    assert all(row.not_run == row.planned and row.as_expected == 0 for row in rows)
    assert "0 of 18 cases have run; the other 18 count as not passed" in page(records)


def test_results_are_kept_one_file_a_case_and_the_rest_is_still_open(records):
    records.save(result(1))
    records.save(result(2, "stuck"))
    records.save_group(1, 1, {"label": "17-small-g01-1", "spark": {}})
    assert not list(records.folder.glob("*.new"))
    (records.folder / "case-003.json.new").write_text('{"case": "00')  # half-written
    again = Records(17, "small")
    assert again.results()["001"] == result(1) and not again.results()["002"].ok
    assert [case.id for case in again.open_cases(PLAN)] == [f"{n:03d}" for n in range(3, 19)]
    assert again.attempt(1) == 2 and again.attempt(2) == 1
    again.clear()
    assert again.open_cases(PLAN) == list(PLAN)


def test_an_outcome_that_is_not_as_expected_is_a_problem_with_its_command(records):
    records.save(result(1, "wrong", evidence={"wrong": WRONG, "log": ["ERROR <i>x"]}))
    records.save(result(3, "guarded", readers={"hudi-rs": "wrong: 3 stale", "Spark": "error: E"}))
    (problem,) = report.problems(PLAN, records.results(), {})
    assert problem.startswith("Case 001, Writer killed") and "expected survived" in problem
    html = page(records)
    assert "lab campaign --seed 17 --size small --case 001 --times 3" in html
    assert "O-&lt;b&gt;1" in html and "offset 0:3" in html and "ERROR &lt;i&gt;x" in html
    assert "<b>1" not in html and "wrong: 3 stale" in html


def test_sparks_disagreement_and_a_judge_that_cannot_fail_are_problems(records):
    records.save(result(1))
    spark = {"cow": {"ok": False, "text": "cow by Spark: 9 rows, 1 missing"}}
    records.save_group(1, 1, {"spark": spark, "judge": {"missing": True, "stale": False}})
    first, second = report.problems(PLAN, records.results(), records.groups())
    assert "hudi-rs found nothing wrong" in first
    assert "did not report a planted stale order" in second
    # After a failure of that group Spark's verdict says nothing new.
    records.save(result(2, "wrong"))
    assert len(report.problems(PLAN, records.results(), records.groups())) == 2


def test_a_reader_that_saw_something_wrong_meanwhile_is_a_problem(records):
    records.save(result(1))
    wrong = ["hudi-rs shows O-1 not at all, but commit 7 changed it."]
    seen = {"cow": {"reads": 9, "errors": 1, "wrong": []}, "mor": {"reads": 7, "errors": 0}}
    records.save_group(1, 1, {"seen": seen | {"mor": seen["mor"] | {"wrong": wrong}}})
    (problem,) = report.problems(PLAN, records.results(), records.groups())
    assert problem == f"Group 01-1: while mor was written, {wrong[0]}"
    assert "cow: 9, 1 errors, 0 wrong; mor: 7, 0 errors, 1 wrong" in page(records)


def test_the_matrix_counts_where_kills_really_landed(records):
    records.save(result(1, landed="after data"))
    records.save(result(4, landed="in marker"))
    rows = {row[0]: row[1:] for row in report.kill_counts(PLAN, records.results())}
    assert rows["data"][4:] == [1, 1, 1, 0] and rows["instant"][:4] == [1, 1, 0, 0]
    assert "in marker" in page(records)


def test_a_state_that_no_table_went_through_is_a_problem_of_the_whole_campaign(records):
    for number in range(1, len(PLAN) + 1):
        records.save(result(number, verdicts()[PLAN[number - 1].fault].expect[0]))
    records.save_group(1, 1, {"reached": ["compaction", "deltacommit"]})
    records.save_group(2, 1, {"reached": ["clean", "commit"]})
    (problem,) = report.problems(PLAN, records.results(), records.groups())
    assert problem == "No table went through a state to survive: rollback."


def test_a_class_in_words_says_what_is_left():
    results = {"001": result(1), "004": result(4, "stuck")}
    (row,) = [row for row in recorded.summary(PLAN, results) if row.fault == "kill"]
    assert report.in_words(row).split(None, 1)[1] == (
        "2 of 4 run: 1 survived, 1 stuck, 2 not run; expected survived; 1 NOT AS EXPECTED"
    )


def test_a_campaign_is_read_back_from_its_file_with_its_counts(records, tmp_path):
    records.save(result(1))
    records.save(result(4, recovery_seconds=20.5, evidence={"receipts": {"cow": "batch 7"}}))
    records.save(result(2, "stuck", recovery_seconds=None, evidence={"error": "why"}))
    recorded.keep(17, "small", records.results(), tmp_path / "c.json.gz")
    found = recorded.delivered(tmp_path / "c.json.gz")
    assert (found.seed, found.size, found.began_at) == (17, "small", 1e9)
    # What was as expected needs no evidence.
    assert found.results["004"].evidence == {} and found.results["002"].evidence == {"error": "why"}
    assert found.rows() == recorded.summary(PLAN, records.results())
    table = found.table().set_index("fault")
    killed = table.loc["Writer killed (SIGKILL)"]
    assert (killed["cases"], killed["as expected"], killed["outcomes"]) == (4, 2, "2 survived")
    assert (killed["back in (median s)"], killed["at most (s)"]) == (16.5, 20.5)
    assert list(table.loc["Object store frozen (SIGSTOP)"])[2:] == ["1 stuck", "–", "–"]
    assert found.recovery().lstrip().startswith("<")
