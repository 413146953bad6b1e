"""Code shared by the three variants: makes a story, all messages of a seed in six deliveries.

Some messages are malformed. Late and resent events come in a later delivery than their
neighbours; the right answers do not depend on the order of arrival.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, ClassVar

import pandas as pd

from lab_env.shop.model import Send

FIRST, LATE, VERSION_2 = "first", "late", "version 2"
CRASHES = ("crash 1", "crash 2", "crash 3")
DELIVERIES = (FIRST, *CRASHES, LATE, VERSION_2)
MALFORMED = 0.02  # of the messages
RESENT = 0.03
HELD_BACK = 0.06  # of the events before version 2
HELD_BACK_FORGOTTEN = 2  # late events per deleted owner
MINUTE = timedelta(minutes=1)

Event = dict[str, Any]
Changes = Callable[[Event, Random], Event]  # fields to change, which malforms the event


@dataclass(frozen=True)
class Sent:
    """One message of a story."""

    send: Send
    event: Event | None  # None if the message is malformed


@dataclass(frozen=True)
class Answer:
    """A question about the learner's tables, and the columns of its answer."""

    name: str  # its key in the result of `answers`
    asks: str
    keys: tuple[str, ...]  # columns that identify a row
    values: tuple[str, ...]  # the other columns
    tolerance: float = 0.0  # allowed error of a number; 0 for exact ones, such as money

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        return self.keys + self.values


DEAD_LETTERS = Answer(
    "dead_letters",
    "Which messages are malformed? List each one once, by its place in the topic.",
    ("partition", "offset"),
    (),
)


@dataclass(frozen=True)
class Story:
    """All messages generated from one seed."""

    variant: str
    seed: int
    deliveries: Mapping[str, list[Sent]]  # in the order of sending

    def messages(self, deliveries: Iterable[str] = DELIVERIES) -> list[Sent]:
        """Return the messages of some deliveries."""
        return [sent for name in deliveries for sent in self.deliveries[name]]

    def events(self, deliveries: Iterable[str] = DELIVERIES) -> list[Event]:
        """Return the valid events of some deliveries; a resent event occurs twice."""
        return [sent.event for sent in self.messages(deliveries) if sent.event is not None]


class Variant(ABC):
    """One of the three systems that the learner can build."""

    name: ClassVar[str]
    title: ClassVar[str]
    entity: ClassVar[str]  # the column with the owner whose data can be deleted
    forget_op: ClassVar[str]
    forget_times: ClassVar[tuple[str, ...]] = ("ts", "received_at")  # time fields of that event
    leaving: ClassVar[tuple[str, str]]  # owners deleted in the first and in the late delivery
    until: ClassVar[dict[str, datetime]]  # end of each delivery's arrivals; see `schedule`
    late_span: ClassVar[timedelta]  # held-back events arrive so soon after the last crash
    mistakes: ClassVar[dict[str, Changes]]  # ways to malform an event, besides `CORRUPTIONS`
    rows: ClassVar[Answer]  # one row per key, in its newest version, with its `event_id`
    questions: ClassVar[tuple[Answer, ...]]
    most_files: ClassVar[int] = 40  # that a snapshot query may open at the end
    wish: ClassVar[str]  # the requirements, for the learner
    fields: ClassVar[dict[str, str]]  # fields of an event with their meaning
    valid: ClassVar[tuple[str, ...]]  # a message that breaks one of these rules is malformed
    changes: ClassVar[str]  # changes in version 2 of the app

    def story(self, seed: int) -> Story:
        """Generate the messages of a seed."""
        generator = StoryGenerator(self, seed)
        self.generate(generator)
        return generator.story()

    @abstractmethod
    def generate(self, generator: "StoryGenerator") -> None:
        """Add the events of all owners; two of the owners ask to be deleted."""

    @abstractmethod
    def as_sent(self, event: Event, delivery: str) -> Event:
        """Return the fields of an event's message as sent by the app version of this delivery."""

    @abstractmethod
    def winners(self, events: Iterable[Event]) -> dict[tuple, Event]:
        """Return the newest version of each key, except those of deleted owners."""

    @abstractmethod
    def row(self, event: Event) -> dict[str, Any]:
        """Return the row that the answer `rows` must have for a newest version."""

    @abstractmethod
    def answer(self, question: Answer, events: list[Event]) -> pd.DataFrame:
        """Return the right answer to one of the `questions`."""

    def key_of(self, event: Event) -> tuple:
        """Return the key of the row that an event changes."""
        return tuple(event[name] for name in self.rows.keys)

    def forgotten(self, events: Iterable[Event]) -> set[str]:
        """Return the deleted owners; a later event does not restore them."""
        return {event[self.entity] for event in events if event["op"] == self.forget_op}

    def kept(self, events: Iterable[Event]) -> list[Event]:
        """Return the events of owners that are not deleted."""
        events = list(events)
        gone = self.forgotten(events)
        return [event for event in events if event[self.entity] not in gone]

    def highest(self, field: str, events: Iterable[Event]) -> dict[tuple, Event]:
        """Return each key's event with the highest value of a field, except for deleted owners."""
        best: dict[tuple, Event] = {}
        for event in self.kept(events):
            key = self.key_of(event)
            if key not in best or event[field] > best[key][field]:
                best[key] = event
        return best

    def oracle(self, events: Iterable[Event]) -> dict[str, pd.DataFrame]:
        """Compute the right answer to each question, and the rows; dead letters are not included.

        Args:
            events: all valid events delivered, including resent ones, in any order.
        """
        events = list(events)
        rows = [self.row(event) for event in self.winners(events).values()]
        found = {self.rows.name: pd.DataFrame(rows, columns=list(self.rows.columns))}
        return found | {one.name: self.answer(one, events) for one in self.questions}


