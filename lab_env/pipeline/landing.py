"""Read a Kinesis stream exactly once: land its records as files, which Spark then streams.

The end of a micro-batch must be known before it is read, so that the same batch can be read again
after a crash. Kinesis does not report where a shard ends; only reading shows it. So this reader
reads each record once and stores it: each landed file has the records of all shards since the
previous file. Its footer has the **position**, the sequence number of the last record of each
shard. Records and position are one object, written by one request that never overwrites another
object. A restarted reader resumes after the newest file; if two readers run, one gets an error.

From there on everything works as with Kafka: each query of the pipeline has its own checkpoint,
which names landed files instead of offsets, and Hudi's commits name the batch.

A shard created by a split or a merge is read after its parents have been read to their ends.
"""

import io
import json
import math
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError

from lab_env.pipeline.checkpoint import batch_numbers, files_in
from lab_env.platform import store
from lab_env.platform.brokers import streams
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints

POSITION = b"kinesis.position"  # in the footer of a landed file
MOST_RECORDS = 50_000  # per landed file, over all shards
THROTTLED_S = 5.0  # after ten megabytes a shard refuses for this long
# Kafka's columns; only the offset is the sequence number, which is too long for a number.
SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.string(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
)
LANDED_DDL = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset STRING, timestamp TIMESTAMP"
)


@dataclass(frozen=True)
class Reached:
    """Landed position of a shard.

    `sequence` is the sequence number of its last landed record (empty before the first). `ended` is
    true if the shard was split or merged, and all of its records have been landed.
    """

    sequence: str = ""
    records: int = 0
    ended: bool = False


