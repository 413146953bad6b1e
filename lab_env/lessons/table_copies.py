"""Copies and names tables for checks: for answers that change a table, or to hide some commits.

A table's files contain no absolute path, so a copy is a valid table.
"""

import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from lab_env.course.answers import Unreadable
from lab_env.platform import store
from lab_env.tables.hudi.timeline import Instant, parse_timeline_key


def copy_table(lab, source: str, target: str, hidden: Sequence[Instant] = ()) -> None:
    """Copy the files that the target lacks, except the timeline files of the hidden commits.

    Readers ignore a hidden commit's data files. A later call that no longer hides the commit makes
    it visible.
    """
    begin, folder = store.key_of(source), store.key_of(target)
    present = {found.key for found in lab.files(target)}
    late = {instant.requested for instant in hidden}
    lacking: dict[str, str] = {}
    for found in lab.files(source):
        part = found.key.removeprefix(begin)
        instant = parse_timeline_key(part)
        arrived = instant is None or instant.requested not in late
        if arrived and folder + part not in present:
            lacking[found.key] = folder + part
    store.copy_objects(lab.endpoints, lacking)


def overlay_table(lab, source: str, target: str) -> None:
    """Copy every file of a table, replacing files of the same name in the target."""
    prefixes = (f"{store.key_of(path)}/" for path in (source, target))
    store.copy_prefix(lab.endpoints, *prefixes)


def scratch_copy(lab, source: str, name: str) -> str:
    """Copy a table to a new path, and return that path."""
    target = lab.scratch(name)
    overlay_table(lab, source, target)
    return target


@contextmanager
def named_table(lab, path: str) -> Generator[str]:
    """Register a table in the catalogue while the body runs; yield its name."""
    name = f"named_{secrets.token_hex(3)}"
    lab.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    try:
        yield name
    finally:
        lab.spark.sql(f"DROP TABLE IF EXISTS {name}")


@contextmanager
def left_alone(lab, path: str) -> Generator[None]:
    """Undo what the body adds to a table that it should only read.

    Only for tables without cleaning, where a write only adds files.

    Raises:
        Unreadable: the body added something.
    """
    present = {found.key for found in lab.files(path)}
    try:
        yield
    finally:
        added = [found.key for found in lab.files(path) if found.key not in present]
        for key in added:
            store.delete(lab.endpoints, key)
    if added:
        raise Unreadable(
            "Your function wrote into the lesson's own table, which has been undone. Write to the "
            "path that it gets."
        )


def empty_copy(lab, source: str, name: str) -> str:
    """Create a table with another table's properties but no commits; return its new path.

    A stream that finds no table polls for its properties five times, a second apart, before it
    creates one (Hudi 1.1.1, `ConfigUtils.fetchConfigs`). Into an existing table it writes
    immediately.

    Args:
        name: part of the new table's path.
    """
    s3, bucket = store.client(lab.endpoints), lab.endpoints.bucket
    target = lab.scratch(name)
    begin, folder = (f"{store.key_of(path)}/.hoodie/" for path in (source, target))
    properties = {"Bucket": bucket, "Key": f"{begin}hoodie.properties"}
    for empty in ("timeline/", "timeline/history/"):  # markers: folders without a file
        s3.put_object(Bucket=bucket, Key=folder + empty, Body=b"")
    s3.copy_object(Bucket=bucket, Key=f"{folder}hoodie.properties", CopySource=properties)
    return target