class StoryGenerator:
    """Collects a story's events and turns them into messages."""

    def __init__(self, variant: Variant, seed: int):
        self.variant, self.seed = variant, seed
        self.chance = Random(f"{variant.name}-{seed}")
        early, late = variant.leaving
        # The time of each request for deletion, after which the owner sends nothing.
        self.gone = {early: variant.until[FIRST] - MINUTE, late: variant.until[LATE] - MINUTE}
        self._planned: dict[str, list[Event]] = {name: [] for name in DELIVERIES}
        self._count = 0

    def event_id(self) -> str:
        """Return a new event id."""
        self._count += 1
        return f"{self.variant.name[0]}{self.seed % 10_000}-{self._count:05d}"

    def add(self, delivery: str, event: Event) -> None:
        """Add an event to a delivery."""
        self._planned[delivery].append(event)

    def leave(self, owner: str) -> None:
        """Add an event by which an owner requests deletion."""
        time = self.gone[owner]
        forget = {"event_id": self.event_id(), "op": self.variant.forget_op}
        forget |= {self.variant.entity: owner}
        forget |= dict.fromkeys(self.variant.forget_times, text(time))
        self.add(self.delivery_at(time), forget)

    def delivery_at(self, arrival: datetime) -> str:
        """Return the delivery that covers an arrival time."""
        ends = self.variant.until.items()
        return next((name for name, end in ends if arrival < end), VERSION_2)

    def late_arrival(self) -> datetime:
        """Return a random arrival time for a held-back event."""
        begin = self.variant.until[CRASHES[-1]]
        return between(self.chance, begin, begin + self.variant.late_span)

    def arrival(self, planned: datetime) -> tuple[str, datetime]:
        """Return the delivery and time at which an event arrives; some events are held back."""
        delivery = self.delivery_at(planned)
        if delivery != VERSION_2 and self.chance.random() < HELD_BACK:
            return LATE, self.late_arrival()
        return delivery, planned

    def story(self) -> Story:
        """Make the messages: events in the order of arrival, some resent, some malformed.

        The late delivery is in reverse order, so older versions follow newer ones.
        """
        self._hold_back_forgotten()
        deliveries: dict[str, list[Sent]] = {}
        earlier: list[tuple[Event, str]] = []
        for name, events in self._planned.items():
            events = sorted(events, key=lambda event: event["received_at"], reverse=name == LATE)
            messages = [(event, name, "late" if name == LATE else "event") for event in events]
            # In the late delivery the app resends some of its first events.
            pool = earlier if name == LATE and earlier else [(event, name) for event in events]
            again = max(1, round(len(events) * RESENT * (3 if name == LATE else 1)))
            for event, version in self.chance.sample(pool, min(again, len(pool))):
                own = [n for n, (e, _, _) in enumerate(messages) if e is event]
                place = self.chance.randrange(max([len(messages) // 2, *own]), len(messages))
                messages.insert(place + 1, (event, version, "resend"))
            deliveries[name] = self._with_malformed(name, messages)
            earlier += [(event, name) for event in events if event["op"] != self.variant.forget_op]
        return Story(self.variant.name, self.seed, deliveries)

    def _hold_back_forgotten(self) -> None:
        """Delay two events of each deleted owner until after the deletion."""
        first, late = self._planned[FIRST], self._planned[LATE]
        for gone in sorted(self.variant.forgotten(e for es in self._planned.values() for e in es)):
            own = [
                event
                for event in first
                if event[self.variant.entity] == gone and event["op"] != self.variant.forget_op
            ]
            for event in self.chance.sample(own, min(HELD_BACK_FORGOTTEN, len(own))):
                first.remove(event)
                late.append(event | {"received_at": late[0]["received_at"]})

    def _with_malformed(self, name: str, messages: list[tuple[Event, str, str]]) -> list[Sent]:
        sent = [
            self._sent(event, self._encoded(event, version), kind)
            for event, version, kind in messages
        ]
        ways = [*CORRUPTIONS, *self.variant.mistakes]
        usual = [m for m in messages if m[0]["op"] != self.variant.forget_op]
        for way in ways * max(1, round(len(sent) * MALFORMED / len(ways))):
            event, version, _ = self.chance.choice(usual)
            event = event | {"event_id": self.event_id()}
            if way in self.variant.mistakes:
                changes = self.variant.mistakes[way](event, self.chance)
                value = self._encoded(event, FIRST, **changes)
            else:
                value = CORRUPTIONS[way](self._encoded(event, version), self.chance)
            place = self.chance.randrange(len(sent) + 1)
            sent.insert(place, self._sent(event, value, f"malformed:{way}"))
        return sent

    def _encoded(self, event: Event, delivery: str, **changes: object) -> bytes:
        return json.dumps(self.variant.as_sent(event, delivery) | changes).encode()

    def _sent(self, event: Event, value: bytes, kind: str) -> Sent:
        self._count += 1
        send = Send(
            send_id=f"{self.variant.name}-{self.seed}-{self._count}",
            event_id=event["event_id"],
            order_id=event[self.variant.entity],
            key=event[self.variant.entity],
            value=value,
            kind=kind,
            op=event["op"],
            order_ts=micros(event["received_at"]),
            at=micros(event["received_at"]),
        )
        return Sent(send, None if kind.startswith("malformed") else event)


def _without_id(value: bytes, chance: Random) -> bytes:
    fields = json.loads(value)
    del fields["event_id"]
    return json.dumps(fields).encode()


def _edited(**changes: object) -> Callable[[bytes, Random], bytes]:
    return lambda value, chance: json.dumps(json.loads(value) | changes).encode()


# Ways to malform any event: from its bytes to other bytes.
CORRUPTIONS: dict[str, Callable[[bytes, Random], bytes]] = {
    "not_json": lambda value, chance: b"gateway error 502: " + value[2:20],
    "empty": lambda value, chance: b"",
    "truncated": lambda value, chance: value[: chance.randrange(20, len(value) - 2)],
    "missing_id": _without_id,
    "unknown_op": _edited(op="ping"),
    "no_arrival": _edited(received_at=None),
}


def one_of(field: str, *values: object) -> Changes:
    """Malform an event by setting a field to one of these values."""
    return lambda event, chance: {field: chance.choice(values)}


def clock_ahead(event: Event, chance: Random) -> Event:
    """Malform an event by setting its `ts` years ahead of its arrival."""
    return {"ts": "2031" + event["ts"][4:]}


def schedule(*until: datetime) -> dict[str, datetime]:
    """Map each delivery before version 2 to the end of its arrivals; the late one is the last."""
    return dict(zip((FIRST, *CRASHES, LATE), until, strict=True))


def at(day: int, hour: int, minute: int = 0, second: int = 0) -> datetime:
    """Return a time in November 2026, in UTC."""
    return datetime(2026, 11, day, hour, minute, second, tzinfo=UTC)


def text(time: datetime) -> str:
    """Format a time as the events have it: `2026-11-16T22:31:07Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(time: str) -> datetime:
    """Parse the output of `text`."""
    return datetime.fromisoformat(time)


def micros(time: str) -> int:
    """Convert a time in the events' format to microseconds since 1970."""
    return round(parse(time).timestamp() * 1_000_000)


def between(chance: Random, begin: datetime, end: datetime) -> datetime:
    """Return a random time between two times, in whole seconds."""
    return begin + timedelta(seconds=chance.randrange(max(1, int((end - begin).total_seconds()))))
