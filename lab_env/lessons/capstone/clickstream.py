"""Clicks: sessions with a gap of half an hour, a robot, and visitors who withdraw consent."""

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, ClassVar

import pandas as pd

from lab_env.lessons.capstone.story import (
    FIRST,
    LATE,
    VERSION_2,
    Answer,
    Event,
    Plot,
    Story,
    Variant,
    at,
    between,
    delivery_of,
    departures,
    edited,
    late_arrival,
    parse,
    schedule,
    text,
)

VISITORS, VISITS = 90, 260
BEGIN, END = at(16, 18), at(17, 14)
UNTIL = schedule(at(17, 7), at(17, 8, 30), at(17, 10), at(17, 11, 30), at(17, 12, 30))
GAP = timedelta(minutes=30)
HELD_BACK = 0.06
ROBOT = "V-001"  # a fifth of all views
FORGOTTEN_EARLY, FORGOTTEN_LATE = "V-013", "V-042"
PAGES = ("/", "/search", "/product/17", "/product/4", "/basket", "/checkout", "/help")


class Clickstream(Variant):
    """One row per view; a session ends when its visitor does nothing for half an hour."""

    name = "clickstream"
    title = "Clicks: sessions, and visitors who withdraw consent"
    entity = "visitor_id"
    forget_op = "withdraw"
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
    most_files = 40
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

    def story(self, seed: int) -> Story:
        """Messages of a seed."""
        plot = Plot(self, seed, _encode, lambda event: event["visitor_id"], SPOIL)
        chance = plot.chance
        gone = departures(UNTIL, FORGOTTEN_EARLY, FORGOTTEN_LATE)
        people = [f"V-{number:03d}" for number in range(2, VISITORS + 1)]
        taken: dict[str, set] = defaultdict(set)
        for number in range(VISITS):
            visitor = ROBOT if number % 8 == 0 else chance.choice(people)
            time = between(chance, BEGIN, END)
            for _ in range(chance.randrange(1, 16 if visitor == ROBOT else 9)):
                # Two views of one visitor in the same second would leave the entry page undefined.
                while time in taken[visitor]:
                    time += timedelta(seconds=1)
                if time >= gone.get(visitor, END):
                    break
                taken[visitor].add(time)
                self._arrive(plot, visitor, time)
                time += timedelta(seconds=chance.randrange(5, 900))
        for visitor, delivery in ((FORGOTTEN_EARLY, FIRST), (FORGOTTEN_LATE, LATE)):
            for _ in range(4):  # so that there is something to delete
                self._arrive(plot, visitor, self._free(plot, taken[visitor]))
            time = gone[visitor]
            withdraw = {"event_id": plot.event_id(), "op": "withdraw", "visitor_id": visitor}
            plot.add(delivery, withdraw | {"ts": text(time), "received_at": text(time)})
        return plot.story()

    def _free(self, plot: Plot, taken: set):
        """A time in the first delivery when this visitor views nothing else."""
        while (time := between(plot.chance, BEGIN, UNTIL[FIRST])) in taken:
            pass
        taken.add(time)
        return time

    def _arrive(self, plot: Plot, visitor: str, time) -> None:
        chance = plot.chance
        arrival = time + timedelta(seconds=chance.randrange(1, 9))
        delivery = delivery_of(arrival, UNTIL)
        if delivery != VERSION_2 and chance.random() < HELD_BACK:
            delivery = LATE
            arrival = late_arrival(chance, UNTIL, timedelta(hours=1))
        event = {
            "event_id": plot.event_id(),
            "op": "view",
            "visitor_id": visitor,
            "page": chance.choice(PAGES),
            "ts": text(time),
            "received_at": text(arrival),
        }
        plot.add(delivery, event)

    def winners(self, events: Iterable[Event]) -> dict[tuple, Event]:
        """Each view once."""
        return {self.key_of(event): event for event in self.kept(events)}

    def row(self, event: Event) -> dict[str, Any]:
        """View as it was sent."""
        return {name: event[name] for name in self.rows.columns}

    def answer(self, question: Answer, events: list[Event]) -> pd.DataFrame:
        """Sessions of each visitor."""
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


def _encode(event: Event, delivery: str) -> bytes:
    """Encode a view; version 2 puts the page in an object, with its title."""
    if delivery != VERSION_2 or "page" not in event:
        return json.dumps(event).encode()
    fields = dict(event)
    path = fields.pop("page")
    return json.dumps(fields | {"view": {"path": path, "title": f"Shop {path}"}}).encode()


SPOIL = {
    "no_page": edited(lambda event, chance: {"page": chance.choice([None, ""])}),
    "no_visitor": edited(lambda event, chance: {"visitor_id": chance.choice([None, ""])}),
    "clock": edited(lambda event, chance: {"ts": "2031" + event["ts"][4:]}),
}

CLICKSTREAM = Clickstream()
