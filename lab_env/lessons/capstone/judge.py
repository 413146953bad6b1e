"""Compares the learner's answers with the oracle's, and explains a mistake in one sentence."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

import pandas as pd

from lab_env.course.answers import Unreadable, as_number, as_rows, plain
from lab_env.lessons.capstone.story import (
    CRASHES,
    DEAD_LETTERS,
    Answer,
    Event,
    Story,
    Variant,
    micros,
)

TIMES = ("ts", "started", "ended", "window_start")
NUMBERS = ("celsius", "mean", "amount", "exposure", "views", "partition", "offset")
UNREAD = 0.9  # share of missing newest versions above which a delivery counts as unread
AT_LEAST = 5
KEEPS_ALL = 0.97  # share of messages with a row above which the table keeps every message
PLURAL = {"is": "are", "has": "have", "shows": "show"}

Row = dict[str, Any]
Place = tuple[int, int]  # topic partition and offset


@dataclass(frozen=True)
class Delivered:
    """The messages delivered so far."""

    variant: Variant
    story: Story
    deliveries: tuple[str, ...]
    places: Mapping[str, Place]  # of each acknowledged message, by its send id

    @property
    def events(self) -> list[Event]:
        """Valid events; a resent event occurs twice."""
        return self.story.events(self.deliveries)

    @property
    def malformed(self) -> dict[Place, str]:
        """Text of each malformed message, by topic partition and offset."""
        return {
            self.places[sent.send.send_id]: sent.send.value.decode(errors="replace")
            for sent in self.story.messages(self.deliveries)
            if sent.event is None
        }

    @cached_property
    def first(self) -> dict[str, tuple[str, Place, str]]:
        """Each event's first message, by event id: delivery, (partition, offset) and text."""
        found: dict[str, tuple[str, Place, str]] = {}
        for name in self.deliveries:
            for sent in self.story.deliveries[name]:
                if sent.event is not None:
                    place, text = self.places[sent.send.send_id], sent.send.value.decode()
                    found.setdefault(sent.event["event_id"], (name, place, text))
        return found

    def describe(self, key: Iterable) -> str:
        """Format a row's key as in the examples: `D-07 at 2026-11-16T22:31:07Z`."""
        return " at ".join(map(str, key))


def problem_with_rows(found: pd.DataFrame, delivered: Delivered) -> str:
    """Describe what is wrong with the rows of the newest versions; empty if nothing is."""
    variant, answer = delivered.variant, delivered.variant.rows
    rows = readable(found, answer)
    events, name = delivered.events, answer.name
    winners = {_key(answer, variant.row(e)): e for e in variant.winners(events).values()}
    gone, known = variant.forgotten(events), {e["event_id"]: e for e in events}
    shown: dict[tuple, list[Row]] = {}
    for row in rows:
        shown.setdefault(_key(answer, row), []).append(row)

    if not rows:
        return f"`{name}` is empty, but should have {len(winners):,} rows."
    if unread := _unread(winners, shown, delivered):
        return unread
    doubled = {key: found for key, found in shown.items() if len(found) > 1}
    of_rows = sum(event["op"] != variant.forget_op for event in variant.kept(events))
    if len(doubled) >= AT_LEAST and len(rows) >= KEEPS_ALL * of_rows:
        return (
            f"`{name}` has {len(rows):,} rows for {len(shown):,} keys: every message became a "
            "row, resends included. Which operation replaces the row of a known key?"
        )
    if doubled:
        key, both = next(iter(sorted(doubled.items())))
        ids = " and ".join(sorted({str(row["event_id"]) for row in both}))
        return (
            f"{_many(doubled, 'key', 'has', name)} more than one row, for example "
            f"{_example(answer, both[0])}: events {ids}. Where does a new version look for the old "
            "one?"
        )
    ghosts = [row for row in rows if _entity_of(row, variant, known) in gone]
    if ghosts:
        who = sorted({_entity_of(row, variant, known) for row in ghosts})
        delivery = next(
            name
            for name in reversed(delivered.deliveries)
            if any(e["event_id"] == ghosts[0]["event_id"] for e in delivered.story.events([name]))
        )
        return (
            f"{_many(ghosts, 'row', 'is', name)} of {', '.join(who)}, who must be "
            f"forgotten for good. For example event {ghosts[0]['event_id']}, from the delivery "
            f"{delivery!r}: later messages must not restore deleted rows."
        )
    strangers = [key for key in shown if key not in winners]
    if strangers:
        return (
            f"{_many(strangers, 'row', 'has', name)} a key that no valid message "
            f"has, for example {_example(answer, shown[strangers[0]][0])}."
        )
    stale = [k for k, e in winners.items() if k in shown and _other(shown[k][0], e)]
    if stale:
        key = stale[0]
        newest, old = winners[key], str(shown[key][0]["event_id"])
        _, place, _ = delivered.first[newest["event_id"]]
        return (
            f"{_many(stale, 'key', 'shows', name)} an older event, for example "
            f"{_example(answer, shown[key][0])}: it shows {old}, and the newest is "
            f"{newest['event_id']} (partition {place[0]}, offset {place[1]:,}). What decides which "
            "version wins?"
        )
    missing = [key for key in winners if key not in shown]
    if missing:
        event = winners[missing[0]]
        delivery, place, text = delivered.first[event["event_id"]]
        return (
            f"{_many(missing, 'row', 'is', name)} missing, for example event "
            f"{event['event_id']} of the delivery {delivery!r} (partition {place[0]}, offset "
            f"{place[1]:,}): {text}"
        )
    for key, event in winners.items():
        if wrong := _wrong_value(shown[key][0], variant.row(event), answer):
            text = delivered.first[event["event_id"]][2]
            return f"Event {event['event_id']} in `{name}`: {wrong}. The message: {text}"
    return ""


