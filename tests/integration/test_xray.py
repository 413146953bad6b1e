"""The X-ray of tables written by Hudi agrees with Hudi's own procedures and reader.

In Chromium, the X-ray's player is compared with the listings taken after each step.
"""

import re
import time
from collections.abc import Callable

import pytest
from chromium import chromium, needs_chromium

from lab_env.lab.handle import Lab, reset_lesson
from lab_env.pipeline.options import DEMO_OPTIONS, KEYS, METADATA
from lab_env.platform import store
from lab_env.platform.errors import LabError
from lab_env.tables.hudi.timeline import parse_data_name

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
ROWS = "SELECT * FROM VALUES {} AS t(order_id, status, order_ts, partition_date)"
TWO_DAYS = ROWS.format("('A','new',1L,'d1'), ('B','new',1L,'d1'), ('C','new',1L,'d2')")
OPERATION = "hoodie.datasource.write.operation"
# Without a metadata table, as the writes: else the procedure makes one, which takes ten seconds.
NO_METADATA = "options=>'hoodie.metadata.enable=false'"
COMPACT_ALWAYS = "options=>'hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false'"


@pytest.fixture(scope="module")
def lab(services):
    handle = Lab("xray", services)
    yield handle
    handle.spark.stop()
    reset_lesson("xray")


def write(lab: Lab, path: str, rows, table_type: str, **options: str | None) -> None:
    """Write one batch without a metadata table; options set to None are left out."""
    chosen = KEYS | METADATA | DEMO_OPTIONS | {
        "hoodie.table.name": "orders",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.compact.inline": "false",
    } | options  # fmt: skip
    chosen = {name: value for name, value in chosen.items() if value is not None}
    rows = lab.spark.sql(rows) if isinstance(rows, str) else rows
    rows.write.format("hudi").options(**chosen).mode("append").save(path)


def one(order: str, order_ts: int, day: str = "d1", status: str = "paid") -> str:
    """Return SQL for a single order."""
    return ROWS.format(f"('{order}','{status}',{order_ts}L,'{day}')")


def named(lab: Lab, path: str) -> str:
    """Register a table in Spark's catalogue, as some procedures require; return its name."""
    name = path.rsplit("/", 1)[1].replace("-", "_")
    lab.spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{path}'")
    return name


def call(lab: Lab, procedure: str, table: str, arguments: str = "") -> list:
    """Return the rows of one of Hudi's procedures."""
    return lab.spark.sql(f"CALL {procedure}(table=>'{table}'{arguments})").collect()


def files_read(lab: Lab, path: str) -> set[str]:
    """Return the base files that Hudi's own reader opens for the newest state."""
    table = lab.spark.read.format("hudi").load(path)
    return {row[0] for row in table.select("_hoodie_file_name").distinct().collect()}


def assert_commits_as_hudi_tells(lab: Lab, path: str):
    """Compare each completed write's times, bytes and records with those that Hudi reports."""
    picture, table = lab.xray(path), named(lab, path)
    rows = call(lab, "show_commits", table, ", limit=>100")
    assert {row.commit_time for row in rows} == {
        i.requested for i in picture.instants if i.writes and i.completed
    }
    for row in rows:
        commit = picture.commit(row.commit_time)
        assert commit.completed == row.state_transition_time
        # Hudi's total leaves out the change logs.
        beside = sum(file.size for file in commit.files if file.kind == "cdc")
        assert commit.bytes_written - beside == row.total_bytes_written
        assert commit.records_written == row.total_records_written
        assert sum(file.updated for file in commit.files) == row.total_update_records_written
        assert len({file.partition for file in commit.files}) == row.total_partitions_written
    for row in rows[:1]:
        files = call(lab, "show_commit_files", table, f", instant_time=>'{row.commit_time}'")
        assert sorted(
            (f.partition, f.group, f.updated, f.written, f.size)
            for f in picture.commit(row.commit_time).files
            if f.kind != "cdc"  # the procedure has one row per write statistic
        ) == sorted(
            (
                f.partition_path, f.file_id, f.total_records_updated, f.total_records_written,
                f.file_size,
            )
            for f in files
        )  # fmt: skip
    return picture


