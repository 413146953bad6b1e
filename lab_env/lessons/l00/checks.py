"""Checks of lesson 00: three facts read off the X-ray of a table after an insert and an update."""

import re
from dataclasses import dataclass

from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.xray.captions import clock

TABLE = "orders"
UNTOUCHED = "2026-11-21"  # the partition that the update leaves alone


@dataclass(frozen=True)
class FilesOpened:
    """How many data files the answer says, lie on the store, and are current."""

    answer: object
    stored: int
    current: int


@check_of("00.1")
class WhatAReaderOpens:
    """How many data files does a query of the newest state open?"""

    @staticmethod
    def observe(lab, answer) -> FilesOpened:
        """Count the table's files and those of current slices."""
        table = lab.xray(lab.path(TABLE))
        current = sum(len(found.files) for found in table.current)
        return FilesOpened(answer, len(table.files), current)

    @staticmethod
    def judge(facts: FilesOpened) -> Passed | NotYet:
        """Only the current files count."""
        if facts.answer == facts.current:
            return Passed("One file in each file group: the newest version, in a solid frame.")
        if facts.answer == facts.stored:
            return NotYet(
                f"{facts.stored} data files lie on the store, but one of them is an older version, "
                "in a dashed frame. A query of the newest state leaves it alone."
            )
        if facts.answer == 1:
            return NotYet("Order O-1 lies in the new file. O-3 lies in the other one.")
        return NotYet(f"{facts.answer!r} is not the number of data files in solid frames.")


@dataclass(frozen=True)
class TimeNamed:
    """A time that the learner read off, and those that the timeline has.

    Args:
        answer: digits, a time of day or a whole instant.
        insert: requested and completed time of the first write.
        update: requested and completed time of the second write.
    """

    answer: str
    insert: tuple[str, str]
    update: tuple[str, str]

    def names(self, instant: str) -> bool:
        """Whether the answer means that instant, to the second or finer."""
        return len(self.answer) >= 6 and self.answer in (
            instant,
            instant[8:],
            instant[8 : 8 + len(self.answer)],
        )


def _observe_time(lab, answer) -> TimeNamed:
    insert, update = lab.xray(lab.path(TABLE)).instants[:2]
    return TimeNamed(
        re.sub(r"\D", "", str(answer)),
        (insert.requested, insert.completed),
        (update.requested, update.completed),
    )


def _no_such_time(facts: TimeNamed) -> NotYet:
    return NotYet(
        f"The timeline has no such time. Give it as the picture shows it, like "
        f'"{clock(facts.insert[0])}".'
    )


@check_of("00.2")
class WhichWriteMadeAFile:
    """When was the write requested that made the current file of the untouched partition?"""

    observe = staticmethod(_observe_time)

    @staticmethod
    def judge(facts: TimeNamed) -> Passed | NotYet:
        """The insert made it, and its requested time names it."""
        if facts.names(facts.insert[0]):
            return Passed(
                f"The insert of {clock(facts.insert[0])} made it, and its name ends with that time. "
                "The update had no row for this partition."
            )
        if facts.names(facts.insert[1]):
            return NotYet("That is when that write was complete. Files carry the requested time.")
        if facts.names(facts.update[0]) or facts.names(facts.update[1]):
            return NotYet(
                f"That is the update. It did not touch this partition: the file of {UNTOUCHED} stands "
                "under another instant."
            )
        return _no_such_time(facts)


@check_of("00.3")
class SinceWhenVisible:
    """From which moment on could a reader see the update?"""

    observe = staticmethod(_observe_time)

    @staticmethod
    def judge(facts: TimeNamed) -> Passed | NotYet:
        """From the update's completion."""
        if facts.names(facts.update[1]):
            return Passed("Readers see a write from its completion on, all of it at once.")
        if facts.names(facts.update[0]):
            return NotYet(
                "That is when the write was asked for. Readers see it from the completion time, the "
                "second number in the instant's file name."
            )
        if facts.names(facts.insert[0]) or facts.names(facts.insert[1]):
            return NotYet("That write brought the order as new. It was paid with the next one.")
        return _no_such_time(facts)
