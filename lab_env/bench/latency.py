"""Freshness: how old an event is when a reader can first see it, at fixed rates of sending.

It ends at the completion of the commit that holds the event. The source articles end it at the commit's
requested time, which stands in each row: a moment at which nobody can read the row yet.
"""

import time
from dataclasses import dataclass

import pandas as pd

from lab_env import store
from lab_env.bench.stream import UNIFORM, Scenario, record
from lab_env.hudi.timeline import is_instant, to_seconds
from lab_env.lab import Lab
from lab_env.probes.freshness import event_freshness
from lab_env.probes.sampling import commit_of
from lab_env.shop.model import Send
from lab_env.shop.producer import Sender
from lab_env.shop.topics import ensure_topic

TICK = 0.02  # seconds between bursts of sends
FIRST = 50  # events that make the table before the clock runs


@dataclass(frozen=True)
class Pace:
    """How freshness is measured; without rates it is not.

    Args:
        rates: events a second.
        seconds: of sending at each.
        trigger: seconds between the starts of two batches.
        rounds: how often.
    """

    rates: tuple[int, ...] = ()
    seconds: float = 0
    trigger: float = 1
    rounds: int = 0


def events(pace: Pace, rate: int) -> list[Send]:
    """What is sent at a rate: the first orders, and then one update in five events."""
    changes = max(10, round(rate * pace.seconds))
    stream = record(Scenario(20, UNIFORM, FIRST, changes, 1))
    return stream.load + stream.changes


class Follower:
    """One sink that follows a topic and has made its table of the first events.

    Several may be made at once: no clock runs yet, and starting a stream into a new table is mostly
    waiting. Those that wait for their turn ask the broker once a trigger for events, and get none.

    Args:
        lab: whose broker.
        agent: the sink's `WorkerClient`, begun in a folder of its own.
        topic: an empty topic of its own.
        sends: what to send.
        trigger: seconds between the starts of two batches.
    """

    def __init__(self, lab: Lab, agent, topic: str, sends: list[Send], trigger: float):
        self._lab, self._agent, self._topic, self._sends = lab, agent, topic, sends
        ensure_topic(lab.endpoints.kafka_bootstrap, topic, partitions=2)
        self._sender = Sender(lab.endpoints.kafka_bootstrap, topic, lab.ledger(topic).directory)
        self._sender.send_all(sends[:FIRST])
        self._sender.flush()
        agent.do("follow", topic=topic, trigger=trigger)
        agent.do("settle")

    def measure(self, rate: int) -> dict:
        """Freshness while the other events are sent.

        Args:
            rate: events a second.

        Returns:
            Seconds `p50` and `p95`; `requested p50`, the same by requested times (None for files, which
            have none); `rows/s` that became visible from the first event sent to the last commit.
        """
        _send_paced(self._sender, self._sends[FIRST:], rate)
        self._sender.close()
        batches = pd.DataFrame(self._agent.do("halt")["batches"])
        frame = self._lab.ledger(self._topic).frame()
        timed = {send.send_id for send in self._sends[FIRST:]}
        sent = frame[(frame["state"] == "acked") & frame["send_id"].isin(timed)]
        listed = store.list_objects(self._agent.bucket.endpoints, "bench/")
        return figures(sent, batches, dict(filter(None, map(commit_of, listed))))


def figures(sent: pd.DataFrame, batches: pd.DataFrame, completions: dict[str, float]) -> dict:
    """The figures of one run.

    Args:
        sent: the ledger's acknowledged sends.
        batches: one sink's batches: batch, end_offsets.
        completions: the sink's commits, name to completion time (s since 1970).

    Returns:
        As `Follower.measure`, and `measured`, the number of events.
    """
    seconds = event_freshness(sent, batches, completions).dropna()
    found = {
        "measured": len(seconds),
        "p50": None,
        "p95": None,
        "requested p50": None,
        "rows/s": None,
    }
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


def _send_paced(sender: Sender, sends: list[Send], rate: int) -> None:
    began, done = time.monotonic(), 0
    while done < len(sends):
        due = min(len(sends), int((time.monotonic() - began) * rate) + 1)
        sender.send_all(sends[done:due])
        sender.poll()
        done = due
        time.sleep(TICK)
