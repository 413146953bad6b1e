"""Checks of lesson 07: how many files a table has after three writes, and which versions a cleaning left.

Both run on tables of their own: a new one, and a copy of the lesson's.
"""

import secrets
from collections import Counter
from dataclasses import dataclass

from lab_env import store
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

WRITES, ROWS, TASKS = 3, 40, 3
MOST_FILES = 2
MINUTES_A_COMMIT, LONGEST_READER = 3, 10


@dataclass(frozen=True)
class ThreeWrites:
    """What three writes with the learner's options left.

    Args:
        files: how many files a query reads after them.
        older: how many data files are there besides.
        rows: how many rows the table shows, and `orders` how many different orders.
        actions: how often each action is on the timeline.
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
    """Options that bring a table of three bulk inserts to two files."""

    @staticmethod
    def observe(lab, answer) -> ThreeWrites:
        """Write three batches with these options, and count what is there."""
        path = lab.scratch("few_files")
        options = DEMO_OPTIONS | KEYS | {
            "hoodie.table.name": "few_files",
            "hoodie.index.bloom.num_entries": "1000",
            "hoodie.datasource.write.operation": "bulk_insert",
        }  # fmt: skip
        for number in range(WRITES):
            rows = lab.spark.range(number * ROWS, (number + 1) * ROWS, 1, TASKS).selectExpr(
                "concat('O-', id) AS order_id",
                "'new' AS status",
                "timestamp'2026-11-20 12:00:00' AS order_ts",
                "cast(date_sub('2026-11-21', cast(id % 2 AS int)) AS string) AS partition_date",
            )
            rows.write.format("hudi").options(**(options | dict(answer))).mode("append").save(path)
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
            cleaner=str(dict(answer).get("hoodie.clean.automatic")).lower() == "true",
        )

    @staticmethod
    def judge(facts: ThreeWrites) -> Passed | NotYet:
        """Every order once, in one file a day."""
        if not facts.rows == facts.orders == WRITES * ROWS:
            return NotYet(
                f"The table shows {facts.rows} rows of {facts.orders} orders; {WRITES * ROWS} "
                "orders were written. Fewer files must not mean other rows."
            )
        if facts.files <= MOST_FILES:
            return Passed(
                f"{facts.files} files hold all {facts.rows} orders. {facts.older} older files wait "
                "for the cleaner: the next section is about them."
            )
        if facts.actions.get("clustering"):
            return NotYet(
                f"There was a clustering, but a query still reads {facts.files} files: writes came "
                "after it. Three writes are all there are, so cluster after the third."
            )
        if facts.cleaner:
            return NotYet(
                f"The cleaner was on, and a query reads {facts.files} files all the same. Cleaning "
                "removes files that no query of the newest state reads; it merges none."
            )
        written = ", ".join(f"{n} {action}" for action, n in sorted(facts.actions.items()))
        return NotYet(
            f"A query reads {facts.files} files, and the timeline has {written}: no clustering. "
            "A bulk insert does not look at files that are there, whatever the size limit; and "
            "an inline clustering waits for so many commits as its option says, by default four."
        )


@dataclass(frozen=True)
class Retention:
    """What a cleaning with the learner's number left of one file group.

    Args:
        answer: how many commits to retain.
        versions: how many versions of the file there were.
        kept: how many there are after the cleaning.
    """

    answer: object
    versions: int
    kept: int


@check_of("07.2")
class RetainForTheReaders:
    """How many commits to retain for readers of ten minutes."""

    @staticmethod
    def observe(lab, answer) -> Retention:
        """Clean a copy of the lesson's table with this retention."""
        if type(answer) is not int or answer < 1:
            return Retention(answer, 0, 0)
        path, name = lab.scratch("retention"), f"retention_{secrets.token_hex(3)}"
        source = store.key_of(lab.path("orders_sized"))
        store.copy_prefix(lab.endpoints, f"{source}/", f"{store.key_of(path)}/")
        versions = _versions(lab.xray(path))
        lab.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
        lab.spark.sql(
            f"CALL run_clean(table => '{name}', retain_commits => {answer}, "
            "options => 'hoodie.metadata.enable=false')"
        ).collect()
        lab.spark.sql(f"DROP TABLE {name}")
        return Retention(answer, versions, _versions(lab.xray(path)))

    @staticmethod
    def judge(facts: Retention) -> Passed | NotYet:
        """The fewest commits that keep the files of every reader."""
        if not facts.versions:
            return NotYet(f"{facts.answer!r} is no number of commits: give a whole number from 1.")
        lost = facts.versions - facts.kept
        needed = -(-LONGEST_READER // MINUTES_A_COMMIT)
        if not lost:
            return NotYet(
                f"The cleaner deleted nothing: all {facts.versions} versions are still there, as "
                "many as there were commits. Your readers are safe, but how many commits come "
                f"while one of them reads for {LONGEST_READER} minutes?"
            )
        # A version is superseded by the next commit; its readers have from there to the cleaning.
        safe = MINUTES_A_COMMIT * (facts.versions - (lost + 1))
        if safe < LONGEST_READER:
            return NotYet(
                f"The reader that opened at commit {lost} lost its file at commit "
                f"{facts.versions}. It may have opened just before commit {lost + 1}, so you "
                f"guarantee {safe} minutes."
            )
        if facts.answer > needed:
            return NotYet(
                f"Safe, for {safe} minutes. But {facts.kept} versions are kept where "
                f"{needed + 1} would do."
            )
        return Passed(
            f"The newest version and {facts.kept - 1} older ones are kept. Whoever opened the oldest "
            f"of them has {safe} minutes from the commit that superseded it. The rule: longest "
            "reader divided by the time between commits, rounded up. With a commit every 30 "
            "seconds it would be 20."
        )


def _versions(table) -> int:
    """The number of versions of the file group that has most."""
    return max(Counter(file.group for file in table.files).values())