def assert_slices_as_hudi_tells(lab: Lab, path: str, depth: int = 1):
    """Compare all and the current file slices with Hudi's: base files, sizes and logs."""
    picture, table = lab.xray(path), named(lab, path)

    def mine(slices):
        return sorted(
            (s.group, s.instant, s.base.name, s.base.size, len(s.logs), sum(f.size for f in s.logs))
            for s in slices
        )

    def hudis(procedure: str, arguments: str):
        return sorted(
            (
                row.file_id, row.base_instant, row.data_file.rpartition("/")[2], row.data_file_size,
                row.num_delta_files, row.total_delta_file_size,
            )
            for row in call(lab, procedure, table, arguments)
        )  # fmt: skip

    replaced = dict(picture.replaced)
    regex = "*/" * depth
    assert mine(picture.slices) == hudis("show_fsview_all", f", path_regex=>'{regex}', limit=>1000")
    assert mine(picture.current) == hudis("show_fsview_latest", ", limit=>1000")
    assert not any(found.group in replaced for found in picture.current)
    assert_past_ends_with_what_is_stored(picture)
    return picture


def assert_past_ends_with_what_is_stored(picture):
    """Check that the player's last step, built from the timeline alone, shows the stored files."""
    past = picture.play().past
    last = past.moments[-1].table.files
    assert last == tuple(file for file in picture.files if file.committed)
    assert not (past.lost or past.unknown or past.older_files)


def test_an_update_of_a_cow_table_adds_a_version_of_one_file(lab):
    path = lab.scratch("cow")
    write(lab, path, TWO_DAYS, COW)
    before = lab.xray(path)
    write(lab, path, one("A", 2), COW)
    after = lab.xray(path, since=before)
    assert [instant.action for instant in after.instants] == ["commit", "commit"]
    assert all(i.requested < i.completed for i in after.instants)
    assert [f.partition for f in after.rewritten_files] == ["partition_date=d1"]
    assert {s.base.name for s in after.current} == files_read(lab, path)
    assert len(after.slices) == 3 and not after.uncommitted
    assert list((after - before).query("part == 'base'")["change"]) == ["new"]
    assert after.objects == len(lab.files(path))
    write(lab, path, one("B", 2), COW, **{OPERATION: "delete"})
    assert_commits_as_hudi_tells(lab, path)
    picture = assert_slices_as_hudi_tells(lab, path)
    assert picture.rows == 2 == lab.spark.read.format("hudi").load(path).count()
    commit = picture.commit()
    assert (commit.operation, commit.deleted) == ("DELETE", 1)
    assert commit.inserted == commit.updated == 0
    assert list(commit.schema) == ["order_id", "status", "order_ts", "partition_date"]


def test_a_mor_table_shows_logs_and_a_compaction_from_plan_to_end(lab):
    path = lab.scratch("mor")
    write(lab, path, TWO_DAYS, MOR)
    write(lab, path, one("A", 2), MOR)
    write(lab, path, one("B", 2), MOR, **{OPERATION: "delete"})
    picture = assert_slices_as_hudi_tells(lab, path)
    (with_logs,) = [found for found in picture.slices if found.logs]
    assert [(f.rows, f.kind) for f in with_logs.logs] == [(1, "log"), (1, "log")]
    assert picture.rows is None  # logs are not merged yet

    def compact(op: str):
        sql = f"CALL run_compaction(op=>'{op}', path=>'{path}', {COMPACT_ALWAYS})"
        lab.spark.sql(sql).collect()

    compact("schedule")
    write(lab, path, one("A", 3), MOR)
    picture = lab.xray(path)
    plan = next(i for i in picture.instants if i.action == "compaction")
    rows = call(lab, "show_compaction", named(lab, path))
    assert [(row.timestamp, row.state.lower()) for row in rows] == [(plan.requested, plan.state)]
    # Until it runs, a query merges the planned slice's new log with the slice that it will compact.
    older, begun = [s for s in picture.slices if s.partition == "partition_date=d1"]
    assert older.current and begun.current and begun.planned
    assert (begun.instant, begun.base, len(begun.logs)) == (plan.requested, None, 1)
    compact("run")
    picture = assert_slices_as_hudi_tells(lab, path)
    assert_commits_as_hudi_tells(lab, path)
    (current,) = [s for s in picture.current if s.partition == "partition_date=d1"]
    assert (current.instant, len(current.logs)) == (plan.requested, 1)
    commit = picture.commit(plan.requested)
    assert (commit.action, commit.operation, commit.updated) == ("compaction", "COMPACT", 0)


