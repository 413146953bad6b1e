"""A recreated topic is refused; even with new partitions no erase overtakes its create."""

import json
import math
from random import Random
from types import SimpleNamespace
from unittest.mock import Mock
from zlib import crc32

import pytest
from py4j.protocol import Py4JJavaError

from lab_env.pipeline import topic
from lab_env.pipeline.guard import Refused
from lab_env.pipeline.topic import SETTLE_SECONDS, StartAgain, TopicWatch

PATH = "s3a://lakehouse/x/_checkpoints/cow"
LIMIT = 10
METADATA_AGE = 300  # after so many seconds a producer knows of new partitions


class Files:
    """Stand-in for `lab_env.pipeline.hadoop`, with files in memory."""

    def __init__(self):
        self.texts: dict[str, str] = {}

    def exists(self, spark, path):
        return path in self.texts

    def read(self, spark, path):
        return self.texts[path]

    def write(self, spark, path, text):
        self.texts[path] = text

    def newest(self, spark, folder):
        names = [path.rpartition("/") for path in self.texts]
        return max((int(name) for place, _, name in names if place == folder), default=-1)


class World:
    """A simulated topic with the broker's clock, and a table that a stream upserts into."""

    name = "orders"

    def __init__(self, partitions: int):
        self.now, self.id, self.looks = 1e9, "id-1", 0
        self.partitions: list[list[tuple[float, int, str, str]]] = [[] for _ in range(partitions)]
        self.read: dict[int, int] = {}
        self.begins: list[dict[int, int]] = [{}]  # each leader epoch's first offsets
        self.batches = 0
        self.rows: dict[str, int] = {}

    def describe(self):
        return self.id, len(self.partitions)

    def ends(self, partitions):
        return {number: len(self.partitions[number]) for number in range(partitions)}

    def epochs(self, partitions):
        return {n: (len(self.begins) - 1, end) for n, end in self.ends(partitions).items()}

    def epochs_before(self, offsets):
        last = {n: min(at, len(self.partitions[n])) - 1 for n, at in offsets.items()}
        return {
            n: max(e for e, begin in enumerate(self.begins) if begin.get(n, 0) <= at)
            for n, at in last.items()
            if at >= 0
        }

    def restart(self, lost: int) -> None:
        """Start the broker again; each partition has lost so many of its newest messages."""
        for messages in self.partitions:
            del messages[max(0, len(messages) - lost) :]
        self.begins.append(self.ends(len(self.partitions)))

    def first_since(self, partitions, milliseconds):
        found = {}
        for number, messages in enumerate(self.partitions[:partitions]):
            times = [round(message[0] * 1000) for message in messages]
            if at := [n for n, time in enumerate(times) if time >= milliseconds]:
                found[number] = (at[0], times[at[0]])
        return found

    def send(self, op: str, order: str, version: int, partitions: int) -> None:
        """Send an event as a producer that knows only this many partitions."""
        number = crc32(order.encode()) % partitions
        self.partitions[number].append((self.now, version, op, order))
        self.now += 0.01

    def batch(self, files: Files, options: dict[str, str]) -> None:
        """Run one batch: upsert the events into the table, and write Spark's checkpoint files."""
        wanted = (
            json.loads(options["assign"])[self.name] if options else range(len(self.partitions))
        )
        limit = int(options.get("maxOffsetsPerTrigger", 10**9))
        waiting = {n: len(self.partitions[n]) - self.read.get(n, 0) for n in wanted}
        share = min(1.0, limit / max(1, sum(waiting.values())))
        newest: dict[str, tuple[int, str]] = {}
        for number, size in waiting.items():
            begin = self.read.get(number, 0)
            self.read[number] = begin + min(size, math.ceil(size * share))
            for _, version, op, order in self.partitions[number][begin : self.read[number]]:
                newest[order] = max(newest.get(order, (0, "")), (version, op))
        for order, (version, op) in newest.items():
            if version >= self.rows.get(order, 0):
                self.rows.pop(order, None)
                if op != "erase":
                    self.rows[order] = version
        offsets = json.dumps({self.name: {str(n): at for n, at in self.read.items()}})
        files.texts[f"{PATH}/offsets/{self.batches}"] = f"v1\n{{}}\n{offsets}"
        files.texts[f"{PATH}/commits/{self.batches}"] = "v1\n{}"
        self.batches += 1


@pytest.fixture
def files(monkeypatch) -> Files:
    made = Files()
    for name in ("exists", "read", "write", "newest"):
        monkeypatch.setattr(topic.hadoop, name, getattr(made, name))
    return made


