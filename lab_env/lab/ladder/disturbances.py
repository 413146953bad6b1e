"""What a rung does to the learner's function while it runs.

Each function here calls it on one delivery, by means of the stage of the rung.
"""

import time
from collections.abc import Callable

from lab_env.lab.faults.gate import Rule
from lab_env.lab.faults.outages import paused
from lab_env.lab.ladder.stage import Stage
from lab_env.platform.brokers.topics import add_partitions

Disturbance = Callable[[Stage], None]

AWAY_S = 5.0
POLL_S = 0.1
LATE_S, ERRORS = 3.0, 3
COMPACTED = 3  # request of a compaction that completes it, after its plan and its start
PARTITIONS = 5  # the lab's topics have three


def kill_in_mid_write(stage: Stage) -> None:
    """Kill the process while it writes a file of its output; then call again."""
    stage.kill_at(stage.points.write, "wrote no file of its output")
    stage.call()


def kill_before_receipt(stage: Stage) -> None:
    """Kill the process when it is about to note that a batch is done; then call again."""
    stage.kill_at(
        stage.points.receipt, "recorded no finished batch in the checkpoint that it was given"
    )
    stage.call()


def kill_after_commit(stage: Stage) -> None:
    """Kill the process when its commit is in the store; then call again."""
    stage.kill_at(stage.points.receipt, "committed nothing")
    stage.call()


def kill_in_compaction(stage: Stage) -> None:
    """Kill the process when a compaction has written its files, but is not complete."""
    point = "compaction", "hold_before", stage.points.compaction
    stage.kill_at(point, "compacted nothing", COMPACTED)
    stage.call()


def overlap_writes(stage: Stage) -> None:
    """Hold the first job between its data and its commit, while the second job writes."""
    stage.hold_first("data", "hold_after")


def overlap_commits(stage: Stage) -> None:
    """Hold the first job's commit on its way to the store, while the second job writes."""
    stage.hold_first("instant", "hold_before")


def store_in_trouble(stage: Stage) -> None:
    """Answer a write late, three with 503, and lose the answer to one."""
    part = stage.folder
    with stage.ruled(
        Rule("any", "hold_after", k=2, part=part, seconds=LATE_S),
        Rule("any", "error", k=3, part=part, times=ERRORS),
        Rule("any", "lost", k=4 + ERRORS, part=part),
    ):
        stage.call()


def broker_away(stage: Stage) -> None:
    """Freeze the broker for five seconds during the call."""
    stage.begin()
    with paused("kafka"):
        time.sleep(AWAY_S)
    stage.finish()


def more_partitions(stage: Stage) -> None:
    """Give the topic two more partitions."""
    add_partitions(stage.task.bootstrap, stage.task.topic, PARTITIONS)
