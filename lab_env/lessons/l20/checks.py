"""Checks of lesson 20: three sinks, a compaction, the break-even, and a rule for differences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from lab_env.course.answers import as_choice, as_number, as_rows, plain
from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.lessons.table_copies import scratch_copy
from lab_env.pipeline.options import COMPACTION_OFF, DEMO_OPTIONS, KEYS
from lab_env.probes.verdict import EQUAL, HIGHER, INCONCLUSIVE, LOWER, Spread, verdict

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
SNAPSHOT, CHEAP = "snapshot", "read_optimized"
# What the check of 20.1 passes as `options`; without them there would be a metadata table.
OPTIONS = {**DEMO_OPTIONS, **COMPACTION_OFF, "hoodie.parquet.bloom.filter.enabled": "false"}
FIRST, SECOND = "id <= 3", "id = 2"  # orders of the two batches of a check
DEFAULT_TRIGGER = 5  # deltacommits from which Hudi plans a compaction by itself


@dataclass(frozen=True)
class Written:
    """Three sinks after the batches of the check: three orders, then one of them again.

    Args:
        lines: of the JSON files after both batches; None if they cannot be read as JSON.
        compressed: whether all of these files are gzip.
        types: of the tables, by the type that was asked for.
        metadata: whether the first table has a metadata table, which the options leave out.
        first: status of each order in the Merge-on-Read table after the first batch.
        second: the same after both batches; a list per order.
    """

    lines: int
    compressed: bool
    types: dict[str, str]
    metadata: bool
    first: dict[str, list[str]]
    second: dict[str, list[str]]


@check_of("20.1")
class WritesToThreeSinks:
    """A function that adds a batch to JSON files or to a table of either type."""

    @staticmethod
    def observe(lab, answer: Callable) -> Written:
        """Two batches as files, two into a Merge-on-Read table, one into a Copy-on-Write table."""
        files, mor, cow = (lab.scratch(name) for name in ("json", "mor", "cow"))
        batches = _orders(lab, FIRST, "new", 0), _orders(lab, SECOND, "paid", 1)
        for batch in batches:
            answer(batch, files, "json", OPTIONS)
        lines = lab.spark.read.json(files).count()
        names = [file.key for file in lab.files(files) if "/part-" in file.key]
        compressed = all(name.endswith(".json.gz") for name in names)
        if lines != 4 or not compressed:
            return Written(lines, compressed, {}, False, {}, {})
        answer(batches[0], mor, "mor", OPTIONS)
        types = {MOR: lab.xray(mor).table_type}
        metadata = any("/.hoodie/metadata/" in file.key for file in lab.files(mor))
        first = _statuses(lab, mor)
        if types[MOR] != MOR or metadata:
            return Written(lines, compressed, types, metadata, first, first)
        answer(batches[1], mor, "mor", OPTIONS)
        answer(batches[0], cow, "cow", OPTIONS)
        types[COW] = lab.xray(cow).table_type
        return Written(lines, compressed, types, metadata, first, _statuses(lab, mor))

    @staticmethod
    def judge(facts: Written) -> Passed | NotYet:
        """A line per event in the files, a row per order in tables of the type asked for."""
        if facts.lines != 4:
            return NotYet(
                "Three events were written as JSON, then one more. Lines in the files: "
                f"{facts.lines}, not 4. Which mode adds to what is there?"
            )
        if not facts.compressed:
            return NotYet(
                "The lines are right, but the files are not compressed, and Hudi's Parquet is: "
                "that would be an unfair comparison. Files of JSON take the option `compression`."
            )
        for asked, made in facts.types.items():
            if made != asked:
                return NotYet(f"Asked for {asked}, your function made a {made} table.")
        if facts.metadata:
            return NotYet(
                "The table has a metadata table, which `options` switch off. Pass `options` on to "
                "the writer, too."
            )
        if sorted(facts.first) != ["O-1", "O-2", "O-3"]:
            return NotYet(f"After O-1 to O-3 were written, the table has {_named(facts.first)}.")
        if len(facts.second) < 3:
            return NotYet(
                f"The second batch replaced the first: the table has {_named(facts.second)}. Which "
                "mode adds to a table?"
            )
        if facts.second["O-2"] != ["paid"]:
            return NotYet(
                f"O-2 was new, then paid. The table has it as {' and '.join(facts.second['O-2'])}: "
                "an upsert leaves one row per order, the newest."
            )
        return Passed("Four lines in the files, three rows in the table: one per event, per order.")


@dataclass(frozen=True)
class Compacted:
    """A table of two deltacommits: O-2 was written as new, then as paid, which is in a log.

    Args:
        snapshot: statuses of O-2 that the learner's snapshot query returns before the compaction.
        cheap: the same of the learner's read-optimised query.
        before: logs that a snapshot query has to merge then.
        after: the same after the learner's compaction.
        planned: whether a compaction was planned that has not been carried out.
        statuses: of all orders after it, by order; a list per order.
    """

    snapshot: list[str]
    cheap: list[str]
    before: int = 0
    after: int = 0
    planned: bool = False
    statuses: dict[str, list[str]] = field(default_factory=dict)


@check_of("20.2")
class AsksAndCompacts:
    """Both types of query, and a compaction however few commits wait."""

    @staticmethod
    def observe(lab, answer: Sequence[Callable]) -> Compacted:
        """Ask and compact a copy of a table that has one log."""
        read, compact = answer
        path = scratch_copy(lab, _table_with_log(lab), "compact")
        snapshot, cheap = (_status_of_o2(read(path, kind)) for kind in (SNAPSHOT, CHEAP))
        if (snapshot, cheap) != (["paid"], ["new"]):
            return Compacted(snapshot, cheap)
        before = _logs(lab.xray(path))
        compact(path)
        picture = lab.xray(path)
        planned = bool(picture.planned)
        statuses = _statuses(lab, path)
        return Compacted(snapshot, cheap, before, _logs(picture), planned, statuses)

    @staticmethod
    def judge(facts: Compacted) -> Passed | NotYet:
        """Each query sees what it should; then no log is left, and the rows are the same."""
        for kind, found, right, why in (
            (SNAPSHOT, facts.snapshot, "paid", "That is in a log, which such a query merges."),
            (CHEAP, facts.cheap, "new", "The payment is in a log, which such a query leaves out."),
        ):
            if found != [right]:
                said = " and ".join(found) or "not there"
                return NotYet(f"Your {kind} query says that O-2 is {said}, not {right}. {why}")
        waiting = f"{facts.after} of {facts.before} logs still wait"
        if facts.after and facts.planned:
            return NotYet(f"A compaction was planned and not carried out: {waiting}.")
        if facts.after:
            return NotYet(
                f"Nothing was planned: {waiting}. The table has 2 deltacommits, and without a word "
                f"from you the procedure plans from {DEFAULT_TRIGGER} on."
            )
        if facts.statuses != {"O-1": ["new"], "O-2": ["paid"], "O-3": ["new"]}:
            return NotYet(f"No log waits, but the rows changed: {facts.statuses}.")
        return Passed("Two answers while a log waits. Now no log waits, and every order is there.")


@dataclass(frozen=True)
class BreakEven:
    """The learner's break-even of made-up runs.

    Args:
        runs: index and factor of each, with the bytes of a Copy-on-Write commit, of a
            Merge-on-Read commit and of a compaction.
        answers: commits per compaction by index and factor; None where there is no break-even.
    """

    runs: dict[tuple[str, int], tuple[int, int, int]]
    answers: dict[tuple[str, int], float | None]

    def right(self, key: tuple[str, int]) -> float | None:
        """The break-even of a run."""
        cow, mor, compaction = self.runs[key]
        return compaction / (cow - mor) if cow > mor else None


@check_of("20.3")
class ComputesTheBreakEven:
    """A function from recorded bytes to commits per compaction."""

    @staticmethod
    def observe(lab, answer: Callable) -> BreakEven:
        """Ask for the break-even of runs that are new at each call, one of them without any."""
        runs = made_up_runs(Random())
        frame = lab.spark.createDataFrame(as_recorded(runs), RECORDED)
        found = as_rows(answer(frame), ["index", "factor", "commits"])
        answers = {
            (str(index), int(as_number(factor))): None
            if plain(commits) is None
            else float(as_number(commits))
            for index, factor, commits in found
        }
        return BreakEven(runs, answers)

    @staticmethod
    def judge(facts: BreakEven) -> Passed | NotYet:
        """Each run has the commits after which a compaction is paid back, or NULL."""
        for (index, factor), (cow, mor, compaction) in facts.runs.items():
            run = (
                f"{index} index, factor {factor}: a commit writes {cow:,} bytes on Copy-on-Write "
                f"and {mor:,} on Merge-on-Read, a compaction {compaction:,}."
            )
            if (index, factor) not in facts.answers:
                return NotYet(f"Your result has no row for the {index} index, factor {factor}.")
            found, right = facts.answers[index, factor], facts.right((index, factor))
            if right is None and found is not None:
                return NotYet(
                    f"{run} Merge-on-Read saves nothing, so it never writes less: NULL. You say "
                    f"{found:.1f}."
                )
            if right is not None and (found is None or abs(found - right) > 0.01 * right):
                said = "NULL" if found is None else f"{found:.2f}"
                return NotYet(
                    f"{run} Each commit saves {cow - mor:,}. After how many of them is the "
                    f"compaction paid for? You say {said}, it is {right:.2f}."
                )
        return Passed("Each commit saves something; the compaction is paid for after that many.")


RECORDED = (
    "type STRING, index STRING, factor INT, metric STRING, median DOUBLE, low DOUBLE, high DOUBLE, "
    "rounds INT"
)


def made_up_runs(rng: Random) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Runs for `BreakEven`; at one of the factors Merge-on-Read saves nothing.

    Args:
        rng: the source of their bytes.
    """
    runs = {}
    for index in ("bloom", "bucket"):
        for factor in (1, 2, 3):
            cow = rng.randrange(1_000_000, 2_000_000)
            mor = rng.randrange(200_000, 600_000)
            runs[index, factor] = cow, mor, rng.randrange(2_100_000, 4_000_000)
    runs["bucket", 3] = 500_000, 800_000, 900_000
    return runs


