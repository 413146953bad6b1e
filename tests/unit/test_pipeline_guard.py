"""A stream starts only if its checkpoint and its table belong together."""

import json
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from memory_store import MemoryStore
from xray_tables import T1, T2, T3, committed, done, history_of, stat

from lab_env.pipeline import guard, options, writer
from lab_env.pipeline.guard import Receipt, claim_table, read_state, table_receipt
from lab_env.pipeline.session import environment
from lab_env.pipeline.writer import Job, main
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints
from lab_env.tables.hudi.commits import CHECKPOINT
from lab_env.tables.hudi.timeline import from_seconds

TABLE, PATH = "s3a://lakehouse/x/orders_cow", "s3a://lakehouse/x/_checkpoints/cow"
HERE = Endpoints("http://127.0.0.1:1", "key", "secret", "us-east-1", "lakehouse", "127.0.0.1:1")
OWN, OTHER = "11111111-aaaa", "22222222-bbbb"


class FakeStore(MemoryStore):
    """An object store with a table and a checkpoint like those of a stream."""

    def commit(self, instant: str, batch: int | None, identifier=OWN, action="commit"):
        """Add a completed write; without a batch number it is a compaction."""
        notes = {} if batch is None else {CHECKPOINT: json.dumps({identifier: str(batch)})}
        self.write(instant, notes, action)

    def write(self, instant: str, notes: dict[str, str], action="commit"):
        """Add a completed write with these entries in its extra metadata."""
        key = next(key for key in done(instant, action) if "_" in key)
        self[f"x/orders_cow/{key}"] = committed("UPSERT", stat("d=1/f"), **notes)

    def archive(self, *writes: tuple[str, dict[str, str]]):
        """Add archived writes, each given as its instant and its extra metadata."""
        rows = [(at, "commit", committed("UPSERT", stat("d=1/f"), **notes)) for at, notes in writes]
        self |= {f"x/orders_cow/{key}": file for key, file in history_of(*rows).items()}

    def checkpoint(self, planned: int, finished: int, identifier=OWN):
        """Add a checkpoint with planned and finished batches from 0 to these numbers."""
        self["x/_checkpoints/cow/metadata"] = json.dumps({"id": identifier}).encode()
        for folder, newest in (("offsets", planned), ("commits", finished)):
            for number in range(newest + 1):
                self[f"x/_checkpoints/cow/{folder}/{number}"] = b"v1"
            self[f"x/_checkpoints/cow/{folder}/.{newest + 1}.tmp"] = b"v1"


@pytest.fixture
def fake(monkeypatch):
    made = FakeStore()
    made.install(monkeypatch)
    return made


def claimed(**options) -> str:
    """Return the identifier under which the stream may write."""
    return claim_table(HERE, TABLE, PATH, cores=2, **options)[guard.IDENTIFIER]


def refused(**options) -> LabError:
    with pytest.raises(LabError) as caught:
        claimed(**options)
    return caught.value


def test_a_new_stream_gets_an_id_before_spark_does_and_keeps_it(fake):
    identifier = claimed()
    assert read_state(HERE, PATH).id == identifier and len(identifier) == 36
    assert json.loads(fake["x/_checkpoints/cow/metadata"]) == {"id": identifier}
    assert claimed() == identifier  # killed before its first commit
    fake.checkpoint(0, -1, identifier)
    assert claimed() == identifier


@pytest.mark.parametrize(
    ("in_table", "planned", "finished"),
    [(4, 4, 4), (4, 4, 3), (3, 4, 3), (4, 5, 4)],
    ids=["idle", "killed after the instant", "killed before the instant", "killed in the next"],
)
def test_what_a_kill_leaves_is_no_mismatch(fake, in_table, planned, finished):
    fake.commit(T1, in_table)
    fake.commit(T2, None, action="commit")  # a compaction is passed over
    fake.checkpoint(planned, finished)
    assert table_receipt(HERE, TABLE) == Receipt(OWN, in_table, T1)
    assert claimed() == OWN


@pytest.mark.parametrize("seed", range(40))
def test_a_stream_is_known_by_its_own_newest_batch_wherever_it_stands(fake, seed):
    """Batch writes, compactions and another stream's batches follow it; the oldest are archived."""
    rng, newest, writes = Random(seed), 0, [{CHECKPOINT: json.dumps({OWN: "0"})}]
    for _ in range(rng.randint(0, 40)):
        kind = rng.choice(["own", "another", "none"])
        newest += kind == "own"
        another = rng.choice([OTHER, guard.DEFAULT_IDENTIFIER])
        receipts = {"own": {OWN: str(newest)}, "another": {another: "99"}}
        notes = {CHECKPOINT: json.dumps(receipts[kind])} if kind in receipts else {}
        writes.append(notes | {options.BUCKETS_NOTE: "3"})
    instants = [from_seconds(1_790_000_000 + number) for number in range(len(writes))]
    archived = rng.randint(0, len(writes))
    fake.archive(*zip(instants[:archived], writes[:archived], strict=True))
    for instant, notes in zip(instants[archived:], writes[archived:], strict=True):
        fake.write(instant, notes)
    fake.checkpoint(newest, newest)
    assert claimed() == OWN
    fake.checkpoint(newest + 1, newest + 1)
    assert f"the newest in the table {TABLE} is {newest}" in refused().what


