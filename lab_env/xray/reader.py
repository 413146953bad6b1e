"""Reads a table's snapshot from the object store: one listing, its settings, no Spark."""

from lab_env import objectstore
from lab_env.errors import LabError
from lab_env.objectstore import StoredObject
from lab_env.settings import Endpoints
from lab_env.xray.model import DataFile, Instant, Snapshot
from lab_env.xray.names import TimelineName, data_name, timeline_name

PROPERTIES = ".hoodie/hoodie.properties"
TIMELINE = ".hoodie/timeline/"
METADATA = ".hoodie/metadata/"
PLANS = ("compaction", "logcompaction", "clustering")


def xray(endpoints: Endpoints, path: str, since: Snapshot | None = None) -> Snapshot:
    """A table as it lies on the store now.

    Args:
        endpoints: where the store is.
        path: for example `s3a://lakehouse/lesson-05/orders`.
        since: an earlier snapshot; what is not in it is shown as new.

    Returns:
        The snapshot; showing it draws it.

    Raises:
        LabError: there is no Hudi table at that path.
    """
    prefix = objectstore.key_of(path).rstrip("/") + "/"
    objects = {
        found.key.removeprefix(prefix): found
        for found in objectstore.list_objects(endpoints, prefix)
    }
    if PROPERTIES not in objects:
        seen = f"{len(objects)} objects lie below it" if objects else "nothing lies there"
        raise LabError(
            f"There is no Hudi table at {path}: {seen}, and no {PROPERTIES}.",
            "give the path that the table was saved to.",
        )
    properties = objectstore.read(endpoints, prefix + PROPERTIES).decode()
    replacements = {
        key: objectstore.read(endpoints, prefix + key)
        for key in objects
        if key.startswith(TIMELINE) and key.endswith(".replacecommit")
    }
    return snapshot(path, properties, objects, replacements, since)


def snapshot(
    path: str,
    properties: str,
    objects: dict[str, StoredObject],
    replacements: dict[str, bytes] | None = None,
    since: Snapshot | None = None,
) -> Snapshot:
    """Build a snapshot from a listing.

    Args:
        path: where the table lies.
        properties: the text of `hoodie.properties`.
        objects: the objects by their key below the table.
        replacements: the content of each completed replacecommit, by its key.
        since: an earlier snapshot.

    Returns:
        The snapshot.
    """
    options = dict(
        line.split("=", 1) for line in properties.splitlines() if "=" in line and line[0] != "#"
    )
    instants = _instants(objects)
    files, bookkeeping = [], []
    for key, found in objects.items():
        folder, _, name = key.rpartition("/")
        told = None if key.startswith(".hoodie/") else data_name(name)
        if told:
            committed = _is_committed(told.instant, instants)
            files.append(
                DataFile(folder, told.group, told.instant, told.kind, name, found.size, committed)
            )
        else:
            bookkeeping.append((_part(key), key, found.size))
    return Snapshot(
        path=path,
        name=options.get("hoodie.table.name", path.rstrip("/").rpartition("/")[2]),
        table_type=options.get("hoodie.table.type", "COPY_ON_WRITE"),
        version=int(options.get("hoodie.table.version", 0)),
        instants=instants,
        files=tuple(sorted(files)),
        replaced=_replaced(files, replacements or {}),
        bookkeeping=tuple(sorted(bookkeeping)),
        since=since,
    )


def _instants(objects: dict[str, StoredObject]) -> tuple[Instant, ...]:
    """One instant for each requested time: its furthest state."""
    names: dict[str, list[TimelineName]] = {}
    for key in objects:
        if key.startswith(TIMELINE) and "/" not in key.removeprefix(TIMELINE):
            told = timeline_name(key.removeprefix(TIMELINE))
            if told:
                names.setdefault(told.requested, []).append(told)
    order = ("requested", "inflight", "completed")
    instants = []
    for requested, told in names.items():
        furthest = max(told, key=lambda name: order.index(name.state))
        planned = {name.action for name in told} & set(PLANS)
        action = planned.pop() if planned else furthest.action
        instants.append(Instant(requested, furthest.completed, action, furthest.state))
    return tuple(sorted(instants))


def _is_committed(instant: str, instants: tuple[Instant, ...]) -> bool:
    """Whether readers count a file of that instant."""
    known = {found.requested: found for found in instants}
    if instant in known:
        return known[instant].state == "completed"
    # Older instants have left the active timeline for the archive; a younger one that is
    # missing was rolled back or never recorded.
    return bool(instants) and instant < instants[0].requested


def _replaced(files: list[DataFile], replacements: dict[str, bytes]) -> tuple[tuple[str, str], ...]:
    """The file groups that a replacecommit names and that are older than it.

    Its content is Avro with the ids as plain text; the new groups that it names too begin with it.
    """
    first: dict[str, str] = {}
    for file in files:
        first[file.group] = min(file.instant, first.get(file.group, file.instant))
    found = {}
    for key, content in sorted(replacements.items()):
        requested = key.removeprefix(TIMELINE).split("_")[0]
        for group, begin in first.items():
            if begin < requested and group.encode() in content:
                found.setdefault(group, requested)
    return tuple(sorted(found.items()))


def _part(key: str) -> str:
    if key.startswith(TIMELINE):
        return "timeline"
    if key.startswith(METADATA):
        return "metadata"
    return "other"
