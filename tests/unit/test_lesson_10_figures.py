"""Lesson 10's picture: readers see a write once it completes; AS OF goes by requested time."""

import pytest

from lab_env.lessons.l10.figures import AsOf, Version, amount_of

FIRST = Version("20261121090000000", "20261121090004000", "27.00")
SECOND = Version("20261121091000000", "20261121091002000", "31.50")
BETWEEN = "20261121091001000"
PICTURE = AsOf("O-17", [FIRST, SECOND], cursor=BETWEEN)


@pytest.mark.parametrize(
    ("moment", "readers", "as_of"),
    [
        ("20261121085959999", None, None),
        (FIRST.requested, None, "27.00"),
        (FIRST.completed, "27.00", "27.00"),
        (BETWEEN, "27.00", "31.50"),
        (SECOND.completed, "31.50", "31.50"),
        ("20991231000000000", "31.50", "31.50"),
    ],
)
def test_the_two_lanes_change_at_different_ticks(moment, readers, as_of):
    assert (PICTURE.readers(moment), PICTURE.as_of(moment)) == (readers, as_of)


def test_a_refused_query_is_told_in_its_own_words_and_a_missing_row_is_none():
    class Table:
        def __init__(self, found):
            self.found = found

        def __getitem__(self, name):
            return name

        def where(self, condition):
            return self

        select = where

        def first(self):
            if isinstance(self.found, Exception):
                raise self.found
            return self.found

    assert amount_of("O-17", Table({"amount": 31.5})) == "31.5"
    assert amount_of("O-17", Table(None)) is None
    assert amount_of("O-17", Table(ValueError("Too old. Ask later"))) == "Too old"
