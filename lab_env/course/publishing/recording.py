"""Records lesson 05 up to its first update, for the README's picture.

The recording contains the files that `lab_env.tables.hudi` reads, so the tables can be redrawn
without any services.
"""

import base64
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab_env.course.exercises import run_cell
from lab_env.platform.settings import REPOSITORY
from lab_env.platform.store import StoredTable
from lab_env.tables.hudi.files import TableFiles
from lab_env.tables.hudi.reader import read_table
from lab_env.tables.hudi.table import Snapshot

RECORDING = REPOSITORY / "data" / "update.json"
NOTEBOOK = REPOSITORY / "solutions" / "05_cow_and_mor.ipynb"
TABLE = "orders_mor"
# A table is recorded after the cell with this line.
MOMENTS = {"before": 'look("insert")', "after": 'look("update")'}


class RecordedTable:
    """A table's recorded files; implements `lab_env.tables.hudi.files.TableFiles`."""

    def __init__(self, record: dict[str, Any]):
        self.path = record["path"]
        self._record = record

    def sizes(self) -> dict[str, int]:
        return self._record["sizes"]

    def read(self, key: str) -> bytes:
        return base64.b64decode(self._record["contents"][key])


def record_table(files: TableFiles) -> dict[str, Any]:
    """Return a table's file listing and the files that `read_table` reads, ready for JSON."""
    contents: dict[str, str] = {}

    class Watched:
        path = files.path

        def sizes(self) -> dict[str, int]:
            return files.sizes()

        def read(self, key: str) -> bytes:
            content = files.read(key)
            contents[key] = base64.b64encode(content).decode()
            return content

    read_table(Watched())
    return {"path": files.path, "sizes": files.sizes(), "contents": dict(sorted(contents.items()))}


def record(target: Path = RECORDING) -> Path:
    """Run lesson 05 up to its update, which recreates its tables, and save the recording."""
    namespace: dict[str, Any] = {}
    tables = {}
    for source in _code_until(MOMENTS["after"]):
        run_cell(source, f"<{NOTEBOOK.name}>", namespace)
        for moment, line in MOMENTS.items():
            if line in source:
                tables[moment] = _table_of(namespace["lab"])
    run = {
        "recorded": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "tables": tables,
    }
    target.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return target


def recorded_run() -> dict[str, Any]:
    """Load the recorded run: its day, machine and tables."""
    return json.loads(RECORDING.read_text(encoding="utf-8"))


def recorded_table(moment: str, since: Snapshot | None = None) -> Snapshot:
    """Return the recorded table at one of `MOMENTS`; files newer than `since` are marked as new."""
    return read_table(RecordedTable(recorded_run()["tables"][moment]), since)


def _table_of(lab) -> dict[str, Any]:
    return record_table(StoredTable(lab.endpoints, lab.path(TABLE)))


def _code_until(line: str) -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    last = next(place for place, source in enumerate(code) if line in source)
    return code[: last + 1]
