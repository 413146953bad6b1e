"""The five tickets of exercise 19.4: causes each fault by a real operation, and measures it.

The faults are in copies, or in the tickets' own tables and topics; the lesson's stream is not
affected.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import pandas as pd

from lab_env.lessons.l19.batch_tickets import (
    LOAD,
    doubled_rows,
    load_without_lookup,
)
from lab_env.lessons.table_copies import overlay_table
from lab_env.pipeline import parsing
from lab_env.pipeline.checkpoint import Batch, read_checkpoint
from lab_env.pipeline.sinks import event_rows
from lab_env.platform.brokers.topics import ensure_topic, topic_end_offsets
from lab_env.platform.errors import LabError
from lab_env.tables.hudi.table import Snapshot

TOO_SLOW, NOT_READ = "writer too slow", "partition not read"
REPLACED, NO_COMPACTION = "checkpoint replaced", "no compaction"
SAVEPOINT, UNFINISHED = "savepoint kept", "write left unfinished"
NOT_LOOKED_UP, MOVED = "keys not looked up", "partition value changed"
CAUSES = (
    TOO_SLOW,
    NOT_READ,
    REPLACED,
    NO_COMPACTION,
    SAVEPOINT,
    UNFINISHED,
    NOT_LOOKED_UP,
    MOVED,
)

COMPLAINTS = {
    "A": "Sales: paid orders stay 'new' on our board. Its query is read-optimised.",
    "B": "Support: customers ask for orders that the table does not have. Lag 0, no error.",
    "C": "Finance: the store bills more for this table than last month. It has no more rows.",
    "D": "Couriers: a third of the orders never arrives. The others are on time.",
    "E": (
        "Accounts: the day's sum is too high. Every order that we look up is right: the look-up "
        "takes the newest row."
    ),
}
NAMES = tuple(COMPLAINTS)
WITH_STREAM, WITH_TABLE = "ABD", "ABCE"
LIVE = "orders"  # the lesson's own table and checkpoint
EVENTS_OF_D = 300
MEASURED_S = 20
DAY = "2026-11-20"


def table_of(lab, name: str) -> str:
    """Return the path of a ticket's table."""
    return lab.path(f"ticket_{name.lower()}")


def checkpoint_of(lab, name: str) -> str:
    """Return the path of a ticket's checkpoint."""
    return lab.path(f"_checkpoints/ticket_{name.lower()}")


def topic_of(lab, name: str) -> str:
    """Return the topic that a ticket's stream reads."""
    return lab.topic("couriers" if name == "D" else LIVE)


def hand_over(
    lab, query, options: dict[str, str], sends: Sequence, sent: int, more: int
) -> pd.DataFrame:
    """Cause the faults of all five tickets, and let the exporter watch the tickets' streams.

    Args:
        query: the lesson's own stream, which has read all messages; its table is not compacted.
        sent: number of events sent so far.
        more: number of events to send now; the lesson's own stream reads them, ticket B's stream
            skips them.

    Returns:
        One row per ticket: complaint, topic, checkpoint, table, `says_behind`, the lag in messages
        that the stream itself reports, and `job`, a line of the job's settings; fields that do not
        apply are empty.
    """
    live = lab.path(LIVE)
    overlay_table(lab, live, table_of(lab, "B"))
    lab.replay(lab.topic(LIVE), n=more, skip=sent, sends=sends)
    query.processAllAvailable()
    overlay_table(lab, live, table_of(lab, "A"))
    overlay_table(lab, lab.path(f"_checkpoints/{LIVE}"), checkpoint_of(lab, "A"))
    says = {"B": _replace_checkpoint(lab, options)}
    _keep_a_savepoint(lab, options)
    says["D"] = _read_two_of_three(lab, sends)
    jobs = {"E": load_without_lookup(lab, options, table_of(lab, "E"))}
    rows = [
        (name, text, topic_of(lab, name), checkpoint_of(lab, name), table_of(lab, name))
        for name, text in COMPLAINTS.items()
    ]
    for name in WITH_TABLE:
        lab.spark.sql(
            f"CREATE TABLE IF NOT EXISTS ticket_{name.lower()} USING hudi"
            f" LOCATION '{table_of(lab, name)}'"
        )
    columns = ["ticket", "complaint", "topic", "checkpoint", "table"]
    tickets = pd.DataFrame(rows, columns=columns).set_index("ticket")
    tickets.loc[["C", "E"], ["topic", "checkpoint"]] = ""
    tickets.loc["D", "table"] = ""
    for name in WITH_STREAM:
        table = {"table": table_of(lab, name)} if name != "D" else {}
        topic, checkpoint = topic_of(lab, name), checkpoint_of(lab, name)
        lab.watch(f"ticket-{name.lower()}", topic=topic, checkpoint=checkpoint, **table)
    _wait_until_measured(lab, [f"ticket-{name.lower()}" for name in WITH_STREAM])
    return tickets.assign(says_behind=pd.Series(says), job=pd.Series(jobs)).fillna("")


