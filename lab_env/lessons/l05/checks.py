"""Checks of lesson 05: which files a write made, and how many bytes, as the tables' own records have them."""

from dataclasses import dataclass

from lab_env.course.checking import NotYet, Passed, check_of
from lab_env.hudi.commits import Commit
from lab_env.hudi.model import Snapshot
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS

SCRATCH = (
    DEMO_OPTIONS
    | KEYS
    | {
        "hoodie.table.name": "scratch",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "false",
        "hoodie.index.bloom.num_entries": "1000",
    }
)
TEN = "ten updates"
TEN_AND_NEW = "ten updates and a new order"


@dataclass(frozen=True)
class TwoUpserts:
    """What two upserts into fresh MOR tables made.

    Args:
        answer: the learner's words for each upsert.
        made: the same words, from the table's own record.
        alone: whether a new order, sent to the table that has a log by now, got a file group of
            its own.
    """

    answer: dict[str, str]
    made: dict[str, str]
    alone: bool


@check_of("05.1")
class FilesOfTwoUpserts:
    """Ten updates into one table, the same and a new order into another."""

    @staticmethod
    def observe(lab, answer) -> TwoUpserts:
        """Write both tables, once in a lesson, and read what the upserts recorded."""
        tables = {TEN: lab.path("exercise/updates"), TEN_AND_NEW: lab.path("exercise/mixed")}
        if not lab.files(tables[TEN_AND_NEW]):
            _write(lab, "id < 1000", "new", "10:00", *tables.values())
            _write(lab, "id BETWEEN 11 AND 20", "paid", "11:00", tables[TEN])
            _write(lab, "id BETWEEN 11 AND 20 OR id = 1000", "paid", "11:00", tables[TEN_AND_NEW])
            _write(lab, "id = 1000", "new", "12:00", tables[TEN])
        pictures = {name: lab.xray(path) for name, path in tables.items()}
        return TwoUpserts(
            answer={name: str(answer.get(name)).strip().casefold() for name in tables},
            made={name: _made(picture, 1) for name, picture in pictures.items()},
            alone=len({file.group for file in pictures[TEN].files}) == 2,
        )

    @staticmethod
    def judge(facts: TwoUpserts) -> Passed | NotYet:
        """A log for the updates, a base file for updates and a new order."""
        said, made = facts.answer[TEN], facts.made[TEN]
        if said != made:
            return NotYet(
                f"For the ten updates you say {said!r}; it made {made!r}. All ten orders are "
                "known, and a change of a known order goes to a log."
            )
        said, made = facts.answer[TEN_AND_NEW], facts.made[TEN_AND_NEW]
        if said == "log" != made:
            return NotYet(
                "The second made no log: a small file group without logs took in the new key, so its "
                "base file was rewritten."
            )
        if said != made:
            return NotYet(
                f"For the second you say {said!r}; it made {made!r}. The ten updates went "
                "into the same new base file as the new order: a file group gets one or the other."
            )
        note = "One key more, and the whole base file was written anew."
        if facts.alone:
            note += (
                " And once a group has a log, it takes in no new order: one that was sent to the first "
                "table afterwards got a file group of its own."
            )
        return Passed(note)


@dataclass(frozen=True)
class Sizes:
    """Bytes of data files that the lesson's writes made, by table type.

    Args:
        answer: the type that the learner chose for each workload.
        insert: the first write of 1,000 orders.
        ten: an upsert of 10 of them.
        all: an upsert of all.
    """

    answer: dict[str, str]
    insert: dict[str, int]
    ten: dict[str, int]
    all: dict[str, int]

    def workloads(self) -> dict[str, dict[str, int]]:
        """Bytes that each workload writes on each type, compaction included."""
        base = self.insert["cow"]
        return {
            "archive": self.insert,
            "status feed": {"cow": 20 * self.ten["cow"], "mor": 20 * self.ten["mor"] + base},
            "repricing": {"cow": self.all["cow"], "mor": self.all["mor"] + base},
        }


@check_of("05.2")
class TypeForAWorkload:
    """The type that writes fewer bytes, for three workloads."""

    @staticmethod
    def observe(lab, answer) -> Sizes:
        """What the sweep's four writes recorded: the insert, ten orders, a hundred, all."""
        pictures = {kind: lab.xray(lab.path(f"sweep_{kind}")) for kind in ("cow", "mor")}
        of = [
            {kind: _write_of(picture, n).bytes_written for kind, picture in pictures.items()}
            for n in range(4)
        ]
        said = {str(name): str(kind).strip().casefold() for name, kind in answer.items()}
        return Sizes(said, insert=of[0], ten=of[1], all=of[3])

    @staticmethod
    def judge(facts: Sizes) -> Passed | NotYet:
        """Fewer bytes win; within 5 percent COW does."""
        reasons = {
            "archive": "An insert makes base files on both types, so Merge-on-Read saves nothing, and "
            "has a compaction to watch.",
            "status feed": "Each minute Copy-on-Write copies 990 orders that did not change.",
            "repricing": "When all rows change, the log alone is larger than the base file, and the "
            "compaction writes the base file as well.",
        }
        for name, cost in facts.workloads().items():
            better = "mor" if cost["mor"] < 0.95 * cost["cow"] else "cow"
            chosen = facts.answer.get(name)
            if chosen not in cost:
                return NotYet(f"For {name!r} give 'cow' or 'mor'.")
            if chosen != better:
                return NotYet(
                    f"{name}: Copy-on-Write writes {cost['cow']:,} bytes, Merge-on-Read "
                    f"{cost['mor']:,}. {reasons[name]}"
                )
        feed = facts.workloads()["status feed"]
        return Passed(
            f"The status feed writes {feed['cow'] / feed['mor']:.1f} times less on Merge-on-Read. "
            "Only what a write changes of a file decides, not whether the data come as a stream."
        )


