"""Cold rooms: sensor readings that are corrected, late, misdated, and change their unit."""

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from math import fsum
from random import Random
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
    delivery_of,
    departures,
    edited,
    late_arrival,
    parse,
    schedule,
    text,
)

DEVICES = 24
EVERY = timedelta(minutes=2)
BEGIN, END = at(16, 22, 30), at(17, 1, 0)
# End of each delivery's arrivals; the late delivery also has the held-back events.
UNTIL = schedule(at(17, 0, 10), at(17, 0, 20), at(17, 0, 30), at(17, 0, 40), at(17, 0, 50))
WINDOW = 5  # minutes
HELD_BACK, CORRECTED, TWICE = 0.06, 0.08, 0.03
FORGOTTEN_EARLY, FORGOTTEN_LATE = "D-05", "D-11"


class Iot(Variant):
    """Iot: one row per device and time; corrections replace it by their revision."""

    name = "iot"
    title = "Cold rooms: the latest temperature, and means that corrections change"
    entity = "device_id"
    forget_op = "forget"
    rows = Answer(
        "readings",
        "What did each device measure? The highest revision of each reading.",
        ("device_id", "ts"),
        ("celsius", "event_id"),
        tolerance=0.01,
    )
    questions = (
        Answer(
            "latest",
            "What is the latest reading of each device?",
            ("device_id",),
            ("ts", "celsius"),
            tolerance=0.01,
        ),
        Answer(
            "means",
            "What is the mean of each device per five minutes, by the time of measurement?",
            ("device_id", "window_start"),
            ("mean",),
            tolerance=0.01,
        ),
    )
    most_files = 40
    wish = (
        "The shop now sells chilled food, and rents cold rooms to others. Each sensor sends a "
        "reading every two minutes. The display on the wall shows the latest temperature of each "
        "device; the inspector wants five-minute means. A technician may correct a reading "
        "later: a correction has the device and the time of the reading, and a higher revision. "
        "When a tenant leaves, all readings of the device are deleted, for good."
    )
    fields: ClassVar[dict[str, str]] = {
        "event_id": "identifies the event; a resend is the same message again",
        "op": "reading, correction or forget",
        "device_id": "the sensor",
        "ts": "when it was measured; a forget event has none",
        "revision": "0 for a reading, 1 and 2 for its corrections; the highest counts",
        "value": "the temperature: in version 1 a number, in version 2 a text",
        "unit": "C or F, from version 2 on; without one it is C",
        "received_at": "when the gateway received it",
    }
    valid = (
        "it is a JSON object",
        "event_id, device_id and received_at are present and not empty",
        "op is one of the three",
        "except in a forget event, value is a number (or a text with one), revision is present, "
        "and ts is a time at most one day after received_at",
    )
    changes = 'Version 2 sends the value as a text, with its unit: `"value": "39.20", "unit": "F"`.'

    def story(self, seed: int) -> Story:
        """Messages of a seed."""
        plot = Plot(self, seed, _encode, lambda event: event["device_id"], SPOIL)
        chance = plot.chance
        devices = [f"D-{number:02d}" for number in range(1, DEVICES + 1)]
        level = {device: chance.uniform(2, 7) for device in devices}
        gone = departures(UNTIL, FORGOTTEN_EARLY, FORGOTTEN_LATE)
        for step in range(int((END - BEGIN) / EVERY)):
            for device in devices:
                time = BEGIN + step * EVERY + timedelta(seconds=chance.randrange(100))
                if time < gone.get(device, END + EVERY):
                    reading = _reading(plot, device, time, round(level[device], 1))
                    self._arrive(plot, reading)
                level[device] += chance.uniform(-0.4, 0.4)
        for device, delivery in ((FORGOTTEN_EARLY, FIRST), (FORGOTTEN_LATE, LATE)):
            forget = {"event_id": plot.event_id(), "op": "forget", "device_id": device}
            plot.add(delivery, forget | {"received_at": text(gone[device])})
        return plot.story()

    def _arrive(self, plot: Plot, reading: Event) -> None:
        """Let a reading and its corrections arrive, some of them late or in the wrong order."""
        chance = plot.chance
        delivery = _delivery(reading)
        if delivery != VERSION_2 and chance.random() < HELD_BACK:
            delivery = LATE
            reading["received_at"] = _late_arrival(chance)
        plot.add(delivery, reading)
        draw = chance.random()
        if draw > CORRECTED:
            return
        sure = reading["device_id"] in (FORGOTTEN_EARLY, FORGOTTEN_LATE)
        for revision in (1, 2) if draw < TWICE else (1,):
            arrival = parse(reading["received_at"]) + timedelta(minutes=chance.randrange(5, 60))
            correction = reading | {
                "event_id": plot.event_id(),
                "op": "correction",
                "revision": revision,
                "value": round(reading["value"] + chance.uniform(-2, 2), 1),
                "received_at": text(min(arrival, END)),
            }
            where = _delivery(correction)
            # The second correction overtakes the first.
            if draw < TWICE and revision == 1 and where != VERSION_2 and not sure:
                where = LATE
                correction["received_at"] = _late_arrival(chance)
            plot.add(where, correction)

    def winners(self, events: Iterable[Event]) -> dict[tuple, Event]:
        """Highest revision of each device and time."""
        return self.highest("revision", events)

    def row(self, event: Event) -> dict[str, Any]:
        """Value in degrees Celsius, as in the message."""
        return {
            "device_id": event["device_id"],
            "ts": event["ts"],
            "celsius": event["value"],
            "event_id": event["event_id"],
        }

    def answer(self, question: Answer, events: list[Event]) -> pd.DataFrame:
        """Latest reading of each device, or five-minute means."""
        rows = list(self.winners(events).values())
        if question.name == "latest":
            newest: dict[str, Event] = {}
            for row in rows:
                if row["ts"] > newest.get(row["device_id"], {"ts": ""})["ts"]:
                    newest[row["device_id"]] = row
            found = [(d, row["ts"], row["value"]) for d, row in sorted(newest.items())]
        else:
            windows = defaultdict(list)
            for row in rows:
                time = parse(row["ts"])
                start = time.replace(minute=time.minute - time.minute % WINDOW, second=0)
                windows[row["device_id"], text(start)].append(row["value"])
            found = [(*key, fsum(all_) / len(all_)) for key, all_ in sorted(windows.items())]
        return pd.DataFrame(found, columns=list(question.columns))


