"""Tasks that read, end or wait for a core count as progress; an endless computation does not."""

import threading
import time
from pathlib import Path

from own_lab import wait_until
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lab_env.pipeline.tasks import Tasks

ROWS, STEP = 1500, 500
LONG = "x" * 20_000  # a step of them is more than Spark hands to Python in advance


def start_job(spark: SparkSession, pool: str, rows: Path, gate: Path) -> threading.Thread:
    """Read rows in one task; every `STEP` rows it waits for the next numbered file in `gate`."""

    def hold(text: str) -> int:
        number = int(text.partition(" ")[0])
        while not (gate / f"{number // STEP}").exists():
            time.sleep(0.05)
        return number

    def read() -> None:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        held = spark.read.text(str(rows)).select(F.udf(hold, "int")("value"))
        held.write.format("noop").mode("append").save()

    gate.mkdir()
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def let_through(gate: Path, *steps: int) -> None:
    for step in steps:
        (gate / f"{step}").touch()


def quiet(tasks: Tasks, pool: str) -> bool:
    """Return True if a pool makes no progress for several heartbeats."""
    for _ in range(6):
        if pool in tasks.went_on():
            return False
        time.sleep(0.5)
    return True


def test_a_task_that_reads_or_waits_for_a_core_goes_on_and_one_that_computes_for_ever_does_not(
    spark, tmp_path
):
    rows, gate, other_gate = (tmp_path / name for name in ("rows", "gate", "other"))
    rows.write_text("\n".join(f"{number} {LONG}" for number in range(ROWS)))
    tasks = Tasks(spark)
    job = start_job(spark, "long", rows, gate)
    try:
        wait_until(lambda: "long" in tasks.went_on())
        wait_until(lambda: quiet(tasks, "long"))
        let_through(gate, 0)
        wait_until(
            lambda: "long" in tasks.went_on(),
            seen=lambda: f"job alive: {job.is_alive()}, amounts by task: {tasks._of_tasks}",
        )
        wait_until(lambda: quiet(tasks, "long"))
        assert job.is_alive()  # so it was one and the same task

        other = start_job(spark, "other", rows, other_gate)
        wait_until(lambda: tasks.went_on() == {"other"})
        assert tasks.went_on() == {"other"}  # the session has one core, which is taken
        let_through(gate, 1, 2)
        job.join(60)
        wait_until(lambda: quiet(tasks, "other"))
        let_through(other_gate, 0, 1, 2)
        other.join(60)
        wait_until(lambda: "other" in tasks.went_on())
        assert tasks.went_on() == set()
    finally:
        for folder in (gate, other_gate):
            folder.mkdir(exist_ok=True)
            let_through(folder, 0, 1, 2)
