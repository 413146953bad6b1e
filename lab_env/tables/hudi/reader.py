"""Reads a table's snapshot from one listing and the small files of its timeline.

The names of timeline files give the instants' states and times, and the names of data files give
the file slices. Row counts, replaced file groups and cleaned files come from the instants'
metadata.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lab_env.tables.hudi.commits import read_avro, replaced_groups, written_files
from lab_env.tables.hudi.files import TableFiles
from lab_env.tables.hudi.history import archived_instants, is_manifest, valid_files
from lab_env.tables.hudi.table import CleanedFile, DataFile, Snapshot
from lab_env.tables.hudi.timeline import Instant, parse_data_name, parse_timeline_key

PROPERTIES = ".hoodie/hoodie.properties"
TIMELINE = ".hoodie/timeline/"
METADATA = ".hoodie/metadata/"
PLANNED_ACTIONS = ("compaction", "logcompaction", "clustering")
STATES = ("requested", "inflight", "completed")
PARALLEL_READS = 10

# Decoded metadata of completed instants, by action and requested time.
Records = Mapping[tuple[str, str], dict]


class TableNotFound(LookupError):
    """There is no Hudi table at this path."""


class UnsupportedTable(ValueError):
    """The table's version is too old."""


def read_table(files: TableFiles, since: Snapshot | None = None) -> Snapshot:
    """Read a table's current state.

    Args:
        since: an earlier snapshot to compare with, for example for `new_files` and `gone_files`.

    Raises:
        TableNotFound: there is no Hudi table at the path.
        UnsupportedTable: the table's version is below 8; its timeline has a different layout.
    """
    sizes = files.sizes()
    if PROPERTIES not in sizes:
        below = f"{len(sizes)} objects lie below it" if sizes else "nothing lies there"
        raise TableNotFound(
            f"There is no Hudi table at {files.path}: {below}, and no {PROPERTIES}."
        )
    timeline = {key: instant for key in sizes if (instant := parse_timeline_key(key))}
    informative = [key for key, instant in timeline.items() if _has_metadata(instant)]
    contents = _read_all(files, [PROPERTIES, *informative, *filter(is_manifest, sizes)])
    contents |= _read_all(files, valid_files(contents))
    properties = parse_properties(contents.get(PROPERTIES, b"").decode())
    version = int(properties.get("hoodie.table.version", 0))
    if version < 8:
        raise UnsupportedTable(
            f"The table at {files.path} is of version {version}; "
            "only version 8 and later can be read."
        )
    instants = _merge_states(timeline.values())
    active = {instant.requested for instant in instants}
    archived = [pair for pair in archived_instants(contents) if pair[0].requested not in active]
    history = tuple(instant for instant, _ in archived)
    records = _decode(timeline, instants, contents)
    records |= {(instant.action, instant.requested): record for instant, record in archived}
    data_files = _data_files(sizes, records, _commit_rule(instants, history))
    groups = {file.group for file in data_files}
    data_keys = {file.key for file in data_files}
    return Snapshot(
        path=files.path,
        name=properties.get("hoodie.table.name", files.path.rstrip("/").rpartition("/")[2]),
        table_type=properties.get("hoodie.table.type", "COPY_ON_WRITE"),
        version=version,
        instants=instants,
        files=data_files,
        replaced=tuple(pair for pair in replaced_by(records) if pair[0] in groups),
        bookkeeping=tuple(
            sorted((_part(key), key, size) for key, size in sizes.items() if key not in data_keys)
        ),
        since=since,
        history=history,
        cleaned=_cleaned(records),
        planned=_planned(instants, contents),
        records=records,
    )


def _read_all(files: TableFiles, keys: Iterable[str]) -> dict[str, bytes]:
    """Read files; skip those that a writer has archived in the meantime. Return contents by key."""

    def read(key: str) -> bytes | None:
        try:
            return files.read(key)
        except FileNotFoundError:
            return None

    keys = list(keys)
    with ThreadPoolExecutor(PARALLEL_READS) as pool:
        contents = pool.map(read, keys)
        return {key: content for key, content in zip(keys, contents, strict=True) if content}


def parse_properties(text: str) -> dict[str, str]:
    lines = (line for line in text.splitlines() if "=" in line and line[0] != "#")
    return dict(line.split("=", 1) for line in lines)


