"""Every Python that the README names can have every locked package, without a compiler."""

import os
import re
import subprocess
import sys

import pytest

from lab_env.install import bootstrap
from lab_env.install.cache import cache
from lab_env.settings import REPOSITORY

SOURCE_ONLY = "pyspark=="  # its wheel is built from a source archive of Python files and jars


@pytest.mark.parametrize(
    "version", bootstrap.SUPPORTED_PYTHONS, ids=lambda version: "{}.{}".format(*version)
)
def test_every_locked_package_has_a_wheel(tmp_path, version):
    entries = re.split(r"\n(?=\S)", (REPOSITORY / "requirements.lock").read_text())
    locked = [entry for entry in entries if not entry.startswith(SOURCE_ONLY)]
    assert len(locked) == len(entries) - 1
    lock = tmp_path / "requirements.lock"
    lock.write_text("\n".join(locked) + "\n")
    environment = os.environ | bootstrap._uv_settings() | {"UV_CACHE_DIR": str(cache() / "uv")}
    sync = [bootstrap._uv(cache()), "pip", "sync", "--dry-run", "--require-hashes", "--no-build"]
    sync += ["--python-version", "{}.{}".format(*version), "--python", sys.executable]
    done = subprocess.run(
        [*sync, "--target", tmp_path / "packages", lock],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "+ pandas==" in done.stderr
