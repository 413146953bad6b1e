"""What the ladder knows of an exercise: how its function is called, and what its output must show.

A lesson's module `ladder` has a dictionary `TARGETS` of these by exercise, for example
`lab_env.lessons.l04.ladder`.
"""

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from lab_env.course.answers import Unreadable, kind_of
from lab_env.lab.ladder.stage import Stage, Task
from lab_env.platform import store
from lab_env.shop.ledger import reconcile

if TYPE_CHECKING:  # the attacking process has no Spark
    from pyspark.sql import DataFrame, SparkSession

WORDS = {
    "missing": "{} missing from the output",
    "duplicate": "{} in the output more than once",
    "stale": "{} in the output with an older event",
    "altered": "{} in the output with another time",
    "different": "{} in the output with another value",
    "ghost": "{} in the output although erased",
    "unexpected": "{} in the output but must be absent",
}


# A table that a target feeds has no partitions and no filters: a commit takes half the time.
FEWER_STEPS = {
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.index.type": "SIMPLE",
    "hoodie.simple.index.parallelism": "1",
}
ENDS_WITHIN_S = 1  # a stream that ends by itself when it has read everything
# The orders of a delivery's first commit and those of its second, where it has two.
HALVES = "crc32(order_id) % 2 = 0", "crc32(order_id) % 2 = 1"


@dataclass(frozen=True)
class Verdict:
    """The ledger's verdict on an output: in words, and the keys that are wrong."""

    text: str = ""
    wrong: tuple[str, ...] = ()


class Target:
    """An exercise under attack.

    `feed`, `call` and `look` run in the process of the learner's function, the others in that of
    the attack. Both have the same events: a key is what the promise is about (an order, a message,
    a minute), an event is what the output shows for it.
    """

    promise = ""
    noun = "order"  # what a key is
    # Where a rung kills the process: class of request, action of the gate, and a pattern for
    # the key below the attack's folder.
    write: tuple[str, str, str] = ("data", "hold_after", "")
    receipt: tuple[str, str, str] = ("commits", "hold_before", "_checkpoints/")
    compaction = ""  # beginning of the key of a table that is compacted
    feeds = False  # whether `feed` prepares the function's input
    given: tuple[str, ...] = ()  # notebook variables that `variables` sets
    writers = 1  # processes that call the function
    begins = 1  # the first delivery after which it is called; the lab handles those before
    services: tuple[str, ...] = ()  # that must be running, besides the store and Kafka

    def variables(self, spark: "SparkSession", task: Task) -> Mapping[str, Any]:
        """Return values for the notebook's variables `given`, which only the attack knows."""
        return {}

    def feed(self, spark: "SparkSession", task: Task) -> None:
        """Prepare the function's input from the delivery."""

    def call(self, function: Callable, spark: "SparkSession", task: Task) -> None:
        """Call the function as the lesson does, and wait until it has ended."""
        raise NotImplementedError

    def look(self, spark: "SparkSession", task: Task) -> pd.DataFrame:
        """Read the output with Spark; `rows` may call this through the stage."""
        raise NotImplementedError

    def rows(self, stage: Stage) -> pd.DataFrame:
        """Return the output, with columns `key` and `event`; no rows if there is none yet."""
        raise NotImplementedError

    def keyed(self, sends: pd.DataFrame) -> pd.DataFrame:
        """Return the ledger's sends with columns `key` and `event`; leave out what has no key.

        A column `about` has what a history tells of an event besides its status and time.
        """
        raise NotImplementedError

    def right(self, own: pd.DataFrame) -> list[str]:
        """Return the events that the output must show for a key with these sends."""
        raise NotImplementedError

    def judge(self, sends: pd.DataFrame, rows: pd.DataFrame) -> Verdict:
        """Compare the output with the ledger's keyed sends."""
        right = {str(key): self.right(own) for key, own in sends.groupby("key", sort=False)}
        rows = rows.assign(key=rows["key"].astype(str), event=rows["event"].astype(str))
        shown = {key: sorted(own["event"]) for key, own in rows.groupby("key", sort=False)}
        found: dict[str, list[str]] = {}
        for key in dict.fromkeys([*right, *shown]):
            if kind := _difference(sorted(right.get(key, [])), shown.get(key, [])):
                found.setdefault(kind, []).append(key)
        wrong = tuple(key for keys in found.values() for key in keys)
        kinds = {kind: (len(keys), keys[0]) for kind, keys in found.items()}
        return Verdict(in_words(kinds, self.noun), wrong)


def _difference(right: list[str], shown: list[str]) -> str:
    if right == shown:
        return ""
    if not right:
        return "unexpected"
    if not shown:
        return "missing"
    return "duplicate" if len(shown) > len(right) else "different"


