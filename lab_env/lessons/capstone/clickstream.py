"""Clickstream variant: sessions split by half-hour gaps, a robot, and withdrawn consent."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, ClassVar

import pandas as pd

from lab_env.lessons.capstone.story import (
    FIRST,
    VERSION_2,
    Answer,
    Event,
    StoryGenerator,
    Variant,
    at,
    between,
    clock_ahead,
    one_of,
    parse,
    schedule,
    text,
)

VISITORS, VISITS = 90, 260
BEGIN, END = at(16, 18), at(17, 14)
GAP = timedelta(minutes=30)
ROBOT = "V-001"  # a fifth of all views
PAGES = ("/", "/search", "/product/17", "/product/4", "/basket", "/checkout", "/help")


class Clickstream(Variant):
    """One row per page view; a session ends after half an hour without activity."""

    name = "clickstream"
    title = "Clicks: sessions, and visitors who withdraw consent"
    entity = "visitor_id"
    forget_op = "withdraw"
    leaving = ("V-013", "V-042")
    until = schedule(at(17, 7), at(17, 8, 30), at(17, 10), at(17, 11, 30), at(17, 12, 30))
    late_span = timedelta(hours=1)
    mistakes: ClassVar = {
        "no_page": one_of("page", None, ""),
        "no_visitor": one_of("visitor_id", None, ""),
        "clock": clock_ahead,
    }
    rows = Answer(
        "views",
        "Which pages were viewed? Each view once.",
        ("event_id",),
        ("visitor_id", "page", "ts"),
    )
    questions = (
        Answer(
            "sessions",
            "Which sessions did each visitor have, from the first view to the last?",
            ("visitor_id", "started"),
            ("ended", "views", "entry_page"),
        ),
    )
    wish = (
        "Marketing wants to know how people use the shop: their sessions, and the page on which "
        "each began. A session ends when its visitor does nothing for more than half an hour. "
        "One visitor is a robot that makes a fifth of all views. Visitors who withdraw consent "
        "are removed from every table and every answer, for good."
    )
    fields: ClassVar[dict[str, str]] = {
        "event_id": "identifies the view; a resend is the same message again",
        "op": "view or withdraw",
        "visitor_id": "who",
        "page": "the page; in version 2 it is `view.path`; a withdraw event has none",
        "ts": "when",
        "received_at": "when the gateway received it",
    }
    valid = (
        "it is a JSON object",
        "event_id, visitor_id, ts and received_at are present and not empty",
        "op is one of the two",
        "ts is a time at most one day after received_at",
        "except in a withdraw event, the page is present and not empty",
    )
    changes = (
        "Version 2 sends the page in an object, with its title: "
        '`"view": {"path": "/help", "title": "Shop /help"}`.'
    )

    def generate(self, generator: StoryGenerator) -> None:
        """Generate the visits of people and of the robot."""
        chance = generator.chance
        people = [f"V-{number:03d}" for number in range(2, VISITORS + 1)]
        # Two views of one visitor in the same second would leave the entry page undefined.
        taken: dict[str, set[datetime]] = defaultdict(set)
        for number in range(VISITS):
            visitor = ROBOT if number % 8 == 0 else chance.choice(people)
            time = between(chance, BEGIN, END)
            for _ in range(chance.randrange(1, 16 if visitor == ROBOT else 9)):
                while time in taken[visitor]:
                    time += timedelta(seconds=1)
                if time >= generator.gone.get(visitor, END):
                    break
                taken[visitor].add(time)
                self._view(generator, visitor, time)
                time += timedelta(seconds=chance.randrange(5, 900))
        for visitor in self.leaving:
            for _ in range(4):  # so that there is something to delete
                while (time := between(chance, BEGIN, self.until[FIRST])) in taken[visitor]:
                    pass
                taken[visitor].add(time)
                self._view(generator, visitor, time)
            generator.leave(visitor)

    def _view(self, generator: StoryGenerator, visitor: str, time: datetime) -> None:
        chance = generator.chance
        delivery, arrival = generator.arrival(time + timedelta(seconds=chance.randrange(1, 9)))
        event = {
            "event_id": generator.event_id(),
            "op": "view",
            "visitor_id": visitor,
            "page": chance.choice(PAGES),
            "ts": text(time),
            "received_at": text(arrival),
        }
        generator.add(delivery, event)

    def as_sent(self, event: Event, delivery: str) -> Event:
        """Return the message's fields; version 2 nests the page and its title in an object."""
        if delivery != VERSION_2 or "page" not in event:
            return event
        fields = dict(event)
        path = fields.pop("page")
        return fields | {"view": {"path": path, "title": f"Shop {path}"}}

    def winners(self, events: Iterable[Event]) -> dict[tuple, Event]:
        """Return each view once."""
        return {self.key_of(event): event for event in self.kept(events)}

    def row(self, event: Event) -> dict[str, Any]:
        """Return the view as sent."""
        return {name: event[name] for name in self.rows.columns}

    def answer(self, question: Answer, events: list[Event]) -> pd.DataFrame:
        """Return the sessions of each visitor."""
        views = sorted(
            (event["visitor_id"], event["ts"], event["page"])
            for event in self.winners(events).values()
        )
        found: list[list] = []
        for visitor, time, page in views:
            last = found[-1] if found else None
            if last and last[0] == visitor and parse(time) - parse(last[2]) <= GAP:
                last[2], last[3] = time, last[3] + 1
            else:
                found.append([visitor, time, time, 1, page])
        return pd.DataFrame(found, columns=list(question.columns))


CLICKSTREAM = Clickstream()