def watch_of(world: World, monkeypatch, limit: int = LIMIT) -> TopicWatch:
    monkeypatch.setattr(topic.time, "time", lambda: world.now)
    return TopicWatch(None, world, [PATH], limit)


def looked(watch: TopicWatch) -> Exception | None:
    """Check the topic once, as the thread does; return the reason to stop, if there is one."""
    try:
        watch._look()
    except (Refused, StartAgain) as reason:
        return reason
    return None


def orders_that_came_back(seed: int, files: Files, monkeypatch, mended: bool) -> set[str]:
    """Add partitions during a backlog; return the erased orders that are back in the table."""
    rng = Random(seed)
    world = World(rng.randint(1, 4))
    known_by = {"creates": len(world.partitions), "erases": len(world.partitions)}
    changed, orders, fresh = world.now, [], rng.random() < 0.5
    first_batch = rng.randint(100, 200) if fresh else 0
    watch = None if fresh else watch_of(world, monkeypatch)
    for step in range(300):
        world.now += rng.choice([0, 0, 1, 60])
        if rng.random() < 0.02 and len(world.partitions) < 8:
            world.partitions.append([])
            changed = world.now
            # The erases come from a program that has just started.
            known_by["erases"] = len(world.partitions)
            if fresh and step < first_batch:
                known_by["creates"] = len(world.partitions)
        if world.now > changed + METADATA_AGE:
            known_by["creates"] = len(world.partitions)
        if rng.random() < 0.8:
            hot = "hot" if rng.random() < 0.5 else f"O-{seed}-{len(orders)}"
            world.send("create", hot, 1, known_by["creates"])
            orders += [] if hot == "hot" else [hot]
        if orders and rng.random() < 0.5:
            world.send("erase", rng.choice(orders[-20:]), 2, known_by["erases"])
        if step < first_batch:
            continue
        # Every few seconds a look, and now and then the writer is stopped and started.
        if watch is None or looked(watch) or rng.random() < 0.02:
            watch = watch_of(world, monkeypatch)
        if world.batches == 0 or rng.random() < 0.1:
            limited = {"assign": json.dumps({"orders": [*range(len(world.partitions))]})}
            limited["maxOffsetsPerTrigger"] = str(LIMIT)
            world.batch(files, watch.options if mended else limited)
    erased = {order for p in world.partitions for _, _, op, order in p if op == "erase"}
    world.batch(files, {})
    return erased & world.rows.keys()


def test_no_erased_order_comes_back_when_partitions_are_added_to_a_backlog(monkeypatch, files):
    for seed in range(300):
        files.texts.clear()
        assert orders_that_came_back(seed, files, monkeypatch, mended=True) == set(), seed
    came_back = 0
    for seed in range(20):
        files.texts.clear()
        came_back += len(orders_that_came_back(seed, files, monkeypatch, mended=False))
    assert came_back > 20  # the trial can fail


def test_the_limit_holds_until_partitions_are_added_and_again_when_all_is_read(monkeypatch, files):
    world = World(3)
    watch = watch_of(world, monkeypatch)
    assert watch.options["maxOffsetsPerTrigger"] == str(LIMIT) and not watch.says
    world.batch(files, watch.options)
    world.partitions.append([])
    assert isinstance(looked(watch), StartAgain)
    watch = watch_of(world, monkeypatch)
    assert watch.options == {} and "Partitions were added" in watch.says
    world.now += SETTLE_SECONDS + 1
    world.send("create", "O-1", 1, 4)
    assert looked(watch) is None  # O-1 is not in the table yet
    world.batch(files, watch.options)
    assert isinstance(looked(watch), StartAgain)
    assert watch_of(world, monkeypatch).options["assign"] == json.dumps({"orders": [0, 1, 2, 3]})


class Trimmed(World):
    """A topic whose oldest messages have expired, a different number in each partition."""

    def first_since(self, partitions, milliseconds):
        found = super().first_since(partitions, milliseconds)
        return {n: (max(at, 20 * (n + 1)), time + 3_600_000 * n) for n, (at, time) in found.items()}


@pytest.mark.parametrize(("kind", "limited"), [(World, False), (Trimmed, True)])
def test_only_a_partition_that_is_whole_may_have_been_added(monkeypatch, files, kind, limited):
    world = kind(2)
    for number in range(2):
        world.partitions[number] = [(world.now + number * 3600 + n, 1, "", "") for n in range(100)]
    assert bool(watch_of(world, monkeypatch).options) == limited


