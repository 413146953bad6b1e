"""`lab bundle`: everything set-up fetched, in one archive, so that other machines need no network.

The archive is a copy of the cache, with wheels for this Python and this kind of machine instead of
package downloads; set-up uses them if they match its requirements.lock. A manifest lists each
file's SHA-256, and set-up on the other machine verifies them.
"""

import json
import os
import platform
import sys
import tarfile
import zipfile
from importlib.metadata import distributions
from pathlib import Path

from packaging.tags import parse_tag, sys_tags
from packaging.utils import canonicalize_name

from lab_env.platform.errors import LabError
from lab_env.platform.install.bootstrap import MANIFEST, file_sha256, wheels_folder
from lab_env.platform.install.cache import (
    Progress,
    cache,
    cache_lock,
    clear_partial,
    partial_folder,
)
from lab_env.platform.install.java import VERSION, fetch_java

OWN_PACKAGE = "streaming-lakehouse-course"
LEFT_OUT = {"uv", "partial"}
TOP_FOLDER = "streaming-lakehouse"  # the default cache's name: the archive is unpacked in ~/.cache


def make_bundle(target: Path, report_progress: Progress) -> str:
    """Write the archive, replacing an older one of the same name.

    Return a message with its size, its SHA-256 and the commands that use it.
    """
    with cache_lock(report_progress):
        # The other machine may have no Java, even if this one has.
        fetch_java(VERSION, report_progress)
        # Plain files belong to this machine: the lock, the marks of checks, and the CDS archive
        # (.jsa), which holds this machine's paths.
        folders = sorted(path for path in cache().iterdir() if path.is_dir())
        parts = [path for path in folders if path.name not in LEFT_OUT]
        wheels = wheels_folder(cache())
        if not wheels.is_dir():  # otherwise this cache came from a bundle itself
            parts.append(pack_wheels(partial_folder(wheels.name), report_progress))
        manifest = _write_manifest(parts, cache() / "partial" / MANIFEST)
        partial = target.with_name(target.name + ".partial")
        try:
            with tarfile.open(partial, "w") as archive:
                for part in [*parts, manifest]:
                    report_progress(f"bundle: {part.name}")
                    archive.add(part, f"{TOP_FOLDER}/{part.name}")
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)
            clear_partial()
    return (
        f"{target}: {target.stat().st_size / 1e6:.0f} MB, for seats like this one:"
        f" {sys.platform} {platform.machine()},"
        f" Python {sys.version_info[0]}.{sys.version_info[1]}, the same commit.\n"
        f"SHA-256: {file_sha256(target)}\n"
        "On each machine, with a copy of this repository:\n"
        "  sha256sum " + target.name + "   (it must print the SHA-256 above)\n"
        f"  mkdir -p ~/.cache && tar -xf {target.name} -C ~/.cache && make setup"
    )


def _write_manifest(parts: list[Path], path: Path) -> Path:
    files = [
        (file, part.name + str(file).removeprefix(str(part)))
        for part in parts
        for file in (sorted(part.rglob("*")) if part.is_dir() else [part])
        if file.is_file() and not file.is_symlink()
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({name: file_sha256(file) for file, name in files}, indent=0))
    return path


def pack_wheels(folder: Path, report_progress: Progress) -> Path:
    """Write the wheel of every installed package, and their checksums, to an empty folder.

    uv keeps only the content of wheels, so they are rebuilt. Their checksums therefore differ from
    those in requirements.lock.
    """
    unpacked = _unpacked_wheels()
    installed = {(canonicalize_name(d.metadata["Name"]), d.version) for d in distributions()}
    pins = []
    for name, version in sorted(installed):
        if name == OWN_PACKAGE:
            continue
        if (name, version) not in unpacked:
            raise LabError(
                f"{name} {version} is not in {cache()}.",
                "remove .venv, then run: make setup   (then lab bundle again)",
            )
        report_progress(f"wheels: {name}")
        wheel = _zip(unpacked[name, version], folder)
        pins.append(f"{name}=={version} --hash=sha256:{file_sha256(wheel)}\n")
    (folder / "requirements.txt").write_text("".join(pins))
    return folder


def _unpacked_wheels() -> dict[tuple[str, str], Path]:
    """Unpacked wheels in uv's cache that fit this machine, by name and version."""
    mine = set(sys_tags())
    found = {}
    for wheel_file in sorted((cache() / "uv").glob("archive-v*/*/*.dist-info/WHEEL")):
        name, _, version = wheel_file.parent.stem.partition("-")
        if mine & _tags(wheel_file):
            found[canonicalize_name(name), version] = wheel_file.parents[1]
    return found


def _tags(wheel_file: Path) -> set:
    lines = wheel_file.read_text("utf-8").splitlines()
    tags = [line.removeprefix("Tag: ").strip() for line in lines if line.startswith("Tag: ")]
    return {tag for text in tags for tag in parse_tag(text)}


def _zip(unpacked: Path, folder: Path) -> Path:
    wheel_file = next(unpacked.glob("*.dist-info/WHEEL"))
    tags = _tags(wheel_file)
    parts = [
        ".".join(sorted({getattr(t, p) for t in tags})) for p in ("interpreter", "abi", "platform")
    ]
    wheel = folder / f"{wheel_file.parent.stem}-{'-'.join(parts)}.whl"
    with zipfile.ZipFile(
        wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False
    ) as file:
        for path in sorted(unpacked.rglob("*")):
            if path.is_file():
                # Jars are already compressed.
                method = zipfile.ZIP_STORED if path.suffix == ".jar" else None
                file.write(path, path.relative_to(unpacked), method)
    return wheel