def _run(writer, checkpoint: str) -> str:
    """Run a stream once over all existing messages; return the lag that it reports."""
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    said = [source.get("metrics") or {} for r in query.recentProgress for source in r["sources"]]
    return said[-1].get("maxOffsetsBehindLatest", "") if said else ""


def _wait_until_measured(lab, names: Sequence[str]) -> None:
    """Wait until the exporter can read the topic, checkpoint and table of each pipeline."""
    deadline = time.monotonic() + MEASURED_S
    down = pd.DataFrame()
    while time.monotonic() < deadline:
        numbers = lab.pipeline_metrics()
        up = numbers[(numbers["metric"] == "pipeline_up") & numbers["pipeline"].isin(names)]
        down = up[up["value"] == 0]
        if set(up["pipeline"]) == set(names) and down.empty:
            return
        time.sleep(0.3)
    parts = ", ".join(f"{row.pipeline} ({row.part})" for row in down.itertuples())
    raise LabError(f"The exporter cannot read {parts or 'the tickets'}.", "run: lab status")


def _replace_checkpoint(lab, options: dict[str, str]) -> str:
    """Ticket B: give the stream a new checkpoint; the table skips its batches as duplicates."""
    records = parsing.read_topic(lab.spark, lab.endpoints.kafka_bootstrap, topic_of(lab, "B"))
    writer = event_rows(parsing.parse(records)).writeStream.format("hudi").options(**options)
    return _run(writer.option("path", table_of(lab, "B")), checkpoint_of(lab, "B"))


def _keep_a_savepoint(lab, options: dict[str, str]) -> None:
    """Ticket C: set a savepoint and never delete it, so cleaning keeps the savepoint's files."""
    path = table_of(lab, "C")
    for version in range(4):  # the fourth is the first that finds something to clean
        rows = lab.spark.sql(f"""
            SELECT concat('O-', id) AS order_id, sha2(concat(id, '-{version}'), 256) AS status,
                   TIMESTAMP '{DAY} 12:0{version}:00' AS order_ts, '{DAY}' AS partition_date
            FROM range(0, 300, 1, 1)
        """)
        (
            rows.write.format("hudi")
            .options(**options)
            .option("hoodie.table.name", "ticket_c")
            .option("hoodie.datasource.write.table.type", "COPY_ON_WRITE")
            .option("hoodie.clean.automatic", "true")
            .option("hoodie.clean.commits.retained", "1")
            .mode("append")
            .save(path)
        )
        if version == 0:
            first = lab.xray(path).instants[0].requested
            lab.spark.sql(f"CALL create_savepoint(path => '{path}', commit_time => '{first}')")


def _read_two_of_three(lab, sends: Sequence) -> str:
    """Ticket D: run a stream with a fixed list of topic partitions that lacks the third one."""
    kafka, topic = lab.endpoints.kafka_bootstrap, topic_of(lab, "D")
    ensure_topic(kafka, topic, partitions=3)
    lab.replay(topic, n=EVENTS_OF_D, sends=sends)
    records = lab.spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka)
    records = records.option("assign", json.dumps({topic: [0, 1]}))
    records = records.option("startingOffsets", "earliest").load()
    return _run(records.writeStream.format("noop"), checkpoint_of(lab, "D"))


