"""The benchmark: every sink gets the same stream, and a verdict needs more than noise."""

import fcntl
import io
import json
from collections import Counter
from contextlib import nullcontext
from itertools import product
from statistics import median

import pandas as pd
import pytest
from rich.console import Console

from lab_env.lessons import recorded
from lab_env.lessons.recorded import SINKS, cost
from lab_env.lessons.recorded import growth as grown
from lab_env.pipeline import options
from lab_env.platform.errors import LabError
from lab_env.platform.processes.state import folder
from lab_env.platform.settings import REPOSITORY
from lab_env.tables.probes.bucket_usage import BucketUsage, usage_in
from lab_env.tables.probes.verdict import EQUAL, HIGHER, INCONCLUSIVE, LOWER, Spread, verdict
from lab_env.workbench.bench import backlog, command, format_page, growth, latency, tours
from lab_env.workbench.bench.config import Pace, RunConfig
from lab_env.workbench.bench.report import frame, page
from lab_env.workbench.bench.results import Figures, wrong_answers
from lab_env.workbench.bench.stream import UNIFORM, ZIPF, Scenario, record
from lab_env.workbench.bench.summary import summary

ZIPFS = Scenario(80, ZIPF, load=100, batch=500, batches=2)
EVEN = Scenario(80, UNIFORM, load=100, batch=500, batches=2)


def updates_by_order(scenario: Scenario) -> Counter[str]:
    return Counter(send.order_id for send in record(scenario).changes if send.op == "update")


def test_a_stream_is_the_same_each_time_it_is_made():
    first, again = record(ZIPFS), record(ZIPFS)
    assert [s.value for s in first.changes] == [s.value for s in again.changes]
    assert first.changes != record(EVEN).changes


def test_a_stream_has_the_share_of_updates_that_its_scenario_asks_for():
    for share in (0, 20, 80):
        changes = record(Scenario(share, UNIFORM, 100, 1000, 4)).changes
        updates = sum(send.op == "update" for send in changes)
        assert len(changes) == 4000
        assert updates / 40 == pytest.approx(share, abs=3)


def test_zipf_keys_are_hot_and_uniform_ones_are_not():
    (hottest, hot), (_, even) = (updates_by_order(s).most_common(1)[0] for s in (ZIPFS, EVEN))
    assert hot > 100 > 25 > even  # of about 800 updates of 100 orders
    assert hottest == record(ZIPFS).hot_order  # for which the point query asks


def test_the_answers_are_those_of_the_last_event_of_each_order():
    stream = record(EVEN)
    last = {send.order_id: json.loads(send.value) for send in stream.load + stream.changes}
    cents = [round(event["amount"] * 100) for event in last.values()]
    assert stream.answers()["aggregate"] == (len(last), sum(cents))
    assert stream.answers()["point"] == (1, round(last[stream.hot_order]["amount"] * 100))
    rows, _ = stream.answers()["range"]
    assert 0 < rows < len(last) / 2


def test_the_quick_start_takes_back_what_the_pipeline_sets_for_speed():
    pipeline = options.COW | options.MOR
    assert all(pipeline[name] != value for name, value in options.QUICK_START.items())
    tuned = options.INDEX | options.METADATA | options.CLEANING
    of_the_index = {"hoodie.bucket.index.num.buckets"}  # means nothing under another one
    assert set(options.QUICK_START) == set(tuned) - of_the_index


@pytest.mark.parametrize(
    ("this", "other", "said"),
    [
        ([1.0, 1.1, 1.2], [2.0, 2.1, 2.2], LOWER),
        ([2.0, 2.1, 2.2], [1.0, 1.1, 1.2], HIGHER),
        ([1.0, 1.1, 2.1], [2.0, 2.1, 2.2], INCONCLUSIVE),  # the rounds overlap
        ([1.0, 1.8, 1.9], [2.0, 2.1, 2.2], INCONCLUSIVE),  # they do not, but the spread is wider
        ([5, 5, 5], [5, 5, 5], EQUAL),
        ([5, 5, 5], [6, 6, 6], LOWER),
        ([1.0], [9.0], INCONCLUSIVE),  # one round shows no noise
    ],
)
def test_a_verdict_needs_a_difference_that_is_wider_than_the_spread(this, other, said):
    assert verdict(Spread.of(this), Spread.of(other)) == said


