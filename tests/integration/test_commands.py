"""Shell commands while the services are running: load, replay, ledger, logs, reset."""

import json
import re
from pathlib import Path

import pytest
from instance import Instance, instance_of_this_run

from lab_env.lab.handle import reset_lesson
from lab_env.platform.brokers.topics import delete_topic, topic_end_offsets

pytestmark = pytest.mark.services

A_SHORT_LOAD = ("load", "--rate", "200", "--seconds", "3")


@pytest.fixture
def running(services):
    """The running lab, without the messages and ledgers of the previous test."""
    reset_lesson("lab")
    yield instance_of_this_run()
    reset_lesson("lab")


def succeed(lab: Instance, *arguments: str) -> str:
    done = lab.lab(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refuse(lab: Instance, *arguments: str) -> str:
    done = lab.lab(*arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Next step: " in done.stderr and "Traceback" not in done.stderr
    return done.stderr


def messages(lab: Instance, topic: str = "lab.orders") -> int:
    return sum(topic_end_offsets(lab.address("kafka"), topic).values())


def ledger_total(lab: Instance, *arguments: str) -> int:
    """Return the last number in the last row of `lab ledger`'s table."""
    total = re.search(r"^total .* (\d+)$", succeed(lab, "ledger", *arguments), re.MULTILINE)
    return int(total.group(1))


def times_sent(lab: Instance) -> list[float]:
    """Return the time (seconds since 1970) of each send in the ledger of the lab's topic."""
    ledger = lab.home / "ledger" / "lab.orders"
    lines = [line for file in ledger.glob("*.sends.tsv") for line in file.read_text().splitlines()]
    return [int(line.rpartition("\t")[2]) / 1e6 for line in lines]


def test_a_load_from_the_shell_is_no_faster_than_its_rate_and_the_ledger_has_it_all(running):
    shown = succeed(running, *A_SHORT_LOAD)
    assert " 0 failures" in shown
    sent = messages(running)
    assert f"{sent:,} acknowledged" in shown
    # A busy machine sends fewer, and may stretch the three seconds.
    times = times_sent(running)
    assert 0 < sent < 1.2 * 200 * max(3, max(times) - min(times))
    settled = succeed(running, "ledger")
    assert f"topic: {sent:,} messages" in settled and "0 lost, 0 repeated, 0 unrecorded" in settled
    assert ledger_total(running) == sent


def test_a_ledger_that_differs_from_its_topic_ends_with_status_1(running):
    succeed(running, "replay", "-n", "100")
    running.send("lab.orders", b"from a stranger")
    assert "The topic and its ledger differ" in refuse(running, "ledger")


def test_the_step_that_a_second_replay_names_can_be_taken(running):
    succeed(running, *A_SHORT_LOAD)  # its sends are none of the recording's
    succeed(running, "replay", "-n", "300")
    before = messages(running)
    said = refuse(running, "replay", "-n", "400")
    assert "lab reset lab" in said
    assert messages(running) == before
    skip = re.search(r"--skip (\d+)", said).group(1)
    succeed(running, "replay", "-n", "400", "--skip", skip)
    assert messages(running) == ledger_total(running) == before + 400
    succeed(running, "reset", "lab")
    succeed(running, "replay", "-n", "400")
    assert messages(running) == 400


def test_the_benchmark_compares_the_load_generator_with_a_plain_loop(running):
    assert "Locust user, one process" in succeed(running, "bench", "load")
    (row,) = json.loads((running.home / "bench" / "report.json").read_text())["machine"]
    assert (row["part"], row["goal"], row["met"]) == ("load", "", None)  # not `--full`
    assert row["unit"] == "events per processor second"
    # Both have sent in each round. How much is for a full run to judge.
    assert len(row["ratios"]) == 3 and all(ratio > 0 for ratio in row["ratios"])


def test_a_replay_keeps_the_rate_that_it_is_given(running):
    shown = succeed(running, "replay", "-n", "200", "--rate", "100")
    assert "ledger of lab.orders" in shown
    times = times_sent(running)
    assert len(times) == 200
    assert max(times) - min(times) > 1  # without a rate, a few hundredths


def test_a_reset_clears_the_topic_the_ledger_and_the_load_s_logs_and_no_other_topic(running):
    succeed(running, *A_SHORT_LOAD)
    succeed(running, "replay", "-n", "50", "--topic", "mine.orders")
    assert list((running.home / "ledger" / "lab.orders").glob("load-*"))
    assert "lab: removed 1 topic, 1 ledger." in succeed(running, "reset", "lab")
    assert "lab: nothing to remove." in succeed(running, "reset", "lab")
    assert not list((running.home / "ledger").glob("lab.*"))
    assert "mine.orders" in refuse(running, "ledger")  # the one that is left to choose
    assert ledger_total(running, "--topic", "mine.orders") == 50
    delete_topic(running.address("kafka"), "mine.orders")


@pytest.mark.parametrize(
    ("command", "name"), [("load", ""), ("replay", ".."), ("ledger", "my orders")]
)
def test_a_name_that_no_topic_can_have_is_said_to_be_so(services, command, name):
    said = refuse(instance_of_this_run(), command, "--topic", name)
    assert f"{name!r} is not a valid name of a Kafka topic." in said and "lab logs" not in said


def test_logs_shows_the_last_lines_of_a_running_service(services):
    lab = instance_of_this_run()
    log = Path(lab.home, "logs", "kafka.log")
    before = log.read_text().splitlines()
    shown = succeed(lab, "logs", "kafka", "-n", "5").splitlines()
    assert len(before) > 5
    assert shown in (before[-5:], log.read_text().splitlines()[-5:])  # it may have written one
