"""The judge of reads: silent on readers of a true history, and never silent on a wrong one."""

import random
from dataclasses import dataclass, replace

import pytest

from lab_env.tables.observed.judge import (
    BACK,
    FRESH,
    ONCE,
    UNBORN,
    WHOLE,
    Commit,
    Read,
    judge,
    verdicts,
)
from lab_env.tables.observed.picture import COLOURS, page
from lab_env.tables.observed.watching import Observed

KEYS = [f"O-{number}" for number in range(12)]


@dataclass
class Table:
    """A table's history: its commits, and its rows after each of them."""

    commits: list[Commit]
    states: list[dict[str, str]]  # before the first commit, then after each
    changes: list[set[str]]  # keys that each commit wrote

    def rows(self, position: int) -> tuple[tuple[str, str], ...]:
        return tuple(self.states[position + 1].items())

    def read(self, position: int, begin: float, reader: str = "reader", **more) -> Read:
        return Read(reader, begin, begin + 0.5, self.rows(position), **more)


def table_of(dice: random.Random, commits: int = 8, erases: bool = True) -> Table:
    """Return a random history: each commit writes some keys and may erase one."""
    table = Table([], [{}], [])
    for number in range(commits):
        requested, began = f"2026{number:013d}", 10.0 * number
        keys = set(dice.sample(KEYS, dice.randint(1, 5)))
        rows = table.states[-1] | dict.fromkeys(keys, requested)
        old = sorted(rows.keys() - keys) if erases and dice.random() < 0.4 else []
        if old:
            del rows[dice.choice(old)]
        table.commits.append(Commit(requested, began, began + 5, began + 6, bool(old)))
        table.states.append(rows)
        table.changes.append(keys)
    return table


def true_reads(table: Table, dice: random.Random, count: int = 30) -> list[Read]:
    """Reads that begin at any moment and see the newest commit, or one that completes meanwhile."""
    reads = []
    for begin in sorted(dice.uniform(0, 10.0 * len(table.commits)) for _ in range(count)):
        position = sum(commit.completed <= begin for commit in table.commits) - 1
        reads.append(table.read(position, begin, dice.choice(["one", "two"])))
    return [r for n, r in enumerate(reads) if not n or reads[n - 1].end < r.begin]


def chain(table: Table, dice: random.Random) -> list[Read]:
    """Incremental reads that follow each other, each over one commit or more.

    Some return a late event, too, which no read of the table shows.
    """
    reads, after = [], -1
    while after < len(table.commits) - 1:
        until = dice.randint(after + 1, len(table.commits) - 1)
        names = {commit.requested for commit in table.commits[after + 1 : until + 1]}
        rows = tuple(row for row in table.rows(until) if row[1] in names)
        older = sorted(key for key, name in table.rows(until) if name not in names)
        if older and dice.random() < 0.4:
            rows += ((dice.choice(older), table.commits[until].requested),)
        begin = table.commits[until].noticed
        bounds = (
            table.commits[after].requested if after >= 0 else "",
            table.commits[until].requested,
        )
        reads.append(Read("chain", begin, begin + 1, rows, after=bounds[0], until=bounds[1]))
        after = until
    return reads


def rules(table: Table, reads: list[Read], reader: str = "") -> set[str]:
    return {b.rule for b in judge(table.commits, reads) if not reader or b.read.reader == reader}


@pytest.mark.parametrize("seed", range(25))
def test_readers_of_whole_commits_break_no_rule(seed):
    dice = random.Random(seed)
    table = table_of(dice)
    reads = true_reads(table, dice) + chain(table, dice)
    assert judge(table.commits, reads) == []


@pytest.mark.parametrize("seed", range(100))
def test_a_reader_that_shows_an_old_state_for_ever_proves_nothing_against_others(seed):
    dice = random.Random(seed)
    table = table_of(dice)
    position = dice.randrange(-1, 4)
    begins = range(int(table.commits[position + 1].began), 90, 7)
    kept = [table.read(position, begin + dice.random(), "kept") for begin in begins]
    reads = true_reads(table, dice) + chain(table, dice) + kept
    assert {(b.read.reader, b.rule) for b in judge(table.commits, reads)} <= {("kept", FRESH)}


def after_all(table: Table, reader: str = "wrong", **more) -> Read:
    """A true read of the last state, after the last commit."""
    return table.read(len(table.commits) - 1, table.commits[-1].noticed + 1, reader, **more)


def mixed(table: Table, dice: random.Random) -> list[Read]:
    """One key is as before the last commit that wrote it."""
    key = dice.choice(sorted(table.changes[-1] & table.states[-2].keys()))
    read = after_all(table)
    rows = dict(read.rows) | {key: table.states[-2][key]}
    other = [k for k in table.changes[-1] if k != key]
    assert other
    return [replace(read, rows=tuple(rows.items()))]


def cached(table: Table, dice: random.Random) -> list[Read]:
    """It shows what it saw before the last commit."""
    return [replace(after_all(table), rows=table.rows(len(table.commits) - 2))]


def turned_back(table: Table, dice: random.Random) -> list[Read]:
    """It shows the last commit, and then the state before it."""
    first = after_all(table)
    begin = first.end + 1
    return [first, table.read(len(table.commits) - 2, begin, "wrong")]


def doubled(table: Table, dice: random.Random) -> list[Read]:
    """It read one file twice."""
    read = after_all(table)
    return [replace(read, rows=(*read.rows, dice.choice(read.rows)))]


