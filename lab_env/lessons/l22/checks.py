"""Checks of lesson 22: which messages are valid, and a job that two deliveries do not break."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab_env.course.answers import Unreadable, as_int, as_rows
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.capstone.exam import PRACTICE_SEED, variant_named
from lab_env.lessons.capstone.job import pack
from lab_env.lessons.capstone.process import JobFailed
from lab_env.lessons.capstone.story import FIRST, LATE, VERSION_2
from lab_env.lessons.l22.figures import examiner

REHEARSAL = ("deliver", "late", "questions")
MESSAGES = 400  # of each delivery

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
        with examiner(lab, name, pack(split=split)) as exam:
            try:
                valid, dead = exam.call_split({p: sent.send.value for p, sent in places.items()})
            except JobFailed as why:
                raise Unreadable(f"`split` failed: {why}") from None
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
class CalledTwice:
    """What two calls of a job left.

    Args:
        messages: that were delivered before the first call.
        first: rows of each Hudi table below its folder, after the first call.
        second: after the second call, before which nothing was delivered.
        failure: why a call failed; empty if none did.
        base: the folder.
    """

    messages: int
    first: Mapping[str, int]
    second: Mapping[str, int]
    failure: str = ""
    base: str = ""


@check_of("22.2")
class MayBeCalledAgain:
    """Whether the job ends, leaves Hudi tables, and changes nothing when there is nothing new."""

    @staticmethod
    def observe(lab, answer) -> CalledTwice:
        """Call the function twice in a process of its own."""
        name, build = _named(answer, 2)
        messages = len(variant_named(name).story(PRACTICE_SEED).deliveries[FIRST])
        job = pack(build=build)
        with examiner(lab, name, job, build=job) as exam:
            try:
                first = exam.call_build(FIRST)
                second = exam.call_build() if any(first.values()) else first
            except JobFailed as why:
                return CalledTwice(messages, {}, {}, str(why), exam.base)
        return CalledTwice(messages, first, second, base=exam.base)

    @staticmethod
    def judge(facts: CalledTwice) -> Passed | NotYet:
        """It returned twice, and the second call left all rows as they were."""
        if facts.failure:
            return NotYet(f"`build` failed: {facts.failure}")
        if not any(facts.first.values()):
            return NotYet(
                f"{facts.messages:,} messages are in the topic, and after `build` no Hudi table "
                f"below {facts.base} has a row. Where does a stream begin to read?"
            )
        if facts.first != facts.second:
            tables = sorted({*facts.first, *facts.second})
            table = next(t for t in tables if facts.first.get(t) != facts.second.get(t))
            return NotYet(
                f"The second call, with nothing new in the topic, changed `{table}` from "
                f"{facts.first.get(table, 0):,} rows to {facts.second.get(table, 0):,}."
            )
        rows = ", ".join(f"`{table}` {count:,}" for table, count in sorted(facts.first.items()))
        return Passed(
            f"Rows after each of two calls: {rows}. Whether they are right is checked in 22.3."
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


@check_of("22.3")
class TwoDeliveries:
    """What the job's tables say after the first delivery, and after what comes late."""

    @staticmethod
    def observe(lab, answer) -> Rehearsed:
        """Run the functions in a process of their own, on the practice seed."""
        name, build, answers = _named(answer, 3)
        job = pack(build=build, answers=answers)
        with examiner(lab, name, job, build=pack(build=build), go_on=True) as exam:
            phases = exam.run(REHEARSAL).phases
        refused = next((phase for phase in phases if phase.verdict == "refused"), None)
        if refused is not None:
            return Rehearsed(refused.message, refused.name)
        late = phases[REHEARSAL.index("late")].figures
        return Rehearsed("", "", int(late["rows"]), str(late["forgotten"]))

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