@pytest.mark.proof("tables")
def test_a_stream_records_its_batch_in_the_commit(lab):
    source, path = lab.scratch("source"), lab.scratch("stream")
    lab.spark.sql(TWO_DAYS).write.json(source)
    options = KEYS | METADATA | DEMO_OPTIONS | {"hoodie.table.name": "orders"}
    stream = lab.spark.readStream.schema(lab.spark.sql(TWO_DAYS).schema).json(source)
    query = stream.writeStream.format("hudi").options(**options)
    query = query.option("checkpointLocation", lab.scratch("checkpoint"))
    query = query.option("hoodie.datasource.write.streaming.checkpoint.identifier", "pipeline")
    query.trigger(availableNow=True).start(path).awaitTermination()
    assert lab.xray(path).commit().checkpoint == {"pipeline": "0"}


@pytest.mark.proof("tables")
def test_inline_clustering_of_a_table_without_partitions_replaces_file_groups(lab):
    path = lab.scratch("clustered")
    flat = {
        "hoodie.datasource.write.partitionpath.field": None,
        "hoodie.datasource.write.keygenerator.class": (
            "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
        ),
        "hoodie.parquet.small.file.limit": "0",
    }
    write(lab, path, one("A", 1), COW, **flat)
    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    write(lab, path, one("B", 1), COW, **flat, **inline)
    picture = assert_slices_as_hudi_tells(lab, path, depth=0)
    assert_commits_as_hudi_tells(lab, path)
    assert [i.action for i in picture.instants] == ["commit", "commit", "clustering"]
    assert len(picture.replaced) == 2 and picture.partitions == ("",)
    assert {found.base.name for found in picture.current} == files_read(lab, path)
    commit = picture.commit()
    assert (commit.operation, commit.inserted, commit.records_written) == ("CLUSTER", 0, 2)
    assert picture.rows == 2


@pytest.mark.proof("tables")
def test_an_overwritten_partition_leaves_its_old_file_group_behind(lab):
    path = lab.scratch("overwrite")
    write(lab, path, TWO_DAYS, COW)
    write(lab, path, one("Z", 1), COW, **{OPERATION: "insert_overwrite"})
    picture = assert_slices_as_hudi_tells(lab, path)
    assert len(picture.replaced) == 1
    assert {found.base.name for found in picture.current} == files_read(lab, path)
    assert len(picture.files) == 3 and len(picture.current) == 2


def test_a_write_that_never_ended_is_inflight_and_then_rolled_back(lab):
    path = lab.scratch("failed")
    write(lab, path, TWO_DAYS, COW)
    write(lab, path, one("A", 2), COW)
    lost = lab.xray(path).instants[-1]
    end = f"/.hoodie/timeline/{lost.requested}_{lost.completed}.commit"
    s3 = store.client(lab.endpoints)
    s3.delete_object(Bucket=lab.endpoints.bucket, Key=store.key_of(path) + end)
    picture = assert_slices_as_hudi_tells(lab, path)
    newest = picture.instants[-1]
    assert (newest.requested, newest.state) == (lost.requested, "inflight")
    assert [file.instant for file in picture.uncommitted] == [lost.requested]
    write(lab, path, one("A", 3), COW)
    picture = assert_slices_as_hudi_tells(lab, path)
    assert [i.action for i in picture.instants] == ["commit", "rollback", "commit"]
    (row,) = call(lab, "show_rollbacks", named(lab, path))
    assert (row.instant, row.rollback_instant) == (picture.instants[1].requested, lost.requested)
    assert f"rolled back {lost.requested}" in repr(picture)