def _has_metadata(instant: Instant) -> bool:
    """True if a timeline file has content that a snapshot needs: commit metadata or a plan."""
    planned = instant.state == "requested" and instant.action in PLANNED_ACTIONS
    return instant.state == "completed" or planned


def _merge_states(files: Iterable[Instant]) -> tuple[Instant, ...]:
    """Merge the timeline files' instants: one per action, in its latest state."""
    actions: dict[tuple[str, bool], list[Instant]] = {}
    for file in files:  # a savepoint has the requested time of the write that it protects
        actions.setdefault((file.requested, file.action == "savepoint"), []).append(file)
    instants = []
    for _, states in sorted(actions.items()):
        latest = max(states, key=lambda instant: STATES.index(instant.state))
        planned = [i.action for i in states if i.action in PLANNED_ACTIONS]
        instants.append(replace(latest, action=planned[0]) if planned else latest)
    return tuple(instants)


def _decode(
    timeline: Mapping[str, Instant], instants: Iterable[Instant], contents: Mapping[str, bytes]
) -> dict[tuple[str, str], dict]:
    """Decode the metadata of completed instants; return it by action and requested time."""
    writes = {instant.requested: instant.action for instant in instants if instant.writes}
    return {
        (writes[file.requested] if file.writes else file.action, file.requested): read_avro(
            contents[key]
        )
        for key, file in timeline.items()
        if file.completed and key in contents
    }


def _data_files(
    sizes: Mapping[str, int], records: Records, is_committed: Callable[[str], bool]
) -> tuple[DataFile, ...]:
    rows = {
        (file.partition, file.name): file.changes
        for record in records.values()
        for file in written_files(record)
        if file.kind != "cdc"  # no commit records the number of changes in a change log
    }
    files = []
    for key, size in sizes.items():
        partition, _, name = key.rpartition("/")
        parsed = None if key.startswith(".hoodie/") else parse_data_name(name)
        if parsed:
            group, instant, kind = parsed.group, parsed.instant, parsed.kind
            committed, count = is_committed(instant), rows.get((partition, name))
            files.append(DataFile(partition, group, instant, kind, name, size, committed, count))
    return tuple(sorted(files))


def _commit_rule(instants: Iterable[Instant], history: Iterable[Instant]) -> Callable[[str], bool]:
    """Return a function that decides by Hudi's own rule whether readers use an instant's files."""
    states = {i.requested: i.state for i in (*history, *instants) if i.writes}
    first = min((i.requested for i in instants if i.writes and i.completed), default="")

    def is_committed(instant: str) -> bool:
        if instant in states:
            return states[instant] == "completed"
        # Older instants have been archived. A missing younger one was rolled back or never made.
        return instant < first

    return is_committed


def replaced_by(records: Records) -> list[tuple[str, str]]:
    """Return the replaced file groups, with the requested time of the action that replaced them."""
    replaced = {
        group: requested
        for (_, requested), record in records.items()
        for _, group in replaced_groups(record)
    }
    return sorted(replaced.items())


def _cleaned(records: Records) -> tuple[CleanedFile, ...]:
    cleaned = set()
    for (action, requested), record in records.items():
        if action != "clean":
            continue
        for partition, stat in (record.get("partitionMetadata") or {}).items():
            for path in stat["successDeleteFiles"]:
                name = path.rpartition("/")[2]
                if file := parse_data_name(name):
                    cleaned.add(
                        CleanedFile(partition, file.group, file.instant, file.kind, name, requested)
                    )
    return tuple(sorted(cleaned))


def _planned(
    instants: Iterable[Instant], contents: Mapping[str, bytes]
) -> tuple[tuple[str, str, str], ...]:
    """Return the file group, requested time and action of each pending plan."""
    planned = []
    for instant in instants:
        if instant.completed or instant.action not in PLANNED_ACTIONS:
            continue
        key = f"{TIMELINE}{instant.requested}.{instant.action}.requested"
        plan = read_avro(contents.get(key, b""))
        clustering = (plan.get("clusteringPlan") or {}).get("inputGroups") or ()
        slices = [*(plan.get("operations") or ()), *(s for g in clustering for s in g["slices"])]
        planned += [(part["fileId"], instant.requested, instant.action) for part in slices]
    return tuple(sorted(planned))


def _part(key: str) -> str:
    if key.startswith(TIMELINE):
        return "timeline"
    return "metadata" if key.startswith(METADATA) else "other"