def problem_with_dead_letters(found: pd.DataFrame, delivered: Delivered) -> str:
    """Describe what is wrong with the dead letters; empty if nothing is."""
    places = [(int(row["partition"]), int(row["offset"])) for row in readable(found, DEAD_LETTERS)]
    malformed = delivered.malformed
    if missing := sorted(set(malformed) - set(places)):
        partition, offset = missing[0]
        return (
            f"{_many(missing, 'message', 'is')} in neither the table nor the dead "
            f"letters, for example partition {partition}, offset {offset:,}: "
            f"{malformed[missing[0]][:90]!r}"
        )
    if wrong := sorted(set(places) - set(malformed)):
        partition, offset = wrong[0]
        texts = {
            delivered.places[sent.send.send_id]: sent.send.value.decode(errors="replace")
            for sent in delivered.story.messages(delivered.deliveries)
        }
        return (
            f"{_many(wrong, 'dead letter', 'is')} valid, for example partition "
            f"{partition}, offset {offset:,}: {texts.get(wrong[0], 'no such message')[:200]}"
        )
    if twice := sorted(place for place, times in Counter(places).items() if times > 1):
        return (
            f"{_many(twice, 'dead letter', 'is')} there twice, for example partition "
            f"{twice[0][0]}, offset {twice[0][1]:,}. A batch that was killed is replayed."
        )
    return ""


def problem_with_answer(found: pd.DataFrame, answer: Answer, right: pd.DataFrame) -> str:
    """Describe what is wrong with the answer to a question; empty if nothing is."""
    rows = readable(found, answer)
    wanted = {_key(answer, row): row for row in right.to_dict("records")}
    shown = {_key(answer, row): row for row in rows}
    if len(shown) < len(rows):
        doubled = next(k for k, n in Counter(_key(answer, r) for r in rows).items() if n > 1)
        example = _example(answer, shown[doubled])
        return f"`{answer.name}` has more than one row for {example}."
    if missing := [key for key in wanted if key not in shown]:
        return (
            f"{_many(missing, 'row', 'is', answer.name)} missing, for example "
            f"{_example(answer, wanted[missing[0]])}; it should have {len(wanted):,}."
        )
    if strangers := [key for key in shown if key not in wanted]:
        return (
            f"`{answer.name}` has {len(shown):,} rows but should have {len(wanted):,}. It should "
            f"not have {_example(answer, shown[strangers[0]])}."
        )
    wrong = {k: w for k, row in wanted.items() if (w := _wrong_value(shown[k], row, answer))}
    if wrong:
        key = next(iter(wrong))
        return (
            f"{_many(wrong, 'row', 'is', answer.name)} wrong, for example "
            f"{_example(answer, wanted[key])}: {wrong[key]}."
        )
    return ""


