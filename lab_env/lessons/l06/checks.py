"""Checks of lesson 06: what compactions with the learner's options or SQL left on the store.

Only files and instants count. The tables are small: each write of a check is less than a second.
"""

from dataclasses import dataclass

from lab_env import store
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.hudi.model import Snapshot
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

TABLE = (
    KEYS
    | DEMO_OPTIONS
    | {
        "hoodie.table.name": "scratch",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.index.bloom.num_entries": "1000",
    }
)
BATCHES = 5
MAY_LAG = 1
COMPACTIONS = 2  # after the second and the fourth of five batches


@dataclass(frozen=True)
class Freshness:
    """How a table looked after each write.

    Args:
        behind: after each write, how many writes the base file is behind; it ends where that was too many.
        compactions: completed ones, in all.
        merge_on_read: whether the options left the table type alone.
    """

    behind: tuple[int, ...]
    compactions: int
    merge_on_read: bool = True


@check_of("06.1")
class AsFreshAsNeeded:
    """Options that compact often enough, and not oftener."""

    @staticmethod
    def observe(lab, answer) -> Freshness:
        """Write up to five batches of the same three orders, and look at the table after each."""
        path = lab.scratch("dashboard")
        behind, compactions = [], 0
        for batch in range(BATCHES):
            rows = lab.spark.sql(f"""
                SELECT order_id, {batch} AS batch, '2026-11-20' AS partition_date,
                       TIMESTAMP '2026-11-20 12:00:00' + make_interval(0, 0, 0, 0, 0, {batch}) AS order_ts
                FROM VALUES ('O-17'), ('O-18'), ('O-19') AS orders(order_id)
            """)
            rows.write.format("hudi").options(**(TABLE | dict(answer))).mode("append").save(path)
            table = lab.xray(path)
            behind.append(max(len(found.logs) for found in table.current))
            compactions = sum(
                instant.action == "compaction" and instant.state == "completed"
                for instant in table.instants
            )
            if behind[-1] > MAY_LAG or compactions > COMPACTIONS:
                break  # more writes would not make it right
        return Freshness(tuple(behind), compactions, table.table_type == "MERGE_ON_READ")

    @staticmethod
    def judge(facts: Freshness) -> Passed | NotYet:
        """Never more than one write behind, with two compactions."""
        if not facts.merge_on_read:
            return NotYet(
                "The table is no Merge-on-Read table any more: it has nothing to compact."
            )
        worst = max(facts.behind)
        if worst > MAY_LAG:
            return NotYet(
                f"After write {facts.behind.index(worst)} the read-optimised query was {worst} writes "
                f"behind, more than the one that is allowed; after each write so far: "
                f"{', '.join(map(str, facts.behind))}. Compact oftener."
            )
        if facts.compactions > COMPACTIONS:
            return NotYet(
                f"Fresh it is, by {facts.compactions} compactions where {COMPACTIONS} do. Each write "
                "rewrote the base file: that is what Copy-on-Write does, without the logs."
            )
        return Passed(
            f"{facts.compactions} compactions in five writes, and the dashboard at worst one behind."
        )


@dataclass(frozen=True)
class LogCounts:
    """One table's logs, as the function counted them and as they are.

    Args:
        table: name.
        answer: what the function returned.
        current: logs of the deepest current slice.
        all_logs: log files on the store.
        deltacommits: instants of that action.
    """

    table: str
    answer: object
    current: int
    all_logs: int
    deltacommits: int


