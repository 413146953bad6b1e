"""The tour on a lab of its own, with the network cut: every sink agrees with the ledger.

Its user speaks Persian, lives in India and has configured other work; the path is long and has
non-ASCII letters.
"""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from hostile_home import FILES, LONG_PATH, content, hostile_home
from linux import WITHOUT_NETWORK
from own_lab import allowed, lab_environment, not_here

from lab_env.platform.jvm import MemoryUse, nearly_full
from lab_env.platform.processes.system import allows
from lab_env.platform.settings import REPOSITORY, settings
from lab_env.shop.ledger.book import Ledger

pytestmark = pytest.mark.services
SECONDS = 30  # of load; half of what a user gets
can_cut = allows(WITHOUT_NETWORK)

# The services end with the namespace, so one program in it takes the tour and the lab down again.
TOUR = """
import os, sys
from pathlib import Path
home, lab, modules, *options = sys.argv[1:]
sys.path[:0] = [modules, str(Path(modules).parent)]
from instance import Instance
lab = Instance(Path(home), dict(os.environ), [lab])
try:
    tour = lab.lab("tour", *options, timeout=1800)
    print(tour.stdout + tour.stderr)
    doctor = lab.lab("doctor")
    print(doctor.stdout + doctor.stderr)
finally:
    assert lab.lab("down").returncode == 0
    assert lab.processes() == []
sys.exit(tour.returncode or doctor.returncode)
"""


def run_tour(programs: Path, home: Path, environment: dict[str, str], *options: str) -> dict:
    """Run `lab tour`, with the network cut if this machine allows it; return its report.

    `programs` is the folder of `python` and `lab`.
    """
    command = [programs / "python", "-I", "-c", TOUR, home, programs / "lab", Path(__file__).parent]
    done = subprocess.run(
        [*(WITHOUT_NETWORK if can_cut else ()), *command, *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=allowed(900),
        umask=0o077,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((home / "tour" / "report.json").read_text())


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tour") / LONG_PATH


@pytest.fixture(scope="module")
def environment(tmp_path_factory, home) -> dict[str, str]:
    return hostile_home(tmp_path_factory.mktemp("user"), "fa") | lab_environment(home)


@pytest.fixture(scope="module")
def report(home, environment) -> dict:
    return run_tour(Path(sys.executable).parent, home, environment, "--seconds", str(SECONDS))


@pytest.fixture(scope="module")
def tour(home, report) -> Path:
    """Folder of the tour."""
    return home / "tour"


@pytest.mark.proof("writer")
def test_a_long_tour_travels_to_a_commit_that_the_cleaner_kept(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LAB_")}
    environment |= {"LAB_CACHE": str(settings().cache)} | lab_environment(tmp_path / "a lab")
    programs = Path(sys.executable).parent
    length = ("--seconds", "180", "--rate", "100")
    assert run_tour(programs, tmp_path / "a lab", environment, *length)["ok"]


def test_the_learners_own_files_are_as_they_were(report, environment):
    assert FILES.items() <= content(Path(environment["HOME"])).items()


def test_set_up_runs_again(environment):
    again = [sys.executable, "-I", "lab_env/platform/install/bootstrap.py"]
    done = subprocess.run(again, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_whole_tour_runs_with_the_network_cut(report):
    if not can_cut:
        not_here("this machine allows no network namespace")
    assert report["ok"] and report["problems"] == []


@pytest.mark.parametrize("sink", ["json", "cow", "mor"])
def test_every_sink_reconciles(report, sink):
    facts = report["sinks"][sink]
    assert facts["ok"] and facts["rows"] == facts["expected"] > 5_000
    assert [facts[name] for name in ("missing", "duplicate", "stale", "ghost")] == [0, 0, 0, 0]
    assert facts["bytes"] > 100_000 and facts["files"] >= facts["commits"] > 0
    assert 0 < facts["freshness_p50_s"] <= facts["freshness_p95_s"]
    # Freshness is measured for each event that the sink holds, not for a lucky sample.
    assert facts["freshness_measured"] == report["events_acked"] - report["events_dead"]


@pytest.mark.parametrize("sink", ["cow", "mor"])
def test_an_event_is_in_the_first_batch_that_begins_after_it(tour, sink):
    sends = Ledger(tour.parent / "ledger" / "tour.orders").frame()
    acked = sends[sends["state"] == "acked"]
    progress = (tour.parent / "writers" / "writer-tour-pipeline" / "progress.jsonl").read_text()
    batches = [batch for batch in map(json.loads, progress.splitlines()) if batch["sink"] == sink]
    late = 0
    for batch in batches:
        began = datetime.fromisoformat(batch["started"]).timestamp() * 1e6
        ends = acked["partition"].astype(str).map(batch["end_offsets"])
        late += ((acked["acked_at"] < began) & (acked["offset"] >= ends)).sum()
    assert len(batches) > 1 and late == 0


def test_the_mor_table_was_compacted(report):
    # Every fifth commit asks for a compaction; it runs beside the stream.
    assert report["sinks"]["mor"]["compactions"] >= 1 or report["sinks"]["mor"]["commits"] < 10


def test_the_load_has_all_kinds_of_trouble(report):
    assert report["events_dead"] > 100 and report["events_resent"] > 100
    for table in ("cow", "mor"):
        account = report["accounting"][table]
        assert account["acked"] == report["events_acked"]
        assert account["unaccounted"] == 0 and account["superseded"] > 1000


def test_every_query_type_answers(report):
    rows = {
        (query["sink"], query["query"].split()[0]): query["rows"] for query in report["queries"]
    }
    for table in ("cow", "mor"):
        snapshot, commits = (report["sinks"][table][name] for name in ("rows", "commits"))
        changed, then = rows[table, "incremental"], rows[table, "time"]
        assert rows[table, "snapshot"] == snapshot
        assert 0 < changed <= snapshot and 0 < then <= snapshot
        assert changed + then >= snapshot  # each order was there by then, or changed since
        # On a slow machine there may be so few commits that all the first orders changed again.
        assert commits < 6 or changed < snapshot > then
    # COW has no logs to leave out; of MOR the first orders at least lie in base files.
    assert rows["cow", "read-optimised"] == rows["cow", "snapshot"]
    assert 0 < rows["mor", "read-optimised"] <= rows["mor", "snapshot"]


def test_revenue_per_minute_is_streamed_and_counts_every_new_order(report):
    minutes = report["minutes"]  # that they equal a batch is among the tour's own problems
    assert sum(minute["orders"] for minute in minutes) > 1000
    assert all(minute["revenue"] == minute["batch_revenue"] for minute in minutes)


def test_it_takes_at_most_4_gb(report):
    assert report["memory_peak_mb"]["total"] <= 4000, report["memory_peak_mb"]
    # Every part was sampled while it ran, so the peak is not that of a part.
    for part in ("services", "spark", "load"):
        assert max(row[part] for row in report["series"]["memory"]) > 50, part


def test_the_jvm_of_its_writer_has_room_left(report):
    memory = {name: MemoryUse(**use) for name, use in report["writer_memory"].items()}
    assert memory["code cache"].limit >= 240e6 and memory["heap"].limit > 0
    assert nearly_full(memory) == []


def test_its_page_shows_four_pictures_and_no_secret(tour, report):
    page = (tour / "index.html").read_text()
    assert page.count("<svg") == 4
    secret = json.loads((tour.parent / "secrets.json").read_text())["s3_secret_key"]
    assert secret not in page and secret not in json.dumps(report)
