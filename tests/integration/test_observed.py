"""Readers of a real table that is written: the right ones see nothing wrong.

Readers with planted errors, and those of which Hudi says that they lag, are found.
"""

import pytest
from instance import instance_of_this_run

from lab_env.lab.handle import Lab, reset_lesson
from lab_env.tables.observed.judge import BACK, FRESH, ONCE, UNBORN, WHOLE
from lab_env.tables.observed.picture import page
from lab_env.tables.observed.readers import Ask, Seen, Table
from lab_env.tables.observed.watching import Observed, observed

OPTIONS = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "order_id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.table.ordering.fields": "version",
    "hoodie.cleaner.commits.retained": "4",
    "hoodie.table.cdc.enabled": "true",
}
OLDER = {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}
COMPACTS = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
COMMITS = 9
RIGHT = ["snapshot", "time travel", "hudi-rs"]
CHAINS = ["incremental chain", "change feed"]
KEPT = ["a name in the catalog", "a DataFrame kept", "hudi-rs, kept open"]


@pytest.fixture(scope="module")
def lab(services):
    handle = Lab("observed", services)
    yield handle
    handle.spark.stop()
    reset_lesson("observed")


def write(lab: Lab, path: str, table_type: str, version: int, where: str = "true", **options: str):
    rows = lab.spark.range(90).selectExpr(
        "concat('O-', id) order_id", "IF(id % 2 = 0, 'a', 'b') day", f"{version} version"
    )
    chosen = OPTIONS | {"hoodie.datasource.write.table.type": table_type} | options
    if table_type == MOR:
        chosen |= COMPACTS
    rows.where(where).write.format("hudi").options(**chosen).mode("append").save(path)


def without_timeline(table: Table) -> Ask:
    """Read all base files that are there, as if each was a part of the table."""
    return lambda: Seen(table.rows(table.spark.read.parquet(f"{table.path}/[ab]/*.parquet")))


def cached(table: Table) -> Ask:
    """Show the same rows for ever."""
    seen = Seen(table.rows(table.load()))
    return lambda: seen


def in_two_parts(table: Table) -> Ask:
    """Show one partition as it is, and the other as it was at the read before."""
    earlier = table.rows(table.load())

    def ask() -> Seen:
        nonlocal earlier
        rows = table.rows(table.load())
        mixed = [row for row in rows if row[0].startswith("a/")]
        mixed += [row for row in earlier if row[0].startswith("b/")]
        earlier = rows
        return Seen(tuple(mixed))

    return ask


def watched(lab: Lab, table_type: str) -> Observed:
    """Observe a table through commits that touch one or both partitions, and one that erases.

    It begins as a table of Hudi 1.0, and the third commit upgrades it.
    """
    path = lab.scratch("orders")
    write(lab, path, table_type, 0, **OLDER)
    assert lab.xray(path).version == 8
    wrong = {"no timeline": without_timeline, "cached": cached, "in two parts": in_two_parts}
    with observed(lab.endpoints, lab.spark, path, wrong) as seen:
        for version in range(1, COMMITS + 1):
            where = "day = 'a'" if version % 3 == 2 else "true"
            write(lab, path, table_type, version, where, **(OLDER if version < 3 else {}))
        erase = {"hoodie.datasource.write.operation": "delete"}
        write(lab, path, table_type, COMMITS + 1, "order_id = 'O-7'", **erase)
    assert lab.xray(path).version == 9
    return seen


@pytest.mark.proof("tables")
@pytest.mark.parametrize("table_type", [COW, MOR])
def test_readers_of_a_table_that_is_written_see_what_hudi_promises(lab, table_type):
    seen = watched(lab, table_type)
    counts = seen.verdicts
    rules = [WHOLE, FRESH, BACK, UNBORN]
    told = f"{counts}\n" + "\n".join(map(str, seen.broken))
    assert (counts.loc[RIGHT, ["errors", *rules]] == 0).all(axis=None), told
    assert (counts.loc[CHAINS, ["errors", UNBORN, ONCE]] == 0).all(axis=None), told
    assert (counts.loc[[*RIGHT, *CHAINS], "reads"] >= 3).all(), told
    lags = counts.loc[KEPT, FRESH] + counts.loc[KEPT, "errors"]  # its files are cleaned
    assert (lags > 0).all(), told
    assert counts.loc["cached", FRESH] > 0, told
    assert counts.loc["in two parts", WHOLE] > 0, told
    assert counts.loc["no timeline", WHOLE] > 0, told
    if table_type == MOR:
        assert counts.loc["read-optimised", FRESH] > 0, told
    assert "<svg" in page(seen)


@pytest.mark.proof("tables")
def test_the_command_counts_the_reads_of_a_table_and_names_one_that_is_not_there(lab):
    path, here = lab.scratch("orders"), instance_of_this_run()
    write(lab, path, COW, 0)
    done = here.lab("watch", path, "--seconds", "10")
    assert done.returncode == 0, done.stdout + done.stderr
    [row] = [line.split() for line in done.stdout.splitlines() if line.startswith("snapshot")]
    assert int(row[1]) > 0 and row[2:] == ["0", "0", "0", "0", "0", "–"]
    refused = here.lab("watch", "no/such/table", "--seconds", "5")
    assert refused.returncode == 1 and "There is no Hudi table at s3a://" in refused.stderr
    assert "Next step: " in refused.stderr and "Traceback" not in refused.stderr
