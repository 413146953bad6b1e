"""Checks of lesson 07: the files of a table after three writes, the versions left by a cleaning.

Neither check writes to the lesson's tables: the first makes a new table, the second a copy.
"""

import secrets
from collections import Counter
from dataclasses import dataclass
from functools import cache

from lab_env.course.answers import as_int
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.table_copies import scratch_copy
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

WRITES, ROWS, TASKS = 3, 40, 3
MOST_FILES = 2
MINUTES_PER_COMMIT, LONGEST_QUERY_MINUTES = 3, 10


@dataclass(frozen=True)
class ThreeWrites:
    """The table after three writes with the learner's options.

    Args:
        files: number of data files that a query of the newest state reads.
        older: number of the other data files.
        rows: number of rows that the table shows.
        orders: number of different orders among them.
        actions: number of completed instants by action.
        cleaner: whether the options switched the cleaner on.
    """

    files: int
    older: int
    rows: int
    orders: int
    actions: dict[str, int]
    cleaner: bool = False


@check_of("07.1")
class FewFiles:
    """Options that leave at most two files to read after three bulk inserts."""

    @staticmethod
    def observe(lab, answer) -> ThreeWrites:
        """Write three batches with these options, then count files, rows and actions."""
        extra_options = dict(answer)
        path = lab.scratch("few_files")
        options = DEMO_OPTIONS | KEYS | {
            "hoodie.table.name": "few_files",
            "hoodie.index.bloom.num_entries": "1000",
            "hoodie.datasource.write.operation": "bulk_insert",
        } | extra_options  # fmt: skip
        for number in range(WRITES):
            rows = lab.spark.range(number * ROWS, (number + 1) * ROWS, 1, TASKS).selectExpr(
                "concat('O-', id) AS order_id",
                "'new' AS status",
                "timestamp'2026-11-20 12:00:00' AS order_ts",
                "cast(date_sub('2026-11-21', cast(id % 2 AS int)) AS string) AS partition_date",
            )
            rows.write.format("hudi").options(**options).mode("append").save(path)
        shown = lab.spark.read.format("hudi").load(path)
        rows, orders = shown.selectExpr("count(order_id)", "count(DISTINCT order_id)").first()
        picture = lab.xray(path)
        files = sum(len(found.files) for found in picture.current)
        return ThreeWrites(
            files=files,
            older=len(picture.files) - files,
            rows=rows,
            orders=orders,
            actions=dict(Counter(instant.action for instant in picture.instants)),
            cleaner=str(options["hoodie.clean.automatic"]).lower() == "true",
        )

    @staticmethod
    def judge(facts: ThreeWrites) -> Passed | NotYet:
        """Every order once, in at most two files, by at most one clustering."""
        if not facts.rows == facts.orders == WRITES * ROWS:
            return NotYet(
                f"The table shows {facts.rows} rows of {facts.orders} orders; {WRITES * ROWS} "
                "orders were written. Fewer files must not mean other rows."
            )
        clusterings = facts.actions.get("clustering", 0)
        if facts.files <= MOST_FILES and clusterings > 1:
            return NotYet(
                f"{facts.files} files hold all {facts.rows} orders, but after {clusterings} "
                "clusterings. Each one copies the rows that the one before it had written. For "
                f"{WRITES} writes one clustering is enough: when should it run?"
            )
        if facts.files <= MOST_FILES:
            return Passed(
                f"{facts.files} files hold all {facts.rows} orders. {facts.older} older files wait "
                "for the cleaner: the next section is about them."
            )
        if clusterings:
            return NotYet(
                f"There was a clustering, but a query still reads {facts.files} files, because "
                "more writes followed it. The check makes three writes: cluster after the third."
            )
        if facts.cleaner:
            return NotYet(
                f"The cleaner was on, and a query still reads {facts.files} files. Cleaning "
                "removes files that no query of the newest state reads; it merges none."
            )
        written = ", ".join(f"{n} {action}" for action, n in sorted(facts.actions.items()))
        return NotYet(
            f"A query reads {facts.files} files, and the timeline has {written}: no clustering. "
            "A bulk insert does not look at files that are there, whatever the size limit is. "
            "Inline clustering waits for as many commits as its option says, four by default."
        )


@dataclass(frozen=True)
class Retention:
    """What a cleaning with the learner's number left of one file group.

    Args:
        commits: number of commits to retain.
        versions: number of versions of the file before the cleaning.
        kept: number of versions after it.
    """

    commits: int
    versions: int = 0
    kept: int = 0


@check_of("07.2")
class RetainForTheReaders:
    """How many commits to retain for readers of ten minutes."""

    @staticmethod
    def observe(lab, answer) -> Retention:
        """Clean a copy of the lesson's table with this retention."""
        commits = as_int(answer)
        return _clean_a_copy(lab, commits) if commits >= 1 else Retention(commits)

    @staticmethod
    def judge(facts: Retention) -> Passed | NotYet:
        """The fewest commits that keep the files of every reader."""
        if facts.commits < 1:
            return NotYet(f"{facts.commits} commits cannot be retained: give a number from 1 on.")
        lost = facts.versions - facts.kept
        needed = -(-LONGEST_QUERY_MINUTES // MINUTES_PER_COMMIT)
        if not lost:
            return NotYet(
                f"The cleaner deleted nothing: all {facts.versions} versions are still there, one "
                "per commit. Your readers are safe, but how many commits can complete while one "
                f"of them reads for {LONGEST_QUERY_MINUTES} minutes?"
            )
        # A reader of a version is safe from the next commit on until the cleaning.
        safe = MINUTES_PER_COMMIT * (facts.versions - (lost + 1))
        if safe < LONGEST_QUERY_MINUTES:
            return NotYet(
                f"The reader that opened at commit {lost} lost its file at commit "
                f"{facts.versions}. It may have opened just before commit {lost + 1}, so you "
                f"guarantee {safe} minutes."
            )
        if facts.commits > needed:
            return NotYet(
                f"Every reader is safe, for {safe} minutes. But {facts.kept} versions are kept "
                f"where {needed + 1} are enough."
            )
        return Passed(
            f"The newest version and {facts.kept - 1} older ones are kept. A reader of the oldest "
            f"of them has {safe} minutes from the commit that superseded it. The rule: longest "
            "query divided by the time between commits, rounded up. With a commit every 30 "
            "seconds it would be 20."
        )


@cache  # different forms of one number need one cleaning; nobody writes in between
def _clean_a_copy(lab, commits: int) -> Retention:
    """Copy the lesson's table and clean the copy."""
    path = scratch_copy(lab, lab.path("orders_sized"), "retention")
    name = f"retention_{secrets.token_hex(3)}"
    versions = _versions(lab.xray(path))
    lab.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    lab.spark.sql(
        f"CALL run_clean(table => '{name}', retain_commits => {commits}, "
        "options => 'hoodie.metadata.enable=false')"
    ).collect()
    lab.spark.sql(f"DROP TABLE {name}")
    return Retention(commits, versions, _versions(lab.xray(path)))


def _versions(table) -> int:
    """The number of versions of the file group that has most."""
    return max(Counter(file.group for file in table.files).values())
