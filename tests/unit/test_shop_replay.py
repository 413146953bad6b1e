"""Before sending, a replay refuses events that the topic already has, and states a next step."""

from itertools import islice

import pytest

from lab_env.platform.brokers import topics
from lab_env.platform.errors import LabError
from lab_env.shop.ledger.book import LedgerWriter
from lab_env.shop.model import generate
from lab_env.shop.record import recording
from lab_env.shop.replay import replay

NO_BROKER = "127.0.0.1:1"  # a replay that wants to send would fail there with another sentence


def sent_before(directory, *streams) -> None:
    writer = LedgerWriter(directory, "earlier")
    for stream in streams:
        writer.handed(stream)
    writer.close()


@pytest.mark.parametrize("part", [{}, {"n": 1}, {"n": 200, "skip": 299}, {"n": 900}])
def test_a_second_time_is_refused_wherever_it_overlaps_and_the_next_free_send_is_named(
    tmp_path, part
):
    sent_before(tmp_path, generate(700, seed=1, worker_id="live"), islice(recording(), 300))
    with pytest.raises(LabError, match="already holds this part") as refused:
        replay(NO_BROKER, "lesson-05.orders", tmp_path, **part)
    assert "skip=300, in the shell --skip 300." in refused.value.next_step
    assert "lab reset" not in refused.value.next_step


def test_the_part_after_it_is_not_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(topics, "ADMIN_TIMEOUT_S", 0.5)
    sent_before(tmp_path, islice(recording(), 300))
    with pytest.raises(LabError, match="does not answer"):
        replay(NO_BROKER, "lesson-05.orders", tmp_path, skip=300)


def test_a_gap_before_the_last_send_is_no_place_to_go_on(tmp_path):
    sent_before(tmp_path, islice(recording(), 500, 600))
    with pytest.raises(LabError) as refused:
        replay(NO_BROKER, "lab.orders", tmp_path)
    assert "skip=600," in refused.value.next_step


def test_of_a_stream_sent_whole_nothing_is_left_to_go_on_with(tmp_path):
    sent_before(tmp_path, recording())
    with pytest.raises(LabError) as refused:
        replay(NO_BROKER, "lab.orders", tmp_path)
    assert refused.value.next_step == "`lab reset lab` clears it."


def test_a_start_behind_the_end_is_told_how_long_the_stream_is(tmp_path):
    with pytest.raises(LabError, match="Nothing is left to replay: the stream has 10,000 sends"):
        replay(NO_BROKER, "lab.orders", tmp_path, skip=10_000)
