"""Before sending, a replay refuses events that the topic already has, and states a next step."""

import re
from itertools import islice

import pytest

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


@pytest.mark.parametrize(
    ("first", "last", "next_step"),
    [(500, 600, ".*skip=600,.*"), (0, None, "`lab reset lab` clears it.")],
    ids=["a gap is no place to go on", "nothing is left"],
)
def test_one_can_go_on_after_the_last_send_only(tmp_path, first, last, next_step):
    sent_before(tmp_path, islice(recording(), first, last))
    with pytest.raises(LabError) as refused:
        replay(NO_BROKER, "lab.orders", tmp_path)
    assert re.fullmatch(next_step, refused.value.next_step)


def test_a_start_behind_the_end_is_told_how_long_the_stream_is(tmp_path):
    with pytest.raises(LabError, match="Nothing is left to replay: the stream has 10,000 sends"):
        replay(NO_BROKER, "lab.orders", tmp_path, skip=10_000)
