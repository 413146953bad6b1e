"""The examiner: tests the learner's job in six phases, in a process that it can kill.

It sees only the job's results: the tables that `answers` returns, the bucket, and whether the
process has ended. The exam stops at the first phase that fails.
"""

import contextlib
import json
import secrets
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from lab_env.course.answers import Unreadable
from lab_env.lab.job.process import (
    JobFailed,
    JobProcess,
    PendingWrite,
    check_services,
    largest_table,
    objects_below,
    tables_below,
)
from lab_env.lessons.capstone import VARIANTS
from lab_env.lessons.capstone.judge import (
    Delivered,
    problem_with_answer,
    problem_with_dead_letters,
    problem_with_rows,
    readable,
)
from lab_env.lessons.capstone.story import (
    CRASHES,
    DEAD_LETTERS,
    FIRST,
    LATE,
    VERSION_2,
    Story,
    Variant,
    micros,
)
from lab_env.platform import store
from lab_env.platform.brokers.kafka_client import spark_options
from lab_env.platform.errors import LabError
from lab_env.platform.store import StoredTable
from lab_env.shop.ledger.book import Ledger, ledger_directory
from lab_env.shop.replay import replay
from lab_env.tables.hudi.reader import read_table

PRACTICE_SEED = 22
PACKAGE = "lab_env.lessons.capstone"
PHASES = ("deliver", "kill", "late", "version 2", "questions", "footprint")
READER_BEHIND = 3  # commits
DATA_FILES = (".parquet", ".orc", ".json", ".csv", ".avro", ".txt")


class Refused(Exception):
    """A phase failed; the message is the reason."""


@dataclass(frozen=True)
class Phase:
    """One phase of an exam."""

    name: str  # one of `PHASES`
    verdict: str  # `passed`, `refused` or `not run`
    figures: dict[str, int | str] = field(default_factory=dict)
    example: str = ""  # one key, and its final state
    message: str = ""  # why it failed
    seconds: float = 0.0


@dataclass(frozen=True)
class Record:
    """The results of an exam, shown on the certificate."""

    variant: str
    title: str
    seed: int
    taken: str  # UTC
    phases: tuple[Phase, ...]
    # The messages of one key, each with the state of the tables after its phase.
    biography: tuple[dict[str, str], ...] = ()
    key: str = ""
    killed_rows: int = 0  # rows that the killed delivery changes
    visible_after_kill: int | None = None  # in a query before the restart; None if it failed
    files: int | None = None  # data files that a snapshot query opens at the end
    cpu_seconds: float = 0.0
    note: str = ""  # the learner's decision note

    @property
    def passed(self) -> bool:
        """True if all six phases passed."""
        return all(phase.verdict == "passed" for phase in self.phases)

    @property
    def visible(self) -> str:
        """Killed delivery's rows seen before the restart: `all`, `some`, `none` or `unknown`."""
        if self.visible_after_kill is None:
            return "unknown"
        if self.visible_after_kill in (0, self.killed_rows):
            return "all" if self.visible_after_kill else "none"
        return "some"

    def phase(self, name: str) -> Phase:
        """Return the phase with this name."""
        return {phase.name: phase for phase in self.phases}[name]

    @property
    def refusal(self) -> str:
        """Message of the phase that failed; empty if none did."""
        return next((phase.message for phase in self.phases if phase.verdict == "refused"), "")

    def to_json(self) -> str:
        """Return the record as JSON text."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """Parse the output of `to_json`."""
        fields = json.loads(text)
        fields["phases"] = tuple(Phase(**phase) for phase in fields["phases"])
        fields["biography"] = tuple(fields["biography"])
        return cls(**fields)


def variant_named(name: str) -> Variant:
    """Return the variant with this name; raise a LabError if there is none."""
    if name not in VARIANTS:
        raise LabError(f"There is no variant {name!r}.", f"choose from: {', '.join(VARIANTS)}.")
    return VARIANTS[name]


def fresh_seed() -> int:
    """Return a random seed for new events."""
    return secrets.randbelow(1_000_000)


class DeliverySchedule:
    """Sends the deliveries of one story to a topic of its own."""

    def __init__(self, lab: Any, story: Story):
        self._endpoints = lab.endpoints
        self.story = story
        self.topic = lab.topic(f"{story.variant}-{story.seed}-{secrets.token_hex(3)}")
        self.delivered: tuple[str, ...] = ()

    @property
    def source(self) -> dict[str, str]:
        """Options of Spark's Kafka source, passed to `build`."""
        return spark_options(self._endpoints.kafka_bootstrap) | {"subscribe": self.topic}

    def deliver(self, *names: str) -> int:
        """Send those deliveries that have not been sent yet; return the number of messages."""
        new = [name for name in names if name not in self.delivered]
        sends = [sent.send for sent in self.story.messages(new)]
        if sends:
            folder = ledger_directory(self.topic)
            replay(self._endpoints.kafka_bootstrap, self.topic, folder, sends=sends)
        self.delivered += tuple(new)
        return len(sends)

    def known(self) -> Delivered:
        """Return the messages delivered so far; the oracle computes the right answers from them."""
        frame = Ledger(ledger_directory(self.topic)).frame()
        acked = frame.loc[frame["state"] == "acked", ["send_id", "partition", "offset"]]
        places = {send: (int(p), int(o)) for send, p, o in acked.itertuples(index=False)}
        variant = VARIANTS[self.story.variant]
        return Delivered(variant, self.story, self.delivered, places)