@check_of("06.2")
class LogsToMerge:
    """The number that grows when nobody compacts."""

    @staticmethod
    def observe(lab, answer) -> tuple[LogCounts, ...]:
        """Call the function with the X-rays of the lesson's tables."""
        counted = []
        for name in ("never", "inline", "async"):
            table = lab.xray(lab.path(name))
            counted.append(
                LogCounts(
                    name,
                    answer(table),
                    max(len(found.logs) for found in table.current),
                    sum(file.kind == "log" for file in table.files),
                    sum(instant.action == "deltacommit" for instant in table.instants),
                )
            )
        return tuple(counted)

    @staticmethod
    def judge(facts: tuple[LogCounts, ...]) -> Passed | NotYet:
        """Right for each of the tables."""
        wrong = [counts for counts in facts if counts.answer != counts.current]
        if not wrong:
            told = ", ".join(f"{counts.table} {counts.current}" for counts in facts)
            return Passed(
                f"Logs to merge: {told}. An alarm on this number needs no error to go off."
            )
        if all(counts.answer == counts.all_logs for counts in facts):
            return NotYet(
                f"For {wrong[0].table} you say {wrong[0].answer}, but a query merges "
                f"{wrong[0].current}: you count the logs of older slices, too, which no query of the "
                "newest state reads."
            )
        if all(counts.answer == counts.deltacommits for counts in facts):
            return NotYet(
                f"For {wrong[0].table} you say {wrong[0].answer}, the writes of its whole timeline. "
                f"Only {wrong[0].current} of them left a log that a query of the newest state merges."
            )
        return NotYet(
            f"For {wrong[0].table} you say {wrong[0].answer!r}; its deepest current slice has "
            f"{wrong[0].current} logs."
        )


@dataclass(frozen=True)
class CompactedCopy:
    """A table after the learner's SQL.

    Args:
        planned: compactions on the timeline that were not there before.
        completed: how many of them are complete.
        logs: of the deepest current slice.
        before: bytes of the base file before.
        after: bytes of the newest base file.
        deltacommits: of the table since its last compaction before.
    """

    planned: int
    completed: int
    logs: int
    before: int
    after: int
    deltacommits: int


@check_of("06.3")
class CompactByAJob:
    """A compaction that is planned and run on a copy of the stream's table."""

    @staticmethod
    def observe(lab, answer) -> CompactedCopy:
        """Copy the table, object by object, let the function work on it, and X-ray it."""
        path = lab.scratch("left_by_stream")
        _copy(lab, lab.path("async"), path)
        before = lab.xray(path)
        answer(path)
        after = lab.xray(path)
        known = {instant.requested for instant in before.instants}
        new = [
            instant
            for instant in after.instants
            if instant.action == "compaction" and instant.requested not in known
        ]
        return CompactedCopy(
            planned=len(new),
            completed=sum(instant.state == "completed" for instant in new),
            logs=max(len(found.logs) for found in after.current),
            before=_newest_base(before),
            after=_newest_base(after),
            deltacommits=max(len(found.logs) for found in before.current),
        )

    @staticmethod
    def judge(facts: CompactedCopy) -> Passed | NotYet:
        """A completed compaction, and no log left to merge."""
        if not facts.planned:
            return NotYet(
                f"Nothing was planned, so nothing ran. Deltacommits since the table's last "
                f"compaction: {facts.deltacommits}, fewer than the five that the trigger asks for by default."
            )
        if not facts.completed:
            return NotYet("A plan exists, no new base file. Scheduling decides; running pays.")
        if facts.logs:
            return NotYet(
                f"A compaction was completed, but {facts.logs} logs are still to be merged."
            )
        told = "A new base file, and no log to merge."
        if facts.after > 3 * facts.before:
            told += (
                f" But it has {facts.after // 1024} KB where the old one had {facts.before // 1024}: "
                "the job did not get the writer's options and made its key filter for 60,000 keys."
            )
        return Passed(told)


def _copy(lab, source: str, target: str) -> None:
    """Copy a table on the store. Its files name no absolute path, so the copy is a table, too."""
    s3, bucket = store.client(lab.endpoints), lab.endpoints.bucket
    for found in lab.files(source):
        key = store.key_of(target) + found.key.removeprefix(store.key_of(source))
        s3.copy_object(Bucket=bucket, Key=key, CopySource={"Bucket": bucket, "Key": found.key})


def _newest_base(table: Snapshot) -> int:
    return max((slice_.base.size for slice_ in table.current if slice_.base), default=0)