def without_timeline(table: Table, dice: random.Random) -> list[Read]:
    """It lists files, and shows a write that is not complete."""
    last = table.commits[-1]
    return [table.read(len(table.commits) - 1, last.completed - 2, "wrong")]


def lacks_one(table: Table, dice: random.Random) -> list[Read]:
    """A file is missing: an order is not there."""
    read = after_all(table)
    gone = dice.choice(sorted(table.changes[-1]))
    return [replace(read, rows=tuple(row for row in read.rows if row[0] != gone))]


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(
    ("reader", "broken"),
    [
        (mixed, {WHOLE, FRESH}),
        (cached, {FRESH}),
        (turned_back, {FRESH, BACK}),
        (doubled, {WHOLE}),
        (without_timeline, {UNBORN}),
        (lacks_one, {WHOLE, FRESH}),
    ],
)
def test_a_wrong_reader_is_found_and_nobody_else(reader, broken, seed):
    dice = random.Random(seed)
    table = table_of(dice, erases=False)
    while len(table.changes[-1] & table.states[-2].keys()) < 2:
        table = table_of(dice, erases=False)
    reads = [*true_reads(table, dice), after_all(table, "right"), *reader(table, dice)]
    assert rules(table, reads, "wrong") == broken
    assert rules(table, reads, "right") == set()
    assert {b.read.reader for b in judge(table.commits, reads)} == {"wrong"}


@pytest.mark.parametrize("seed", range(25))
def test_a_chain_that_loses_or_repeats_a_change_is_found(seed):
    dice = random.Random(seed)
    table = table_of(dice, erases=False)
    whole = chain(table, dice)
    right = [table.read(n, commit.noticed, "right") for n, commit in enumerate(table.commits)]
    number = dice.randrange(len(whole))
    lost = [*whole]
    lost[number] = replace(whole[number], rows=whole[number].rows[1:])
    again = [*whole, whole[number]]
    wide = replace(whole[number], rows=(*whole[number].rows, (KEYS[0], "2099")))
    assert rules(table, [*right, *whole]) == set()
    assert rules(table, [*right, *lost]) == {ONCE}
    assert rules(table, [*right, *again]) == {ONCE}
    assert rules(table, [*right, *whole[:number], wide, *whole[number + 1 :]]) == {UNBORN}


def test_an_erased_order_that_is_still_shown_is_stale():
    commits = [Commit("1", 0, 1, 1), Commit("2", 2, 3, 3, erases=True)]
    right = Read("right", 4, 5, (("O-1", "1"),))
    stale = Read("wrong", 6, 7, (("O-1", "1"), ("O-2", "1")))
    [broken] = judge(commits, [right, stale])
    assert (broken.rule, broken.read, broken.proof) == (FRESH, stale, right)
    assert str(broken) == "wrong shows O-2 as commit 1 wrote it, but it was erased."


def test_a_time_travel_to_a_commit_shows_neither_more_nor_less():
    commits = [Commit(str(n), n, n + 0.5, n + 0.5) for n in range(3)]
    newest = Read("newest", 4, 5, (("O-1", "2"), ("O-2", "0")))
    middle = Read("newest", 1.6, 1.7, (("O-1", "1"), ("O-2", "0")))
    right = Read("as of", 6, 7, middle.rows, until="1")
    older = Read("older", 6, 7, (("O-1", "0"), ("O-2", "0")), until="1")
    newer = Read("newer", 6, 7, newest.rows, until="1")
    broken = judge(commits, [newest, middle, right, older, newer])
    assert {(b.rule, b.read.reader) for b in broken} == {(FRESH, "older"), (UNBORN, "newer")}


def test_the_table_of_verdicts_counts_reads_errors_and_broken_rules():
    commits = [Commit("1", 0, 1, 1), Commit("2", 2, 3, 3)]
    reads = [
        Read("good", 4, 5, (("O-1", "2"),)),
        Read("stale", 4, 5, (("O-1", "1"),)),
        Read("stale", 6, 7, error="FileNotFoundException"),
        Read("chain", 6, 7, (("O-1", "2"),), after="", until="2"),
    ]
    table = verdicts(reads, judge(commits, reads))
    assert table.loc["stale", ["reads", "errors", FRESH, WHOLE]].tolist() == [2, 1, 1, 0]
    assert table.loc["good", ["reads", "errors", FRESH]].tolist() == [1, 0, 0]
    assert table.loc["chain", ONCE] == 0
    assert table.loc["chain"].isna()[FRESH]
    assert table.loc["good"].isna()[ONCE]


def test_the_page_shows_each_reader_and_the_proofs():
    right = [Read("good", 2.0 * n, 2.0 * n + 1, (("O-1", str(n)),)) for n in range(3)]
    stale = Read("kept", 5, 6, (("O-1", "0"),))
    failed = Read("kept", 7, 8, error="FileNotFoundException: gone")
    commits = [Commit(str(n), 2.0 * n - 1, 2.0 * n - 0.5, 2.0 * n - 0.4) for n in range(3)]
    seen = Observed("s3a://lake/orders", commits, [*right, stale, failed])
    made = page(seen)
    assert "fresh: kept shows O-1 as commit 0 wrote it, but commit 2 changed it." in made
    assert "error: kept: FileNotFoundException: gone" in made
    shown = [word for word in COLOURS if f">{word}</text>" in made]
    assert shown == ["right", "stale", "error"]
    assert "No read broke a rule." in page(Observed("s3a://lake/orders", commits, right))
