"""Live load: ledger and topic agree on every message, even if load or broker fails."""

import subprocess
import sys
import urllib.request
from collections import Counter
from itertools import islice

import psutil
import pytest
from confluent_kafka import Producer
from own_lab import listening, wait_until

from lab_env.lab.faults.freeze import kill
from lab_env.lab.faults.outages import kill_service, paused
from lab_env.platform.brokers.topics import delete_topic, read_topic, topic_end_offsets
from lab_env.platform.errors import LabError
from lab_env.platform.processes.tree import process_tree, wait_until_ended
from lab_env.platform.settings import settings
from lab_env.shop.events import MALFORMED_KINDS
from lab_env.shop.ledger.book import Ledger
from lab_env.shop.load import Load
from lab_env.shop.model import generate
from lab_env.shop.record import recorded_sends
from lab_env.shop.replay import replay

pytestmark = pytest.mark.services


@pytest.fixture
def place(services, tmp_path, request):
    """A load's target: the broker, a new topic, an empty ledger."""
    topic = f"test.{request.node.name}".replace("[", ".").rstrip("]")
    yield {
        "bootstrap": services.kafka_bootstrap,
        "topic": topic,
        "ledger_dir": tmp_path / "ledger",
    }
    delete_topic(services.kafka_bootstrap, topic)


@pytest.fixture
def short_timeout(monkeypatch):
    """Set the send timeout to 3 s."""
    monkeypatch.setenv("LAB_SEND_TIMEOUT_SECONDS", "3")
    settings.cache_clear()
    yield 3
    monkeypatch.undo()
    settings.cache_clear()


def load_of(place, seconds=4, rate=500, **options):
    return Load(**place, seconds=seconds, rate=rate, show=False, **options)


def settle(place):
    return Ledger(place["ledger_dir"]).settle(place["bootstrap"], place["topic"])


def settle_all(place) -> int:
    """Settle until no send is pending; return the number of sends whose outcome was unknown."""
    decided = []

    def all_of_them() -> bool:
        settled = settle(place)
        decided.append(settled.found + settled.failed)
        return settled.waiting == 0

    wait_until(all_of_them, every=0.5)
    return sum(decided)


def messages_in(place):
    return sum(topic_end_offsets(place["bootstrap"], place["topic"]).values())


def wait_for_acks(load, more):
    """Wait until the broker has acknowledged `more` further sends."""
    enough = load.acked + more
    wait_until(lambda: load.acked >= enough)


def wait_for_silence(load):
    """Wait until the load has reported the same number of acknowledgements for two seconds."""
    first = len(load.stats) + 2  # two rows a second; the next may still have some on their way
    wait_until(lambda: len(load.stats) >= first + 5, 30)
    assert load.stats["acked"].iloc[first:].nunique() == 1


def assert_ledger_equals_topic(place, acked):
    settled = settle(place)
    assert settled.ok, str(settled)
    frame = Ledger(place["ledger_dir"]).frame()
    assert (frame["state"] == "acked").sum() == settled.messages == messages_in(place) >= acked > 0


def test_a_headless_load_is_no_faster_than_its_rate_and_its_ledger_equals_the_topic(place):
    load = load_of(place).run()
    assert load.failures == 0
    assert load.acked == messages_in(place)
    assert settle(place).found == 0  # nothing was left to find out
    # A busy machine may stretch the four seconds; in the real ones there are no more events.
    sent_at = Ledger(place["ledger_dir"]).frame()["sent_at"]
    assert load.acked < 1.1 * 500 * (sent_at.max() - sent_at.min()) / 1e6
    assert_ledger_equals_topic(place, load.acked)
    stats = load.stats
    assert 0 < stats["p50_ms"].iloc[-1] <= stats["p95_ms"].iloc[-1]
    assert not psutil.pid_exists(load.pid)


def test_two_processes_share_the_rate_and_no_order_and_each_order_keeps_its_place(place):
    load = load_of(place, rate=1000, processes=2).run()
    assert_ledger_equals_topic(place, load.acked)
    frame = Ledger(place["ledger_dir"]).frame()
    # Without sharing they would send twice as many; a busy machine may send fewer.
    seconds = (frame["sent_at"].max() - frame["sent_at"].min()) / 1e6
    assert load.acked < 1.3 * 1000 * seconds
    workers = Counter(order_id.split("-")[1] for order_id in frame["order_id"])
    assert len(workers) == 2 and min(workers.values()) > workers.total() / 3
    # All events of an order lie in one partition, in their order of sending.
    in_time = frame[frame["kind"] == "event"]
    assert (in_time.groupby("order_id")["partition"].nunique() == 1).all()
    by_offset = in_time.sort_values(["order_id", "offset"])
    assert (by_offset.groupby("order_id")["order_ts"].diff().dropna() > 0).all()


def test_the_web_ui_answers_on_this_machine_only(place):
    with load_of(place, seconds=None, web_port=settings().locust_port) as load:
        with urllib.request.urlopen(f"{load.url}/stats/requests", timeout=5) as answer:
            assert b"KAFKA" in answer.read()
        assert listening([psutil.Process(load.pid)]) == {"127.0.0.1"}
    assert_ledger_equals_topic(place, load.acked)


