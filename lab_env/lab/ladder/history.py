"""The history of one order: what was sent, what the table showed, and the first wrong step."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from lab_env.lab.ladder.target import Target


@dataclass(frozen=True)
class Look:
    """The output's rows (see `Target.rows`), read after a delivery.

    Args:
        killed: whether the process has just been killed, so that nothing is promised yet.
    """

    delivery: int
    rows: pd.DataFrame
    killed: bool = False


@dataclass(frozen=True)
class Step:
    """One step in the life of a key; `wrong` marks the first one that breaks the promise."""

    delivery: int
    what: str  # sent, killed, shown
    text: str
    wrong: bool = False


def shortest(
    keys: Iterable[str], target: Target, sends: pd.DataFrame, looks: list[Look]
) -> list[Step]:
    """Return the history that needs the fewest steps to show something wrong; empty if none does.

    Args:
        keys: keys that are wrong.
        sends: the ledger's keyed frame, with the number of each send's delivery in `delivery`.
    """
    histories = [history(key, target, sends, looks) for key in keys]
    return min((found for found in histories if found and found[-1].wrong), key=len, default=[])


def history(key: str, target: Target, sends: pd.DataFrame, looks: list[Look]) -> list[Step]:
    """Return a key's steps up to the first wrong one, or all if none is wrong."""
    own = sends[sends["key"].astype(str) == key].sort_values("offset")
    steps: list[Step] = []
    for look in looks:
        if not steps or look.delivery != steps[-1].delivery:
            steps += [_sent(send) for send in own[own["delivery"] == look.delivery].itertuples()]
        if look.killed:
            steps.append(Step(look.delivery, "killed", "the process; it is then started again"))
        shown = look.rows[look.rows["key"].astype(str) == key]["event"].tolist()
        right = target.right(own[own["delivery"] <= look.delivery])
        wrong = not look.killed and sorted(shown) != sorted(right)
        steps.append(Step(look.delivery, "shown", _shown(shown, right, own, wrong), wrong))
        if wrong:
            break
    return steps


def as_text(steps: list[Step]) -> str:
    """Format a history as aligned lines; an arrow points to the wrong step."""
    lines = [f"{'delivery':<10}{'':<8}"]
    before = 0
    for step in steps:
        number = step.delivery if step.delivery != before else ""
        mark = "   <-- here" if step.wrong else ""
        lines.append(f"{number:<10}{step.what:<8}{step.text}{mark}")
        before = step.delivery
    return "\n".join(line.rstrip() for line in lines)


def _sent(send) -> Step:
    note = "" if send.kind == "event" else f", {send.kind.replace(':', ': ')}"
    place = f"partition {send.partition}, offset {send.offset}"
    return Step(send.delivery, "sent", f"{_named(send)}{note} ({place})")


def _shown(shown: list[str], right: list[str], own: pd.DataFrame, wrong: bool) -> str:
    names = {send.event: _named(send) for send in own.itertuples()}

    def told(events: list[str]) -> str:
        return " and ".join(names.get(event, event) for event in events)

    text = f"{len(shown)} rows: {told(shown)}" if len(shown) > 1 else told(shown) or "no row"
    return f"{text}; it must show {told(right) or 'no row'}" if wrong else text


def _named(send) -> str:
    """Name an event by its operation and its time, for example `update of 23:30:04.120`."""
    time = pd.Timestamp(send.order_ts, unit="us").strftime("%H:%M:%S.%f")[:-3]
    return f"{send.op} of {time}"
