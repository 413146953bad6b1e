"""The targets of lesson 03: the verdict on dead letters, the bound of a batch, the defects sent."""

import time

import pandas as pd
import pytest

from lab_env.course.answers import Unreadable
from lab_env.lab.faults.messages import WITHOUT, defects
from lab_env.lab.ladder.history import Look, history
from lab_env.lab.ladder.rungs import every_defect_between
from lab_env.lessons.l03.ladder import BOUND, DEAD_LETTER, ORDER, TARGETS, check_bound
from lab_env.pipeline.messages import Malformed, read_event
from lab_env.shop.events import FIELDS, MALFORMED_KINDS
from lab_env.shop.model import generate

SPLIT, FILES = TARGETS["03.2"], TARGETS["03.3"]
KINDS = ("event", "late", "malformed:null_key", "malformed:empty")
SENDS = SPLIT.keyed(
    pd.DataFrame(
        {
            "send_id": list("abcd"),
            "kind": KINDS,
            "op": "update",
            "order_ts": 1_000_000,
            "partition": [0, 1, 0, 1],
            "offset": [0, 0, 1, 1],
            "delivery": 1,
            "value": "",
        }
    )
)
RIGHT = {"0:0": ORDER, "1:0": ORDER, "0:1": DEAD_LETTER, "1:1": DEAD_LETTER}


def rows(shown: dict[str, str], *more: tuple[str, str]) -> pd.DataFrame:
    return pd.DataFrame([*shown.items(), *more], columns=["key", "event"])


def test_each_message_is_on_its_side():
    assert SPLIT.judge(SENDS, rows(RIGHT)).text == ""
    assert not SPLIT.judge(SENDS, rows(RIGHT)).wrong


@pytest.mark.parametrize(
    ("shown", "why", "wrong"),
    [
        (
            rows(RIGHT | {"0:1": ORDER, "1:1": ORDER}),
            "Messages: 2 malformed, but among your orders (0:1, malformed:null_key).",
            ("0:1", "1:1"),
        ),
        (
            rows(RIGHT | {"1:0": DEAD_LETTER}),
            "Messages: 1 valid, but among your dead letters (1:0, late).",
            ("1:0",),
        ),
        (
            rows({key: side for key, side in RIGHT.items() if key != "1:1"}),
            "Messages: 1 in neither of your results (1:1, malformed:empty).",
            ("1:1",),
        ),
        (
            rows(RIGHT, ("0:0", DEAD_LETTER)),
            "Messages: 1 in your results more than once (0:0, event).",
            ("0:0",),
        ),
        (
            rows(RIGHT, ("0:7", ORDER)),
            "Messages: 1 in your results, but not in the topic (0:7, never sent).",
            ("0:7",),
        ),
    ],
)
def test_a_message_on_the_wrong_side_is_named(shown, why, wrong):
    verdict = SPLIT.judge(SENDS, shown)
    assert verdict.text == why and verdict.wrong == wrong


def test_the_history_of_a_message_names_both_results():
    steps = history("0:1", SPLIT, SENDS, [Look(1, rows(RIGHT | {"0:1": ORDER}))]).steps
    assert steps[-1].wrong and steps[-1].text == "an order; it must show a dead letter"


def test_files_must_hold_each_place_once():
    sends, once = FILES.keyed(SENDS), FILES.keyed(SENDS[["partition", "offset"]])
    assert not FILES.judge(sends, once).wrong
    twice = FILES.judge(sends, pd.concat([once, once[:1]]))
    assert "1 message is in the output more than once (0:0)" in twice.text
    assert "3 messages are missing" in FILES.judge(sends, once[:1]).text


def test_a_batch_above_its_bound_is_said():
    check_bound([])
    check_bound([BOUND, BOUND + 1, 3])  # Spark rounds up for a partition with few messages
    with pytest.raises(Unreadable, match=f"has 50 messages; with at_most={BOUND}"):
        check_bound([50])


@pytest.mark.parametrize("seed", range(30))
def test_the_delivery_of_malformed_messages_has_every_defect(seed):
    first, alone, last = every_defect_between(seed)
    kinds = [send.kind.partition(":")[2] for send in alone]
    assert all(kinds)
    assert {"duplicate_key", "missing_field", "missing_key", "impossible_timestamp"} <= {*kinds}
    sends = [send for part in (first, alone, last) for send in part]
    assert len({send.send_id for send in sends}) == len(sends)


def test_the_contract_gives_each_defect_the_reason_that_the_ledger_has():
    valid = next(generate(1, 17, malformed=0)).value
    now = time.time_ns() // 1000
    read_event(valid, now)
    found = list(defects(valid))
    assert len({value for _, value in found}) == len(found) > 2 * len(FIELDS)
    for reason, value in found:
        with pytest.raises(Malformed) as refused:
            read_event(value, now)
        assert refused.value.args == (reason,), value
    assert {*WITHOUT["order_id"]} < {*MALFORMED_KINDS}