def test_a_start_reads_each_commit_once_and_a_new_stream_the_newest_only(fake, monkeypatch):
    nameless = {CHECKPOINT: json.dumps({guard.DEFAULT_IDENTIFIER: "4"})}
    fake.archive((T1, nameless))
    fake.commit(T2, 5, guard.DEFAULT_IDENTIFIER)
    seen = []

    def read(endpoints, key):
        seen.append(key)
        return fake[key]

    monkeypatch.setattr(guard.store, "read", read)
    assert "has batch 5" in refused().what
    assert len(seen) == 1 and T2 in seen[0]
    fake.checkpoint(5, 5)
    seen.clear()
    assert claimed() == guard.DEFAULT_IDENTIFIER
    archive = [key for key in seen if key.endswith(".parquet")]
    assert len(archive) == 1 and len(seen) == len(set(seen))


@pytest.mark.parametrize(
    ("cores", "known", "buckets"), [(1, None, 2), (8, None, 8), (8, 2, 2), (2, 8, 8)]
)
def test_a_new_table_has_a_bucket_per_core_and_an_old_one_keeps_what_it_has(
    fake, cores, known, buckets
):
    if known:
        note = {} if known == options.DEFAULT_BUCKETS else {options.BUCKETS_NOTE: str(known)}
        fake.write(T1, {CHECKPOINT: json.dumps({OWN: "4"})} | note)
        fake.checkpoint(4, 4)
    given = claim_table(HERE, TABLE, PATH, cores)
    del given[guard.IDENTIFIER]
    assert given == options.buckets(buckets)


def test_a_deleted_checkpoint_is_refused_until_a_replay_is_asked_for(fake):
    fake.commit(T1, 4)
    error = refused()
    assert "has batch 4" in error.what and "deleted" in error.what
    assert "LAB_REPLAY_STREAM=true" in error.next_step
    assert "An erased order then comes back" in error.next_step
    assert not [key for key in fake if "_checkpoints" in key]  # nothing was begun
    replayed = claimed(replay=True)
    new_id = read_state(HERE, PATH).id
    assert replayed.startswith(f"{new_id}.") and replayed != OWN
    fake.commit(T2, 0, identifier=replayed)
    fake.checkpoint(0, 0, new_id)
    assert claimed() == replayed  # from now on it needs no setting


def test_another_streams_checkpoint_and_an_older_copy_are_refused(fake):
    fake.commit(T1, 3)
    fake.commit(T2, 4)
    fake.checkpoint(4, 4, OTHER)
    assert "replaced" in refused().what
    fake.checkpoint(4, 4)
    for number in (3, 4):
        del fake[f"x/_checkpoints/cow/offsets/{number}"]
        del fake[f"x/_checkpoints/cow/commits/{number}"]
    assert "older copy" in refused().what and "ends at batch 2" in refused().what
    assert claimed(replay=True).startswith(f"{OWN}.")


def test_a_table_that_lost_batches_is_refused_even_in_a_replay(fake):
    fake.checkpoint(4, 4)
    assert "has none of them" in refused(replay=True).what
    fake.commit(T3, 2)
    error = refused(replay=True)
    assert "newest in the" in error.what and f"delete {PATH}" in error.next_step


def test_a_damaged_metadata_table_is_refused(fake):
    fake.commit(T1, 4)
    fake.checkpoint(4, 4)
    fake[f"x/orders_cow/.hoodie/metadata/files/.files-0000-0_{T1}.log.1_0-1-2"] = b"#HUDI#"
    error = refused()
    assert "metadata table" in error.what and "put the right file back" in error.next_step


def test_a_clock_behind_the_table_is_refused_whether_set_back_or_in_another_zone(fake):
    now = datetime.now(UTC)
    fake.commit(f"{now:%Y%m%d%H%M%S}000", 4)
    guard.check_clock(HERE, TABLE, "-Duser.timezone=UTC -Xmx1g")
    with pytest.raises(LabError, match="look older"):
        guard.check_clock(HERE, TABLE, "-Duser.timezone=UTC -Duser.timezone=America/New_York")
    fake.commit(f"{now + timedelta(hours=1):%Y%m%d%H%M%S}000", 5)
    with pytest.raises(LabError, match="clock of this writer"):
        guard.check_clock(HERE, TABLE, "-Duser.timezone=UTC")
    guard.check_clock(HERE, "s3a://lakehouse/x/no_table_yet", "")


def test_a_writer_ends_with_the_sentence_and_the_next_step(fake, tmp_path, monkeypatch):
    fake.commit(T1, 4)
    # A writer owns its process; this one belongs to the tests.
    monkeypatch.setattr(writer, "_watch", lambda *_: None)
    monkeypatch.setattr(writer, "_kill_children", lambda: None)
    monkeypatch.setattr(writer.signal, "signal", lambda *_: None)
    for name, value in environment(HERE).items():
        monkeypatch.setenv(name, value)
    folder, base = str(tmp_path / "w"), "s3a://lakehouse/x"
    job = Job("w", "t", base, folder, str(tmp_path / "log"), "jars", "java", sinks=("cow",))
    assert main(job.save()) == 1
    told = json.loads((tmp_path / "w" / "state.json").read_text())
    assert told["state"] == "failed" and "has batch 4" in told["error"]
    assert "Next step: put the right checkpoint back" in told["error"]


def test_of_a_table_that_is_none_yet_only_the_folders_go(fake):
    folders = {f"x/orders_cow/.hoodie/{name}": b"" for name in ("", "timeline/")}
    fake |= folders | {"x/orders_cow_2/.hoodie/": b""}
    guard.drop_unmade(HERE, TABLE)
    assert fake == {"x/orders_cow_2/.hoodie/": b""}
    fake.clear()
    fake |= folders | {"x/orders_cow/.hoodie/hoodie.properties.backup": b"a=b"}
    guard.drop_unmade(HERE, TABLE)
    assert len(fake) == 3