@dataclass(frozen=True)
class Trial:
    """Where each statement holds.

    Args:
        answer: cow, mor, both or neither for each statement.
        holds: the table types for which it holds, from the files.
    """

    answer: dict[str, str]
    holds: dict[str, frozenset[str]]


EVIDENCE = {
    "an update goes to a log file": "The COW table has no log file of an update, the MOR table has.",
    "a delete leaves the row in the base file": "The COW base file after the delete lacks O-21. On "
    "Merge-on-Read the row stays there, and a log says that it is deleted.",
    "compaction makes a new base file": "Only the MOR table's timeline has a compaction; the COW table "
    "refused it.",
    "new rows may rewrite a base file": "The ten new orders of the 21st lie in the file group of the "
    "first 200, in a base file that this write made.",
    "each write updates an index file": "Each write updates the metadata table, which lists files, not "
    "keys. What helps to find a key is written with a base file, in its footer.",
}


@check_of("05.3")
class WhereItHolds:
    """For which table type each statement of the articles holds."""

    @staticmethod
    def observe(lab, answer) -> Trial:
        """Ask what the six operations recorded in the two tables of the lesson."""
        pictures = {kind: lab.xray(lab.path(f"orders_{kind}")) for kind in ("cow", "mor")}
        tests = (_logs_of_updates, _logs_of_deletes, _compacted, _rewritten_for_inserts, _key_index)
        return Trial(
            answer={str(name): str(kind).strip().casefold() for name, kind in answer.items()},
            holds={
                statement: frozenset(kind for kind, picture in pictures.items() if test(picture))
                for statement, test in zip(EVIDENCE, tests, strict=True)
            },
        )

    @staticmethod
    def judge(facts: Trial) -> Passed | NotYet:
        """Each statement with the types for which it holds."""
        words = {
            frozenset(): "neither",
            frozenset({"cow"}): "cow",
            frozenset({"mor"}): "mor",
            frozenset({"cow", "mor"}): "both",
        }
        for statement, evidence in EVIDENCE.items():
            said = facts.answer.get(statement)
            if said not in words.values():
                return NotYet(f"For {statement!r} give 'cow', 'mor', 'both' or 'neither'.")
            if said != words[facts.holds[statement]]:
                return NotYet(f"You say that {statement!r} holds for {said}. {evidence}")
        return Passed("Each statement where the files have it.")


def _logs_of_updates(table: Snapshot) -> bool:
    return _made(table, 1) == "log"


def _logs_of_deletes(table: Snapshot) -> bool:
    """A delete in a log means that the base file of its slice still has the row."""
    return _made(table, 2) == "log"


def _compacted(table: Snapshot) -> bool:
    return any(instant.action == "compaction" for instant in table.instants)


def _rewritten_for_inserts(table: Snapshot) -> bool:
    """Whether the base file of the fifth write, the small insert, replaced an older one."""
    return any(file.kind == "base" and file.replaces for file in _write_of(table, 4).files)


def _key_index(table: Snapshot) -> bool:
    """Whether the metadata table has a part beside its list of files."""
    names = [name for part, name, _ in table.bookkeeping if part == "metadata"]
    return bool({name.split("/")[2] for name in names} - {".hoodie", "files"})


def _made(table: Snapshot, number: int) -> str:
    """Which data files the write with that number made: `base`, `log`, `base and log` or `none`."""
    kinds = {file.kind for file in _write_of(table, number).files}
    return " and ".join(kind for kind in ("base", "log") if kind in kinds) or "none"


def _write_of(table: Snapshot, number: int) -> Commit:
    """The write with that number, in the order of the timeline; a cleaning takes nothing from it."""
    return table.commit(table.instants[number].requested)


def _write(lab, which: str, status: str, at: str, *paths: str) -> None:
    """Upsert orders, numbered by `id`, into each of these scratch tables."""
    rows = lab.spark.sql(f"""
        SELECT 'O-' || id AS order_id, '{status}' AS status,
               to_timestamp('2026-11-20 {at}') AS order_ts, '2026-11-20' AS partition_date
        FROM range(1, 1001) WHERE {which}
    """)
    for path in paths:
        rows.write.format("hudi").options(**SCRATCH).mode("append").save(path)