PRICED = [
    *(f"ingest {what}" for what in ("CPU s", "puts", "lists", "gets")),
    *(f"services {what}" for what in ("CPU s", "puts", "lists", "gets")),
    *(f"bytes stored, {state}" for state in ("fresh", "tidy")),
    *(f"aggregate, fresh: {what}" for what in ("lists", "requests")),
]  # fmt: skip
METRICS = """
# TYPE minio_bucket_api_total counter
minio_bucket_api_total{bucket="b",name="PutObject",server="s",type="s3"} 5
minio_bucket_api_total{bucket="b",name="CopyObject",server="s",type="s3"} 1
minio_bucket_api_total{bucket="b",name="ListObjectsV2",server="s",type="s3"} 4
minio_bucket_api_total{bucket="b",name="GetObject",server="s",type="s3"} 7
minio_bucket_api_total{bucket="b",name="HeadObject",server="s",type="s3"} 2
minio_bucket_api_total{bucket="b",name="DeleteMultipleObjects",server="s",type="s3"} 3
# TYPE minio_bucket_api_traffic_received_bytes counter
minio_bucket_api_traffic_received_bytes{bucket="b",server="s",type="s3"} 1.3e+06
# TYPE minio_bucket_api_traffic_sent_bytes counter
minio_bucket_api_traffic_sent_bytes{bucket="b",server="s",type="s3"} 5000
"""


def test_requests_are_told_apart_as_a_bill_does():
    usage = usage_in(METRICS, written="sent")
    assert usage == BucketUsage(6, 4, 9, 3, bytes_written=5000, bytes_read=1_300_000)
    assert usage_in(METRICS, written="received").bytes_written == 1_300_000
    less = usage - BucketUsage(puts=1, bytes_read=300_000)
    assert less == BucketUsage(5, 4, 9, 3, 5000, 1_000_000)


def test_a_sink_that_answers_otherwise_makes_the_figures_worthless():
    stream = record(EVEN)
    right = {f"{query}, fresh": list(answer) for query, answer in stream.answers().items()}
    right["incremental, fresh"] = [3, 300]
    assert wrong_answers(stream, dict.fromkeys(SINKS, right)) == []
    stale = right | {"aggregate, fresh": [1, 1]}
    assert "aggregate" in wrong_answers(stream, {"json": right, "cow": right, "mor": stale})[0]
    fewer = right | {"incremental, fresh": [2, 200]}
    assert "differ" in wrong_answers(stream, {"json": right, "cow": fewer, "mor": right})[0]
    # All wrong alike is wrong, too.
    assert wrong_answers(stream, dict.fromkeys(SINKS, stale))


def figures(problems: list[str] | None = None) -> Figures:
    pace = Pace((100, 1000), seconds=1, trigger=1, rounds=2)
    made = Figures(RunConfig((EVEN, ZIPFS), rounds=2, warm=1, pace=pace), problems=problems or [])
    for rate in pace.rates:
        for sink in SINKS:
            shown = {"p50": rate / 100, "p95": rate / 50, "requested p50": None, "rows/s": 90.0}
            made.freshness += [{"rate": rate, "sink": sink, "round": n} | shown for n in (1, 2)]
    for scenario, number, (place, sink) in product((EVEN, ZIPFS), (1, 2), enumerate(SINKS, 1)):
        measured = dict.fromkeys(PRICED, 10.0 * place) | {
            "ingest rows/s": 1000 / place + number,
            "write amplification": 2.0,
            "aggregate, fresh: CPU s": 100.0 / place,
            "point, fresh: warm s": 1.0 + number * place,
        }
        made.add(scenario, sink, number, **measured)
    return made


def test_a_report_says_what_the_rounds_allow_to_say():
    plain = json.loads(json.dumps(summary(figures())))
    rows = {row["metric"]: row["verdicts"] for row in plain["metrics"]}
    rate = rows["ingest rows/s"]["cow against json"]
    assert rate["verdict"] == LOWER and rate["ratio"] == pytest.approx(0.5, abs=0.01)
    assert rows["write amplification"]["mor against cow"]["verdict"] == EQUAL
    assert rows["point, fresh: warm s"]["mor against cow"]["verdict"] == INCONCLUSIVE


def test_the_page_says_what_is_inconclusive_and_which_figures_are_worthless():
    html = page({"problems": [], "sinks": summary(figures())})
    assert "inconclusive" in html and "All answers were right." in html
    assert "worthless.</p>" in page({"problems": ["point: 3 is not 4"]})


def test_a_frame_has_a_row_for_each_metric_asked_for():
    shown = frame(summary(figures()), EVEN.name, ["write amplification", "ingest rows/s"])
    assert list(shown.index) == ["write amplification", "ingest rows/s"]
    assert shown.loc["write amplification", "mor / cow"] == EQUAL
    assert shown.loc["ingest rows/s", "JSON files"] == "1,002 (1,001 to 1,002)"
    assert shown.loc["ingest rows/s", "cow / json"] == "0.5"


