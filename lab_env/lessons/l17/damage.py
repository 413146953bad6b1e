"""Damages a table's files for as long as a `with` block runs, and says what a reader made of it."""

import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

from lab_env.course.answers import as_int
from lab_env.platform import store
from lab_env.tables.hudi.table import DataFile

RIGHT = (100, 30)  # what the lesson's table says when nothing is damaged: orders, and paid ones
CUT_BYTES = 40
ERROR = "error"
REASONS = {  # what a message contains, the first one counts; and how the table says it
    "EOFException": "EOFException",
    "FileNotFoundException": "FileNotFoundException",
    "not found": "not found",
    "NotFound": "not found",
    "footer": "footer",
}


@contextmanager
def cut(lab, table: str, file: DataFile, size: int = CUT_BYTES) -> Generator[str]:
    """Cut off a file's last bytes; the body gets the table's path."""
    with _replaced(lab, table, file) as put:
        put(lambda whole: whole[:-size])
        yield table


@contextmanager
def changed(lab, table: str, file: DataFile, old: bytes, new: bytes) -> Generator[str]:
    """Replace some bytes where they first stand in a file; the body gets the table's path."""
    with _replaced(lab, table, file) as put:
        put(lambda whole: whole.replace(old, new, 1))
        yield table


@contextmanager
def removed(lab, table: str, file: DataFile) -> Generator[str]:
    """Delete a file from the store; the body gets the table's path."""
    with _replaced(lab, table, file):
        key = f"{store.key_of(table)}/{file.key}"
        store.delete(lab.endpoints, key)
        yield table


@contextmanager
def local_copy(lab, table: str, cut_off: DataFile, size: int = CUT_BYTES) -> Generator[str]:
    """Copy a table to a folder of this machine, one file without its last bytes.

    The body gets the address of the copy, `file://...`.
    """
    # Not below the lab's home: its path may hold a space, and Hadoop takes a URI's %20 literally.
    folder = Path(tempfile.mkdtemp(prefix="copy-of-a-table-"))
    prefix = store.key_of(table) + "/"
    for found in lab.files(table):
        target = folder / found.key.removeprefix(prefix)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = store.read(lab.endpoints, found.key)
        target.write_bytes(content[:-size] if target.name == cut_off.name else content)
    try:
        yield folder.as_uri()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _replaced(
    lab, table: str, file: DataFile
) -> Generator[Callable[[Callable[[bytes], bytes]], None]]:
    """Put a file back as it was when the body is done; the body gets a function to change it."""
    s3, bucket = store.client(lab.endpoints), lab.endpoints.bucket
    key = f"{store.key_of(table)}/{file.key}"
    whole = store.read(lab.endpoints, key)

    def put(change: Callable[[bytes], bytes]) -> None:
        s3.put_object(Bucket=bucket, Key=key, Body=change(whole))

    try:
        yield put
    finally:
        s3.put_object(Bucket=bucket, Key=key, Body=whole)


def verdict(ask: Callable[..., Any], *arguments: Any) -> str:
    """What a reader says: its two numbers in words, or that it failed and for which reason.

    Args:
        ask: returns the number of orders, and of paid ones.
    """
    try:
        counts = ask(*arguments)
    except Exception as error:
        said = str(error)
        found = [reason for text, reason in REASONS.items() if text in said]
        return f"{ERROR}: {found[0] if found else type(error).__name__}"
    orders, paid = counts
    return f"{as_int(orders)} orders, {as_int(paid or 0)} paid"


def show_verdicts(found: Mapping[str, Mapping[str, str]]) -> str:
    """A table of what each reader made of each damage.

    Returns:
        An HTML table: a wrong answer without an error is amber and says so, an error has a frame.
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