def _reading(plot: Plot, device: str, time, value: float) -> Event:
    return {
        "event_id": plot.event_id(),
        "op": "reading",
        "device_id": device,
        "ts": text(time),
        "revision": 0,
        "value": value,
        "received_at": text(time + timedelta(seconds=plot.chance.randrange(1, 9))),
    }


def _delivery(event: Event) -> str:
    return delivery_of(parse(event["received_at"]), UNTIL)


def _late_arrival(chance: Random) -> str:
    return text(late_arrival(chance, UNTIL, timedelta(minutes=8)))


def _encode(event: Event, delivery: str) -> bytes:
    """Encode a reading: version 1 a number in Celsius; version 2 text and unit, F for most
    devices.
    """
    if delivery != VERSION_2 or "value" not in event:
        return json.dumps(event).encode()
    unit = "C" if int(event["device_id"][2:]) % 4 == 0 else "F"
    value = event["value"] if unit == "C" else event["value"] * 9 / 5 + 32
    return json.dumps(event | {"value": f"{value:.2f}", "unit": unit}).encode()


SPOIL = {
    "wrong_type": edited(
        lambda event, chance: {"value": chance.choice(["warm", {"c": 4}, True, None])}
    ),
    "no_device": edited(lambda event, chance: {"device_id": chance.choice([None, ""])}),
    # A clock that was reset: a reading cannot be newer than its arrival.
    "clock": edited(lambda event, chance: {"ts": "2031" + event["ts"][4:]}),
}

IOT = Iot()