def test_a_bill_adds_requests_time_and_storage_at_the_prices_given():
    prices = {"storage": 1.0, "put": 2.0, "list": 3.0, "get": 5.0, "vcpu": 7.0, "memory": 0.0}
    nothing = dict.fromkeys(PRICED, 0.0) | {"aggregate, fresh: CPU s": 0.0}
    assert cost.bill(nothing, "aggregate", prices) == cost.Bill(0, 0, 0)
    one = nothing | {"ingest puts": 1000, "services lists": 1000, "ingest CPU s": 3600}
    assert cost.bill(one, "aggregate", prices).write == pytest.approx(2 + 3 + 7)
    stored = nothing | {"bytes stored, fresh": 3e9, "bytes stored, tidy": 1e9}
    assert cost.bill(stored, "aggregate", prices).storage == pytest.approx(2)
    asked = nothing | {"aggregate, fresh: requests": 1000, "aggregate, fresh: lists": 400}
    assert cost.bill(asked, "aggregate", prices).query == pytest.approx(0.4 * 3 + 0.6 * 5)


def test_the_break_even_is_where_the_totals_meet():
    files, table = cost.Bill(1, 0, 0.5), cost.Bill(3, 1, 0.25)
    found = cost.break_even(table, files)
    assert found == 12 and table.total(found) == files.total(found)
    # Dearer to write, no cheaper to ask.
    assert cost.break_even(cost.Bill(3, 1, 0.5), files) is None
    assert cost.break_even(cost.Bill(0.5, 0, 0.25), files) == 0.0  # cheaper from the start


@pytest.mark.parametrize(
    ("rounds", "at", "said"),
    [
        ([10.0, 12.0, 14.0], 12.0, "from 12 queries per run (10 to 14)"),
        ([None, None], None, "never at this size"),
        ([0.0, 0.0], None, "cheaper without any query"),
        ([10.0, None], None, INCONCLUSIVE),
        ([1.0, 100.0], None, INCONCLUSIVE),
        ([0.0, 1.0], None, INCONCLUSIVE),
        ([10.0], None, INCONCLUSIVE),
    ],
)
def test_a_break_even_is_a_number_only_where_the_rounds_agree(rounds, at, said):
    found = cost.Crossing.of(rounds)
    assert (found.at, found.text) == (at, said)


def test_the_price_table_is_dated_and_complete():
    prices = cost.read_prices()
    assert set(prices) == set(cost.ITEMS)
    # What clouds have in common: a listing costs as much as a write, a read a tenth or less.
    assert prices["list"] == prices["put"] > 10 * prices["get"] > 0


@pytest.mark.parametrize(
    ("line", "becomes", "said"),
    [
        ("get,", "got,", "must price each"),
        ("GB-month", "GB-day", "must be for GB-month"),
        ("0.023", "cheap", "not a valid price of storage"),
        ("0.023", "nan", "not a valid price of storage"),
        ("us-east-1,2026-03", "us-east-1,", "no date or no source"),
    ],
)
def test_a_price_table_that_is_wrong_is_refused(tmp_path, line, becomes, said):
    (tmp_path / "prices.csv").write_text(cost.PRICES.read_text().replace(line, becomes, 1))
    with pytest.raises(LabError, match=said):
        cost.read_prices(tmp_path / "prices.csv")


def test_prices_are_an_input():
    report = summary(figures())
    free = cost.costs(report, prices=dict.fromkeys(cost.ITEMS, 0.0))
    assert free[EVEN.name]["bills"]["cow"].total(1000) == 0
    priced = cost.costs(report)[EVEN.name]
    assert priced["bills"]["cow"].total(1000) > 0
    # Both rounds have the same figures: a table writes for more and answers for less.
    assert priced["crossings"]["cow"].at > 0


def test_freshness_by_requested_times_is_the_better_looking_one():
    sent = pd.DataFrame({"partition": [0, 0], "offset": [0, 1], "sent_at": [0, 1_000_000]})
    batches = pd.DataFrame({"batch": [0], "end_offsets": [{"0": 2}]})
    found = latency.figures(sent, batches, {"19700101000004000": 9.0})
    assert found["measured"] == 2 and found["p50"] == pytest.approx(8.5)
    assert found["requested p50"] == pytest.approx(3.5)
    assert found["rows/s"] == pytest.approx(2 / 9)
    # Files have no such time.
    assert latency.figures(sent, batches, {"0": 9.0})["requested p50"] is None