@dataclass(frozen=True)
class Position:
    """Landed position of a stream, with the number of its landed files.

    The stream's creation time, `made_at`, distinguishes it from a later one of the same name.
    """

    stream: str
    made_at: str
    files: int
    shards: dict[str, Reached]

    def counts(self) -> dict[int, int]:
        """Number of landed records of each shard, by shard number."""
        return {streams.shard_number(name): at.records for name, at in self.shards.items()}

    def to_json(self) -> bytes:
        """Serialize the position for the footer."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_json(text: bytes) -> "Position":
        """Parse the position from the footer."""
        raw = json.loads(text)
        return Position(**raw | {"shards": {n: Reached(**at) for n, at in raw["shards"].items()}})


class Landing:
    """Copies one stream's records to files in its own folder of the object store.

    Raises:
        LabError: the stream cannot be read, or the landed files belong to another stream.
    """

    def __init__(self, endpoints: Endpoints, stream: str, folder: str):
        self._endpoints, self._stream, self._folder = endpoints, stream, folder
        self._kinesis = streams.client(endpoints.kinesis)
        self._iterators: dict[str, str] = {}
        self._interrupted = False  # the position read, or even written, is not known
        with streams.refusals(endpoints.kinesis, stream):
            made_at = streams.made_at(self._kinesis, stream)
        self.position = Position(stream, made_at, 0, {})
        self._resume()
        if self.position.made_at != made_at:
            raise LabError(
                f"The stream {stream} was recreated at {made_at}: it is not the one whose records "
                f"are in {folder}.",
                "start a pipeline in a new folder, or reset this one: the emulated Kinesis keeps"
                " nothing over a restart.",
            )
        if not self.position.files:
            self._write([], self.position.shards)  # Spark cannot read a missing folder

    def _resume(self) -> None:
        """Continue from the position in the newest landed file, discarding later reads."""
        self._iterators.clear()
        if files := landed_files(self._endpoints, self._folder):
            self.position = position_in(store.read(self._endpoints, files[-1]))

    def land(self) -> bool:
        """Read each shard once, land new records as one file, and return True if more are waiting.

        Raises:
            LabError: Kinesis fails, or has deleted records before they were landed.
            ClientError, BotoCoreError: the store fails; the next call resumes after the newest
            file.
        """
        if self._interrupted:
            self._resume()
        self._interrupted = True
        waiting = self._land()
        self._interrupted = False
        return waiting

    def _land(self) -> bool:
        rows: list[dict] = []
        shards, waiting = dict(self.position.shards), False
        with streams.refusals(self._endpoints.kinesis, self._stream):
            readable = self._readable()
            for shard_id in readable:
                most = max(1, MOST_RECORDS // len(readable))
                found, at, more = self._read(shard_id, shards.get(shard_id, Reached()), most)
                rows += found
                shards[shard_id] = at
                waiting = waiting or more or at.ended  # the children of one that ended
        if shards != self.position.shards:  # there are records, or a shard has begun or ended
            self._write(rows, shards)
        return waiting

    def land_all(self, landed: Callable[[], None] = lambda: None) -> int:
        """Land records until every shard is read to its tip or end; return the total landed so far.

        `landed` is called after each file if more records are waiting.
        """
        while self.land():
            landed()
        return sum(self.position.counts().values())

    def _readable(self) -> list[str]:
        """Unfinished shards that can be read now: parents finished or no longer in Kinesis."""
        known = {s["ShardId"]: s for s in streams.list_shards(self._kinesis, self._stream)}
        ended = {name for name, at in self.position.shards.items() if at.ended}
        if lost := self.position.shards.keys() - known.keys() - ended:
            raise LabError(
                f"Kinesis no longer has {', '.join(sorted(lost))} of {self._stream}, which was not"
                " read to its end: the stream's retention is over.",
                "its unread records are lost here; send them again to a new stream.",
            )
        parents = ("ParentShardId", "AdjacentParentShardId")
        return [
            name
            for name, shard in known.items()
            if name not in ended
            and all(shard.get(p) not in known or shard[p] in ended for p in parents)
        ]

    def _read(self, shard_id: str, at: Reached, most: int) -> tuple[list[dict], Reached, bool]:
        """Read a shard from a position; return rows, new position, and True if more are waiting."""
        limit = min(most, streams.PAGE)
        rows: list[dict] = []
        # An iterator that is kept advances through stretches without records; a new one that begins
        # at the last sequence number might never get beyond them.
        iterator = self._iterators.pop(shard_id, None) or streams.iterator_after(
            self._kinesis, self._stream, shard_id, at.sequence
        )
        while True:
            page = self._get_records(shard_id, iterator, at, limit)
            for record in page["Records"]:
                rows.append(self._row(shard_id, record))
            if page["Records"]:
                last = page["Records"][-1]["SequenceNumber"]
                at = Reached(last, at.records + len(page["Records"]))
            iterator = page.get("NextShardIterator")
            if not iterator:
                return rows, replace(at, ended=True), False
            more = streams.more_waits(page, limit)
            if not more or len(rows) + limit > most:
                self._iterators[shard_id] = iterator
                return rows, at, more

    def _get_records(self, shard_id: str, iterator: str, at: Reached, limit: int) -> dict:
        refusal = self._kinesis.exceptions
        try:
            return self._kinesis.get_records(ShardIterator=iterator, Limit=limit)
        except refusal.ExpiredIteratorException:  # after five minutes
            iterator = streams.iterator_after(self._kinesis, self._stream, shard_id, at.sequence)
        except refusal.ProvisionedThroughputExceededException:
            time.sleep(THROTTLED_S)
        return self._kinesis.get_records(ShardIterator=iterator, Limit=limit)

    def _row(self, shard_id: str, record: dict) -> dict:
        return {
            "key": streams.split_partition_key(record["PartitionKey"])[0].encode(),
            "value": record["Data"],
            "topic": self._stream,
            "partition": streams.shard_number(shard_id),
            "offset": record["SequenceNumber"],
            "timestamp": record["ApproximateArrivalTimestamp"],
        }

    def _write(self, rows: list[dict], shards: dict[str, Reached]) -> None:
        """Write records and position as the next file, in one request that replaces nothing."""
        number = self.position.files
        position = replace(self.position, files=number + 1, shards=shards)
        schema = SCHEMA.with_metadata({POSITION: position.to_json()})
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, schema), file)
        store.client(self._endpoints).put_object(
            Bucket=self._endpoints.bucket,
            Key=f"{store.key_of(self._folder)}/{number:09d}.parquet",
            Body=file.getvalue(),
            IfNoneMatch="*",
        )
        self.position = position


class LandingThread(threading.Thread):
    """Lands a stream until it is stopped, or until landing has failed for too long.

    Args:
        seconds: interval between two files.
        patience: how many seconds landing may keep failing before the thread gives up.

    Attributes:
        error: the exception that ended the thread; None while it runs.
    """

    def __init__(self, landing: Landing, seconds: float, patience: float):
        super().__init__(name="landing", daemon=True)
        self._landing, self._seconds, self._patience = landing, seconds, patience
        self._stopped = threading.Event()
        self.error: Exception | None = None
        self.says = ""  # a topic's watch may have more to say

    def run(self) -> None:
        """Land new records at each interval; store a fatal exception in `error`."""
        try:
            self._land_and_wait()
        except Exception as error:
            self.error = error

    def _land_and_wait(self) -> None:
        # Not since the last success: this process may have been paused in between.
        first_failure = math.inf
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                more = self._landing.land()
                first_failure = math.inf
            except (LabError, ClientError, BotoCoreError):
                first_failure = min(first_failure, began)
                if began - first_failure > self._patience:
                    raise
                more = False
            self._stopped.wait(0.0 if more else self._seconds - (time.monotonic() - began))

    def stop(self) -> None:
        """Stop the thread once it has finished the current file."""
        self._stopped.set()
        self.join(timeout=30)


def landing_path(base: str) -> str:
    """Folder for a pipeline's landed files."""
    return f"{base}/landing"


