"""Helpers for tests that need Linux."""

import shutil
import sys
from pathlib import Path

import psutil
import pytest

from lab_env.platform.processes.system import in_namespace

LINUX = sys.platform == "linux"
needs_linux = pytest.mark.skipif(not LINUX, reason="NOT RUN: needs Linux")

# In a network namespace that has nothing but the loopback device.
WITHOUT_NETWORK = in_namespace("--net", f"{shutil.which('ip')} link set lo up")


def mapped_files(pid: int) -> set[Path]:
    """Return the files that a process has mapped into its memory."""
    return {Path(mapping.path) for mapping in psutil.Process(pid).memory_maps()}