def test_freshness_that_no_commit_tells_is_not_made_up():
    sent = pd.DataFrame({"partition": [0], "offset": [5], "sent_at": [0]})
    batches = pd.DataFrame({"batch": [0], "end_offsets": [{"0": 2}]})
    assert latency.figures(sent, batches, {"0": 9.0}) == {
        "measured": 0, "p50": None, "p95": None, "requested p50": None, "rows/s": None,
    }  # fmt: skip


def test_what_is_sent_at_a_rate_lasts_for_the_time_asked_for():
    sends = latency.events(Pace((100,), seconds=3, trigger=1, rounds=1), 100)
    assert len(sends) == len({send.send_id for send in sends}) == 300 + latency.FIRST == 350


class KnownRates:
    """Stub for the three workers' measurement, so that only the comparison is tested."""

    def __init__(self, rates: dict[tuple[str, str], float]):
        self.rates = rates

    def measure(self, config: RunConfig, report_progress, sinks=SINKS) -> Figures:
        way = next(w for w, (extra, _) in backlog.WAYS.items() if extra == config.extra_options)
        figures = Figures(config, sinks)
        for sink in sinks:
            measured = {backlog.RATE: self.rates[sink, way], backlog.FILE_GROUPS: 64}
            figures.add(config.scenarios[0], sink, 1, **measured)
        return figures


def test_a_backlog_is_held_against_files_and_against_other_options():
    pipeline, quick, parquet = backlog.WAYS
    rates = {("json", pipeline): 100.0, ("cow", pipeline): 31.0, ("mor", pipeline): 49.0}
    rates |= {("cow", quick): 10.0, ("mor", quick): 40.0, ("mor", parquet): 98.0}
    config = backlog.backlog_config(full=False)
    compared, problems = backlog.catch_up(KnownRates(rates), config, lambda line: None)
    assert problems == []

    def named(sink: str, way: str) -> str:
        return f"{sink}, {way} (64 file groups)"

    assert [(row.what, row.against, row.ratio, row.met) for row in compared] == [
        (named("cow", pipeline), "JSON files", 0.31, True),
        (named("mor", pipeline), "JSON files", 0.49, False),
        (named("cow", pipeline), named("cow", quick), 3.1, True),
        (named("mor", pipeline), named("mor", quick), 1.225, False),
        (named("mor", parquet), named("mor", pipeline), 2.0, None),
    ]


def assert_figures(command: str, run: dict, said: str) -> None:
    """Check what the only row of docs/figures.md with a command says, and the day that it names."""
    page = (REPOSITORY / "docs" / "figures.md").read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if command in line)
    assert said in row and run["made"][:10] in row


def test_a_quick_backlog_is_not_held_against_goals_of_the_full_one(monkeypatch, tmp_path):
    rates = {(sink, way): 10.0 for way, (_, sinks) in backlog.WAYS.items() for sink in sinks}
    monkeypatch.setattr(command, "Bench", lambda *_: nullcontext(KnownRates(rates)))
    console = Console(file=io.StringIO())
    report = command.Run(False, console, tmp_path, load=0).all(["backlog"])
    assert {row["met"] for row in report["machine"]} == {None}
    assert "missed" not in console.file.getvalue()


def test_the_figures_are_those_of_the_recorded_backlog():
    run = recorded.delivered("backlog")
    assert run["problems"] == []
    small, large = "backlog of 2 x 250,000 events", "backlog of 2 x 40,000 events"
    rates = {(row["part"], row["what"]): round(row["figure"], -2) for row in run["rows"]}

    def rate(part: str, sink: str, groups: int) -> str:
        return f"{rates[part, f'{sink}, {backlog.PIPELINE} ({groups} file groups)']:,.0f}"

    ratios = {
        row["what"][:3]: row
        for row in run["rows"]
        if row["part"] == large and backlog.QUICK in row["against"]
    }
    assert all(min(row["ratios"]) > 1 for row in ratios.values())
    said = (
        f"4 file groups: Copy-on-Write {rate(small, 'cow', 4)} and Merge-on-Read"
        f" {rate(small, 'mor', 4)} rows/s; 80,000 into 320,000 orders, 64 file groups:"
        f" {rate(large, 'cow', 64)} and {rate(large, 'mor', 64)}, there"
        f" {ratios['cow']['ratio']:.1f} and {ratios['mor']['ratio']:.1f} times as many"
    )
    assert_figures("lab bench backlog --full", run, said)


