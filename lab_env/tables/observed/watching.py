"""Reads a Hudi table again and again in every way, while something else writes it."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import Event, Semaphore, Thread
from types import MappingProxyType

import pandas as pd
from pyspark.sql import SparkSession

from lab_env.platform import store
from lab_env.platform.settings import Endpoints, settings
from lab_env.platform.store import StoredTable
from lab_env.tables.hudi.reader import PROPERTIES, parse_properties, read_table
from lab_env.tables.hudi.table import Snapshot
from lab_env.tables.hudi.timeline import parse_timeline_key, to_seconds
from lab_env.tables.observed.judge import Broken, Commit, Read, judge, verdicts
from lab_env.tables.observed.readers import MOST_KEYS, Ask, Seen, Table, readers, without_spark

REST_S = 0.2  # of a reader between two reads


@dataclass
class Observed:
    """Reads of a table and the rules that they broke; complete once the watching has ended."""

    path: str
    commits: list[Commit] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    services: list[tuple[str, float, float]] = field(default_factory=list)  # action, begin, end

    @cached_property
    def broken(self) -> list[Broken]:
        """The rules that reads broke, each with its proof."""
        return judge(self.commits, self.reads)

    @property
    def verdicts(self) -> pd.DataFrame:
        """One row per reader: its reads, its errors, and how many of them broke each rule."""
        return verdicts(self.reads, self.broken)

    @property
    def shown(self) -> pd.DataFrame:
        """The verdicts for the eye: a dash where a rule says nothing about a reader."""
        counts = self.verdicts.astype(object)
        return counts.where(counts.notna(), "–")

    def _repr_html_(self) -> str:
        from lab_env.tables.observed.picture import shown

        return shown(self)


@contextmanager
def observed(
    endpoints: Endpoints,
    spark: SparkSession | None,
    path: str,
    more: Mapping[str, Callable[[Table], Ask]] = MappingProxyType({}),
    parts: int | None = None,
    every: float = REST_S,
) -> Generator[Observed]:
    """Read a table in all ways while the body runs; then it is known what each reader saw.

    Args:
        spark: the session that reads; its other queries share its cores with the readers. Without
            one only hudi-rs reads.
        path: the table's; it has to have a completed write.
        more: other ways of reading, by name.
        parts: one key in so many is read; by default as many as keep the reads small at the start.
        every: seconds that a reader rests, and between two looks at the timeline half as many.
    """
    found = Observed(path)
    files = StoredTable(endpoints, path)
    start = read_table(files)
    timeline = _Timeline(endpoints, path, start.table_type == "MERGE_ON_READ")
    store.export_environment(endpoints)
    parts = parts or _parts(start)
    ended = Event()
    with ExitStack() as until_end:
        if spark is None:
            ways = without_spark(path, parts)
        else:
            properties = parse_properties(files.read(PROPERTIES).decode())
            table = Table(spark, path, timeline.newest, properties, parts)
            ways = until_end.enter_context(readers(table))
            ways |= {name: way(table) for name, way in more.items()}
        threads = [Thread(target=timeline.look, args=(ended, every / 2), daemon=True)]
        turns = Semaphore(max(1, settings().cores - 1))  # one core stays for the writer
        for name, ask in ways.items():
            reader = partial(_again, name, ask, ended, turns, found.reads, every)
            threads.append(Thread(target=reader, daemon=True))
        until_end.callback(lambda: [thread.join() for thread in threads])
        until_end.callback(ended.set)
        timeline.notice()
        for thread in threads:
            thread.start()
        yield found
    timeline.notice()
    found.commits, found.services = _history(read_table(files), timeline)


class _Timeline:
    """Completed writes of a table's timeline, and when they were first seen there."""

    def __init__(self, endpoints: Endpoints, path: str, merges: bool):
        self._endpoints = endpoints
        self._prefix = f"{store.key_of(path)}/.hoodie/timeline/"
        self._write = "deltacommit" if merges else "commit"
        self._completed: dict[str, str] = {}
        self.noticed: dict[str, float] = {}  # by requested time

    def look(self, ended: Event, every: float) -> None:
        """Look until the end; a store that does not answer is asked again."""
        while not ended.wait(every):
            with suppress(Exception):
                self.notice()

    def notice(self) -> None:
        """Look once."""
        found = [entry.key for entry in store.list_objects(self._endpoints, self._prefix)]
        now = time.time()
        for instant in map(parse_timeline_key, found):
            if instant and instant.completed:
                self.noticed.setdefault(instant.requested, now)
                if instant.action == self._write:
                    self._completed[instant.requested] = instant.completed

    def newest(self) -> list[tuple[str, str]]:
        """Requested and completion times of the writes, in the order of completion.

        Without those that replace file groups or rearrange rows: time travel goes by requested
        times, and these may be requested long before they complete.
        """
        return sorted(self._completed.items(), key=lambda pair: pair[1])


def _again(
    name: str, ask: Ask, ended: Event, turns: Semaphore, reads: list[Read], every: float
) -> None:
    while not ended.is_set():
        with turns:
            begin = time.time()
            try:
                seen, error = ask(), ""
            except Exception as failed:  # any reader's, which is what the table of verdicts counts
                seen, error = Seen(()), _reason(failed)
            end = time.time()
        if seen:
            reads.append(Read(name, begin, end, seen.rows, error, seen.until, seen.after))
        ended.wait(every)


def _reason(error: Exception) -> str:
    """Return what failed first, as the JVM says it below what failed because of it."""
    lines = str(error).splitlines() or [""]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return causes[-1] if causes else f"{type(error).__name__}: {lines[0]}"


def _parts(table: Snapshot) -> int:
    rows = sum(part.base.rows or 0 for part in table.current if part.base)
    return 1 + rows // MOST_KEYS


def _history(table: Snapshot, timeline: _Timeline):
    """Return the completed writes of rows, and the services that ran meanwhile."""
    commits, services = [], []
    for instant in (*table.history, *table.instants):
        if instant.completed:
            times = to_seconds(instant.requested), to_seconds(instant.completed)
            commit = table.commit(instant.requested) if instant.writes else None
            if commit is None or commit.rewrites:
                services.append((instant.action, *times))
                continue
            noticed = timeline.noticed.get(instant.requested, times[1])
            erases = bool(commit.deleted or commit.replaced)
            commits.append(Commit(instant.requested, *times, noticed, erases))
    return commits, services