@pytest.mark.proof("tables")
@pytest.mark.parametrize("table_type", [COW, MOR])
def test_a_restore_names_what_it_undid_and_its_files_stand_in_their_place(lab, table_type):
    path = lab.scratch("restored")
    write(lab, path, TWO_DAYS, table_type)
    write(lab, path, one("A", 2), table_type)
    kept = lab.xray(path).instants[-1].requested
    call(lab, "create_savepoint", named(lab, path), f", commit_time=>'{kept}'")
    write(lab, path, one("B", 3), table_type)
    write(lab, path, one("D", 3, "d3"), table_type)
    before = lab.xray(path)
    call(lab, "rollback_to_savepoint", named(lab, path), f", instant_time=>'{kept}'")
    picture = lab.xray(path, since=before)
    undone = {instant.requested for instant in before.instants if instant.requested > kept}
    (row,) = call(lab, "show_savepoints", named(lab, path))
    (savepoint,) = [i for i in picture.instants if i.action == "savepoint"]
    assert row.savepoint_time == savepoint.requested == kept
    assert picture.instants[-1].action == "restore"
    assert picture.undone == undone and len(undone) == 2
    assert {file.instant for file in picture.gone_files} == undone
    for form in (repr(picture), picture._repr_html_()):
        assert f"undid 2 instants: {', '.join(sorted(undone))}" in form
        assert "keeps " in form
    assert set(re.findall(r"rolled back: requested (\d+)", picture._repr_html_())) == undone
    assert "earlier" not in picture._repr_html_()
    assert_slices_as_hudi_tells(lab, path)
    write(lab, path, one("B", 9), table_type)
    assert_slices_as_hudi_tells(lab, path)
    assert_commits_as_hudi_tells(lab, path)


@pytest.mark.proof("tables")
def test_a_log_compaction_merges_logs_into_a_log(lab):
    path = lab.scratch("log_compacted")
    options = {
        "hoodie.log.compaction.enable": "true", "hoodie.log.compaction.inline": "true",
        "hoodie.log.compaction.blocks.threshold": "2",
    }  # fmt: skip
    write(lab, path, TWO_DAYS, MOR, **options)
    for number in range(2, 6):
        write(lab, path, one("A", number), MOR, **options)
    picture = assert_slices_as_hudi_tells(lab, path)
    assert_commits_as_hudi_tells(lab, path)
    compactions = [i for i in picture.instants if i.action == "logcompaction"]
    assert compactions and not picture.uncommitted
    commit = picture.commit(compactions[0].requested)
    assert (commit.action, commit.operation, commit.updated) == ("logcompaction", "LOG_COMPACT", 0)
    assert {file.kind for file in commit.files} == {"log"}


@pytest.mark.proof("tables")
def test_a_cow_table_with_a_change_feed_has_a_change_log_beside_each_changed_file(lab):
    path = lab.scratch("changes")
    feed = {"hoodie.table.cdc.enabled": "true"}
    write(lab, path, TWO_DAYS, COW, **feed)
    write(lab, path, one("A", 2), COW, **feed)
    write(lab, path, one("B", 2), COW, **feed, **{OPERATION: "delete"})
    picture = assert_slices_as_hudi_tells(lab, path)
    assert_commits_as_hudi_tells(lab, path)
    changes = [file for file in picture.files if file.kind == "cdc"]
    assert len(changes) == 2 and {file.rows for file in changes} == {None}
    assert picture.rows == 2 == lab.spark.read.format("hudi").load(path).count()
    commit = picture.commit()
    (beside,) = [file for file in commit.files if file.kind == "cdc"]
    assert beside.size == next(f.size for f in changes if f.name == beside.name)
    assert f"{beside.size:,} bytes, change log" in repr(commit)


