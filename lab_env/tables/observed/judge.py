"""Judges what readers of a Hudi table saw while it was written.

Every row says which commit wrote it (`_hoodie_commit_time`). So reads are compared with each other
and with the timeline, and no other record of the table's contents is needed: if one read shows an
order as commit 7 wrote it, every read of a state that includes commit 7 has to show that order, as
commit 7 or a later one wrote it. An incremental query proves nothing of the kind: of a
Merge-on-Read table it also returns a late event, which loses against the row that is there.

It judges only what follows from the reads. An order that no reader saw is not missed.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

WHOLE, FRESH, BACK, UNBORN, ONCE = "whole", "fresh", "never back", "nothing unborn", "once"
RULES = {
    WHOLE: "it shows the table after whole commits, not half of one",
    FRESH: "a commit that was complete before the read began is in it",
    BACK: "no later read of the same reader is older",
    UNBORN: "nothing of a commit that was not complete when the read ended",
    ONCE: "an incremental chain returns every change exactly once",
}


@dataclass(frozen=True)
class Commit:
    """A completed write; times in seconds since 1970."""

    requested: str  # its requested time, the rows' `_hoodie_commit_time`
    began: float
    completed: float  # by its own name: no reader can see it before
    noticed: float  # it was seen on the timeline: whoever reads from now on has to see it
    erases: bool = False  # whether it removed rows, or may have


@dataclass(frozen=True)
class Read:
    """One read of a table, or of its changes; times in seconds since 1970."""

    reader: str
    begin: float
    end: float
    rows: tuple[tuple[str, str], ...] = ()  # key and requested time of the commit that wrote it
    error: str = ""
    until: str = ""  # requested time of the newest commit that was asked for; empty for the newest
    after: str | None = None  # of changes: that of the last commit before them; empty for the first


@dataclass(frozen=True)
class Broken:
    """A rule that a read broke, with the one key that shows it."""

    rule: str
    read: Read
    key: str
    shows: str  # requested time of the commit that wrote what it shows; empty if it lacks the key
    wanted: str = ""  # that of the commit that it has to show; empty if the key is to be absent
    proof: Read | None = None  # the other read that shows it

    def __str__(self) -> str:
        """Say in a sentence what is wrong."""
        shows = f"as commit {self.shows} wrote it" if self.shows else "not at all"
        if self.rule == UNBORN:
            late = "later than asked for" if self.read.until else "not complete"
            return f"{self.read.reader} shows {self.key} {shows}, which was {late}."
        if self.rule == ONCE and self.shows == self.wanted:
            return f"{self.read.reader} returns the change of {self.key} by {self.shows} again."
        if self.rule == WHOLE and self.shows == self.wanted:
            return f"{self.read.reader} shows {self.key} twice."
        wanted = f"commit {self.wanted} changed it" if self.wanted else "it was erased"
        return f"{self.read.reader} shows {self.key} {shows}, but {wanted}."


def judge(commits: Iterable[Commit], reads: Iterable[Read]) -> list[Broken]:
    """Return the rules that reads broke: at most one proof per read and rule, in reading order.

    A read that failed breaks no rule.
    """
    history = _History(commits, reads)
    return sorted(_first_of_each(history.broken()), key=lambda broken: broken.read.begin)


def verdicts(reads: Iterable[Read], broken: Iterable[Broken]) -> pd.DataFrame:
    """Return one row per reader: its reads, those that failed, and how many broke each rule."""
    reads, broken = list(reads), list(broken)
    readers = sorted({read.reader for read in reads})
    counts = Counter((b.read.reader, b.rule) for b in broken)
    chains = {read.reader for read in reads if read.after is not None}
    rows = {}
    for reader in readers:
        own = [read for read in reads if read.reader == reader]
        rules = [UNBORN, ONCE] if reader in chains else [WHOLE, FRESH, BACK, UNBORN]
        judged = {rule: counts[reader, rule] for rule in rules}
        failed = sum(bool(read.error) for read in own)
        rows[reader] = {"reads": len(own), "errors": failed} | judged
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["reads", "errors", *RULES])
    return frame.astype("Int64").rename_axis("reader")


def _first_of_each(broken: Iterable[Broken]) -> Iterable[Broken]:
    first: dict[tuple[int, str], Broken] = {}
    for one in broken:
        first.setdefault((id(one.read), one.rule), one)
    return first.values()


@dataclass(frozen=True)
class _State:
    """A read of a state: the newest commit it shows and the newest it has to show, as positions."""

    read: Read
    shown: int
    due: int
    latest: int  # the newest commit that it can show
    places: Mapping[str, int]  # position of the commit that wrote each key

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """The rules about a single read, and the position up to which it has to show all commits.

        What it shows of a commit is to be whole; what was complete before is to be there.
        """
        return (WHOLE, self.shown), (FRESH, self.due)


class _History:
    """Commits in the order of completion; a commit's position counts from 0, -1 is before all."""

    def __init__(self, commits: Iterable[Commit], reads: Iterable[Read]):
        self.commits = sorted(commits, key=lambda commit: (commit.completed, commit.requested))
        self.position = {commit.requested: n for n, commit in enumerate(self.commits)}
        self.reads = sorted((r for r in reads if not r.error), key=lambda read: read.begin)
        self.states = [self._state(read) for read in self.reads if read.after is None]
        self.first: dict[tuple[str, str], Read] = {}  # the first read that shows a row
        for state in self.states:
            for row in state.read.rows:
                self.first.setdefault(row, state.read)
        self.written = self._written()

    def broken(self) -> Iterator[Broken]:
        """Yield what is broken; proofs by versions first, for others rest on reads without one."""
        for read in self.reads:
            yield from self._unborn(read)
        by_version = [b for state in self.states for b in self._by_version(state)]
        yield from by_version
        sound = [s for s in self.states if id(s.read) not in {id(b.read) for b in by_version}]
        yield from self._by_presence(sound)
        yield from self._back()
        yield from self._chains(sound)

    def _state(self, read: Read) -> _State:
        places: dict[str, int] = {}
        for key, commit in read.rows:
            places[key] = max(places.get(key, -1), self.position.get(commit, -1))
        due = latest = self.position.get(read.until, -1)
        if not read.until:
            due = self._last(commit.noticed <= read.begin for commit in self.commits)
            latest = self._last(commit.completed <= read.end for commit in self.commits)
        return _State(read, max(places.values(), default=-1), due, latest, places)

    @staticmethod
    def _last(holds: Iterable[bool]) -> int:
        return max((n for n, one in enumerate(holds) if one), default=-1)

    def _written(self) -> dict[str, list[int]]:
        """Positions of the commits that wrote each key, as far as any read shows them."""
        written: dict[str, set[int]] = defaultdict(set)
        for key, commit in self.first:
            if commit in self.position:
                written[key].add(self.position[commit])
        return {key: sorted(places) for key, places in written.items()}

    def _newest(self, key: str, upto: int) -> int:
        """Position of the newest commit up to another one that wrote a key; -1 if none did."""
        places = self.written.get(key, [])
        found = bisect_right(places, upto)
        return places[found - 1] if found else -1

    def _name(self, position: int) -> str:
        return self.commits[position].requested if position >= 0 else ""

    def _unborn(self, read: Read) -> Iterator[Broken]:
        for key, name in read.rows:
            place = self.position.get(name)
            asked = self.position.get(read.until, len(self.commits))
            complete = place is not None and self.commits[place].completed <= read.end
            if not complete or place > asked:
                yield Broken(UNBORN, read, key, name)
                return

    def _by_version(self, state: _State) -> Iterator[Broken]:
        """Keys that are there twice, or as an older commit wrote them."""
        read = state.read
        for key, count in Counter(key for key, _ in read.rows).items():
            if count > 1:
                shown = self._name(state.places[key])
                yield Broken(WHOLE, read, key, shown, shown)
                break
        for rule, upto in state.parts:
            for key, place in state.places.items():
                wanted = self._newest(key, upto)
                if wanted > place:
                    yield Broken(
                        rule,
                        read,
                        key,
                        self._name(place),
                        self._name(wanted),
                        self._who(key, wanted),
                    )
                    break

    def _who(self, key: str, place: int) -> Read:
        """Return the first read that shows a key as a commit wrote it."""
        return self.first[key, self._name(place)]

    def _by_presence(self, sound: Sequence[_State]) -> Iterator[Broken]:
        """Keys that a read lacks, or still shows although they were erased."""
        kept: dict[str, dict[int, _State]] = defaultdict(dict)  # by key and writing commit
        gone: dict[str, list[_State]] = defaultdict(list)
        for state in sound:
            for key, place in state.places.items():
                if place not in kept[key] or state.shown > kept[key][place].shown:
                    kept[key][place] = state
            for key in self.written.keys() - state.places.keys():
                if self.written[key][0] <= state.shown:
                    gone[key].append(state)
        for state in self.states:
            for rule, upto in state.parts:
                yield from self._lacks(state, rule, upto, kept)
                yield from self._erased(state, rule, upto, gone)

    def _lacks(self, state, rule, upto, kept) -> Iterator[Broken]:
        for key in self.written.keys() - state.places.keys():
            for place, proof in kept[key].items():
                if place <= upto and not self._erases(place, state.latest):
                    yield Broken(rule, state.read, key, "", self._name(place), proof.read)
                    return

    def _erased(self, state, rule, upto, gone) -> Iterator[Broken]:
        for key, place in state.places.items():
            for proof in gone.get(key, ()):
                within = place <= proof.shown and proof.latest <= upto
                if within and self._erases(place, proof.latest):
                    yield Broken(rule, state.read, key, self._name(place), "", proof.read)
                    return

    def _erases(self, after: int, upto: int) -> bool:
        """True if a commit after one position, up to another, may have erased a row."""
        return any(commit.erases for commit in self.commits[after + 1 : upto + 1])

    def _back(self) -> Iterator[Broken]:
        """Keys that a reader had seen as a newer commit wrote them."""
        seen: dict[str, list[_State]] = defaultdict(list)
        for state in self.states:
            for earlier in reversed(seen[state.read.reader]):
                if earlier.read.end > state.read.begin:
                    continue
                older = [k for k, p in state.places.items() if p < earlier.places.get(k, -1)]
                for key in older[:1]:
                    places = state.places[key], earlier.places[key]
                    yield Broken(BACK, state.read, key, *map(self._name, places), earlier.read)
                break
            seen[state.read.reader].append(state)

    def _chains(self, sound: Sequence[_State]) -> Iterator[Broken]:
        returned: dict[str, dict[tuple[str, str], Read]] = defaultdict(dict)
        for read in (read for read in self.reads if read.after is not None):
            before = returned[read.reader]
            for row in read.rows:
                if row in before:
                    yield Broken(ONCE, read, *row, row[1], before[row])
            before |= dict.fromkeys(read.rows, read)
            yield from self._missed(read, sound)

    def _missed(self, read: Read, sound: Sequence[_State]) -> Iterator[Broken]:
        """Changes of the commits that were asked for and did not come."""
        first, last = self.position.get(read.after or "", -1), self.position.get(read.until, -1)
        shows: dict[str, int] = {}
        for key, commit in read.rows:
            shows[key] = max(shows.get(key, -1), self.position.get(commit, -1))
        for key in self.written:
            wanted = self._newest(key, last)
            if not first < wanted or shows.get(key, -1) >= wanted:
                continue
            # An erased order comes no more: somebody has to have seen it after these commits.
            proof = next(
                (s for s in sound if s.places.get(key) == wanted and s.shown >= last), None
            )
            if wanted == last or proof:
                found = self._name(shows.get(key, -1))
                proven = proof.read if proof else self._who(key, wanted)
                yield Broken(ONCE, read, key, found, self._name(wanted), proven)
                return
