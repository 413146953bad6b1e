"""The picture of a fall shows every step of its history, and one wrong one."""

import re
from dataclasses import replace
from xml.dom import minidom

import pandas as pd
import pytest
from ladder_ledger import ORDERS, sends_of

from lab_env.lab.ladder.history import (
    COMMIT,
    KILLED,
    MEANWHILE,
    SENT,
    SHOWN,
    Look,
    as_sentence,
    history,
)
from lab_env.lab.ladder.picture import COLOURS, LANES, draw
from lab_env.lab.ladder.target import NewestOfEachOrder


class Later(NewestOfEachOrder):
    begins = 2


ORDER = "o-s17-000031"
COMMITS = ("20261127043217123", "20261127043231907")
FILE = "orders_cow/partition_date=2026-01-05/00000000-ed49-4a87-9a58-abb72b4ab274-0_0-31-5.parquet"
LONG = "the-far-north/" * 20


def look(delivery: int, *events: str, killed: str = "", key: str = ORDER) -> Look:
    rows = pd.DataFrame({"key": key, "event": list(events), COMMIT: COMMITS[delivery - 1]})
    return Look(delivery, rows, killed)


def late():
    sent = sends_of(
        ORDER,
        ("e1", "create", 1, "event", 1),
        ("e2", "update", 9, "event", 1),
        ("e3", "update", 5, "late", 2),
    )
    return history(ORDER, ORDERS, sent, [look(1, "e2"), look(2, "e3")])


def erased():
    damaged = "e3", "erase", 10, "malformed:not_json", 2  # erases nothing
    sent = sends_of(ORDER, ("e1", "create", 1, "event", 1), ("e2", "erase", 9, "event", 2), damaged)
    return history(ORDER, ORDERS, sent, [look(1, "e1"), look(2, "e1")])


def duplicate():
    sent = sends_of(ORDER, ("e1", "create", 1, "event", 1), ("e1", "create", 1, "resend", 2))
    killed = look(2, "e1", killed="before _checkpoints/orders_cow/commits/1")
    return history(ORDER, ORDERS, sent, [look(1, "e1"), killed, look(2, "e1", "e1")])


def missing():
    sent = sends_of(ORDER, ("e1", "create", 1, "event", 2))
    return history(ORDER, ORDERS, sent, [look(1), look(2, killed=f"after {FILE}"), look(2)])


def prepared():
    """The lab handles the first delivery; in the second one, the store is in trouble."""
    sent = sends_of(ORDER, ("e1", "create", 1, "event", 1), ("e2", "update", 2, "event", 2))
    looks = look(1, "e1"), replace(look(2, "e1"), meanwhile="a store in trouble")
    return history(ORDER, Later(), sent, looks)


def fifteen():
    kinds = ["event", "late", "resend", "malformed:impossible_timestamp"]
    sent = sends_of(ORDER, *((f"e{n}", "update", n, kinds[n % 4], 1 + n // 5) for n in range(10)))
    killed = look(2, "e6", killed=f"after {FILE}")
    return history(ORDER, ORDERS, sent, [look(1, "e4"), killed, look(2, "e8")])


def long_names():
    sent = sends_of(LONG, ("e1", "create", 1, f"malformed:{LONG}", 1))
    return history(LONG, ORDERS, sent, [look(1, f"{LONG}<script>\0", *"abcdefgh", key=LONG)])


MADE = (late, erased, duplicate, missing, prepared, fifteen, long_names)
HISTORIES = {made.__name__: made() for made in MADE}


@pytest.fixture(params=HISTORIES)
def told(request):
    return HISTORIES[request.param]


def count(svg: str, *classes: str) -> int:
    """Return the number of shapes with these classes."""
    shapes = re.findall(r'<(?:rect|path|circle) class="([^"]*)"', svg)
    return sum(set(classes) <= set(shape.split()) for shape in shapes)


def test_the_picture_is_well_formed_and_tells_the_same_in_words(told):
    root = minidom.parseString(draw(told)).documentElement
    assert root.getAttribute("width") == "760"
    assert root.getAttribute("aria-label").replace("\ufffd", "\0") == as_sentence(told)
    texts = [node.firstChild.data for node in root.getElementsByTagName("text")]
    assert [name for name in LANES if name not in texts] == []


def test_each_step_has_its_marks_and_one_is_wrong(told):
    svg, whats = draw(told), [step.what for step in told.steps]
    assert told.wrong and count(svg, "wrong") == count(svg, "must") == count(svg, "tip-wrong") == 1
    assert count(svg, "place") == whats.count(SENT)
    assert count(svg, "kill") == whats.count(KILLED)
    called = sum(step.called for step in told.steps if step.what == SHOWN)
    assert count(svg, "bar") == called + whats.count(KILLED)
    assert count(svg, "trouble") == whats.count(MEANWHILE)
    deliveries = {step.delivery for step in told.steps}
    assert count(svg, "band") == len(deliveries)
    assert all(f">delivery {number}" in svg for number in deliveries)


def test_each_events_kind_is_a_word_and_a_style():
    svg = draw(HISTORIES["fifteen"])
    assert count(svg, "tile", "late") == 3 and svg.count(">late</text>") == 3
    assert count(svg, "tile", "resend") == 2 and svg.count(">resend</text>") == 2
    assert ">malformed: impossible_timestamp</text>" in svg
    assert "killed before _checkpoints/orders_cow/commits/1</text>" in draw(HISTORIES["duplicate"])


def test_a_delivery_that_the_lab_handles_has_no_call_and_trouble_has_a_bar():
    svg = draw(HISTORIES["prepared"])
    assert ">the lab has prepared</text>" in svg and count(svg, "bar") == 1
    assert ">meanwhile: a store in trouble</text>" in svg
    assert "meanwhile a store in trouble, shown new" in as_sentence(HISTORIES["prepared"])


def test_the_event_that_is_shown_and_the_one_that_must_be_are_framed():
    svg = draw(HISTORIES["late"])
    assert count(svg, "late", "mistaken") == count(svg, "event", "expected") - 1 == 1  # legend
    assert ">shows</text>" in svg and ">must show</text>" in svg
    assert svg.count("commit 04:32:17.123") == svg.count("commit 04:32:31.907") == 2  # hover, too
    assert "an event that it shows instead" not in draw(HISTORIES["missing"])


def test_the_event_that_erases_the_order_is_framed():
    svg = draw(HISTORIES["erased"])
    assert count(svg, "event", "erasing") == count(svg, "event", "mistaken") == 2  # with the legend
    assert ">the event that removes the row</text>" in svg
    assert count(svg, "malformed") == 1 and count(svg, "malformed", "erasing") == 0


def test_names_are_escaped_cut_in_the_tile_and_whole_under_the_pointer():
    svg = draw(HISTORIES["long_names"])
    assert "<script>" not in svg and "\0" not in svg
    texts = re.findall("<text[^>]*>([^<]*)</text>", svg)
    assert max(map(len, texts)) < 100 and any("\u2026" in text for text in texts)
    assert f"{LONG}&lt;script&gt;" in svg
    assert "and 5 more" in svg


def test_each_colour_comes_with_the_picture():
    svg = draw(HISTORIES["late"])
    used = set(re.findall(r"var\(--(?!jp)([a-z-]+)", svg))
    assert {name for name in used if f"--{name}:" not in svg} == set()
    assert set(COLOURS) <= used and "http" not in svg.replace("http://www.w3.org/2000/svg", "")