@pytest.mark.proof("tables")
def test_archived_and_cleaned_history_is_still_shown(lab):
    path = lab.scratch("archived")
    short = {
        "hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
        "hoodie.commits.archival.batch": "1",
    }  # fmt: skip
    for number in range(7):
        write(lab, path, one("A", number), COW, **short)
    picture = assert_slices_as_hudi_tells(lab, path)
    assert_commits_as_hudi_tells(lab, path)
    rows = lab.spark.sql(f"SELECT * FROM hudi_query_timeline('{path}', 'true')").collect()
    assert {(row.Timestamp, row.Completion_Time) for row in rows if row.Action == "commit"} == {
        (i.requested, i.completed)
        for i in (*picture.history, *picture.instants)
        if i.action == "commit"
    }
    assert {i.action for i in picture.history} == {"commit", "clean"}
    moments = picture.play().past.moments
    assert len(moments) == len(picture.history) + len(picture.instants)
    assert [f.rows for f in moments[0].added] == [1] and not moments[0].table.gone_files
    first = picture.history[0]
    assert picture.commit(first.requested).inserted == 1
    assert len(picture.cleaned) == 7 - len(picture.files) > 2
    assert picture.rows == 1


@pytest.mark.proof("tables")
def test_nested_partitions_and_an_empty_table(lab):
    path = lab.scratch("nested")
    nested = {
        "hoodie.datasource.write.partitionpath.field": "partition_date,status",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
    }
    write(lab, path, TWO_DAYS, MOR, **nested)
    write(lab, path, one("A", 2, status="new"), MOR, **nested)
    picture = assert_slices_as_hudi_tells(lab, path, depth=2)
    assert picture.partitions == ("partition_date=d1/status=new", "partition_date=d2/status=new")
    empty = lab.scratch("empty")
    lab.spark.sql(
        f"CREATE TABLE nothing_yet (order_id STRING) USING hudi "
        f"TBLPROPERTIES (primaryKey='order_id') LOCATION '{empty}'"
    )
    picture = lab.xray(empty)
    assert (picture.instants, picture.files, picture.rows) == ((), (), 0)
    assert "no write yet" in picture._repr_html_()


def a_life(lab: Lab, path: str, table_type: str) -> dict[str, Callable[[], object]]:
    """Return the actions applied to a table, by name, in the order of execution."""

    def update(order_ts: int):
        return lambda: write(lab, path, one("A", order_ts), table_type)

    def procedure(name: str, arguments: str):
        return lambda: call(lab, name, named(lab, path), f", {arguments}")

    clean = procedure("run_clean", f"retain_commits=>1, {NO_METADATA}")
    first = {"insert": lambda: write(lab, path, TWO_DAYS, table_type), "update": update(2)}
    middle = {"another update": update(3), "clean": clean}
    if table_type == MOR:
        plan = procedure("run_compaction", f"op=>'schedule', {COMPACT_ALWAYS}")
        run = procedure("run_compaction", f"op=>'run', {COMPACT_ALWAYS}")
        middle = {"plan of a compaction": plan, "update meanwhile": update(3), "compaction": run}
    clustering = {"clustering": procedure("run_clustering", NO_METADATA)}
    last = {"later update": update(4), "last update": update(5), "last clean": clean}
    return first | middle | clustering | last


def listed(lab: Lab, path: str) -> dict[str, int]:
    """Return the bytes of each data file in the object store, by name."""
    files = {file.key.rpartition("/")[2]: file.size for file in lab.files(path)
             if "/.hoodie/" not in file.key}  # fmt: skip
    return {name: size for name, size in files.items() if parse_data_name(name)}