class NewestOfEachOrder(Target):
    """A table with one row per order, the newest event; read without Spark."""

    promise = "Each order has one row, its newest event, and an erased order has none."
    table = ""  # its path below the attack's folder

    def rows(self, stage: Stage) -> pd.DataFrame:
        rows = stage.hudi_rows(self.table)
        return rows.assign(key=rows["order_id"], event=rows["event_id"])

    def keyed(self, sends: pd.DataFrame) -> pd.DataFrame:
        return sends.assign(key=sends["order_id"], event=sends["event_id"])

    def right(self, own: pd.DataFrame) -> list[str]:
        valid = own[~own["kind"].str.startswith("malformed")]
        if valid.empty:
            return []
        newest = valid.loc[valid["order_ts"].idxmax()]
        return [] if newest["op"] == "erase" else [newest["event_id"]]

    def judge(self, sends: pd.DataFrame, rows: pd.DataFrame) -> Verdict:
        found = reconcile.table(sends, rows, "your table")
        if found.ok:
            return Verdict()
        kinds = {
            name: (getattr(found, name), keys[0]) for name, keys in found.examples.items() if keys
        }
        wrong = dict.fromkeys(key for keys in found.examples.values() for key in keys)
        return Verdict(in_words(kinds, self.noun), tuple(wrong))


class EachMessageOnce(Target):
    """An output with one row per message of the topic, malformed ones and resends too."""

    noun = "message"
    promise = "Each message is in the output exactly once, resends and malformed ones too."

    def keyed(self, sends: pd.DataFrame) -> pd.DataFrame:
        place = reconcile.place_of(sends)
        return sends.assign(key=place, event=place)

    def right(self, own: pd.DataFrame) -> list[str]:
        return own["event"].tolist()


def in_words(found: Mapping[str, tuple[int, str]], noun: str) -> str:
    """Say what is wrong, from the number of keys of each kind and one of them."""
    parts = []
    for kind, words in WORDS.items():
        if kind in found:
            number, example = found[kind]
            keys = f"1 {noun} is" if number == 1 else f"{number} {noun}s are"
            one = example if number == 1 else f"for example {example}"
            parts.append(f"{words.format(keys)} ({one})")
    return "; ".join(parts) + "." if parts else ""


def target_of(exercise_id: str) -> Target:
    """Return an exercise's target, from its lesson."""
    module = importlib.import_module(f"lab_env.lessons.l{exercise_id[:2]}.ladder")
    return module.TARGETS[exercise_id]


def look_below(stage: Stage, folder: str, columns: Sequence[str]) -> pd.DataFrame:
    """Read the output with Spark, which cannot read a folder that does not exist."""
    if not any(store.list_objects(stage.endpoints, f"{stage.folder}/{folder}/")):
        return pd.DataFrame(columns=list(columns))
    return stage.look()


def topic_at_rest(spark: "SparkSession", task: Task, since: str = "earliest") -> "DataFrame":
    """Read the topic's records from some offsets on, given as Spark's `startingOffsets`."""
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", task.bootstrap)
        .option("subscribe", task.topic)
        .option("startingOffsets", since)
        .load()
    )


def delivered(spark: "SparkSession", task: Task) -> "DataFrame":
    """Read a delivery's valid events, at rest; erasures are marked as deletes for Hudi."""
    from lab_env.pipeline import parsing

    since = json.dumps({task.topic: task.since}) if task.since else "earliest"
    records = topic_at_rest(spark, task, since)
    return parsing.with_deletes(parsing.valid_events(parsing.parse(records)))


def check_ended(spark: "SparkSession") -> None:
    """Raise Unreadable if a stream is still running after the function has returned."""
    if running := spark.streams.active:
        for query in running:
            query.stop()
        raise Unreadable(
            "Your function returned while its stream was still running. Wait for its end with "
            "`awaitTermination()`."
        )


def ends_by_itself(query: Any) -> bool:
    """Let a query read everything; return True if it then ends without being stopped."""
    query.processAllAvailable()
    return query.awaitTermination(ENDS_WITHIN_S)


def part_files(folder: str) -> tuple[str, str, str]:
    """Return where to kill a writer of files: when one has its final name, see `Target.write`."""
    return "other", "hold_after", f"{folder}/(?!.*_temporary).*part-"


def check_query(answer: Any) -> Any:
    """Return the query that a function has started, or raise Unreadable."""
    from pyspark.sql.streaming import StreamingQuery

    if not isinstance(answer, StreamingQuery):
        raise Unreadable(f"The function returned {kind_of(answer)}, not the query that it started.")
    return answer
