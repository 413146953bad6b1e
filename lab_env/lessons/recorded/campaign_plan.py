"""Plans a campaign's cases from seed and size alone, so every case can be repeated."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle, islice
from operator import itemgetter
from random import Random
from typing import Literal

from lab_env.platform.errors import LabError

GROUP = 10  # faults per pair of tables
SIZES = ("small", "full")
KILLS, UNALIGNED = 100, 30
SINKS = ("cow", "mor")
# Possible targets of a kill: a class of requests, before or after the store took the request.
POINTS = (
    *("offsets", "requested", "inflight", "marker", "data", "metadata", "instant", "commits"),
    *("compaction", "clean", "rollback"),
)
ONLY_MOR = ("compaction",)
MANY_PER_BATCH = ("data", "marker", "metadata")
LOST_ANSWERS = ("offsets", "data", "metadata", "instant", "commits")
# Faults of the input and of disks, last, so that earlier cases keep their numbers.
INPUTS = ("odd_messages", "transaction_aborted", "topic_made_anew", "long_batch")
DISKS = {  # by fault, the table that it hits
    "page_changed": "cow",
    "store_rotten": "cow",
    "power_cut": "",
    "older_answer": "cow",
}
PLANTED = "planted"  # the campaign's own test: a loss that it must report


@dataclass(frozen=True)
class Case:
    """One case: a fault and its target."""

    id: str  # three digits, or `planted`
    group: int  # counted from 1; the cases of a group share their tables
    fault: str  # its class, a heading of `verdicts.toml`
    point: str = ""  # class of requests that it hits; empty if it targets no particular request
    when: Literal["", "before", "after"] = ""  # the store processes that request
    sink: str = ""  # the table that it hits; empty for both
    k: int = 1  # position of the request within its class, from 1
    seconds: float = 0  # duration of an outage, or delay of a kill that targets no request

    @property
    def where(self) -> str:
        """A description of the target."""
        if self.point:
            number = f" {self.k}" if self.k > 1 else ""
            which = f"{self.point}{number}{', ' + self.sink if self.sink else ''}"
            return f"{self.when} {which}".strip()
        parts = [self.sink, f"{self.seconds:g} s" if self.seconds else ""]
        return ", ".join(part for part in parts if part) or "anywhere"


def make_plan(seed: int, size: str) -> tuple[Case, ...]:
    """Make the cases of a campaign, in the order in which they run.

    One case of each class comes first, so that even an interrupted campaign covers each class. The
    others are taken from the classes in turn. A case's fields define it completely: nothing is
    random when it runs.

    Raises:
        LabError: the size is neither `small` nor `full`.
    """
    if size not in SIZES:
        raise LabError(f"There is no size {size!r}.", f"choose from: {', '.join(SIZES)}")
    faults = _small() if size == "small" else _full(Random(seed))
    faults += [{"fault": fault} for fault in INPUTS]
    faults += [{"fault": fault, "sink": sink} for fault, sink in DISKS.items()]
    return tuple(
        Case(id=f"{number:03d}", group=1 + (number - 1) // GROUP, **fault)
        for number, fault in enumerate(faults, 1)
    )


def find_case(plan: Iterable[Case], wanted: str) -> Case:
    """Find a case by number, for example `042`, or the planted loss that tests the campaign itself.

    Raises:
        LabError: the plan has no such case.
    """
    if wanted == PLANTED:
        return Case(PLANTED, 0, PLANTED)
    cases = {case.id: case for case in plan}
    if wanted.zfill(3) not in cases:
        last = max(cases, default="000")
        raise LabError(f"The plan has no case {wanted}.", f"choose a number from 001 to {last}.")
    return cases[wanted.zfill(3)]


def _small() -> list[dict]:
    """Return 4 kills at chosen points, 3 short outages, 2 cases of damage, a lost checkpoint."""
    return [
        _kill("data", "after", "mor"),
        {"fault": "store_stopped", "seconds": 3},
        {"fault": "log_cut", "sink": "mor"},
        _kill("instant", "before", "cow"),
        {"fault": "broker_stopped", "seconds": 3},
        _kill("instant", "after", "mor"),
        {"fault": "store_killed"},
        {"fault": "footer_cut", "sink": "cow"},
        _kill("commits", "before", "cow"),
        {"fault": "checkpoint_lost", "sink": "cow"},
    ]


def _full(random: Random) -> list[dict]:
    points = [
        (point, when, sink)
        for point in POINTS
        for when in ("before", "after")
        for sink in SINKS
        if sink == "mor" or point not in ONLY_MOR
    ]
    aligned = _shuffled(list(islice(cycle(points), KILLS - UNALIGNED)), random)
    kills = [
        # A batch has several requests of some classes: hit any of the first three.
        _kill(*at, k=1 + int(random.random() * 3) if at[0] in MANY_PER_BATCH else 1)
        for at in aligned
    ]
    unaligned = [
        {"fault": "kill", "seconds": round(0.5 + 7.5 * random.random(), 1)}
        for _ in range(UNALIGNED)
    ]
    outages = [
        outage
        for server in ("store", "broker")
        for outage in (
            *({"fault": f"{server}_stopped", "seconds": s} for s in (3, 3, 3, 30, 30, 30, 180)),
            *3 * [{"fault": f"{server}_killed", "seconds": 0}],
        )
    ]
    errors = [
        {"fault": fault, "point": point, "when": when, "sink": sink}
        for fault, when in (("answer_lost", "after"), ("store_error", "before"))
        for point, sink in zip(LOST_ANSWERS, cycle(SINKS), strict=False)
    ]
    others = [
        {"fault": "log_cut", "sink": "mor"},
        {"fault": "checkpoint_lost", "sink": "cow"},
        {"fault": "writers_20"},
        {"fault": "footer_cut", "sink": "cow"},
        {"fault": "disk_full", "sink": "cow"},
        {"fault": "instant_cut", "sink": "cow"},
        {"fault": "clock_back"},
        {"fault": "offsets_cut", "sink": "mor"},
        {"fault": "checkpoint_replaced", "sink": "mor"},
        {"fault": "instant_gone", "sink": "mor"},
        {"fault": "disk_full", "sink": "mor"},
        {"fault": "offsets_gone", "sink": "cow"},
        {"fault": "metadata_cut", "sink": "cow"},
    ]
    dealt = [kills, unaligned, _shuffled(outages, random), errors, others]
    return _one_of_each_first(_in_turn(dealt))


def _kill(point: str, when: str, sink: str, k: int = 1) -> dict:
    return {"fault": "kill", "point": point, "when": when, "sink": sink, "k": k}


def _one_of_each_first(faults: list[dict]) -> list[dict]:
    """Put one case of each class first; kills have one for each class of requests."""
    first: dict[tuple[str, str], dict] = {}
    rest = []
    for fault in faults:
        kind = (fault["fault"], fault.get("point", "") if fault["fault"] == "kill" else "")
        if kind in first:
            rest.append(fault)
        else:
            first[kind] = fault
    return [*first.values(), *rest]


def _in_turn(classes: list[list[dict]]) -> list[dict]:
    """Interleave classes of different lengths evenly, so that all end together."""
    longest = max(map(len, classes))
    slots = [
        (place * longest // len(faults), fault)
        for faults in classes
        for place, fault in enumerate(faults)
    ]
    return [fault for _, fault in sorted(slots, key=itemgetter(0))]


def _shuffled(items: list, random: Random) -> list:
    """Shuffle with `random()` alone, whose results are the same in every version of Python."""
    drawn = sorted((random.random(), place) for place in range(len(items)))
    return [items[place] for _, place in drawn]