class Exam:
    """An exam of one job: sends the deliveries, runs the job, and judges its answers.

    Args:
        job: the functions `build` and `answers`, pickled by `packing.pack`.
        progress: called after each phase.
        process: a running process to use first; by default, a new one is started.
    """

    def __init__(
        self,
        lab: Any,
        variant: Variant,
        job: bytes,
        seed: int,
        progress: Callable[[Phase], object] = lambda phase: None,
        process: JobProcess | None = None,
    ):
        self.lab, self.variant, self.seed = lab, variant, seed
        self.base = lab.scratch(f"{variant.name}-{seed}")
        self.course = DeliverySchedule(lab, variant.story(seed))
        self.process = process
        self.killed_rows = 0
        self.visible: int | None = None
        self.files: int | None = None
        self._job, self._progress = job, progress
        self.answers: dict[str, pd.DataFrame] = {}  # to the questions
        self._built: tuple[str, ...] = ()  # deliveries that `build` has read completely
        self._shown: dict[str, dict[tuple, dict]] = {}  # rows of the learner, by phase
        self._phase_of: dict[str, str] = {}  # the phase that first queried after a delivery
        self._spent = -process.cpu_seconds() if process is not None else 0.0
        self._loaded: JobProcess | None = None

    def run(self, phases: tuple[str, ...] = PHASES, note: str = "") -> Record:
        """Run the exam.

        Args:
            phases: the phases to run, in the order of `PHASES`; a rehearsal omits some.

        Raises:
            LabError: the lab itself failed.
        """
        check_services(self.lab.endpoints)
        done: list[Phase] = []
        tasks = {
            "deliver": self._deliver,
            "kill": self._kill_in_mid_write,
            "late": self._late,
            "version 2": self._version_2,
            "questions": self._questions,
            "footprint": self._footprint,
        }
        for name in phases:
            done.append(self._phase(name, tasks[name]))
            self._progress(done[-1])
            if done[-1].verdict == "refused":
                break
        done += [Phase(name, "not run") for name in phases[len(done) :]]
        if self.process is not None:
            self._spent += self.process.cpu_seconds()
        key, biography = self._biography()
        return Record(
            variant=self.variant.name,
            title=self.variant.title,
            seed=self.seed,
            taken=datetime.now(UTC).isoformat(timespec="seconds"),
            phases=tuple(done),
            biography=biography,
            key=key,
            killed_rows=self.killed_rows,
            visible_after_kill=self.visible,
            files=self.files,
            cpu_seconds=round(self._spent, 1),
            note=note,
        )

    def call_build(self, *deliveries: str) -> dict[str, int]:
        """Send some deliveries and call the job's `build`; return each Hudi table's number of rows.

        Raises:
            JobFailed: the job raised an error, ended or took too long.
        """
        self.course.deliver(*deliveries)
        self._run(again=True)
        tables = tables_below(self.lab.endpoints, self.base)
        rows = self._ready().call("count", tables=tables)["rows"]
        return {path.removeprefix(self.base).strip("/"): count for path, count in rows.items()}

    def mentioned(self) -> set[str]:
        """Return all event ids and whole numbers that occur anywhere in the Hudi tables."""
        tables = tables_below(self.lab.endpoints, self.base)
        pattern = rf"{self.variant.name[0]}\d+-\d{{5}}|\d+"
        return set(self._ready().call("mentioned", tables=tables, pattern=pattern)["found"])

    def has_other_files(self) -> bool:
        """True if the exam's folder has files outside all Hudi tables and checkpoints."""
        keys = [found.key for found in self._objects()]
        known = {store.key_of(table) for table in tables_below(self.lab.endpoints, self.base)}
        known |= {key.removesuffix("/metadata") for key in keys if key.endswith("/metadata")}
        folders = tuple(f"{folder}/" for folder in known)
        return any(not key.startswith(folders) for key in keys if not key.endswith("/"))

    def undo_last_batch(self) -> bool:
        """Make each stream repeat its last batch, as if it had died right after its writes.

        Returns False if the exam's folder has no checkpoint.
        """
        last: dict[str, str] = {}
        for found in self._objects():
            checkpoint, commits, batch = found.key.rpartition("/commits/")
            if commits and batch.isdecimal():
                last[checkpoint] = max(last.get(checkpoint, ""), batch, key=lambda b: int(b or -1))
        for checkpoint, batch in last.items():
            store.delete(self.lab.endpoints, f"{checkpoint}/commits/{batch}")
        return bool(last)

    def call_split(self, messages: Mapping[tuple[int, int], bytes]) -> list[pd.DataFrame]:
        """Call the job's `split` on messages, keyed by partition and offset; return its tables.

        Raises:
            JobFailed: the job raised an error, ended or took too long.
        """
        sent = [(b64encode(value).decode(), *place) for place, value in messages.items()]
        return self._ready().fetch("split", messages=sent)

    def go_on(self, job: bytes) -> None:
        """Switch to a job with the same `build` and other `answers`; reuse the existing tables."""
        self._job, self._loaded = job, None
        self._shown.clear()
        self._phase_of.clear()

    def has_tables(self) -> bool:
        """True if the exam's folder has a Hudi table."""
        return bool(tables_below(self.lab.endpoints, self.base))

    def close(self) -> None:
        """Kill the job's process."""
        if self.process is not None:
            self.process.kill()

    def _phase(self, name: str, task: Callable[[], tuple[dict, str]]) -> Phase:
        began, figures, example, message = time.monotonic(), {}, "", ""
        try:
            figures, example = task()
        except (Refused, JobFailed, Unreadable) as why:
            message = str(why)
        seconds = round(time.monotonic() - began, 1)
        return Phase(name, "refused" if message else "passed", figures, example, message, seconds)

    def _deliver(self) -> tuple[dict, str]:
        self.course.deliver(FIRST)
        self._run()
        if not self.has_tables():
            raise Refused(f"There is no Hudi table below `base`, which is {self.base}.")
        return self._judge_state("deliver", FIRST)

    def _kill_in_mid_write(self) -> tuple[dict, str]:
        killed = self._killed_write()
        delivered = self.course.delivered[-1]
        self._note_visible(delivered)
        self._run()
        table = killed.table.removeprefix(self.base).strip("/")
        note = f"killed in {killed.requested} of {table}, {killed.data} data files written"
        figures, example = self._judge_state("kill", delivered)
        if self.visible is not None:
            seen = f"{self.visible} of {self.killed_rows:,}"
            figures["new rows visible before the restart"] = seen
        return figures, f"{note}; {example}"

    def _killed_write(self) -> PendingWrite:
        main = largest_table(self.lab.endpoints, self.base)
        for name in CRASHES:
            self.course.deliver(name)
            process = self._ready()
            process.begin("run", source=self.course.source, base=self.base)
            # Any last write to any table will do, however little of it is stored.
            wanted = (main, 1) if name != CRASHES[-1] else ("", 0)
            if killed := process.kill_in_mid_write(self.base, *wanted):
                self._spent += process.cpu_seconds()
                self.process = None
                return killed
            process.finish()
        raise Refused(
            "Three times the job wrote nothing to a Hudi table, or finished before it could be "
            "killed. It must write the new data when it is called."
        )

    def _note_visible(self, delivery: str) -> None:
        """Count the rows that the killed delivery changes, and how many a query already returns."""
        answer = self.variant.rows
        known = self.course.known()
        before = [name for name in known.deliveries if name != delivery]
        old = {event["event_id"] for event in known.story.events(before)}
        newest = {event["event_id"] for event in self.variant.winners(known.events).values()}
        self.killed_rows = len(newest - old)
        with contextlib.suppress(JobFailed, Unreadable):
            shown = readable(self._ask(answer.name)[answer.name], answer)
            self.visible = sum(str(row["event_id"]) in newest - old for row in shown)

    def _late(self) -> tuple[dict, str]:
        self.course.deliver(*CRASHES, LATE)
        self._run()
        figures, example = self._judge_state("late", LATE)
        gone = self.variant.forgotten(self.course.known().events)
        ids = sorted(
            {
                event["event_id"]
                for event in self.course.story.events(self.course.delivered)
                if event[self.variant.entity] in gone and event["op"] != self.variant.forget_op
            }
        )
        tables = tables_below(self.lab.endpoints, self.base)
        found = self._ready().call("scan", tables=tables, ids=ids)["found"]
        for table, rows in found.items():
            if rows:
                raise Refused(
                    f"Your answers hide them, but the bucket keeps them: `{table.split('/')[-1]}` "
                    f"has {rows} rows with events of {', '.join(sorted(gone))}, who must be "
                    "forgotten."
                )
        return figures | {"forgotten": ", ".join(sorted(gone))}, example

    def _version_2(self) -> tuple[dict, str]:
        self.course.deliver(VERSION_2)
        self._run()
        return self._judge_state("version 2", VERSION_2)

    def _questions(self) -> tuple[dict, str]:
        right = self.variant.oracle(self.course.known().events)
        names = [question.name for question in self.variant.questions]
        given = self._ask(*names)
        self.answers = dict(given)
        figures: dict[str, int | str] = {}
        for question in self.variant.questions:
            if problem := problem_with_answer(given[question.name], question, right[question.name]):
                raise Refused(problem)
            figures[question.name] = len(right[question.name])
        first = self.variant.questions[0]
        row = right[first.name].iloc[len(right[first.name]) // 2]
        return figures, ", ".join(f"{name} {row[name]}" for name in first.columns)

    def _footprint(self) -> tuple[dict, str]:
        endpoints = self.lab.endpoints
        tables = {
            path: read_table(StoredTable(endpoints, path))
            for path in tables_below(endpoints, self.base)
        }
        opened = {
            path: sum(file.kind != "cdc" for part in table.current for file in part.files)
            for path, table in tables.items()
        }
        self.files = sum(opened.values()) + self._files_beside(list(tables))
        if self.files > self.variant.most_files:
            worst, count = max(opened.items(), key=lambda pair: pair[1], default=(self.base, 0))
            rows = len(list(self._shown.values())[-1])
            raise Refused(
                f"A query opens {self.files} files for {rows:,} rows, {count} of them in "
                f"`{worst.split('/')[-1]}`; {self.variant.most_files} are enough. What makes so "
                "many small files, and which service merges them?"
            )
        writes = {path: sorted(table.completed_writes) for path, table in tables.items()}
        old = {
            p: made[-1 - READER_BEHIND] for p, made in writes.items() if len(made) > READER_BEHIND
        }
        for path, instant in old.items():
            self._read_as_of(path, instant)
        figures = {
            "tables": len(tables),
            "commits": sum(map(len, writes.values())),
            "files a query opens": self.files,
            "at most": self.variant.most_files,
        }
        return figures, f"a reader {READER_BEHIND} commits old still reads {len(old)} tables"

    def _read_as_of(self, path: str, instant: str) -> None:
        try:
            self._ready().call("count_as_of", table=path, instant=instant)
        except JobFailed as why:
            raise Refused(
                f"A reader that opened `{path.split('/')[-1]}` {READER_BEHIND} commits ago fails: "
                f"its files have been cleaned. {why}"
            ) from None

    def _files_beside(self, tables: list[str]) -> int:
        """Count the data files outside all Hudi tables, such as dead letters in Parquet."""
        folders = tuple(store.key_of(table) + "/" for table in tables)
        return sum(
            found.key.endswith(DATA_FILES) and not found.key.startswith(folders)
            for found in self._objects()
        )

    def _objects(self) -> Iterator[store.StoredObject]:
        return objects_below(self.lab.endpoints, self.base)

    def _run(self, again: bool = False) -> None:
        """Call `build` if there are unread deliveries or `again` is set."""
        if again or self._built != self.course.delivered:
            self._ready().call("run", source=self.course.source, base=self.base)
            self._built = self.course.delivered

    def _ready(self) -> JobProcess:
        if self.process is None or not self.process.alive:
            self.process = JobProcess(self.lab.endpoints, self.lab.namespace, PACKAGE)
        if self._loaded is not self.process:
            self.process.load(self._job)
            self._loaded = self.process
        return self.process

    def _ask(self, *names: str) -> Mapping[str, pd.DataFrame]:
        return self._ready().fetch("answer", base=self.base, names=list(names))

    def _judge_state(self, phase: str, delivery: str) -> tuple[dict, str]:
        known, rows = self.course.known(), self.variant.rows
        given = self._ask(rows.name, DEAD_LETTERS.name)
        shown = readable(given[rows.name], rows)
        for name in known.deliveries:
            self._phase_of.setdefault(name, phase)
        self._shown[phase] = {tuple(row[name] for name in rows.keys): row for row in shown}
        for problem in (
            problem_with_rows(given[rows.name], known),
            problem_with_dead_letters(given[DEAD_LETTERS.name], known),
        ):
            if problem:
                raise Refused(problem)
        figures = {
            "messages": len(known.story.messages(known.deliveries)),
            "rows": len(shown),
            "malformed": len(known.malformed),
        }
        return figures, self._example(known, delivery)

    def _example(self, known: Delivered, delivery: str) -> str:
        """Describe a key last changed by this delivery, preferably one that changed before."""
        newest = self.variant.winners(known.events)
        ids = {event["event_id"] for event in known.story.events([delivery])}
        keys = [key for key, event in newest.items() if event["event_id"] in ids]
        if not keys:
            return ""
        plain = ("reading", "pay", "view")
        key = min(keys, key=lambda key: (newest[key]["op"] in plain, key))
        event = newest[key]
        _, (partition, offset), _ = known.first[event["event_id"]]
        what = self.variant.row(event)
        values = [name for name in self.variant.rows.values if name != "event_id"]
        shown = ", ".join(f"{name} {what[name]}" for name in values)
        place = f"partition {partition}, offset {offset:,}"
        return f"{known.describe(key)}: {shown}, from event {event['event_id']} ({place})"

    def _biography(self) -> tuple[str, tuple[dict[str, str], ...]]:
        """Return the key with the longest history, and the table's state after each message."""
        known, variant = self.course.known(), self.variant
        messages: dict[tuple, list] = {}
        for delivery in known.deliveries:
            for sent in known.story.deliveries[delivery]:
                if sent.event is not None and sent.event["op"] != variant.forget_op:
                    messages.setdefault(variant.key_of(sent.event), []).append((delivery, sent))
        kept = variant.winners(known.events)
        lives = {key: found for key, found in messages.items() if key in kept}
        if not lives:
            return "", ()
        key = max(sorted(lives), key=lambda key: (len({d for d, _ in lives[key]}), len(lives[key])))
        rows = []
        for delivery, sent in lives[key]:
            partition, offset = known.places[sent.send.send_id]
            phase = self._phase_of.get(delivery, "")
            shown = self._shown.get(phase, {}).get(_comparable_key(variant, key))
            rows.append(
                {
                    "delivery": delivery,
                    "place": f"{partition}:{offset}",
                    "event": sent.event["event_id"] + (", again" * (sent.send.kind == "resend")),
                    "says": _says(variant, sent.event),
                    "the table then showed": str(shown["event_id"]) if shown else "",
                }
            )
        return known.describe(key), tuple(rows)


def _comparable_key(variant: Variant, key: tuple) -> tuple:
    names = variant.rows.keys
    return tuple(micros(v) if n == "ts" else v for n, v in zip(names, key, strict=True))


def _says(variant: Variant, event: dict) -> str:
    row = variant.row(event)
    values = [f"{n} {row[n]}" for n in variant.rows.values if n not in ("event_id", variant.entity)]
    return ", ".join([event["op"], *values])
