"""Measures freshness at fixed rates: the age of an event when a reader can first see it.

The interval ends when the commit that contains the event completes. The articles on which the
course is based end it at the commit's requested time, which is stored in each row; at that time no
reader can see the row yet.
"""

import time
from typing import Any

import pandas as pd

from lab_env.lab.handle import Lab
from lab_env.platform import store
from lab_env.platform.brokers.topics import ensure_topic
from lab_env.shop.model import Send
from lab_env.shop.producer import Sender
from lab_env.tables.hudi.timeline import is_instant, to_seconds
from lab_env.tables.probes.freshness import event_freshness
from lab_env.workbench.bench.config import Pace
from lab_env.workbench.bench.stream import UNIFORM, Scenario, record
from lab_env.workbench.bench.worker_client import WorkerClient
from lab_env.workbench.sampling import commit_of

TICK = 0.02  # seconds between bursts of sends
FIRST = 50  # events that create the table before the clock starts
PARTITIONS = 2  # of each topic of the benchmark


def events(pace: Pace, rate: int) -> list[Send]:
    """Return the events for a rate: new orders first, then events of which 20 % are updates."""
    changes = max(10, round(rate * pace.seconds))
    stream = record(Scenario(20, UNIFORM, FIRST, changes, 1))
    return stream.load + stream.changes


def sender_to(lab: Lab, topic: str) -> Sender:
    """Return a sender to a topic of the benchmark, which is created if missing."""
    ensure_topic(lab.endpoints.kafka_bootstrap, topic, partitions=PARTITIONS)
    return Sender(lab.endpoints.kafka_bootstrap, topic, lab.ledger(topic).directory)


class Follower:
    """A sink that creates its table from the first events and then follows a topic.

    Several sinks can be created in parallel: nothing is timed yet, and starting a stream into a new
    table is mostly waiting. While a sink waits for its turn, it polls the broker once per trigger.

    Args:
        worker: the sink's worker, after `begin`.
        topic: an empty topic, used by this sink only.
        trigger: seconds between the starts of two batches.
    """

    def __init__(
        self, lab: Lab, worker: WorkerClient, topic: str, sends: list[Send], trigger: float
    ):
        self._lab, self._worker, self._topic, self._sends = lab, worker, topic, sends[FIRST:]
        self._sender = sender_to(lab, topic)
        self._sender.send_all(sends[:FIRST])
        self._sender.flush()
        worker.call("follow", topic=topic, trigger=trigger)
        worker.call("settle")

    def send(self, rate: int) -> None:
        """Send the remaining events at `rate` events/s, and wait until they are committed."""
        send_paced(self._sender, self._sends, rate)
        self._sender.close()
        self._worker.call("settle")

    def stop(self) -> tuple[list[dict], dict]:
        """Stop writing; return the batches, and the `figures` of the events sent by `send`."""
        batches = self._worker.call("stop_following")["batches"]
        frame = self._lab.ledger(self._topic).frame()
        timed = {send.send_id for send in self._sends}
        sent = frame[(frame["state"] == "acked") & frame["send_id"].isin(timed)]
        listed = store.list_objects(self._worker.bucket.endpoints, "bench/")
        completions = dict(filter(None, map(commit_of, listed)))
        return batches, figures(sent, pd.DataFrame(batches), completions)


def figures(sent: pd.DataFrame, batches: pd.DataFrame, completions: dict[str, float]) -> dict:
    """Compute the figures of one run.

    Args:
        batches: the sink's batches, with `batch` and `end_offsets`.
        completions: completion time (s since 1970) of the sink's commits, by name.

    Returns:
        `measured`, the number of events that became visible; if it is 0, the other figures are
        None. `p50` and `p95` in seconds; `requested p50`, the median up to the commit's requested
        time (None for files, which have no requested time); `rows/s`, the rows that became visible
        per second between the first event and the last commit.
    """
    seconds = event_freshness(sent, batches, completions).dropna()
    found: dict[str, Any] = {"measured": len(seconds)}
    found |= dict.fromkeys(("p50", "p95", "requested p50", "rows/s"))
    if seconds.empty:
        return found
    last_visible = max(completions.values())
    found |= {
        "p50": float(seconds.quantile(0.5)),
        "p95": float(seconds.quantile(0.95)),
        "rows/s": float(len(seconds) / (last_visible - sent["sent_at"].min() / 1e6)),
    }
    if all(map(is_instant, completions)):  # of a table, not batch numbers of a file sink
        requested = {name: to_seconds(name) for name in completions}
        found["requested p50"] = float(event_freshness(sent, batches, requested).quantile(0.5))
    return found


def send_paced(sender: Sender, sends: list[Send], rate: int) -> None:
    """Send at `rate` events/s."""
    began, done = time.monotonic(), 0
    while done < len(sends):
        due = min(len(sends), int((time.monotonic() - began) * rate) + 1)
        sender.send_all(sends[done:due])
        sender.poll()
        done = due
        time.sleep(TICK)
