"""The first step of set-up needs only Python, of any version."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import AS_PYTHON_314, program

from lab_env.platform.install import bootstrap
from lab_env.platform.install.cache import cache


def test_a_wanted_python_is_found_beside_another_one(tmp_path):
    program(tmp_path / "python3.12", "echo not installed >&2; exit 127")
    program(tmp_path / "python3.11", '[ "$2" = -c ] && echo "(3, 11)" || echo "went on: $2"')
    environment = {**os.environ, "PATH": str(tmp_path), "LAB_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", AS_PYTHON_314.format(bootstrap.__file__)]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    assert done.stdout.decode() == f"went on: {bootstrap.__file__}\n"


def test_what_pip_is_told_is_passed_on_to_uv_unless_uv_is_told_itself(monkeypatch):
    for name in ("UV_DEFAULT_INDEX", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    monkeypatch.setenv("PIP_CERT", "/etc/mirror.pem")
    told = bootstrap._uv_settings()
    assert told["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert told["SSL_CERT_FILE"] == "/etc/mirror.pem"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://other.example/simple")
    assert "UV_DEFAULT_INDEX" not in bootstrap._uv_settings()


def test_variables_of_other_installations_do_not_reach_set_up(monkeypatch):
    for name in bootstrap.FOREIGN_BEGINNINGS:
        monkeypatch.setenv(name, "/elsewhere")
    assert not bootstrap._environment().keys() & {*bootstrap.FOREIGN_BEGINNINGS}


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    """A repository whose set-up is complete."""
    (tmp_path / "requirements.lock").write_text("a==1")
    (tmp_path / "pyproject.toml").write_text("[project]\n[tool.ruff]\n")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(bootstrap, "REPOSITORY", tmp_path)
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(bootstrap, "STAMP", tmp_path / ".venv" / "complete")
    assert not bootstrap.is_complete()
    bootstrap.STAMP.write_text(bootstrap._expected_stamp())
    assert bootstrap.is_complete()
    return tmp_path


@pytest.mark.parametrize("change", ["requirements.lock", "pyproject.toml"])
def test_a_change_of_the_packages_makes_set_up_run_again(repository, change):
    (repository / change).write_text("other")
    assert not bootstrap.is_complete()


@pytest.mark.parametrize("gone", [True, False])
def test_a_python_that_is_gone_or_does_not_run_makes_set_up_run_again(repository, gone):
    python = repository / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/no/python3.11") if gone else program(python, "exit 1")
    assert not bootstrap.is_complete()


# Builds the wheel of an empty package; the name stands in the file's first line.
BACKEND = """
import zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    wheel, info = f"{NAME}-1-py3-none-any.whl", f"{NAME}-1.dist-info"
    with zipfile.ZipFile(f"{folder}/{wheel}", "w") as file:
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {NAME}\\nVersion: 1\\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        file.writestr(f"{info}/RECORD", "")
    return wheel

build_editable = build_wheel
"""


def source(folder: Path, name: str) -> None:
    """Write the sources of an empty package, with their own build backend."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "backend.py").write_text(f"NAME = {name!r}\n{BACKEND}")
    (folder / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\nversion = "1"\n'
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )


@pytest.mark.parametrize(
    ("package", "said"),
    [("pyspark", ""), ("c_library", "A Python package does not exist for this machine.")],
)
def test_of_the_packages_only_pyspark_is_built_from_its_sources(
    repository, monkeypatch, tmp_path_factory, capfd, package, said
):
    folder, own_cache = tmp_path_factory.mktemp("index"), tmp_path_factory.mktemp("cache")
    (own_cache / "tools").symlink_to(cache() / "tools")
    source(repository, "course")
    source(folder / f"{package}-1", package)
    archive = shutil.make_archive(folder / f"{package}-1", "gztar", folder, f"{package}-1")
    pin = {"version": "1", "hashes": [f"sha256:{bootstrap.file_sha256(archive)}"]}
    (repository / "requirements.lock").write_text(bootstrap.requirement(package, pin))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    with pytest.raises(SystemExit) if said else contextlib.nullcontext():
        bootstrap._make_venv(own_cache)
    assert bootstrap.is_complete() != bool(said) and said in capfd.readouterr().err