def as_recorded(runs: dict[tuple[str, int], tuple[int, int, int]]) -> list[tuple]:
    """Made-up runs as rows of `RECORDED`, as `lab bench growth` has them, with other metrics."""
    rows = []
    for (index, factor), (cow, mor, compaction) in runs.items():
        for kind, written, compacted in (("mor", mor, compaction), ("cow", cow, 0)):
            metrics = {"bytes written": written, "compaction bytes": compacted, "commit s": 2}
            rows += [
                (kind, index, factor, metric, float(value), 0.9 * value, 1.1 * value, 4)
                for metric, value in metrics.items()
            ]
    return rows


# Rounds of one way and of another, and what a wrong verdict may have overlooked.
CASES = (
    ((1.0, 1.1, 1.2), (2.0, 2.1, 2.2), ""),
    ((2.0, 2.1, 2.2), (1.0, 1.1, 1.2), ""),
    ((5, 5, 5), (5, 5, 5), "All rounds gave the same figure."),
    ((5, 5, 6), (5, 5, 5), "The medians are the same, the rounds are not."),
    (
        (1.0, 1.1, 2.1),
        (2.0, 2.1, 2.2),
        "A round of the first lies among those of the second. You compare the medians alone.",
    ),
    (
        (1.0, 1.8, 1.9),
        (2.0, 2.1, 2.2),
        "The medians are 0.3 apart, but the first varies by itself by 0.9.",
    ),
    (
        (1.0, 1.0, 3.0),
        (2.9, 3.1, 3.2),
        "The medians are farther apart than either varies, but a round of the first lies above one "
        "of the second.",
    ),
    (
        (2.9, 3.1, 3.2),
        (1.0, 1.0, 3.0),
        "The medians are farther apart than either varies, but a round of the first lies below one "
        "of the second.",
    ),
)


