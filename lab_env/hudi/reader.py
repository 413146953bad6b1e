"""Reads a table's snapshot from the object store: one listing and the timeline's files, no Spark.

States and times of instants come from the names of the timeline's files, slices from the names of the
data files. Records, rows, replaced and cleaned files come from what the instants recorded.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from botocore.exceptions import ClientError

from lab_env import store
from lab_env.errors import LabError
from lab_env.hudi.commits import commit_of, read_avro
from lab_env.hudi.history import HISTORY, archived, current_files
from lab_env.hudi.model import ACTIONS_THAT_WRITE, CleanedFile, DataFile, Instant, Snapshot
from lab_env.hudi.timeline import TimelineName, data_name, timeline_name
from lab_env.settings import Endpoints
from lab_env.store import StoredObject

PROPERTIES = ".hoodie/hoodie.properties"
TIMELINE = ".hoodie/timeline/"
METADATA = ".hoodie/metadata/"
PLANS = ("compaction", "logcompaction", "clustering")
READERS = 10  # as many as the client keeps connections


def xray(endpoints: Endpoints, path: str, since: Snapshot | None = None) -> Snapshot:
    """A table as it lies on the store now.

    Args:
        endpoints: where the store is.
        path: for example `s3a://lakehouse/lesson-05/orders`.
        since: an earlier snapshot; what is not in it is shown as new.

    Returns:
        The snapshot; showing it draws it.

    Raises:
        LabError: there is no Hudi table at that path, or one of an older layout.
    """
    prefix = store.key_of(path).rstrip("/") + "/"
    objects = {
        found.key.removeprefix(prefix): found for found in store.list_objects(endpoints, prefix)
    }
    if PROPERTIES not in objects:
        seen = f"{len(objects)} objects lie below it" if objects else "nothing lies there"
        raise LabError(
            f"There is no Hudi table at {path}: {seen}, and no {PROPERTIES}.",
            "give the path that the table was saved to.",
        )

    def read_all(keys: list[str]) -> dict[str, bytes]:
        with ThreadPoolExecutor(READERS) as pool:
            found = pool.map(lambda key: _read(endpoints, prefix + key), keys)
            return {key: content for key, content in zip(keys, found, strict=True) if content}

    contents = read_all([PROPERTIES, *(key for key in objects if _tells_more(key))])
    contents |= read_all(current_files(contents))
    return snapshot(path, contents.pop(PROPERTIES).decode(), objects, contents, since)


def snapshot(
    path: str,
    properties: str,
    objects: dict[str, StoredObject],
    contents: dict[str, bytes] | None = None,
    since: Snapshot | None = None,
) -> Snapshot:
    """Build a snapshot from a listing.

    Args:
        path: where the table lies.
        properties: the text of `hoodie.properties`.
        objects: the objects by their key below the table.
        contents: the bytes of timeline files and of the history, by their key.
        since: an earlier snapshot.

    Returns:
        The snapshot.

    Raises:
        LabError: the table is of a version before 8, whose timeline is laid out otherwise.
    """
    contents = contents or {}
    options = dict(
        line.split("=", 1) for line in properties.splitlines() if "=" in line and line[0] != "#"
    )
    version = int(options.get("hoodie.table.version", 0))
    if version < 8:
        raise LabError(
            f"The table at {path} is of version {version}; the X-ray reads version 8 and later.",
            "write it with Hudi 1.x, or read the tables that the lessons make.",
        )
    instants = _instants(objects)
    past = [found for found in archived(contents) if found[0].requested not in _requests(instants)]
    history = tuple(instant for instant, _ in past)
    records = _records(instants, contents) | {(i.action, i.requested): record for i, record in past}
    rows, replaced = _recorded(records)
    is_committed = _commit_rule(instants, history)
    files, bookkeeping = [], []
    for key, found in objects.items():
        folder, _, name = key.rpartition("/")
        told = None if key.startswith(".hoodie/") else data_name(name)
        if told:
            committed = is_committed(told.instant)
            files.append(
                DataFile(
                    folder,
                    told.group,
                    told.instant,
                    told.kind,
                    name,
                    found.size,
                    committed,
                    rows.get((folder, name)),
                )
            )
        else:
            bookkeeping.append((_part(key), key, found.size))
    return Snapshot(
        path=path,
        name=options.get("hoodie.table.name", path.rstrip("/").rpartition("/")[2]),
        table_type=options.get("hoodie.table.type", "COPY_ON_WRITE"),
        version=version,
        instants=instants,
        files=tuple(sorted(files)),
        replaced=_still_there(replaced, files),
        bookkeeping=tuple(sorted(bookkeeping)),
        since=since,
        history=history,
        cleaned=_cleaned(records),
        planned=_planned(instants, contents),
        records=records,
    )


def _read(endpoints: Endpoints, key: str) -> bytes | None:
    """An object's content; None when a writer has just archived it away."""
    try:
        return store.read(endpoints, key)
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchKey":
            return None
        raise


