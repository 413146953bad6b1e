"""One process of the fault `writers_20`: runs several threads that all write to the same table.

Usage: `python -m lab_env.workbench.campaign.rival NUMBER TABLE ZOOKEEPER LOG`. It prints `ready`
when its Spark session is up, starts when it reads a line of input, and then prints a JSON list of
all its writers' attempts, each with its error.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from lab_env.pipeline.options import COW, second_writer
from lab_env.pipeline.session import session_of_environment

THREADS = 5
PARTITIONS = 4
SECONDS = 120  # writers do not retry after that
CONFLICT = "Conflict"  # in the name of the error of a write that lost
FIRST = "first"
BEGIN = 1_700_000_000  # seconds since 1970, of the first attempt's order_ts


@dataclass(frozen=True)
class Attempt:
    """One write by one writer: a row of its own, and a row shared by all writers of its partition.

    After a conflict, these rows are not in the table. After any other error they may be, because a
    step after the commit may have failed.
    """

    writer: str
    number: int  # from 1
    error: str = ""

    @property
    def event(self) -> str:
        """Event id of both rows."""
        return f"{self.writer}-{self.number}"

    @property
    def keys(self) -> tuple[str, str]:
        """Keys of the writer's own row and of the shared row."""
        return self.event, f"contested-{self.partition}"

    @property
    def partition(self) -> int:
        """Table partition; several writers share one, for example writers 0, 4, 8 and so on."""
        return 0 if self.writer == FIRST else int(self.writer) % PARTITIONS

    @property
    def second(self) -> int:
        """The rows' `order_ts` in seconds since 1970.

        It is unique, and among rows with the same key the latest wins.
        """
        return BEGIN if self.writer == FIRST else BEGIN + 100 * self.number + int(self.writer)


def write(spark: SparkSession, options: dict[str, str], table: str, attempt: Attempt) -> str:
    """Write the two rows of an attempt; return the error, empty if there is none."""
    rows = ", ".join(
        f"('{key}', '{attempt.event}', timestamp_seconds({attempt.second}), 'p{attempt.partition}')"
        for key in attempt.keys
    )
    columns = "order_id, event_id, order_ts, partition_date"
    try:
        frame = spark.sql(f"SELECT * FROM VALUES {rows} AS rows({columns})")
        frame.write.format("hudi").options(**options).mode("append").save(table)
    except Exception as error:  # any error: the writer tries again, as a scheduler would
        causes = (line.strip() for line in str(error).splitlines() if "Exception" in line)
        return next((cause for cause in causes if CONFLICT in cause), str(error)[:500])
    return ""


def write_until_done(
    spark: SparkSession, options: dict[str, str], table: str, writer: str
) -> list[Attempt]:
    """Try to write until an attempt succeeds or the time is up; return all attempts."""
    attempts: list[Attempt] = []
    deadline = time.monotonic() + SECONDS
    for number in count(1):
        error = write(spark, options, table, Attempt(writer, number))
        attempts.append(Attempt(writer, number, error))
        if not error or time.monotonic() > deadline:
            break
    return attempts


def main(number: int, table: str, zookeeper: str, log: str):
    """Run one process; number 0 also creates the table before it reports ready."""
    extra = {"spark.ui.enabled": "false"}
    spark = session_of_environment(f"campaign rival {number}", extra, Path(log))
    options = second_writer(COW, zookeeper, table)
    if number == 0 and (error := write(spark, options, table, Attempt(FIRST, 1))):
        raise RuntimeError(error)
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    writers = [f"{number * THREADS + thread:02d}" for thread in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        tried = pool.map(lambda writer: write_until_done(spark, options, table, writer), writers)
        print(json.dumps([asdict(one) for attempts in tried for one in attempts]), flush=True)
    sys.stdin.readline()  # its processor time can still be read


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
