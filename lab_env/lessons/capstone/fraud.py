"""Card payments: exposure to the cent through chargebacks days later, and as-of questions."""

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
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
    late_arrival,
    parse,
    schedule,
    text,
)

CARDS, PAYMENTS = 90, 900
BEGIN, END = at(16, 8), at(20, 20)
UNTIL = schedule(at(18, 22), at(19, 6), at(19, 14), at(19, 22), at(20, 2))
VERSION_2_FROM = at(20, 8)
AUDIT = "2026-11-18T18:00:00Z"  # as-of question of the auditor
HELD_BACK, CHANGED, CHARGED_BACK = 0.06, 0.3, 0.2
FORGOTTEN_EARLY, FORGOTTEN_LATE = "C-007", "C-031"


class Fraud(Variant):
    """Fraud: one row per payment; a card's exposure is paid but not charged back."""

    name = "fraud"
    title = "Card payments: exposure to the cent, and what was known when"
    entity = "card_id"
    forget_op = "erase"
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
    most_files = 40
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

    def story(self, seed: int) -> Story:
        """Messages of a seed."""
        plot = Plot(self, seed, _encode, lambda event: event["card_id"], SPOIL)
        chance = plot.chance
        gone = departures(UNTIL, FORGOTTEN_EARLY, FORGOTTEN_LATE)
        cards = [f"C-{number:03d}" for number in range(1, CARDS + 1)]
        for number in range(1, PAYMENTS + 1):
            # The last ones are new payments of version 2, with a fee.
            fresh = number > PAYMENTS * 0.85
            begin, end = (VERSION_2_FROM, END) if fresh else (BEGIN, at(19, 20))
            time = between(chance, begin, end)
            card = chance.choice(cards)
            if number % 70 in (0, 1):  # so that there is something to delete
                card = (FORGOTTEN_EARLY, FORGOTTEN_LATE)[number % 70]
            if time > gone.get(card, END):
                continue
            payment = {
                "event_id": plot.event_id(),
                "op": "pay",
                "payment_id": f"P-{number:04d}",
                "card_id": card,
                "amount": chance.randrange(500, 90_000),
                "fee": chance.randrange(10, 300) if fresh else 0,
                "ts": text(time),
                "received_at": text(time + timedelta(seconds=chance.randrange(1, 30))),
            }
            self._arrive(plot, payment)
            for change in self._changes(plot, payment, time, gone.get(card, END)):
                self._arrive(plot, change)
        for card, delivery in ((FORGOTTEN_EARLY, FIRST), (FORGOTTEN_LATE, LATE)):
            time = gone[card]
            erase = {"event_id": plot.event_id(), "op": "erase", "card_id": card}
            plot.add(delivery, erase | {"ts": text(time), "received_at": text(time)})
        return plot.story()

    def _changes(
        self, plot: Plot, payment: Event, time: datetime, end: datetime
    ) -> Iterable[Event]:
        """A new amount, hours later, and a chargeback, a day or two later."""
        chance = plot.chance
        last = time
        for op, share, hours in (("change", CHANGED, (1, 12)), ("chargeback", CHARGED_BACK, 48)):
            if chance.random() > share:
                continue
            low, high = hours if isinstance(hours, tuple) else (20, hours)
            last += timedelta(hours=chance.randrange(low, high), seconds=chance.randrange(1, 3600))
            if last >= end:
                return
            payment = payment | {"event_id": plot.event_id(), "op": op, "ts": text(last)}
            payment["received_at"] = text(last + timedelta(seconds=chance.randrange(1, 30)))
            if op == "change":
                payment["amount"] = chance.randrange(500, 90_000)
            yield payment

    def _arrive(self, plot: Plot, event: Event) -> None:
        """Let an event arrive, perhaps late, after newer versions."""
        chance = plot.chance
        arrival = parse(event["received_at"])
        delivery = delivery_of(arrival, UNTIL)
        if delivery != VERSION_2 and chance.random() < HELD_BACK:
            delivery = LATE
            late = late_arrival(chance, UNTIL, timedelta(hours=2))
            event = event | {"received_at": text(late)}
        plot.add(delivery, event)

    def winners(self, events: Iterable[Event]) -> dict[tuple, Event]:
        """Newest event of each payment by `ts`."""
        return self.highest("ts", events)

    def row(self, event: Event) -> dict[str, Any]:
        """Payment with its amount in euros."""
        return {
            "payment_id": event["payment_id"],
            "card_id": event["card_id"],
            "amount": Decimal(event["amount"]).scaleb(-2),
            "event_id": event["event_id"],
        }

    def answer(self, question: Answer, events: list[Event]) -> pd.DataFrame:
        """Exposure per card, from all events or from those that were received by `AUDIT`."""
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


def _encode(event: Event, delivery: str) -> bytes:
    """Encode an event; version 2 has a fee, which is 0 if version 1 had none."""
    fields = dict(event)
    fee = fields.pop("fee", 0)
    if "amount" in fields:
        fields["amount"] = _money(fields["amount"])
    if fee:
        fields["fee"] = _money(fee)
    return json.dumps(fields).encode()


def _spoiled(changes):
    def spoil(event, chance):
        return json.dumps(json.loads(_encode(event, FIRST)) | changes(event, chance)).encode()

    return spoil


SPOIL = {
    "wrong_type": _spoiled(
        lambda event, chance: {"amount": chance.choice(["twelve euros", {"eur": 12}, True, None])}
    ),
    "no_payment": _spoiled(lambda event, chance: {"payment_id": chance.choice([None, ""])}),
    "negative": _spoiled(lambda event, chance: {"amount": -_money(event["amount"])}),
}

FRAUD = Fraud()