def read_live(spark, endpoints: Endpoints, stream: str, base: str, seconds: float, patience: float):
    """Start a thread that lands a stream, and read the landed records.

    `base` is the folder of tables, checkpoints and landed files; `seconds` and `patience` are those
    of `LandingThread`. Return the records as `read_landing` does, and the thread.
    """
    folder = landing_path(base)
    lander = LandingThread(Landing(endpoints, stream, folder), seconds, patience)
    lander.start()
    return read_landing(spark, folder), lander


def read_landing(spark, folder: str, **options: str):
    """Landed records as a stream, with Kafka's columns; `offset` is the sequence number.

    The first landed file must exist. The options are added to those of the file source.
    """
    return (
        spark.readStream.schema(LANDED_DDL)
        # By default the source ignores files a week older than the newest, without an error.
        .option("maxFileAge", "3650d")
        .options(**options)
        .parquet(folder)
    )


def landed_files(endpoints: Endpoints, folder: str) -> list[str]:
    """Keys of the landed files, oldest first."""
    found = store.list_objects(endpoints, store.key_of(folder).rstrip("/") + "/")
    return sorted(entry.key for entry in found if entry.key.endswith(".parquet"))


def position_in(file: bytes) -> Position:
    """Parse the position in a landed file's footer; raise `LabError` if it has none."""
    metadata = pq.read_schema(io.BytesIO(file)).metadata or {}
    if POSITION not in metadata:
        raise LabError(
            "One of the landed files has no Kinesis position.",
            "keep the folder of a landing free of other files.",
        )
    return Position.from_json(metadata[POSITION])


def committed_position(endpoints: Endpoints, checkpoint: str, folder: str) -> Position | None:
    """Committed position of a query on a landed stream; None without a committed batch."""
    names, file = files_in(endpoints, checkpoint, "commits/", "offsets/", "sources/0/")
    done = batch_numbers(names, "commits") & batch_numbers(names, "offsets")
    if not done:
        return None
    last_line = file(f"offsets/{max(done)}").decode().splitlines()[-1]
    log_offset = json.loads(last_line)["logOffset"]
    read = files_in_log(names, log_offset, lambda name: file(name).decode())
    if not read:
        return None
    return position_in(store.read(endpoints, landed_files(endpoints, folder)[read - 1]))


def files_in_log(names: set[str], log_offset: int, read: Callable[[str], str]) -> int:
    """Number of files that a query's file source had read up to an offset of its log.

    The names of the checkpoint's files are relative to it.
    """
    folder = "sources/0/"
    log = {name.removeprefix(folder) for name in names if name.startswith(folder)}
    compact = {int(name.removesuffix(".compact")) for name in log if name.endswith(".compact")}
    begin = max((number for number in compact if number <= log_offset), default=-1)
    parts = [f"{begin}.compact"] if begin >= 0 else []
    parts += [str(number) for number in range(begin + 1, log_offset + 1) if str(number) in log]
    entries = [json.loads(line) for name in parts for line in read(folder + name).splitlines()[1:]]
    return len({entry["path"] for entry in entries})
