"""Starts a kernel to run a lesson's cells, and records the results of checks and proofs."""

import json
import os
import re
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from jupyter_client.manager import start_new_kernel

CHECK = re.compile(r'lab\.check\(\s*"(\d\d\.\d+)"')  # in the source of a cell


@contextmanager
def observed_kernel(folder: Path) -> Generator[tuple[Any, list[dict]]]:
    """Start a kernel with its own progress file; yield a client and a list of reports.

    The list is filled with the reports of checks and proofs after the kernel has ended.
    """
    facts: list[dict] = []
    with tempfile.TemporaryDirectory(prefix="lab-kernel-") as own:
        outcomes = Path(own) / "outcomes.jsonl"
        observed = {"LAB_OUTCOMES": str(outcomes), "LAB_PROGRESS": str(Path(own) / "progress.json")}
        manager, client = start_new_kernel(
            env=os.environ | observed, cwd=str(folder), stderr=DEVNULL
        )
        try:
            yield client, facts
        finally:
            client.stop_channels()
            manager.shutdown_kernel()
            if outcomes.exists():
                facts += map(json.loads, outcomes.read_text("utf-8").splitlines())
