"""Fetch large archives on demand, verify and unpack them, and keep only some of their folders."""

import os
import shutil
import tarfile
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.install import maven
from lab_env.platform.install.cache import Progress, cache, move_into_place, partial_folder
from lab_env.platform.install.versions import versions


def archive_folder(name: str) -> Path | None:
    """Folder of an unpacked archive; None if it has not been fetched."""
    target = _target(name)
    return target if target.is_dir() else None


def fetch_archive(name: str, report_progress: Progress = print) -> None:
    """Fetch and unpack an entry of `archives` in versions.toml, unless the cache has it."""
    target, pin = _target(name), versions()["archives"][name]
    if target.is_dir():
        return
    if missing := missing_disk(name):
        raise LabError(f"To fetch {name}, {missing}.", "free some space, then run: make setup")
    report_progress(f"{name}: {size_in_words(pin['megabytes'])} to fetch, once")
    partial = partial_folder(target.name)
    extension, coordinates = pin["extension"], pin["coordinates"]
    classifier, size = pin.get("classifier", ""), pin["megabytes"]
    maven.fetch_files([coordinates], partial, name, report_progress, extension, classifier, size)
    maven.verify(coordinates, partial, pin["sha256"], extension)
    maven.forget_copies(partial)
    report_progress(f"{name}: unpacking")
    _unpack(partial / maven.file_name(coordinates, extension), partial / "kept", pin["keep"])
    move_into_place(partial / "kept", target)
    shutil.rmtree(partial)


def missing_disk(name: str) -> str:
    """Describe the missing disk space; empty if there is enough or the archive is cached."""
    if _target(name).is_dir():
        return ""
    # Ivy keeps a second copy of the download.
    needed = 2.5 * versions()["archives"][name]["megabytes"] / 1000
    free = shutil.disk_usage(cache()).free / 1e9
    if free >= needed:
        return ""
    return f"{needed:.1f} GB of disk must be free; {cache()} has {free:.1f} GB"


def size_in_words(megabytes: int) -> str:
    """Format a size for display: in GB from 0.1 GB upwards."""
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 100 else f"{megabytes} MB"


def _target(name: str) -> Path:
    pin = versions()["archives"][name]
    return cache() / f"{name}-{pin['coordinates'].rpartition(':')[2]}"


def _unpack(archive: Path, target: Path, keep: list[str]) -> None:
    """Unpack only some folders of an archive, without its top folder, and delete the archive."""
    everything = archive.parent / "everything"
    with tarfile.open(archive) as tar:
        # Everything first: a kept file may be a hard link to one that is not kept.
        tar.extractall(everything, filter="data")
    archive.unlink()
    (root,) = everything.iterdir()
    for folder in keep:
        (target / folder).parent.mkdir(parents=True, exist_ok=True)
        os.replace(root / folder, target / folder)
    shutil.rmtree(everything)
