"""Jupyter's *Interrupt* ends the cell's Spark job; the next cell answers, and a stream goes on."""

import os
from collections.abc import Iterator
from threading import Timer

import pytest
from jupyter_client.manager import start_new_kernel
from own_lab import allowed

pytestmark = pytest.mark.services

BEGIN = """
from pyspark.sql import functions as F
from lab_env import Lab
lab = Lab.start("05")
spark = lab.spark
rows = spark.readStream.format("rate").load()
query = rows.writeStream.format("noop").option("checkpointLocation", lab.path("c")).start()
while not query.lastProgress:
    pass
"""
# Slower than any test; each task is long, too.
ENDLESS = "spark.range(10**13).select(F.sum(F.hash('id'))).collect()"
# Spark's list of jobs is behind its scheduler by a moment, and the stream begins new ones: what is
# active is asked first, whose it is afterwards, until nothing is left. An endless job never ends.
AFTER = """
jobs = spark.sparkContext.statusTracker()
print(spark.range(7).count(), query.isActive)
while {*jobs.getActiveJobsIds()} - {*jobs.getJobIdsForGroup(str(query.runId))}:
    pass
"""


@pytest.fixture
def kernel(services) -> Iterator:
    manager, client = start_new_kernel(env=os.environ | {"JUPYTER_PREFER_ENV_PATH": "1"})
    try:
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


def test_the_job_ends_the_next_cell_answers_and_the_stream_goes_on(kernel):
    manager, client = kernel
    said = []

    def run(code: str) -> dict:
        return client.execute_interactive(
            code, timeout=allowed(60), output_hook=lambda m: said.append(str(m["content"]))
        )["content"]

    assert run(BEGIN)["status"] == "ok", said
    Timer(3, manager.interrupt_kernel).start()
    assert run(ENDLESS)["ename"] == "KeyboardInterrupt"
    assert run(AFTER)["status"] == "ok", said
    text = "".join(said)
    assert "7 True" in text, text
    assert "jobs that were cancelled: 1" in text and "goes on. To stop it" in text
