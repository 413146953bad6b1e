"""Sets of jars: complete, verified folders in the cache that go on a JVM's class path."""

import hashlib
import re
import shlex
import shutil
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.install import maven
from lab_env.platform.install.bootstrap import MANIFEST, file_sha256
from lab_env.platform.install.cache import Progress, cache, move_into_place, partial_folder
from lab_env.platform.install.versions import VERSIONS, versions

ON_DEMAND = {"delta", "iceberg", "profiler"}  # sets without a server that set-up does not fetch


def jar_folder(name: str) -> Path:
    """Folder with a set of jars of versions.toml, such as `spark`; `folder/*` is a class path."""
    folder = _target(name)
    if not folder.is_dir():
        raise LabError(f"The jars for {name} have not been fetched.", "run: make setup")
    return folder


def jars_fetched(name: str) -> bool:
    """True if the cache has a set of jars."""
    return _target(name).is_dir()


def fetch_jars(name: str, report_progress: Progress = print) -> None:
    """Fetch a set of jars of versions.toml and compare their checksums, unless the cache has it."""
    target, pins = _target(name), versions()["jars"][name]
    if target.is_dir():
        return
    partial = partial_folder(target.name)
    maven.fetch_files(list(pins), partial, f"jars for {name}", report_progress)
    for coordinates, sha256 in pins.items():
        maven.verify(coordinates, partial, sha256)
    move_into_place(partial, target)
    maven.forget_copies(partial)


def corrupt_jars() -> list[Path]:
    """Cached jars that differ from versions.toml."""
    return [
        jar
        for name, pins in versions()["jars"].items()
        if (folder := _target(name)).is_dir()
        for coordinates, sha256 in pins.items()
        if file_sha256(jar := folder / maven.file_name(coordinates)) != sha256
    ]


def check_unpacked_jars() -> None:
    """Compare an unpacked bundle's jars with versions.toml, once; raise an error if one differs.

    Jars that set-up fetched itself were compared after the download.
    """
    if not (cache() / MANIFEST).exists():
        return
    checked = cache() / "jars.checked"
    folders = " ".join(_target(name).name for name in versions()["jars"])
    if checked.exists() and checked.read_text() == folders:
        return
    for jar in corrupt_jars():
        raise LabError(
            f"{jar} from the bundle is not the pinned one.",
            f"run: rm -r {shlex.quote(str(jar.parent))}; make setup   (it fetches the right one)",
        )
    checked.write_text(folders)


def pin_jars() -> None:
    """Fill in the checksum of every jar in versions.toml from a fresh download."""
    text = VERSIONS.read_text()
    for name, pins in versions()["jars"].items():
        partial = partial_folder(f"pin-{name}")
        maven.fetch_files(list(pins), partial, f"jars for {name}", print)
        for coordinates in pins:
            sha256 = file_sha256(partial / maven.file_name(coordinates))
            line = re.compile(rf'^"{re.escape(coordinates)}" = ".*"$', re.MULTILINE)
            section = text.index(f"[jars.{name}]")
            text = text[:section] + line.sub(f'"{coordinates}" = "{sha256}"', text[section:], 1)
        shutil.rmtree(partial)
        maven.forget_copies(partial)
    VERSIONS.write_text(text)


def _target(name: str) -> Path:
    pins = versions()["jars"][name]
    digest = hashlib.sha256(repr(sorted(pins.items())).encode()).hexdigest()[:10]
    return cache() / "jars" / f"{name}-{digest}"
