"""Checks of lesson 22: valid and malformed messages, a repeatable job, and a rehearsed exam."""

import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from lab_env.course.answers import Unreadable, as_int, as_rows
from lab_env.course.checking import check, expect
from lab_env.lab.job.packing import pack
from lab_env.lab.job.process import JobFailed
from lab_env.lessons.capstone.exam import PRACTICE_SEED, variant_named
from lab_env.lessons.capstone.story import CRASHES, FIRST, LATE, VERSION_2, Sent, Variant
from lab_env.lessons.capstone.story import parse as time_of
from lab_env.lessons.capstone.story import text as spelt
from lab_env.lessons.l22.figures import examiner
from lab_env.lessons.rows import named

REHEARSAL = ("deliver", "late", "version 2", "questions")
MESSAGES = 300  # of each delivery
# Fields that each event has, besides those of which an owner is forgotten.
REQUIRED = {
    "iot": ("ts", "revision", "value"),
    "fraud": ("payment_id", "amount"),
    "clickstream": (),
}
ONE_DAY = timedelta(days=1)
REPEATED = (
    "The process died after your writes, before Spark had noted the batch as done. The next call, "
    "which repeated the batch,"
)


@dataclass(frozen=True)
class Message:
    """A message that is known to be valid or malformed.

    Args:
        value: the Kafka record's value.
        event_id: id of its event; a malformed value may lack it.
        reason: why it is malformed; empty if it is valid.
    """

    value: bytes
    event_id: str
    reason: str = ""

    def __str__(self) -> str:
        return self.value.decode(errors="replace")[:250]