def test_whatever_ends_the_watch_ends_the_queries(monkeypatch, files):
    watch = watch_of(World(2), monkeypatch)
    monkeypatch.setattr(watch, "_look", lambda: [][0])
    watch.run()
    assert isinstance(watch.error, IndexError)


def test_a_writer_without_a_limit_settles_by_itself_and_when_it_ends(monkeypatch, files):
    world = World(2)
    watch = watch_of(world, monkeypatch, limit=0)
    world.batch(files, watch.options)
    world.partitions.append([])
    world.send("create", "O-1", 1, 3)
    assert looked(watch) is None
    world.now += SETTLE_SECONDS + 1
    assert looked(watch) is None
    assert watch.options == {} and watch_of(world, monkeypatch).options == {}
    world.batch(files, {})
    watch._stopped.set()
    watch.start()
    watch.stop()
    assert watch_of(world, monkeypatch).options


def test_another_topic_of_the_same_name_is_refused_at_the_start_and_while_it_runs(
    monkeypatch, files
):
    world = World(2)
    watch = watch_of(world, monkeypatch)
    world.batch(files, watch.options)
    world.id = "id-2"
    with pytest.raises(Refused) as at_start:
        watch_of(world, monkeypatch)
    with pytest.raises(Refused) as after_a_failure:
        watch.check_id()
    for refused in (looked(watch), at_start.value, after_a_failure.value):
        assert "deleted and recreated" in refused.what and "id-1" in refused.what
        assert "LAB_REPLAY_STREAM=true" in refused.next_step
        assert "An erased order then comes back" in refused.next_step
    world.id = ""  # a broker that gives no ids
    assert watch_of(world, monkeypatch).options


def refusal(seed: int, files: Files, monkeypatch) -> tuple[bool, bool]:
    """Restart a broker while a stream runs or is down; was it refused, and has it lost a message?

    The stream has read what was lost, and new messages have the same offsets.
    """
    rng, world = Random(seed), World(2)
    watch: TopicWatch | None = watch_of(world, monkeypatch)
    for step in range(40):
        for number in range(rng.randint(0, 30)):
            world.send("create", f"O-{step}-{number}", 1, 2)
        if rng.random() < 0.1:
            watch = None  # the writer ends
        if rng.random() < 0.1:
            world.restart(rng.choice([0, 0, 5, 40]))
            if lost := any(len(world.partitions[n]) < at for n, at in world.read.items()):
                for number in range(200):
                    world.send("create", f"O-{step}-late-{number}", 1, 2)
        else:
            lost = False
        if rng.random() < 0.5 or lost:
            try:
                if watch is None:
                    watch = watch_of(world, monkeypatch)
                watch._look()
            except Refused as refused:
                assert "has lost its newest messages" in refused.what
                assert "delete all of s3a://lakehouse/x/_checkpoints" in refused.next_step
                return True, lost
            if lost:
                return False, True
            world.batch(files, watch.options)
    return False, False


def test_a_topic_that_lost_messages_which_a_stream_has_read_is_refused_and_no_other(
    monkeypatch, files
):
    found = []
    for seed in range(300):
        files.texts.clear()
        found.append(refusal(seed, files, monkeypatch))
    assert all(refused == lost for refused, lost in found), [
        n for n, (refused, lost) in enumerate(found) if refused != lost
    ]
    assert found.count((True, True)) > 50 < found.count((False, False))


def test_a_topic_that_does_not_exist_is_refused_with_kafkas_reason(monkeypatch, files):
    reason = SimpleNamespace(getMessage=lambda: "This server does not host it.")
    raised = SimpleNamespace(getCause=lambda: reason, _target_id="o1", _gateway_client=None)
    world = World(1)
    world.describe = Mock(side_effect=Py4JJavaError("", raised))
    with pytest.raises(Refused, match="not know the topic orders: This server does not host it"):
        watch_of(world, monkeypatch)


def test_a_checkpoint_from_before_adopts_the_topic_with_the_partitions_it_has_read(
    monkeypatch, files
):
    world = World(2)
    world.batch(files, {})
    watch_of(world, monkeypatch)
    assert json.loads(files.texts[f"{PATH}/topic.json"])["id"] == "id-1"
    del files.texts[f"{PATH}/topic.json"]
    world.partitions.append([])
    assert watch_of(world, monkeypatch).options == {}
    world.id = "id-2"
    with pytest.raises(Refused):
        watch_of(world, monkeypatch)
