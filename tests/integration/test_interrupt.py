"""Jupyter's *Interrupt* ends the cell's Spark job; the next cell answers, and a stream goes on."""

import os
from collections.abc import Iterator

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

jobs = spark.sparkContext.statusTracker()


def others():
    '''The active jobs that are not the stream's.'''
    active = {*jobs.getActiveJobsIds()}  # first: the stream begins new ones
    return active - {*jobs.getJobIdsForGroup(str(query.runId))}
"""
# Slower than any test; each task is long, too. The interrupt comes when Spark is at work on it.
ENDLESS = """
import os, signal, threading, time


def interrupt():
    while not others():
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=interrupt).start()
spark.range(10**13).select(F.sum(F.hash('id'))).collect()
"""
# Spark's list of jobs is behind its scheduler by a moment; an endless job never leaves it.
AFTER = """
count = spark.range(7).count()
while others():
    time.sleep(0.1)
print(count, query.isActive, not others())
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
    _, client = kernel
    said = []

    def run(code: str) -> dict:
        return client.execute_interactive(
            code, timeout=allowed(60), output_hook=lambda m: said.append(str(m["content"]))
        )["content"]

    assert run(BEGIN)["status"] == "ok", said
    assert run(ENDLESS)["ename"] == "KeyboardInterrupt"
    assert run(AFTER)["status"] == "ok", said
    text = "".join(said)
    assert "7 True True" in text, text
    assert "jobs that were cancelled: 1" in text and "goes on. To stop it" in text
