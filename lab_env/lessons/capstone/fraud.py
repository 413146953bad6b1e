"""Fraud variant: card payments, chargebacks days later, and exposure to the cent as of a moment."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import pandas as pd

from lab_env.lessons.capstone.story import (
    Answer,
    Event,
    StoryGenerator,
    Variant,
    at,
    between,
    one_of,
    parse,
    schedule,
    text,
)

CARDS, PAYMENTS = 90, 900
BEGIN, END = at(16, 8), at(20, 20)
VERSION_2_FROM = at(20, 8)
AUDIT = "2026-11-18T18:00:00Z"  # as-of question of the auditor
# Share of the payments, and hours after the event before.
CHANGES = (("change", 0.3, (1, 12)), ("chargeback", 0.2, (20, 48)))


class Fraud(Variant):
    """One row per payment; a card's exposure is the sum of its payments not charged back."""

    name = "fraud"
    title = "Card payments: exposure to the cent, and what was known when"
    entity = "card_id"
    forget_op = "erase"
    leaving = ("C-007", "C-031")
    until = schedule(at(18, 22), at(19, 6), at(19, 14), at(19, 22), at(20, 2))
    late_span = timedelta(hours=2)
    mistakes: ClassVar = {
        "wrong_type": one_of("amount", "twelve euros", {"eur": 12}, True, None),
        "no_payment": one_of("payment_id", None, ""),
        "negative": lambda event, chance: {"amount": -_money(event["amount"])},
    }
    rows = Answer(
        "payments",
        "What is the newest version of each payment?",
        ("payment_id",),
        ("card_id", "amount", "event_id"),
    )
    questions = (
        Answer(
            "exposure",
            "How much is open on each card (it may be 0)? Sum the amounts and fees of payments "
            "that are not charged back.",
            ("card_id",),
            ("exposure",),
        ),
        Answer(
            "known",
            f"What was the answer at {AUDIT}, from the events received until then?",
            ("card_id",),
            ("exposure",),
        ),
    )
    wish = (
        "The shop carries the risk of each card payment until it is settled. Risk management wants "
        "to know how much is open on each card, to the cent. The amount of a payment may change "
        "hours later, and a chargeback may cancel it days later. The auditor asks what was known "
        "at a certain time. When a card holder asks for erasure, everything about the card is "
        "removed, for good."
    )
    fields: ClassVar[dict[str, str]] = {
        "event_id": "identifies the event; a resend is the same message again",
        "op": "pay, change, chargeback or erase",
        "payment_id": "the payment; an erase event has none",
        "card_id": "the card",
        "amount": "in euros; an erase event has none",
        "fee": "in euros, from version 2 on; without one it is 0",
        "ts": "when it happened; the newest event of a payment wins",
        "received_at": "when the gateway received it",
    }
    valid = (
        "it is a JSON object",
        "event_id, card_id, ts and received_at are present and not empty",
        "op is one of the four",
        "except in an erase event, payment_id is present and not empty, and amount is a number "
        "that is not negative",
    )
    changes = "Version 2 sends a `fee` with new payments. It belongs to the exposure."

    def generate(self, generator: StoryGenerator) -> None:
        """Generate the cards' payments; the last ones come from version 2, with a fee."""
        chance = generator.chance
        cards = [f"C-{number:03d}" for number in range(1, CARDS + 1)]
        for number in range(1, PAYMENTS + 1):
            fresh = number > PAYMENTS * 0.85
            first, last = (VERSION_2_FROM, END) if fresh else (BEGIN, at(19, 20))
            time = between(chance, first, last)
            card = chance.choice(cards)
            if number % 70 in (0, 1):  # so that there is something to delete
                card = self.leaving[number % 70]
            end = generator.gone.get(card, END)
            if time > end:
                continue
            payment = {
                "event_id": generator.event_id(),
                "op": "pay",
                "payment_id": f"P-{number:04d}",
                "card_id": card,
                "amount": chance.randrange(500, 90_000),
                "fee": chance.randrange(10, 300) if fresh else 0,
                "ts": text(time),
                "received_at": text(time + timedelta(seconds=chance.randrange(1, 30))),
            }
            self._arrive(generator, payment)
            for change in self._changes(generator, payment, time, end):
                self._arrive(generator, change)
        for card in self.leaving:
            generator.leave(card)

    def _changes(
        self, generator: StoryGenerator, payment: Event, time: datetime, end: datetime
    ) -> Iterable[Event]:
        """Yield amount changes and chargebacks of some payments, until the card's owner leaves."""
        chance = generator.chance
        for op, share, hours in CHANGES:
            if chance.random() > share:
                continue
            time += timedelta(hours=chance.randrange(*hours), seconds=chance.randrange(1, 3600))
            if time >= end:
                return
            payment = payment | {"event_id": generator.event_id(), "op": op, "ts": text(time)}
            payment["received_at"] = text(time + timedelta(seconds=chance.randrange(1, 30)))
            if op == "change":
                payment["amount"] = chance.randrange(500, 90_000)
            yield payment

    def _arrive(self, generator: StoryGenerator, event: Event) -> None:
        delivery, arrival = generator.arrival(parse(event["received_at"]))
        generator.add(delivery, event | {"received_at": text(arrival)})

    def as_sent(self, event: Event, delivery: str) -> Event:
        """Return the message's fields, in euros; only payments new in version 2 have a fee."""
        money = {name: _money(event[name]) for name in ("amount", "fee") if event.get(name)}
        return {name: value for name, value in event.items() if name != "fee"} | money

    def winners(self, events: Iterable[Event]) -> dict[tuple, Event]:
        """Return each payment's newest event by `ts`."""
        return self.highest("ts", events)

    def row(self, event: Event) -> dict[str, Any]:
        """Return the payment with its amount in euros."""
        row = event | {"amount": Decimal(event["amount"]).scaleb(-2)}
        return {name: row[name] for name in self.rows.columns}

    def answer(self, question: Answer, events: list[Event]) -> pd.DataFrame:
        """Return the exposure per card, from all events or only those received by `AUDIT`."""
        gone = self.forgotten(events)
        if question.name == "known":
            events = [event for event in events if event["received_at"] <= AUDIT]
        cents: dict[str, int] = defaultdict(int)
        for event in self.winners(events).values():
            if event["card_id"] not in gone:
                still_open = event["op"] != "chargeback"
                cents[event["card_id"]] += (event["amount"] + event["fee"]) * still_open
        rows = [(card, Decimal(total).scaleb(-2)) for card, total in sorted(cents.items())]
        return pd.DataFrame(rows, columns=list(question.columns))


def _money(cents: int) -> float:
    return round(cents / 100, 2)


FRAUD = Fraud()
