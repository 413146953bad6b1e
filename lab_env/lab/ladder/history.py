"""The history of one key: what was sent, what the output showed, and the first wrong step."""

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from lab_env.lab.ladder.target import Target

COMMIT = "_hoodie_commit_time"
SENT, MEANWHILE, KILLED, SHOWN = "sent", "meanwhile", "killed", "shown"
ROWS = 4  # rows of the output that are listed
STATUS = re.compile(r'"status": ?"(\w+)"')
MOST = 8  # sends of a delivery that are listed; of more, only the first and the last ones


@dataclass(frozen=True)
class Look:
    """The output's rows (see `Target.rows`), read after a delivery.

    Args:
        killed: the request before or after which the process has just been killed, so that nothing
            is promised yet; empty if it was not killed.
        meanwhile: what else went wrong during the call.
    """

    delivery: int
    rows: pd.DataFrame
    killed: str = ""
    meanwhile: str = ""


@dataclass(frozen=True)
class Step:
    """One step in the life of a key; `wrong` marks the first one that breaks the promise.

    Args:
        events: the names of the sent event, or of the events that the output shows.
        note: of a sent event: `late`, `resend` or `malformed: <reason>`.
        place: topic partition and offset of a sent event, the request of a kill, or what went wrong
            meanwhile.
        about: what a sent event says besides its status.
        called: whether the output is shown after a call of the function.
        commits: for each shown event, the instant of the commit that wrote it, if it is known.
        right: the names of the events that the output must show.
        omitted: number of sends that this step stands for, see `abridged`.
    """

    delivery: int
    what: str  # SENT, MEANWHILE, KILLED, SHOWN
    events: tuple[str, ...] = ()
    note: str = ""
    place: str = ""
    about: str = ""
    called: bool = True
    commits: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    wrong: bool = False
    omitted: int = 0

    @property
    def text(self) -> str:
        """The step in words, without its delivery."""
        if self.omitted:
            return f"{self.omitted} more"
        if self.what == SENT:
            name = ", ".join(part for part in (self.events[0], self.about, self.note) if part)
            return f"{name} ({self.place})"
        if self.what == MEANWHILE:
            return self.place
        if self.what == KILLED:
            return f"{self.place}; then started again"
        shown = _told(self.events)
        text = f"{len(self.events)} rows: {shown}" if len(self.events) > 1 else shown
        return f"{text}; it must show {_told(self.right)}" if self.wrong else text


@dataclass(frozen=True)
class History:
    """The life of one key up to the first wrong step, or without a wrong step.

    Args:
        noun: what the key is, for example `order`.
    """

    noun: str
    key: str
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """For example `order o-s17-000003`."""
        return f"{self.noun} {self.key}"

    @property
    def wrong(self) -> bool:
        """True if the last step breaks the promise."""
        return bool(self.steps) and self.steps[-1].wrong


def shortest(
    keys: Iterable[str], target: Target, sends: pd.DataFrame, looks: list[Look]
) -> History | None:
    """Return the history that needs the fewest steps to show something wrong; None if none does.

    Args:
        keys: keys that are wrong.
        sends: the ledger's keyed frame, with the number of each send's delivery in `delivery`.
    """
    histories = [history(key, target, sends, looks) for key in keys]
    wrong = [found for found in histories if found.wrong]
    return min(wrong, key=lambda found: len(found.steps), default=None)


def history(key: str, target: Target, sends: pd.DataFrame, looks: list[Look]) -> History:
    """Return a key's steps up to the first wrong one, or all if none is wrong."""
    own = sends[sends["key"].astype(str) == key].sort_values("delivery", kind="stable")
    names = _names(own)
    steps: list[Step] = []
    for look in looks:
        if not steps or look.delivery != steps[-1].delivery:
            new = own[own["delivery"] == look.delivery].itertuples()
            steps += [_sent(send, names[send.event]) for send in new]
        for what, place in ((KILLED, look.killed), (MEANWHILE, look.meanwhile)):
            if place and steps:
                steps.append(Step(look.delivery, what, place=place))
        rows = look.rows[look.rows["key"].astype(str) == key]
        shown = rows["event"].astype(str).tolist()
        right = target.right(own[own["delivery"] <= look.delivery])
        if not (steps or shown or right):
            continue  # its life has not begun
        steps.append(
            Step(
                look.delivery,
                SHOWN,
                tuple(names.get(event, event) for event in shown),
                called=look.delivery >= target.begins and not look.killed,
                commits=tuple(rows[COMMIT].astype(str)) if COMMIT in rows else (),
                right=tuple(names.get(event, event) for event in right),
                wrong=not look.killed and sorted(shown) != sorted(right),
            )
        )
        if steps[-1].wrong:
            break
    return History(target.noun, key, tuple(steps))


def abridged(steps: Iterable[Step]) -> list[Step]:
    """Return the steps with at most `MOST` sends of each delivery, the first and the last ones."""
    short: list[Step] = []
    for (delivery, what), group in itertools.groupby(steps, lambda s: (s.delivery, s.what)):
        same = list(group)
        if what == SENT and len(same) > MOST:
            half = MOST // 2
            rest = Step(delivery, SENT, omitted=len(same) - 2 * half)
            same = [*same[:half], rest, *same[-half:]]
        short += same
    return short


def as_text(found: History) -> str:
    """Format a history as aligned lines; an arrow points to the wrong step."""
    lines = [found.name, "delivery"]
    before = 0
    for step in abridged(found.steps):
        number = step.delivery if step.delivery != before else ""
        mark = "   <-- here" if step.wrong else ""
        lines.append(f"{number:<10}{step.what:<10}{step.text}{mark}")
        before = step.delivery
    return "\n".join(lines)


def as_sentence(found: History) -> str:
    """Tell a history in one sentence, for example to those who cannot see its picture."""
    parts = []
    for number, group in itertools.groupby(abridged(found.steps), lambda step: step.delivery):
        told = [f"{step.what} {step.text}" for step in group]
        parts.append(f"in delivery {number}: {', '.join(told)}")
    return f"The life of {found.name}: {'; '.join(parts)}."


def _sent(send, name: str) -> Step:
    note = "" if send.kind == "event" else send.kind.replace(":", ": ")
    place = f"partition {send.partition}, offset {send.offset}"
    return Step(send.delivery, SENT, (name,), note, place, getattr(send, "about", ""))


def _told(events: tuple[str, ...]) -> str:
    more = (f"{len(events) - ROWS} more",) if len(events) > ROWS else ()
    return " and ".join(events[:ROWS] + more) or "no row"


def _names(sends: pd.DataFrame) -> dict[str, str]:
    """Name each event by its status and its time, for example `shipped at 23:30:04.120`.

    If two events have the same name to the millisecond, all have microseconds.
    """
    names: dict[str, str] = {}
    for digits in (3, 6):
        names = {send.event: _named(send, digits) for send in sends.itertuples()}
        if len(set(names.values())) == len(names):
            break
    return names


def _named(send, digits: int) -> str:
    time = pd.Timestamp(send.order_ts, unit="us").strftime("%H:%M:%S.%f")
    status = STATUS.search(send.value)  # a malformed message may have none
    return f"{status[1] if status else send.op} at {time[: digits - 6 or None]}"
