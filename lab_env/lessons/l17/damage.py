"""Damages a table's files during a `with` block, and shows each reader's result."""

import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from html import escape
from pathlib import Path
from typing import Any

from lab_env.course.answers import as_int
from lab_env.pipeline.options import METADATA
from lab_env.platform import store
from lab_env.tables.hudi.table import DataFile

RIGHT = (100, 30)  # what the lesson's table says when nothing is damaged: orders, and paid ones
CUT_BYTES = 40
# For a writer with `DEMO_OPTIONS`: a table with a log file, and with the metadata table again.
MERGE_ON_READ = METADATA | {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "true",
}
ERROR = "error"
REASONS = {  # what a message contains, the first one counts; and how the table says it
    "EOFException": "EOFException",
    "FileNotFoundException": "FileNotFoundException",
    "not found": "not found",
    "NotFound": "not found",
    "footer": "footer",
}


def cut(lab, table: str, file: DataFile, size: int = CUT_BYTES) -> AbstractContextManager[str]:
    """Cut off a file's last `size` bytes; yield the table's path."""
    return _damaged(lab, table, file, lambda whole: whole[:-size])


def changed(lab, table: str, file: DataFile, old: bytes, new: bytes) -> AbstractContextManager[str]:
    """Replace the first occurrence of some bytes in a file; yield the table's path."""
    return _damaged(lab, table, file, lambda whole: whole.replace(old, new, 1))


def removed(lab, table: str, file: DataFile) -> AbstractContextManager[str]:
    """Delete a file from the store; yield the table's path."""
    return _damaged(lab, table, file, lambda whole: None)


@contextmanager
def _damaged(
    lab, table: str, file: DataFile, change: Callable[[bytes], bytes | None]
) -> Generator[str]:
    """Change a file, or delete it if `change` returns None; restore it after the body."""
    key = f"{store.key_of(table)}/{file.key}"
    whole = store.read(lab.endpoints, key)

    def put(content: bytes) -> None:
        bucket = lab.endpoints.bucket
        store.client(lab.endpoints).put_object(Bucket=bucket, Key=key, Body=content)

    try:
        damaged = change(whole)
        if damaged is None:
            store.delete(lab.endpoints, key)
        else:
            put(damaged)
        yield table
    finally:
        put(whole)


@contextmanager
def local_copy(lab, table: str, cut_off: DataFile) -> Generator[str]:
    """Copy a table to a local folder, with one file truncated; yield the folder's URI."""
    # Not below the lab's home: its path may hold a space, and Hadoop takes a URI's %20 literally.
    folder = Path(tempfile.mkdtemp(prefix="copy-of-a-table-"))
    prefix = store.key_of(table) + "/"
    for found in lab.files(table):
        target = folder / found.key.removeprefix(prefix)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = store.read(lab.endpoints, found.key)
        target.write_bytes(content[:-CUT_BYTES] if target.name == cut_off.name else content)
    try:
        yield folder.as_uri()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def verdict(ask: Callable[..., Any], *arguments: Any) -> str:
    """Run a query; return its numbers of orders and paid orders as text, or `error: ` and why."""
    try:
        counts = ask(*arguments)
    except Exception as error:
        said = str(error)
        found = [reason for text, reason in REASONS.items() if text in said]
        return f"{ERROR}: {found[0] if found else type(error).__name__}"
    orders, paid = counts
    return f"{as_int(orders)} orders, {as_int(paid or 0)} paid"


def show_verdicts(found: Mapping[str, Mapping[str, str]]) -> str:
    """Return an HTML table of each reader's result for each kind of damage.

    A wrong result without an error is amber and marked "silently"; an error has a frame.
    """
    right = f"{RIGHT[0]} orders, {RIGHT[1]} paid"
    readers = list(next(iter(found.values())))
    head = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in ("", *readers))
    rows = []
    for damage, verdicts in found.items():
        cells = "".join(_cell(verdicts[name], right) for name in readers)
        rows.append(f"<tr><th style='text-align:left'>{escape(damage)}</th>{cells}</tr>")
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _cell(said: str, right: str) -> str:
    look = "text-align:left;padding:4px 10px;"
    if said.startswith(ERROR):
        look += "border:1px solid var(--jp-success-color1,#009E73);"
    elif said != right:
        look += "background:#E69F00;color:#000;"
        said += " · silently"
    return f"<td style='{look}'>{escape(said)}</td>"