@check("22.1")
def valid_or_dead(lab, answer):
    """Let the function split messages of a random seed, some of which break exactly one rule."""
    name, split = _named(answer, 2)
    chosen = hidden_messages(variant_named(name), random.Random())
    messages = {(n % 3, n // 3): message for n, message in enumerate(chosen)}
    with examiner(lab, name, pack(split=split)) as exam:
        try:
            parts = exam.call_split({place: found.value for place, found in messages.items()})
        except JobFailed as why:
            raise Unreadable(f"`split` failed: {why}") from None
    valid = Counter(str(row[0]) for row in as_rows(parts[0], ["event_id"]))
    places = [(as_int(p), as_int(o)) for p, o in as_rows(parts[1], ["partition", "offset"])]
    dead = set(places)

    bad = {place: found for place, found in messages.items() if found.reason}
    good = {place: found for place, found in messages.items() if not found.reason}
    missing = [found for place, found in bad.items() if place not in dead]
    taken = [found for found in bad.values() if found.event_id in valid]
    if not taken and valid.keys() - {found.event_id for found in chosen}:
        taken = missing  # rows without an id of their own
    expect(
        not taken,
        "{} malformed messages count as valid, for example this one ({}): {}",
        len(taken),
        *_first(taken),
    )
    expect(
        not missing,
        "{} of {} malformed messages are in neither table, for example this one ({}): {!r}",
        len(missing),
        len(bad),
        *_first(missing),
    )
    lost = {place: found for place, found in good.items() if found.event_id not in valid}
    expect(
        not lost,
        "{} valid messages are {}, for example {}",
        len(lost),
        "among the dead letters" if lost.keys() & dead else "in neither table",
        *lost.values(),
    )
    both = [found for place, found in good.items() if place in dead]
    expect(not both, "{} messages are in both: {}", len(both), *both)
    expect(len(places) == len(dead), "A dead letter is there twice.")
    sent = Counter(found.event_id for found in good.values())
    doubled = [event for event, times in valid.items() if times > sent[event]]
    expect(not doubled, "{} valid events have more rows than messages.", len(doubled))
    return (
        f"{len(sent):,} events are valid, {len(dead)} messages are dead letters, and no message "
        "is lost."
    )


def _first(found: list[Message]) -> tuple[str, str]:
    return (found[0].reason, str(found[0])) if found else ("", "")


def hidden_messages(variant: Variant, chance: random.Random) -> list[Message]:
    """Return a variant's messages of every kind and both app versions, in random order."""
    story = variant.story(chance.randrange(1_000_000))
    found = [_message(sent) for sent in story.messages() if sent.event is None]
    for version in (FIRST, VERSION_2):
        events = [sent for sent in story.deliveries[version] if sent.event]
        one_of_each = {sent.send.op: sent for sent in chance.sample(events, len(events))}
        for sent in one_of_each.values():
            found += edge_cases(variant, sent)
    for delivery in (FIRST, LATE, VERSION_2):
        found += [_message(sent) for sent in story.deliveries[delivery][-MESSAGES:] if sent.event]
    chance.shuffle(found)
    return found


def _message(sent: Sent) -> Message:
    reason = "" if sent.event else sent.send.kind.partition(":")[2]
    return Message(sent.send.value, sent.send.event_id, reason)


def edge_cases(variant: Variant, sent: Sent) -> Iterable[Message]:
    """Yield copies of a valid message with one field changed; most of them are malformed."""
    event = json.loads(sent.send.value)
    numbers = iter(range(90_000, 100_000))

    def changed(reason: str, **fields: object) -> Message:
        own = {"event_id": f"{event['event_id']}-{next(numbers)}"} | fields
        kept = {name: value for name, value in (event | own).items() if value is not ...}
        return Message(json.dumps(kept).encode(), str(own["event_id"]), reason)

    for name in ("event_id", variant.entity, "received_at"):
        yield from (changed(f"no {name}", **{name: value}) for value in (None, "", ...))
    if event["op"] == variant.forget_op:
        return
    for name in REQUIRED[variant.name]:
        yield from (changed(f"no {name}", **{name: value}) for value in (None, ...))
    if variant.name != "fraud":
        latest = time_of(event["received_at"]) + ONE_DAY
        yield changed("", ts=spelt(latest))
        yield changed("ts is more than a day later", ts=spelt(latest + timedelta(seconds=1)))
        yield changed("ts is no time", ts="soon")


@check("22.2")
def may_be_called_again(lab, answer):
    """Call `build`, repeat its last batch as after a crash, then deliver late events."""
    name, build = _named(answer, 2)
    variant = variant_named(name)
    messages = len(variant.story(PRACTICE_SEED).deliveries[FIRST])
    job = pack(build=build)
    with examiner(lab, name, job, build=job) as exam:
        try:
            rows = exam.call_build(FIRST)
            expect(
                any(rows.values()),
                "{:,} messages are in the topic, and after `build` no Hudi table below {} has a "
                "row. Where does a stream begin to read?",
                messages,
                exam.base,
            )
            repeats = exam.undo_last_batch()
            again = exam.call_build()
            for table in sorted({*rows, *again}):
                expect(
                    rows.get(table) == again.get(table),
                    "{} changed `{}` from {:,} rows to {:,}.",
                    REPEATED if repeats else "The second call, with nothing new in the topic,",
                    table,
                    rows.get(table, 0),
                    again.get(table, 0),
                )
            exam.call_build(*CRASHES, LATE, VERSION_2)
            shown, elsewhere = exam.mentioned(), exam.has_other_files()
        except JobFailed as why:
            raise Unreadable(f"`build` failed: {why}") from None
    known = exam.course.known()
    gone = variant.forgotten(known.events)
    hidden = {e["event_id"] for e in known.events if e[variant.entity] in gone} & shown
    hidden -= {e["event_id"] for e in known.events if e["op"] == variant.forget_op}
    expect(
        not hidden,
        "After the late events your tables still hold {} events of {}, who must be forgotten for "
        "good: {}, ...",
        len(hidden),
        named(gone),
        *sorted(hidden),
    )
    newest = {e["event_id"] for e in variant.winners(known.events).values()}
    lost = sorted(newest - shown)
    expect(
        not lost or (elsewhere and not newest & shown),  # then they are in files of another format
        "After late events and those of version 2, {} of {:,} newest events are in none of your "
        "tables, for example {}. What decides which version of a row wins?",
        len(lost),
        len(newest),
        *lost,
    )
    unlisted = [place for place in known.malformed if str(place[1]) not in shown]
    expect(
        not unlisted or elsewhere,
        "{} malformed messages are in none of your tables, for example that of partition {}, "
        "offset {}.",
        len(unlisted),
        *(unlisted or [("", "")])[0],
    )
    counts = ", ".join(f"`{table}` {count:,}" for table, count in sorted(rows.items()))
    return f"Rows after each of two calls: {counts}. Whether answers are right is checked in 22.3."


@check("22.3")
def rehearses(lab, answer):
    """Run the exam's phases except `kill` and `footprint` on the practice seed."""
    name, build, answers = _named(answer, 3)
    job = pack(build=build, answers=answers)
    with examiner(lab, name, job, build=pack(build=build), go_on=True) as exam:
        phases = {phase.name: phase for phase in exam.run(REHEARSAL).phases}
    for phase in phases.values():
        expect(phase.verdict != "refused", "{}", phase.message)
    late, newest = phases["late"].figures, phases["version 2"].figures
    return (
        f"{newest['rows']:,} rows, each in its newest version; {late['forgotten']} are forgotten, "
        "and every malformed message is a dead letter."
    )


def _named(answer, parts: int) -> tuple:
    if not isinstance(answer, tuple | list) or len(answer) != parts:
        raise Unreadable("The name of the variant is expected, then your functions.")
    name, *functions = answer
    if not all(map(callable, functions)):
        raise Unreadable("After the name of the variant your functions are expected.")
    return (str(name), *functions)