@dataclass(frozen=True)
class Judged:
    """The answers of the learner's rule to each of `CASES`."""

    answers: tuple[object, ...]


@check_of("20.4")
class WhenIsItADifference:
    """Both halves of the rule, and what is equal."""

    @staticmethod
    def observe(lab, answer) -> Judged:
        """Ask the rule about each case."""
        return Judged(tuple(answer(list(this), list(other)) for this, other, _ in CASES))

    @staticmethod
    def judge(facts: Judged) -> Passed | NotYet:
        """The rule has the benchmark's verdict on each case."""
        for answer, (this, other, why) in zip(facts.answers, CASES, strict=True):
            right = verdict(Spread.of(this), Spread.of(other))
            word = as_choice(answer, (LOWER, HIGHER, EQUAL, INCONCLUSIVE))
            if word != right:
                return NotYet(
                    f"For {list(this)} against {list(other)} you say {word!r}, it is {right!r}. "
                    f"{why}".strip()
                )
        return Passed("Four of the eight cases are no differences, though their medians differ.")


def _orders(lab, which: str, status: str, minute: int):
    """Those of O-1 to O-3 for which the condition on `id` holds."""
    return lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, 'C-1' AS customer_id, CAST(5 AS DECIMAL(12,2)) AS amount,
               '{status}' AS status, to_timestamp('2026-11-20 10:0{minute}') AS order_ts,
               '2026-11-20' AS partition_date
        FROM range(1, 4, 1, 1) WHERE {which}
    """)


def _table_with_log(lab) -> str:
    """The path of a Merge-on-Read table with a base file and one log, made at the first call."""
    path = lab.path("exercise/with_log")
    if not lab.files(path):
        options = {**OPTIONS, **KEYS, "hoodie.table.name": "orders"}
        options["hoodie.datasource.write.table.type"] = MOR
        for batch in (_orders(lab, FIRST, "new", 0), _orders(lab, SECOND, "paid", 1)):
            batch.write.format("hudi").options(**options).mode("append").save(path)
    return path


def _status_of_o2(rows) -> list[str]:
    """The statuses of O-2 in some rows of a table."""
    return [row.status for row in rows.where("order_id = 'O-2'").collect()]


def _logs(picture) -> int:
    """Logs that a snapshot query of a table merges."""
    return sum(len(found.logs) for found in picture.current)


def _statuses(lab, path: str) -> dict[str, list[str]]:
    """The statuses of each order in a table."""
    found: dict[str, list[str]] = {}
    rows = lab.spark.read.format("hudi").load(path).select("order_id", "status").collect()
    for row in sorted(rows):
        found.setdefault(row.order_id, []).append(row.status)
    return found


def _named(orders) -> str:
    return ", ".join(sorted(orders)) or "no order"