def _tells_more(key: str) -> bool:
    """Whether a file of the timeline is worth reading: what ended an action, a plan, a manifest."""
    if key.startswith(HISTORY):
        return not key.endswith(".parquet")
    told = timeline_name(key.removeprefix(TIMELINE)) if key.startswith(TIMELINE) else None
    return bool(
        told and (told.state == "completed" or (told.state == "requested" and told.action in PLANS))
    )


def _instants(objects: dict[str, StoredObject]) -> tuple[Instant, ...]:
    """One instant for each action: its furthest state."""
    names: dict[tuple[str, bool], list[TimelineName]] = {}
    for key in objects:
        if key.startswith(TIMELINE) and "/" not in key.removeprefix(TIMELINE):
            told = timeline_name(key.removeprefix(TIMELINE))
            if told:  # a savepoint has the requested time of the write that it keeps
                names.setdefault((told.requested, told.action == "savepoint"), []).append(told)
    order = ("requested", "inflight", "completed")
    instants = []
    for (requested, _), told in names.items():
        furthest = max(told, key=lambda name: order.index(name.state))
        planned = {name.action for name in told} & set(PLANS)
        action = planned.pop() if planned else furthest.action
        instants.append(Instant(requested, furthest.completed, action, furthest.state))
    return tuple(sorted(instants, key=lambda i: (i.requested, i.action == "savepoint")))


def _requests(instants: tuple[Instant, ...]) -> set[str]:
    return {instant.requested for instant in instants}


def _records(
    instants: tuple[Instant, ...], contents: dict[str, bytes]
) -> dict[tuple[str, str], dict]:
    """What the completed actions of the active timeline recorded."""
    writes = {instant.requested: instant.action for instant in instants if instant.writes}
    found = {}
    for key, content in contents.items():
        told = timeline_name(key.removeprefix(TIMELINE))
        if told and told.state == "completed":
            wrote = told.action in ACTIONS_THAT_WRITE
            action = writes[told.requested] if wrote else told.action
            found[action, told.requested] = read_avro(content)
    return found


def _recorded(
    records: dict[tuple[str, str], dict],
) -> tuple[dict[tuple[str, str], int], dict[str, str]]:
    """Rows by partition and file name, and the file groups replaced with the time of it."""
    rows, replaced = {}, {}
    for (action, requested), record in records.items():
        if "partitionToWriteStats" not in record:
            continue
        commit = commit_of(record, requested, "", action)
        for file in commit.files:
            if file.kind != "cdc":  # no commit tells how many changes a change log holds
                rows[file.partition, file.name] = file.changes
        replaced |= {group: requested for _, group in commit.replaced}
    return rows, replaced


def _commit_rule(
    instants: tuple[Instant, ...], history: tuple[Instant, ...]
) -> Callable[[str], bool]:
    """Tells whether readers count the files of an instant, as Hudi decides it."""
    states = {i.requested: i.state for i in (*history, *instants) if i.writes}
    first = min((i.requested for i in instants if i.writes and i.completed), default="")

    def is_committed(instant: str) -> bool:
        if instant in states:
            return states[instant] == "completed"
        # Older instants have left the active timeline for the archive; a younger one that is
        # missing was rolled back or never recorded.
        return instant < first

    return is_committed


def _still_there(replaced: dict[str, str], files: list[DataFile]) -> tuple[tuple[str, str], ...]:
    groups = {file.group for file in files}
    return tuple(sorted((group, at) for group, at in replaced.items() if group in groups))


def _cleaned(records: dict[tuple[str, str], dict]) -> tuple[CleanedFile, ...]:
    """The files that completed cleans deleted."""
    found = set()
    for (action, requested), record in records.items():
        if action != "clean":
            continue
        for partition, told in (record.get("partitionMetadata") or {}).items():
            for path in told["successDeleteFiles"]:
                name = path.rpartition("/")[2]
                if data := data_name(name):
                    found.add(
                        CleanedFile(partition, data.group, data.instant, data.kind, name, requested)
                    )
    return tuple(sorted(found))


def _planned(
    instants: tuple[Instant, ...], contents: dict[str, bytes]
) -> tuple[tuple[str, str, str], ...]:
    """File group, requested time and action of each plan that is not carried out yet."""
    found = []
    for instant in instants:
        if instant.completed or instant.action not in PLANS:
            continue
        plan = read_avro(
            contents.get(f"{TIMELINE}{instant.requested}.{instant.action}.requested", b"")
        )
        clustered = (plan.get("clusteringPlan") or {}).get("inputGroups") or ()
        parts = [*(plan.get("operations") or ()), *(s for g in clustered for s in g["slices"])]
        found += [(part["fileId"], instant.requested, instant.action) for part in parts]
    return tuple(sorted(found))


def _part(key: str) -> str:
    if key.startswith(TIMELINE):
        return "timeline"
    if key.startswith(METADATA):
        return "metadata"
    return "other"
