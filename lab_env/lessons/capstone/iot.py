"""IoT variant: cold-room sensors whose readings are corrected, late, misdated or in new units."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from math import fsum
from typing import Any, ClassVar

import pandas as pd

from lab_env.lessons.capstone.story import (
    LATE,
    VERSION_2,
    Answer,
    Event,
    StoryGenerator,
    Variant,
    at,
    clock_ahead,
    one_of,
    parse,
    schedule,
    text,
)

DEVICES = 24
EVERY = timedelta(minutes=2)
BEGIN, END = at(16, 22, 30), at(17, 1, 0)
WINDOW = 5  # minutes
CORRECTED, TWICE = 0.08, 0.03


class Iot(Variant):
    """One row per device and time; a correction with a higher revision replaces it."""

    name = "iot"
    title = "Cold rooms: the latest temperature, and means that corrections change"
    entity = "device_id"
    forget_op = "forget"
    forget_times = ("received_at",)
    leaving = ("D-05", "D-11")
    until = schedule(at(17, 0, 10), at(17, 0, 20), at(17, 0, 30), at(17, 0, 40), at(17, 0, 50))
    late_span = timedelta(minutes=8)
    mistakes: ClassVar = {
        "wrong_type": one_of("value", "warm", {"c": 4}, True, None),
        "no_device": one_of("device_id", None, ""),
        "clock": clock_ahead,
    }
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

    def generate(self, generator: StoryGenerator) -> None:
        """Generate a reading per device every two minutes, with a drifting temperature."""
        chance = generator.chance
        devices = [f"D-{number:02d}" for number in range(1, DEVICES + 1)]
        level = {device: chance.uniform(2, 7) for device in devices}
        for step in range(int((END - BEGIN) / EVERY)):
            for device in devices:
                time = BEGIN + step * EVERY + timedelta(seconds=chance.randrange(100))
                if time < generator.gone.get(device, END + EVERY):
                    self._measure(generator, device, time, round(level[device], 1))
                level[device] += chance.uniform(-0.4, 0.4)
        for device in self.leaving:
            generator.leave(device)

    def _measure(
        self, generator: StoryGenerator, device: str, time: datetime, value: float
    ) -> None:
        """Add a reading and its corrections, some of them late or in the wrong order."""
        chance = generator.chance
        reading: Event = {
            "event_id": generator.event_id(),
            "op": "reading",
            "device_id": device,
            "ts": text(time),
            "revision": 0,
            "value": value,
        }
        delivery, arrival = generator.arrival(time + timedelta(seconds=chance.randrange(1, 9)))
        generator.add(delivery, reading | {"received_at": text(arrival)})
        draw = chance.random()
        if draw > CORRECTED:
            return
        for revision in (1, 2) if draw < TWICE else (1,):
            corrected = min(arrival + timedelta(minutes=chance.randrange(5, 60)), END)
            correction = reading | {
                "event_id": generator.event_id(),
                "op": "correction",
                "revision": revision,
                "value": round(value + chance.uniform(-2, 2), 1),
            }
            delivery = generator.delivery_at(corrected)
            # The second correction overtakes the first.
            overtaken = draw < TWICE and revision == 1 and device not in self.leaving
            if overtaken and delivery != VERSION_2:
                delivery, corrected = LATE, generator.late_arrival()
            generator.add(delivery, correction | {"received_at": text(corrected)})

    def as_sent(self, event: Event, delivery: str) -> Event:
        """Return the fields: Celsius as a number; in version 2, text with a unit, mostly F."""
        if delivery != VERSION_2 or "value" not in event:
            return event
        unit = "C" if int(event["device_id"][2:]) % 4 == 0 else "F"
        value = event["value"] if unit == "C" else event["value"] * 9 / 5 + 32
        return event | {"value": f"{value:.2f}", "unit": unit}

    def winners(self, events: Iterable[Event]) -> dict[tuple, Event]:
        """Return the event with the highest revision for each device and time."""
        return self.highest("revision", events)

    def row(self, event: Event) -> dict[str, Any]:
        """Return the reading with its value in degrees Celsius."""
        row = event | {"celsius": event["value"]}
        return {name: row[name] for name in self.rows.columns}

    def answer(self, question: Answer, events: list[Event]) -> pd.DataFrame:
        """Return the latest reading of each device, or five-minute means."""
        rows = list(self.winners(events).values())
        if question.name == "latest":
            newest = {row["device_id"]: row for row in sorted(rows, key=lambda row: row["ts"])}
            found = [(d, row["ts"], row["value"]) for d, row in sorted(newest.items())]
        else:
            windows = defaultdict(list)
            for row in rows:
                time = parse(row["ts"])
                start = time.replace(minute=time.minute - time.minute % WINDOW, second=0)
                windows[row["device_id"], text(start)].append(row["value"])
            found = [(*key, fsum(all_) / len(all_)) for key, all_ in sorted(windows.items())]
        return pd.DataFrame(found, columns=list(question.columns))


IOT = Iot()