def test_the_recorded_tours_meet_their_goals_and_the_figures_are_their_medians():
    run = recorded.delivered("tour")
    assert run["problems"] == [] and len(run["tours"]) == 5
    assert all(row.met for row in tours.comparisons(run))

    def said(sink: str) -> str:
        found = [tour["sinks"][sink] for tour in run["tours"]]
        p50, p95 = (median(s[f"freshness_{name}_s"] for s in found) for name in ("p50", "p95"))
        return f"{p50:.1f} and {p95:.1f} s"

    figures = f"JSON {said('json')}, Copy-on-Write {said('cow')}, Merge-on-Read {said('mor')}"
    assert_figures("lab bench tour --full", run, figures)


def a_tour(p50: float, p95: float, halves: tuple[float, float]) -> dict:
    fresh = {"freshness_p50_s": p50, "freshness_p95_s": p95, "freshness_p50_halves_s": halves}
    return {"sinks": dict.fromkeys(("cow", "mor"), fresh)}


@pytest.mark.parametrize(
    ("tour", "missed"),
    [
        (a_tour(7.4, 9.9, (7.0, 7.5)), []),
        (a_tour(7.6, 9.9, (7.0, 7.5)), ["50 %"]),
        (a_tour(7.4, 10.1, (7.0, 7.5)), ["95 %"]),
        (a_tour(7.4, 9.9, (4.0, 12.0)), ["second half"]),  # a lag that grows all the time
    ],
)
def test_a_tour_that_is_late_or_falls_behind_misses_its_goal(tour, missed):
    found = tours.comparisons({"tours": [tour]})
    assert len(found) == 6
    assert [row for row in found if not row.met] == [
        row for row in found if any(part in row.what for part in missed)
    ]


def test_the_recorded_commits_meet_their_goal_and_the_figures_are_their_medians():
    run = recorded.delivered("growth")
    found = growth.commit_times(run)
    assert [len(row.ratios) for row in found] == [12, 12] and all(row.met for row in found)
    assert run["size"]["changes"] == 1_000 and run["problems"] == []
    for variant in grown.VARIANTS:
        rows = grown.of(run, *variant, "commit s")
        assert [row["factor"] for row in rows] == list(growth.FACTORS)
    bloom = [grown.of(run, kind, "bloom", "commit s")[0] for kind in growth.TYPES]
    for measured, other in zip(found, bloom, strict=True):
        assert other["low"] > measured.figure
    said = "{:.1f} s, Merge-on-Read {:.1f} s with the pipeline's bucket index, {:.1f} and {:.1f} s"
    figures = (*(row.figure for row in found), *(row["median"] for row in bloom))
    said = f"Copy-on-Write {said.format(*figures)} with a Bloom index"
    assert_figures("lab bench growth --full", run, said)


def test_the_figures_say_how_far_the_quickest_peer_is_ahead():
    run = recorded.delivered("formats")
    (found,) = format_page.commit_time(run)
    assert not found.met  # else the row says so
    said = (
        f"{found.ratio:.1f} times the seconds ({min(found.ratios):.1f} to {max(found.ratios):.1f});"
        f" the goal, {format_page.COMMIT_GOAL}, is missed"
    )
    assert_figures("lab bench formats --full", run, said)


@pytest.fixture
def own_home(tmp_path, configure):
    configure(home=tmp_path)


def test_the_delivered_run_of_the_sinks_has_what_lesson_20_judges_of_it():
    run = recorded.delivered("sinks")
    assert run["problems"] == []
    assert len(run["size"]["scenarios"]) == 5 and run["size"]["rounds"] >= 2
    rounds = {(row["scenario"], row["metric"], row["sink"], row["round"]) for row in run["figures"]}
    numbers = range(1, run["size"]["rounds"] + 1)
    for row, sink, number in product(run["metrics"], SINKS, numbers):
        assert (row["scenario"], row["metric"], sink, number) in rounds
    verdicts = {v["verdict"] for row in run["metrics"] for v in row["verdicts"].values()}
    assert verdicts == {LOWER, HIGHER, EQUAL, INCONCLUSIVE}
    assert {row["rate"] for row in run["freshness"]} >= {1_000}


@pytest.mark.parametrize("part", ["tour", "sinks", "growth"])
def test_a_labs_own_full_run_takes_the_place_of_the_delivered_one(own_home, part):
    assert recorded.shown(part) == recorded.delivered(part)
    own = recorded.delivered(part) | {"made": "2030-01-01"}
    recorded.keep(part, own)
    assert recorded.shown(part) == own


def test_a_second_benchmark_beside_the_first_is_refused(own_home):
    report = folder("bench") / "report.json"
    report.write_text("of the first")
    with (folder("bench") / "lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        with pytest.raises(LabError, match="Another benchmark is running"):
            command.main(["set-up"])
    assert report.read_text() == "of the first"
