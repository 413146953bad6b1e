"""The page on table formats matches the recorded rounds, and the oracle detects every fault."""

import json

import pytest

from lab_env.lessons import recorded
from lab_env.lessons.recorded.contenders import (
    CONTENDERS,
    DELTA,
    HUDI,
    ICEBERG,
    NAMED_PARTITIONS,
    options_of_all,
)
from lab_env.lessons.recorded.formats import claims, undecided
from lab_env.pipeline import options
from lab_env.workbench.bench import format_page
from lab_env.workbench.bench.format_page import commit_time, page
from lab_env.workbench.bench.formats import format_versions, formats_config
from lab_env.workbench.bench.order_stream import RECENT, OrderStream, apply, as_lines, difference


def run_of(metric: str, **values: list[float]) -> dict:
    """Return a recorded run of one size, with the rounds of one metric by contender."""
    rows = [
        {"contender": key.replace("_", "-"), "factor": 1, "metric": metric, "values": figures}
        for key, figures in values.items()
    ]
    size = {"orders": 100, "factors": [1], "small": 10, "large": 20, "rounds": 3}
    return {"size": size, "rows": rows}


def test_a_format_does_well_what_all_its_rounds_do_better_than_every_table_of_the_others():
    rounds = {"hudi_mor": [1.1, 1.0, 1.3], "iceberg_cow": [1.9, 2.0, 2.1], "delta": [3.0, 3.1]}
    run = run_of("commit: s", **rounds)
    (claim,) = claims(run)
    assert (claim.table, claim.next_table) == ("hudi-mor", "iceberg-cow")
    # Another table of the same format may be as good, even better with rounds that vary too much;
    # one of another format may not.
    run["rows"].append(run["rows"][0] | {"contender": "hudi-cow", "values": [1.0, 1.2, 1.3]})
    run["rows"].append(run["rows"][0] | {"contender": "hudi-mor-tuned", "values": [0.1, 0.9, 1.9]})
    assert [claim.table for claim in claims(run)] == ["hudi-mor"]
    run["rows"].append(run["rows"][0] | {"contender": "delta-dv", "values": [1.25, 1.9, 1.9]})
    assert claims(run) == []
    assert ("commit: s", 1) in {(measure.metric, factor) for measure, factor in undecided(run)}


def test_more_rows_per_second_are_better_and_nothing_to_compact_is_no_merit():
    rates = {"hudi_cow": [10.0, 11.0], "delta": [20.0, 21.0], "iceberg_cow": [90.0, 91.0]}
    assert [claim.table for claim in claims(run_of("rows/s", **rates))] == ["iceberg-cow"]
    assert claims(run_of("compaction: s", **rates)) == []


def test_the_quickest_commits_are_compared_round_by_round():
    run = run_of(
        "commit: s", hudi_cow=[9.0, 9.0, 9.0], hudi_mor=[2.0, 3.0, 4.0],
        delta=[5.0, 5.0, 5.0], iceberg_mor=[1.0, 2.0, 4.0],
    )  # fmt: skip
    (found,) = commit_time(run)
    assert "Hudi Merge-on-Read" in found.what and found.against == "Iceberg merge-on-read"
    assert found.ratios == [2.0, 1.5, 1.0] and found.met is False
    assert commit_time(run | {"rows": []}) == []  # wrong answers


def test_the_delivered_run_is_a_full_one_with_every_table_and_right_answers():
    run = recorded.delivered("formats")
    assert run["complete"] and run["minutes"] <= 30
    assert (run["size"]["rounds"], run["size"]["factors"]) == (3, [1, 16])
    assert run["problems"] == [] and run["rows_compared"] > run["size"]["orders"]
    assert {row["contender"] for row in run["rows"]} == set(CONTENDERS)
    assert all(len(row["values"]) == run["size"]["rounds"] for row in run["rows"])
    assert run["versions"] == format_versions()
    assert run["options"] == options_of_all()
    read = {row["contender"] for row in run["rows"] if row["metric"] == "changes: s"}
    assert read == {key for key, contender in CONTENDERS.items() if contender.tells_changes}


def test_the_page_and_its_charts_are_what_the_record_makes():
    made = format_page.files_of(recorded.delivered("formats"), recorded.delivered("bill"))
    for path, text in made.items():
        assert path.read_text("utf-8") == text, "run: lab author formats"


def test_the_page_says_if_its_record_is_older_than_the_options():
    run, bill = recorded.delivered("formats"), recorded.delivered("bill")
    older = "The figures are older than the options"
    assert older not in page(run | {"options": options_of_all()}, bill)
    assert older in page(run | {"options": options_of_all() | {"delta": {"new": "true"}}}, bill)


def test_tables_by_default_have_no_option_of_tuning_and_hudis_come_from_the_pipeline():
    for contender in CONTENDERS.values():
        default = CONTENDERS[contender.key.removesuffix("-tuned")]
        if contender.tuned:
            assert default.table == contender.table
            assert contender.all_options != default.all_options
            for advice in contender.advice:
                assert advice.guide.startswith("https://")
                assert advice.all_options.items() - default.all_options.items() or (
                    advice.what == NAMED_PARTITIONS and contender.name_partitions
                ), f"{advice.what} changes nothing"
    streams_alone = {"hoodie.metadata.compact.max.delta.commits": "3"}
    tuned = CONTENDERS["hudi-cow-tuned"].all_options
    assert tuned | streams_alone == options.COW | options.SHORT_LIVED
    small = formats_config(False).contenders
    assert {CONTENDERS[key].format for key in small} == {HUDI, DELTA, ICEBERG}


def test_the_stream_is_always_the_same_and_its_answers_are_those_of_its_events(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        stream = OrderStream(tmp_path / name)
        load, change = stream.grow(40), stream.change(200)
    first, again = (sorted((tmp_path / name).iterdir()) for name in "ab")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in again]
    assert load.answers["aggregate"][0] == load.answers["changes"][0] == 40
    events = [json.loads(line) for line in change.file.read_bytes().splitlines()]
    created = sum(event["op"] == "create" for event in events)
    erased = {event["order_id"] for event in events if event["op"] == "erase"}
    assert erased and change.answers["aggregate"][0] == 40 + created - len(erased)
    assert change.answers["changes"][0] == len({e["order_id"] for e in events} - erased)
    assert set(change.days) == {event["partition_date"] for event in events} == set(RECENT)
    assert change.point in stream.rows


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda rows: [*rows, rows[0]], "1 doubled, 0 missing, 0 wrong"),
        (lambda rows: rows[1:], "0 doubled, 1 missing, 0 wrong"),
        (lambda rows: [rows[0].replace("paid", "new"), *rows[1:]], "1 missing, 1 wrong"),
        (lambda rows: [*rows, "an erased one"], "0 doubled, 0 missing, 1 wrong"),
    ],
)
def test_a_table_with_other_rows_than_the_oracle_is_found_out(spoil, words):
    event = {
        "event_id": "e-1", "op": "update", "customer_id": "c-1", "product_id": "p-1",
        "amount": 1.5, "status": "paid", "order_ts": "t", "partition_date": "d",
    }  # fmt: skip
    rows: dict[str, dict] = {}
    apply(rows, [json.dumps(event | {"order_id": order}).encode() for order in ("o-1", "o-2")])
    found = sorted(as_lines(rows))
    assert difference("t", found, as_lines(rows)) == ""
    assert words in difference("t", spoil(found), as_lines(rows))