def test_a_paused_broker_delays_the_load_and_loses_nothing(place):
    with load_of(place, seconds=None) as load:
        wait_for_acks(load, 500)
        with paused("kafka"):
            wait_for_silence(load)
        wait_for_acks(load, 500)
    assert load.failures == 0
    assert Ledger(place["ledger_dir"]).frame()["state"].eq("acked").all()
    assert_ledger_equals_topic(place, load.acked)


def test_a_killed_broker_loses_nothing_that_it_acknowledged(place):
    with load_of(place, seconds=None) as load:
        wait_for_acks(load, 500)
        kill_service("kafka")
        wait_for_acks(load, 500)
    assert_ledger_equals_topic(place, load.acked)


def test_sends_that_timed_out_are_unknown_until_the_topic_tells(place, short_timeout):
    with load_of(place, seconds=None) as load:
        wait_for_acks(load, 500)
        with paused("kafka"):
            wait_until(lambda: load.failures > 500)
    states = Ledger(place["ledger_dir"]).frame()["state"].value_counts()
    assert load.failures == states["unknown"] > 500
    assert settle_all(place) == states["unknown"]
    assert_ledger_equals_topic(place, load.acked)


def test_the_topic_settles_what_a_killed_load_generator_left_open(place, short_timeout):
    load = load_of(place, seconds=None, rate=None).start()
    wait_for_acks(load, 1000)
    kill(load.pid)
    with pytest.raises(LabError, match="ended early"):
        load.wait()
    unknown = (Ledger(place["ledger_dir"]).frame()["state"] == "unknown").sum()
    assert settle_all(place) == unknown > 0
    assert_ledger_equals_topic(place, 1)


def test_a_load_whose_worker_dies_does_not_end_well(place):
    load = load_of(place, seconds=8, processes=2).start()
    kill(process_tree(load.pid)[1].pid)
    with pytest.raises(LabError, match="1 of 2 worker processes died"):
        load.wait()


def test_a_load_ends_with_the_program_that_started_it(place):
    program = (
        "from lab_env.shop.load import Load\n"
        f"load = Load({place['bootstrap']!r}, {place['topic']!r}, {str(place['ledger_dir'])!r},"
        " show=False).start()\n"
        "print(load.pid, flush=True)\n"
        "load.wait()\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    pid = int(starter.stdout.readline())
    starter.kill()
    starter.wait()
    assert wait_until_ended(process_tree(pid), 15) == []
    assert_ledger_equals_topic(place, 1)


@pytest.mark.parametrize(
    ("other_work", "said"), [("run-time = 1s", "after . of 30 s"), ("tags = nothing", "died|sent")]
)
def test_a_load_that_ends_early_or_sends_nothing_is_an_error(place, other_work, said):
    load = Load(**place, seconds=30, show=False)
    load.ledger_dir.mkdir()
    (load.ledger_dir / "locust.conf").write_text(other_work)
    with pytest.raises(LabError, match=said):
        load.run()


def test_a_broker_that_is_not_there_is_one_clear_sentence(tmp_path):
    with pytest.raises(LabError, match=r"Kafka at 127\.0\.0\.1:1 does not answer") as error:
        Load("127.0.0.1:1", "orders", tmp_path, seconds=1).run()
    assert "lab up" in error.value.next_step


def test_the_replay_sends_the_same_messages_every_time(place):
    replay(**place, n=3_000)
    sent = list(islice(recorded_sends(), 3_000))
    messages = {
        dict(m.headers())["send-id"].decode(): m
        for m in read_topic(place["bootstrap"], place["topic"])
    }
    assert {name: message.value() or b"" for name, message in messages.items()} == {
        send.send_id: send.value for send in sent
    }
    assert all(messages[send.send_id].key() == send.key.encode() for send in sent)
    assert_ledger_equals_topic(place, 3_000)


def test_a_replay_goes_on_where_the_last_one_ended_but_not_over_it(place):
    replay(**place, n=500)
    for again in ({"n": 500}, {"n": 1_000}, {"n": 500, "skip": 499}):
        with pytest.raises(LabError, match="already holds") as refused:
            replay(**place, **again)
        assert "skip=500," in refused.value.next_step
    assert messages_in(place) == 500  # nothing of what was refused was sent
    replay(**place, n=500, skip=500)
    assert_ledger_equals_topic(place, 1_000)
    assert messages_in(place) == 1_000


def test_messages_of_aborted_and_open_transactions_do_not_count(place):
    replay(**place, n=300)
    transactions = Producer(
        {"bootstrap.servers": place["bootstrap"], "transactional.id": place["topic"]}
    )
    transactions.init_transactions()
    for _ in ("aborted", "open"):  # the topic ends with markers, then with what may not be read
        transactions.begin_transaction()
        for key in map(str, range(30)):
            transactions.produce(place["topic"], b"{}", key)
        transactions.flush()
        settled = settle(place)
        assert settled.ok and settled.messages == 300, str(settled)
        stable = messages_in(place)
        transactions.abort_transaction()
    wait_until(lambda: messages_in(place) >= stable + 30)
    settled = settle(place)
    assert settled.ok and settled.messages == 300, str(settled)


def test_malformed_events_of_every_kind_reach_the_topic(place):
    sends = list(generate(1_000, seed=4, malformed=0.9))
    replay(**place, sends=sends)
    frame = Ledger(place["ledger_dir"]).frame()
    reasons = frame["kind"].str.partition(":")[2].value_counts()
    assert set(MALFORMED_KINDS) <= set(reasons.index)
    assert_ledger_equals_topic(place, 1_000)
