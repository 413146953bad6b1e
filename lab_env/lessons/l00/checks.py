"""Checks of lesson 00: three facts about a table after an insert and an update."""

import re
from dataclasses import dataclass

from lab_env.course.answers import as_list, as_text
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.xray.captions import clock

TABLE = "orders"
UNTOUCHED = "2026-11-21"  # the partition that the update leaves alone


@dataclass(frozen=True)
class FilesOpened:
    """File names: those of the answer, and those of the table.

    Args:
        answer: the names given, without their folders.
        current: the data files of current slices.
        older: the data files of older slices.
    """

    answer: frozenset[str]
    current: frozenset[str]
    older: frozenset[str]


@check_of("00.1")
class WhatAReaderOpens:
    """Which data files does a query of the newest state open?"""

    @staticmethod
    def observe(lab, answer) -> FilesOpened:
        """List the table's data files, and read the names or paths of the answer."""
        table = lab.xray(lab.path(TABLE))
        current = {file.name for found in table.current for file in found.files}
        return FilesOpened(
            frozenset(as_text(name).rpartition("/")[2] for name in as_list(answer)),
            frozenset(current),
            frozenset(file.name for file in table.files) - current,
        )

    @staticmethod
    def judge(facts: FilesOpened) -> Passed | NotYet:
        """All current files, and no other."""
        unknown = sorted(facts.answer - facts.current - facts.older)
        if unknown:
            return NotYet(f"The table has no data file {unknown[0]!r}. Give the whole name.")
        if facts.answer & facts.older:
            return NotYet(
                f"You name {len(facts.answer)} files, and one of them is an older version, in a "
                "dashed frame. A query of the newest state does not open it."
            )
        if facts.answer < facts.current:
            return NotYet(
                f"You name {len(facts.answer)} of the {len(facts.current)} files that the query "
                "opens. O-1 and O-3 lie in different file groups."
            )
        return Passed("One file in each file group: the newest version, in a solid frame.")


@dataclass(frozen=True)
class TimeNamed:
    """A time that the learner read off, and those that the timeline has.

    Args:
        answer: the digits of a time of day, or of a date and a time, to the second or finer.
        insert: requested and completed time of the first write.
        update: requested and completed time of the second write.
    """

    answer: str
    insert: tuple[str, str]
    update: tuple[str, str]

    @property
    def matches(self) -> list[str]:
        """The instants of the timeline that the answer may mean."""
        return [time for time in (*self.insert, *self.update) if self._names(time)]

    def _names(self, instant: str) -> bool:
        digits = instant + "000" + "0000"  # an answer may have microseconds and UTC's +00:00
        if len(self.answer) < 14:
            return len(self.answer) >= 6 and digits[8:].startswith(self.answer)
        return digits.startswith(self.answer)


def _observe_time(lab, answer) -> TimeNamed:
    insert, update = lab.xray(lab.path(TABLE)).instants[:2]
    return TimeNamed(
        re.sub(r"\D", "", as_text(answer)),
        (insert.requested, insert.completed),
        (update.requested, update.completed),
    )


def _unclear(facts: TimeNamed) -> NotYet | None:
    """Why the answer does not name exactly one time of the timeline; None where it does."""
    if not facts.matches:
        return NotYet(
            f"The timeline has no such time. Give it as the picture shows it, like "
            f'"{clock(facts.insert[0])}".'
        )
    if len(facts.matches) > 1:
        times = ", ".join(map(clock, facts.matches))
        return NotYet(f"This second holds {times}. Give the milliseconds, too.")
    return None


@check_of("00.2")
class WhichWriteMadeAFile:
    """When was the write requested that made the current file of the untouched partition?"""

    observe = staticmethod(_observe_time)

    @staticmethod
    def judge(facts: TimeNamed) -> Passed | NotYet:
        """The insert made it, and its requested time names it."""
        if unclear := _unclear(facts):
            return unclear
        [time] = facts.matches
        if time == facts.insert[0]:
            return Passed(
                f"The insert of {clock(time)} made it, and the file's name ends with that time. "
                "The update had no row for this partition."
            )
        if time == facts.insert[1]:
            return NotYet("That is when that write was complete. Files carry the requested time.")
        return NotYet(
            f"That is the update. It did not touch this partition: the file of {UNTOUCHED} "
            "stands under another instant."
        )


@check_of("00.3")
class SinceWhenVisible:
    """From which moment on could a reader see the update?"""

    observe = staticmethod(_observe_time)

    @staticmethod
    def judge(facts: TimeNamed) -> Passed | NotYet:
        """From the update's completion."""
        if unclear := _unclear(facts):
            return unclear
        [time] = facts.matches
        if time == facts.update[1]:
            return Passed("Readers see a write from its completion on, all of it at once.")
        if time == facts.update[0]:
            return NotYet(
                "That is when the write was requested. Readers see it from the completion time on, "
                "the second number in the instant's file name."
            )
        return NotYet("That write brought the order as new. The next write set it to paid.")