@dataclass(frozen=True)
class Evidence:
    """The lab's measurements of one ticket."""

    name: str  # the ticket's letter
    cause: str
    number: int  # proves the cause
    lag: dict[int, int] = field(default_factory=dict)  # unread messages by topic partition
    logs: int | None = None  # number of logs that a query of the table merges; None without a table
    table_batch: int | None = None  # newest batch recorded in the table's commits
    checkpoint_batch: int | None = None  # newest batch that the checkpoint has committed
    savepoints: int = 0
    pending: int = 0  # number of instants that are not complete
    # Reads the table: number of orders that have several rows in one partition.
    doubled: Callable[[], int] = lambda: 0
    merge_on_read: bool = True  # True if the table may have logs

    @property
    def asked(self) -> str:
        """Description of the number that proves the right cause."""
        return {
            NOT_READ: "Its number is how many messages of that one partition nobody has read",
            REPLACED: "Its number is the newest batch that a commit of the table knows",
            NO_COMPACTION: "Its number is how many logs a query merges, of all days",
            SAVEPOINT: "Its number is the instant that the savepoint keeps",
            NOT_LOOKED_UP: "Its number is the instant of the commit that added the second rows",
        }[self.cause]

    @property
    def told(self) -> str:
        """The cause and the number in one sentence."""
        return {
            NOT_READ: f"{self.name}: {self.number} messages of one partition are unread.",
            REPLACED: (
                f"{self.name}: the table knows batch {self.number}, the new checkpoint is at "
                f"{self.checkpoint_batch}."
            ),
            NO_COMPACTION: f"{self.name}: {self.number} logs, unseen by the board.",
            SAVEPOINT: f"{self.name}: the files of {self.number} are kept.",
            NOT_LOOKED_UP: (
                f"{self.name}: {self.doubled()} orders have a second row, added by {self.number}."
            ),
        }[self.cause]

    def against(self, cause: str) -> str:
        """Return the reason why another cause is wrong."""
        current = sum(not lag for lag in self.lag.values())
        no_stream = "" if self.lag else "no stream writes this table."
        no_table = "this stream writes no table." if self.logs is None else ""
        return {
            TOO_SLOW: no_stream or f"{current} of its {len(self.lag)} partitions have lag 0.",
            NOT_READ: no_stream or "each of its partitions has lag 0.",
            REPLACED: self._batches(),
            NO_COMPACTION: self._logs(),
            SAVEPOINT: no_table or f"its table has {self.savepoints} savepoints.",
            UNFINISHED: no_table or f"its timeline has {self.pending} pending instants.",
            NOT_LOOKED_UP: no_table or self._rows(),
            MOVED: no_table or self._rows(),
        }[cause]

    def _rows(self) -> str:
        doubled = self.doubled()
        if not doubled:
            return "no order is there twice."
        return f"the rows of each of the {doubled} doubled orders are in one partition."

    def _batches(self) -> str:
        if self.table_batch is None:
            return "no commit here knows a batch of a stream."
        return (
            f"checkpoint and table agree: both know batch {self.table_batch}."
            if self.table_batch == self.checkpoint_batch
            else f"the table knows batch {self.table_batch}."
        )

    def _logs(self) -> str:
        if self.logs is None:
            return "this stream writes no table."
        if not self.merge_on_read:
            return "a Copy-on-Write table has no logs to compact."
        return (
            f"there are {self.logs} logs, but a snapshot query reads them, "
            "and the rows are not there either."
        )


def evidence_of(lab) -> dict[str, Evidence]:
    """Measure all tickets without Spark; return the evidence by ticket."""
    pictures = {name: lab.xray(table_of(lab, name)) for name in WITH_TABLE}
    facts: dict[str, dict] = {"D": {}} | {
        name: _facts(picture) | {"doubled": partial(_doubled, lab, name)}
        for name, picture in pictures.items()
    }
    for name in WITH_STREAM:
        batches = read_checkpoint(lab.endpoints, checkpoint_of(lab, name))
        known = max(batch.number for batch in batches)
        facts[name] |= {"lag": _lag(lab, name, batches), "checkpoint_batch": known}
    kept = [i.requested for i in pictures["C"].instants if i.action == "savepoint"]
    proofs = {
        "A": (NO_COMPACTION, facts["A"]["logs"]),
        "B": (REPLACED, facts["B"]["table_batch"]),
        "C": (SAVEPOINT, int(kept[0])),
        "D": (NOT_READ, max(facts["D"]["lag"].values())),
        "E": (NOT_LOOKED_UP, _load_of(pictures["E"], doubled_rows(lab, table_of(lab, "E")))),
    }
    return {name: Evidence(name, *proof, **facts[name]) for name, proof in proofs.items()}


def _doubled(lab, name: str) -> int:
    return doubled_rows(lab, table_of(lab, name))["order_id"].nunique()


def _load_of(picture: Snapshot, doubled: pd.DataFrame) -> int:
    """Return the instant of the load that wrote some of the doubled rows."""
    writers = set(doubled["_hoodie_commit_time"])
    (load,) = (at for at in writers if picture.commit(at).operation == LOAD.upper())
    return int(load)


def _facts(picture: Snapshot) -> dict:
    """Return the fields of `Evidence` that are taken from a table's X-ray."""
    checkpoints = (picture.commit().checkpoint or {}).values()
    return {
        "logs": sum(len(found.logs) for found in picture.current),
        "table_batch": max(map(int, checkpoints), default=None),
        "savepoints": sum(i.action == "savepoint" for i in picture.instants),
        "pending": sum(i.state != "completed" for i in picture.instants),
        "merge_on_read": picture.table_type == "MERGE_ON_READ",
    }


def _lag(lab, name: str, batches: Sequence[Batch]) -> dict[int, int]:
    """Return unread messages by topic partition: all of them if the checkpoint lacks it."""
    ends = topic_end_offsets(lab.endpoints.kafka_bootstrap, topic_of(lab, name))
    done = [batch for batch in batches if batch.committed]
    reached = done[-1].end if done else {}
    return {partition: end - reached.get(partition, 0) for partition, end in ends.items()}