def readable(found: pd.DataFrame, answer: Answer) -> list[Row]:
    """Return an answer's rows with times in microseconds since 1970 and numbers as Decimal.

    Raises:
        Unreadable: a column is missing, or a value has the wrong type.
    """
    missing = [name for name in answer.columns if name not in found.columns]
    if missing:
        has = ", ".join(map(str, found.columns))
        raise Unreadable(f"`{answer.name}` has no column {', '.join(missing)}; it has {has}.")
    rows = as_rows(found, answer.columns)
    return [
        {name: _plain(answer, name, value) for name, value in zip(answer.columns, row, strict=True)}
        for row in rows
    ]


def _plain(answer: Answer, name: str, value: Any) -> Any:
    value = plain(value)
    if value is None:
        raise Unreadable(f"`{answer.name}` has a row whose {name} is empty.")
    if name in TIMES:
        return _micros(answer, name, value)
    if name in NUMBERS:
        try:
            return as_number(value)
        except Unreadable:
            raise Unreadable(f"`{answer.name}`: {name} is {value!r}, not a number.") from None
    return str(value)


def _micros(answer: Answer, name: str, value: Any) -> int:
    """Convert a time to microseconds since 1970; a time without a zone is taken as UTC."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
        time = time.replace(tzinfo=time.tzinfo or UTC)
        return round(time.timestamp() * 1_000_000)
    except (ValueError, TypeError, AttributeError):
        raise Unreadable(f"`{answer.name}`: {name} is {value!r}, not a time.") from None


def _key(answer: Answer, row: Row) -> tuple:
    return tuple(_comparable(name, row[name]) for name in answer.keys)


def _comparable(name: str, value: Any) -> Any:
    return micros(value) if name in TIMES and isinstance(value, str) else value


def _spelt(name: str, value: Any) -> str:
    if name in TIMES and not isinstance(value, str):
        return pd.Timestamp(value, unit="us").strftime("%Y-%m-%dT%H:%M:%SZ")
    return str(value)


def _example(answer: Answer, row: Row) -> str:
    return " at ".join(_spelt(name, row[name]) for name in answer.keys)


def _wrong_value(shown: Row, right: Row, answer: Answer) -> str:
    """Describe the first column that differs, with both values; empty if none does."""
    for name in answer.values:
        mine, wanted = shown[name], _comparable(name, right[name])
        if name in NUMBERS:
            wanted = Decimal(str(wanted))
            if abs(mine - wanted) <= Decimal(str(answer.tolerance)):
                continue
            cents = answer.tolerance == 0 and mine.quantize(wanted) == wanted
            note = ", which is not exact: do not use DOUBLE for money" if cents else ""
            return f"{name} is {_number(mine)}{note}, expected {_number(wanted)}"
        if mine != wanted:
            return f"{name} is {_spelt(name, mine)}, expected {_spelt(name, wanted)}"
    return ""


def _number(value: Decimal) -> str:
    return f"{value.normalize():f}" if len(str(value)) > 8 else str(value)


def _unread(winners: dict, shown: dict, delivered: Delivered) -> str:
    """Describe deliveries that look unread: all of their newest versions are missing."""
    newest, unseen = Counter(), Counter()
    for key, event in winners.items():
        name = delivered.first[event["event_id"]][0]
        newest[name] += 1
        unseen[name] += all(_other(row, event) for row in shown.get(key, ()))
    lost = [n for n in newest if unseen[n] >= max(AT_LEAST, UNREAD * newest[n])]
    if not lost:
        return ""
    messages = [delivered.places[sent.send.send_id] for sent in delivered.story.messages(lost)]
    partition = min(messages)[0]
    offsets = sorted(offset for number, offset in messages if number == partition)
    when = "after the kill " if set(lost) <= {*CRASHES} else ""
    return (
        f"{len(messages):,} messages {when}were never read ({', '.join(map(repr, lost))}): "
        f"partition {partition}, offsets {offsets[0]:,} to {offsets[-1]:,}, and those in the "
        "other partitions. Where does a new run begin?"
    )


def _other(row: Row, event: Event) -> bool:
    return str(row["event_id"]) != event["event_id"]


def _entity_of(row: Row, variant: Variant, known: Mapping[str, Event]) -> str:
    if variant.entity in row:
        return str(row[variant.entity])
    event = known.get(str(row["event_id"]))
    return str(event[variant.entity]) if event else ""


def _many(found, noun: str, verb: str, table: str = "") -> str:
    """Format a count as a sentence's subject, such as `3 rows of `readings` are`."""
    of = f" of `{table}`" if table else ""
    if len(found) != 1:
        noun, verb = f"{noun}s", PLURAL[verb]
    return f"{len(found):,} {noun}{of} {verb}"
