"""Checks of lesson 22: which messages are valid, and a job that two deliveries do not break."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab_env.capstone.exam import PRACTICE_SEED, variant_named
from lab_env.capstone.job import pack
from lab_env.capstone.story import FIRST, LATE, VERSION_2
from lab_env.course.answers import Unreadable, as_int, as_rows
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.l22.figures import examine

REHEARSAL = ("deliver", "late")
MESSAGES = 400  # of each delivery
KAFKA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"

Place = tuple[int, int]


@dataclass(frozen=True)
class Split:
    """What a function makes of messages whose verdict is known.

    Args:
        texts: of all messages, by place.
        reasons: why a message is malformed, by place; the others are valid.
        ids: the event id that each message was made with, by place.
        valid: event ids of the rows that the function calls valid; a resend counts again.
        dead: places of those that it calls malformed.
    """

    texts: Mapping[Place, str]
    reasons: Mapping[Place, str]
    ids: Mapping[Place, str]
    valid: Sequence[str]
    dead: Sequence[Place]


@check_of("22.1")
class ValidOrDead:
    """Each message is in exactly one of the two tables, and in the right one."""

    @staticmethod
    def observe(lab, answer) -> Split:
        """Let the function split messages of a random seed, of both versions."""
        name, split = _named(answer, 2)
        story = variant_named(name).story(random.randrange(1_000_000))
        chosen = [m for d in (FIRST, LATE, VERSION_2) for m in story.deliveries[d][:MESSAGES]]
        places = {(n % 3, n // 3): sent for n, sent in enumerate(chosen)}
        rows = [
            (sent.send.key.encode(), bytearray(sent.send.value), "hidden", *place, None)
            for place, sent in places.items()
        ]
        parts = split(lab.spark.createDataFrame(rows, KAFKA))
        if not isinstance(parts, tuple | list) or len(parts) != 2:
            raise Unreadable("Two DataFrames are expected: the valid events and the dead letters.")
        valid, dead = parts
        return Split(
            texts={
                place: sent.send.value.decode(errors="replace") for place, sent in places.items()
            },
            reasons={
                place: sent.send.kind.partition(":")[2]
                for place, sent in places.items()
                if sent.event is None
            },
            ids={place: sent.send.event_id for place, sent in places.items()},
            valid=[str(row[0]) for row in as_rows(valid, ["event_id"])],
            dead=[(as_int(p), as_int(o)) for p, o in as_rows(dead, ["partition", "offset"])],
        )

    @staticmethod
    def judge(facts: Split) -> Passed | NotYet:
        """Nothing in neither, nothing in both, nothing in the wrong one."""
        valid, dead = set(facts.valid), set(facts.dead)
        good = {place: facts.ids[place] for place in facts.ids if place not in facts.reasons}
        missing = [place for place in facts.reasons if place not in dead]
        taken = [place for place in facts.reasons if facts.ids[place] in valid]
        if not taken and valid - set(facts.ids.values()):  # rows without an id of their own
            taken = missing
        if taken:
            return NotYet(
                f"{len(taken)} malformed messages count as valid, for example this one "
                f"({facts.reasons[taken[0]]}): {facts.texts[taken[0]][:250]}"
            )
        if missing:
            return NotYet(
                f"{len(missing)} of {len(facts.reasons)} malformed messages are in neither table, "
                f"for example this one ({facts.reasons[missing[0]]}): "
                f"{facts.texts[missing[0]][:120]!r}"
            )
        if lost := [place for place, event in good.items() if event not in valid]:
            where = "among the dead letters" if lost[0] in dead else "in neither table"
            return NotYet(
                f"{len(lost)} valid messages are {where}, for example {facts.texts[lost[0]][:250]}"
            )
        if both := [place for place in good if place in dead]:
            return NotYet(f"{len(both)} messages are in both: {facts.texts[both[0]][:250]}")
        if len(facts.dead) > len(dead):
            return NotYet("A dead letter is there twice.")
        return Passed(
            f"{len(set(good.values())):,} events are valid, {len(dead)} messages are dead letters, "
            "and no message is lost."
        )


@dataclass(frozen=True)
class Rehearsed:
    """How a rehearsal ended.

    Args:
        refusal: why a phase was refused; empty if none was.
        phase: that phase.
        rows: rows of the newest versions in the end.
        forgotten: who was forgotten.
    """

    refusal: str
    phase: str
    rows: int = 0
    forgotten: str = ""


@check_of("22.2")
class TwoDeliveries:
    """What the job's tables say after the first delivery, and after what comes late."""

    @staticmethod
    def observe(lab, answer) -> Rehearsed:
        """Run the functions in a process of their own, on the practice seed."""
        name, build, answers = _named(answer, 3)
        record = examine(lab, name, pack(build, answers), PRACTICE_SEED, REHEARSAL)
        last = record.phases[-1]
        refused = next((p for p in record.phases if p.verdict == "refused"), None)
        if refused is not None:
            return Rehearsed(refused.message, refused.name)
        return Rehearsed("", "", int(last.figures["rows"]), str(last.figures["forgotten"]))

    @staticmethod
    def judge(facts: Rehearsed) -> Passed | NotYet:
        """Both phases are passed."""
        if facts.refusal:
            return NotYet(f"Phase {facts.phase!r}: {facts.refusal}")
        return Passed(
            f"{facts.rows:,} rows, each in its newest version; {facts.forgotten} are forgotten, "
            "and every malformed message is a dead letter."
        )


def _named(answer, parts: int) -> tuple:
    if not isinstance(answer, tuple | list) or len(answer) != parts:
        raise Unreadable("The name of the variant is expected, then your functions.")
    name, *functions = answer
    if not all(map(callable, functions)):
        raise Unreadable("After the name of the variant your functions are expected.")
    return (str(name), *functions)
