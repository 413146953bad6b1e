"""If no supported Python is found, set-up fetches one: with consent, and from a mirror.

The tests cannot download python-build-standalone's archives. So they pack the Python that runs
them, and give uv a list that contains this archive.
"""

import hashlib
import json
import os
import pty
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from fakes import AS_PYTHON_314
from own_lab import allowed

from lab_env.platform.install import bootstrap
from lab_env.platform.install.cache import cache

WANTED = "3.12"
NEEDED = "Python 3.11, 3.12 or 3.13 is needed; python3 here is 3.14."
LEFT_OUT = ("test", "site-packages", "dist-packages", "__pycache__", "idlelib", "tkinter")


def archive(path: Path) -> Path:
    """Pack the Python that runs the tests in the layout of python-build-standalone."""
    own = "python{}.{}".format(*sys.version_info)
    prefix, standard = Path(sys.base_prefix), f"python/lib/{own}"

    def needed(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if Path(member.name).name in LEFT_OUT else member

    with tarfile.open(path, "w:gz", compresslevel=1) as made:
        made.add((prefix / "bin" / own).resolve(), f"python/bin/python{WANTED}")
        made.add(prefix / "lib" / own, standard, filter=needed)
        for shared in prefix.glob("lib/libpython3*"):
            made.add(shared, f"python/lib/{shared.name}")
        if own != f"python{WANTED}":  # where uv looks for the standard library
            link = tarfile.TarInfo(f"python/lib/python{WANTED}")
            link.type, link.linkname = tarfile.SYMTYPE, own
            made.addfile(link)
    return path


@pytest.fixture(scope="module")
def known() -> dict:
    """Return what uv knows of the archive that it would fetch for this machine."""
    uv = bootstrap._uv(cache())
    listing = ["python", "list", WANTED, "--only-downloads", "--output-format", "json"]
    return json.loads(subprocess.check_output([uv, *listing]))[0]


@pytest.fixture(scope="module")
def mirror(known, tmp_path_factory) -> Path:
    """A folder with the archive at a mirror's path, and with a list for uv that contains it."""
    folder = tmp_path_factory.mktemp("a mirror")
    name = Path(known["url"])
    (folder / name.parent.name).mkdir()
    made = archive(folder / name.parent.name / name.name.replace("%2B", "+"))
    entry = {part: known["version_parts"][part] for part in ("major", "minor", "patch")} | {
        "name": "cpython",
        "arch": {"family": known["arch"], "variant": None},
        "os": known["os"],
        "libc": known["libc"],
        "prerelease": "",
        "url": made.as_uri(),
        "sha256": hashlib.sha256(made.read_bytes()).hexdigest(),
        "variant": None,
    }
    (folder / "list.json").write_text(json.dumps({known["key"]: entry}))
    return folder


class Machine:
    """A machine with only Python 3.14, and a repository whose `.venv` is complete.

    Args:
        folder: folder for the repository, the cache, and `bin`, the only folder on PATH.
    """

    def __init__(self, folder: Path):
        self.cache = folder / "cache"
        self.cache.mkdir()
        (self.cache / "tools").symlink_to(cache() / "tools")
        repository = folder / "repository"
        install = repository / "lab_env" / "platform" / "install"
        install.mkdir(parents=True)
        for name in ("bootstrap.py", "versions.toml"):
            shutil.copy2(Path(bootstrap.__file__).with_name(name), install)
        (repository / "requirements.lock").touch()
        (repository / "pyproject.toml").touch()
        python = repository / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        # What set-up becomes once it runs in a fitting Python.
        python.write_text('#!/bin/sh\n[ "$2" = -S ] || echo "went on"\n')
        python.chmod(0o755)
        ask = "import runpy, sys; print(runpy.run_path(sys.argv[1])['_expected_stamp'](), end='')"
        self.bootstrap = install / "bootstrap.py"
        stamp = subprocess.check_output([sys.executable, "-c", ask, self.bootstrap], text=True)
        (repository / ".venv" / "complete").write_text(stamp)
        (folder / "bin").mkdir()
        foreign = ("LAB_", "UV_", "PIP_")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        self.environment |= {"PATH": str(folder / "bin"), "LAB_CACHE": str(self.cache)}

    def setup(self, stdin=subprocess.DEVNULL, **variables: str) -> subprocess.CompletedProcess:
        script = AS_PYTHON_314.format(str(self.bootstrap))
        return subprocess.run(
            [sys.executable, "-c", script],
            env=self.environment | variables,
            stdin=stdin, capture_output=True, text=True, timeout=allowed(60),
        )  # fmt: skip

    def setup_at_terminal(self, answer: str, **variables: str) -> subprocess.CompletedProcess:
        """Run set-up at a terminal where a user types an answer."""
        keyboard, terminal = pty.openpty()
        try:
            os.write(keyboard, f"{answer}\n".encode())
            return self.setup(terminal, **variables)
        finally:
            os.close(keyboard)
            os.close(terminal)


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


def test_with_consent_a_python_is_fetched_and_found_again(machine, mirror):
    listed = {"UV_PYTHON_DOWNLOADS_JSON_URL": (mirror / "list.json").as_uri()}
    done = machine.setup_at_terminal("y", **listed)
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr
    assert "Fetch it? [y/N]" in done.stderr
    assert list(machine.cache.glob(f"python/cpython-*/bin/python{WANTED}"))
    again = machine.setup()  # no question, and nobody who could answer it
    assert (again.returncode, again.stdout, again.stderr) == (0, "went on\n", "")


@pytest.mark.parametrize("answer", ["n", "", "what?"])
def test_without_consent_nothing_is_fetched(machine, answer):
    done = machine.setup_at_terminal(answer)
    assert done.returncode == 1 and "Fetch it? [y/N]" in done.stderr
    assert f"{NEEDED}\nNext step: install one of them, or name it" in done.stderr
    assert not (machine.cache / "python").exists()


@pytest.mark.parametrize("refusal", [{}, {"LAB_FETCH_PYTHON": "false"}])
def test_where_nobody_can_be_asked_the_setting_decides(machine, refusal):
    done = machine.setup(**refusal)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{NEEDED}\nNext step: ")
    assert "make setup LAB_FETCH_PYTHON=true" in done.stderr
    assert not (machine.cache / "python").exists()


def test_an_archive_that_uv_does_not_know_is_refused_wherever_it_comes_from(machine, mirror):
    done = machine.setup(LAB_FETCH_PYTHON="true", UV_PYTHON_INSTALL_MIRROR=mirror.as_uri())
    assert done.returncode == 1
    assert f"Python {WANTED} could not be fetched." in done.stderr
    assert "Hash mismatch" in done.stderr  # so the mirror's archive was read
    assert "a mirror's settings, then run: make setup" in done.stderr
    assert not list(machine.cache.glob("python/cpython-*"))