def drawn(player) -> tuple[dict[str, int], set[str]]:
    """Return the visible step: bytes of stored files by name, and the files that a query reads."""
    boxes = player.locator(".step:not([hidden]) .file[title]")
    assert all(box.is_visible() for box in boxes.all())
    found = boxes.evaluate_all("all => all.map(box => [box.className, box.title])")
    stored, read = {}, set()
    for look, title in found:
        names = dict(re.findall(r"^(\S+): ([\d,]+) bytes", title, re.M))
        if {"current", "older"} & set(look.split()):
            stored |= {name: int(size.replace(",", "")) for name, size in names.items()}
        if "current" in look.split():
            read |= set(names)
    return stored, read


@pytest.fixture(scope="module")
def page():
    with chromium() as browser:
        yield browser.new_page(viewport={"width": 390, "height": 800})


@needs_chromium
@pytest.mark.proof("tables")
@pytest.mark.parametrize("table_type", [COW, MOR])
def test_each_step_of_a_player_is_the_listing_after_its_instant(lab, page, table_type):
    path = lab.scratch("played")
    after = {}  # completion time -> the listing, and what a query reads
    for name, happen in a_life(lab, path, table_type).items():
        happen()
        picture = lab.xray(path)
        newest = max(instant.completed for instant in picture.instants)
        read = {f.name for part in picture.current for f in part.files}
        assert newest not in after or name == "plan of a compaction", name
        after[newest] = (listed(lab, path), read)
    html = lab.xray(path).play()._repr_html_()
    page.set_content(html + html)
    player, other = page.locator(".xray-player").all()
    slider = player.get_by_role("slider", name="Step")
    instants = sorted((i for i in picture.instants if i.completed), key=lambda i: i.completed)
    actions = [instant.action for instant in instants]
    assert {"clean", "clustering"} < set(actions) and len(after) == len(actions)
    assert ("compaction" in actions) == (table_type == MOR)
    seen = {}
    for instant in reversed(instants):  # the player begins with the newest one
        words = player.locator(".step:not([hidden]) .told").inner_text()
        assert f"{instant.action}, completed" in words
        assert slider.get_attribute("aria-valuetext") == words
        seen[instant.completed] = drawn(player)
        if instant.action == "clean":
            assert re.search(r"cleaned \d+ base file", words)
        slider.press("ArrowLeft")
    assert seen == after
    assert drawn(other) == after[instants[-1].completed]
    assert "Step 1 of" in player.locator(".step:not([hidden])").inner_text()
    player.get_by_role("button", name="Step forward").click()
    assert drawn(player) == after[instants[1].completed]
    page.keyboard.press("End")
    assert drawn(player) == after[instants[-1].completed]
    player.get_by_role("button", name="Step back").click()
    assert drawn(player) == after[instants[-2].completed]
    slider.fill("1")
    assert drawn(player) == after[instants[0].completed]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    rows = [moment.table.rows for moment in lab.xray(path).play().past.moments]
    assert {count for count in rows if count is not None} == {3}


@pytest.mark.proof("tables")
def test_a_table_of_200_files_takes_a_processor_second_at_most(lab):
    path = lab.scratch("big")
    orders = lab.spark.range(0, 400, 1, 200).selectExpr(
        "concat('O-', id) order_id", "'new' status", "1L order_ts",
        "concat('d', id div 20) partition_date",
    )  # fmt: skip
    write(
        lab, path, orders, COW, **{OPERATION: "bulk_insert", "hoodie.bulkinsert.sort.mode": "NONE",
        "hoodie.index.bloom.num_entries": "10"},
    )  # fmt: skip

    def seconds() -> float:
        begin = time.process_time()
        picture = lab.xray(path)
        picture._repr_html_()
        assert (len(picture.files), picture.rows) == (200, 400)
        return time.process_time() - begin

    # Processor seconds, which other work on the machine changes little. The first call loads code.
    seconds()
    assert seconds() < 1


def test_a_path_without_a_table_is_named(lab):
    with pytest.raises(LabError) as refused:
        lab.xray(lab.path("nothing"))
    assert "There is no Hudi table" in refused.value.what
    assert "nothing lies there" in str(refused.value)
