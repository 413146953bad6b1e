"""Hudi's native sink with asynchronous compaction hangs where lesson 17 says it does.

If this fails with a newer Hudi, the box in lesson 17, the watchdog of the pipeline's writer and the
time limit on a JVM's exit (`pipeline.session`) may no longer be needed.
"""

import os
import subprocess
import sys
from functools import partial

import psutil
import pytest
from own_lab import allowed, wait_until

from lab_env.platform import store
from lab_env.platform.jvm import EXIT_SECONDS

pytestmark = [pytest.mark.services, pytest.mark.proof("hang")]

POISONED = """
import time
from lab_env.lab.handle import Lab
from lab_env.platform import services
from lab_env.pipeline.options import MOR

lab = Lab("pytest", services.endpoints())
spark = lab.spark
java = spark.sparkContext._jvm.java
print(java.lang.ProcessHandle.current().pid(), flush=True)
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load().selectExpr(
    "IF(value = 3, NULL, concat('O-', value)) AS order_id", "value AS amount",
    "timestamp AS order_ts", "'p' AS partition_date",
)
options = MOR | {
    "hoodie.table.name": "poisoned",
    "hoodie.datasource.write.streaming.retry.count": "1",
}
query = (
    rows.writeStream.format("hudi").options(**options)
    .option("checkpointLocation", lab.path("sink-hangs/checkpoint"))
    .start(lab.path("sink-hangs/poisoned"))
)
threads = java.lang.management.ManagementFactory.getThreadMXBean()

def in_reset():
    told = map(str, threads.dumpAllThreads(False, False))
    return [text for text in told if "HoodieStreamingSink" in text and "$reset" in text]

while len(in_reset()) < 2 and query.isActive:
    time.sleep(0.5)
time.sleep(5)
for text in in_reset():
    print("compaction" if "async_compact_thread" in text else "stream", flush=True)
print("active" if query.isActive else "ended", flush=True)
"""


def gone_without_children(java: psutil.Process) -> bool:
    """Kill the JVM's children; return True if the JVM has ended.

    The exit limit must work inside the JVM: a separate process would be killed with the kernel.
    """
    try:
        for child in java.children():
            child.kill()
        return not java.is_running()
    except psutil.NoSuchProcess:
        return True


def test_the_stream_and_its_compaction_wait_for_each_other_and_only_a_halt_ends_the_jvm(services):
    done = subprocess.run(
        [sys.executable, "-c", POISONED],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=allowed(180),
    )
    try:
        assert done.returncode == 0, done.stderr
        pid, *waiting, state = done.stdout.split()
        assert (sorted(waiting), state) == (["compaction", "stream"], "active")
        java = psutil.Process(int(pid))  # still there: Hudi's shutdown hook wants the same lock
        wait_until(partial(gone_without_children, java), EXIT_SECONDS + 5)
    finally:
        store.delete_prefix(services, "pytest/sink-hangs/")
