"""Damaged files of a table are reported before readers fail on them or silently skip them."""

import contextlib
import io
import random
import struct

import pyarrow as pa
import pyarrow.parquet as pq
from xray_tables import DAY, PROPERTIES, T1, T2, T3, FilesInMemory, base, committed, done, log, stat

from lab_env.tables.hudi.intact import damaged_files, damaged_metadata, log_damage


def block(content: bytes = b"payload") -> bytes:
    """Return a log file's block: magic, length, some bytes, and the length including the magic."""
    length = len(content) + 8
    return b"#HUDI#" + struct.pack(">q", length) + content + struct.pack(">q", length + 6)


LOG = block() + block(b"second")


def parquet(key: str) -> tuple[bytes, range]:
    """Return a file as Hudi writes it, with checksums of its pages, and where its pages are."""
    ids = [f"O-{n}" for n in range(300)]
    names = [key.rpartition("/")[2]] * 300
    numbers = pa.table({"order_id": ids, "amount": range(300), "_hoodie_file_name": names})
    written = io.BytesIO()
    options = {"compression": "zstd", "write_page_checksum": True, "use_dictionary": False}
    pq.write_table(numbers, written, **options)
    column = pq.ParquetFile(written).metadata.row_group(0).column(1)
    return written.getvalue(), range(4, column.data_page_offset + column.total_compressed_size)


PARQUET, PAGES = parquet(base(T1))
PLACES = {base(T1): PARQUET, log(T2): LOG}
COMMITS = {
    done(T1)[0]: committed("UPSERT", stat(base(T1), written=3, size=len(PARQUET))),
    done(T2)[0]: committed("UPSERT", stat(log(T2), updated=1, size=len(LOG))),
}


class Files(FilesInMemory):
    """Files in memory with their real sizes."""

    def sizes(self):
        return {key: len(self.contents.get(key, b"")) for key in self.keys}


def files(**changed: bytes | None) -> Files:
    """Return the table with some files replaced, or removed if their content is None."""
    keys = {"base": base(T1), "log": log(T2), "instant": done(T2)[0]}
    contents = PLACES | COMMITS | {keys[name]: content for name, content in changed.items()}
    present = {key: content for key, content in contents.items() if content is not None}
    pending = [*done(T1)[1:], *done(T2)[1:]]
    return Files("s3a://lakehouse/t", PROPERTIES, [f"{DAY}/.hoodie_partition_metadata", *pending],
                 present)  # fmt: skip


def only(table: Files) -> str:
    (damage,) = damaged_files(table)
    return str(damage)


def test_a_cut_log_or_base_file_differs_from_what_its_commit_recorded():
    assert f"{log(T2)}: {len(LOG) - 4} bytes, but its commit recorded {len(LOG)}" == only(
        files(log=LOG[:-4])
    )
    assert base(T1) in only(files(base=PARQUET[:-40]))


def test_a_log_with_broken_blocks_of_the_right_size_is_found():
    broken = LOG.replace(b"#HUDI#", b"#HUDX#")
    assert len(broken) == len(LOG) and "block 1" in only(files(log=broken))


def test_a_bit_of_a_base_files_pages_that_gives_another_value_is_found():
    right, other = pq.read_table(io.BytesIO(PARQUET)), 0
    assert damaged_files(files()) == []
    for place in random.sample(PAGES, 150):
        changed = bytearray(PARQUET)
        changed[place] ^= 1 << place % 8
        with contextlib.suppress(OSError, ValueError):  # no reader can read it
            if pq.read_table(io.BytesIO(changed)) == right:  # a page's statistics, for example
                continue
            other += 1
        assert "a page cannot be read" in only(files(base=bytes(changed))), place
    assert other > 10  # they would be wrong answers


def test_the_bytes_of_an_earlier_file_of_the_same_size_are_found():
    before, now = (base(at).rpartition("/")[2] for at in (T1, T3))
    earlier = Files("t", PROPERTIES, [*done(T1)[1:], *done(T3)[1:]], COMMITS | {
        base(T1): PARQUET,
        base(T3): PARQUET,
        done(T3)[0]: committed("UPSERT", stat(base(T3), updated=1, size=len(PARQUET))),
    })  # fmt: skip
    assert f"{now}: its rows are of another file, {before}" in only(earlier)


def test_a_file_that_its_commit_needs_is_missed():
    assert "missing" in only(files(log=None)) and log(T2) in only(files(log=None))
    assert base(T1) in only(files(base=None))


def test_a_completed_instant_that_cannot_be_decoded_is_named():
    whole = COMMITS[done(T2)[0]]
    assert done(T2)[0] in only(files(instant=whole[: len(whole) // 2]))
    assert "it is empty" in only(files(instant=b""))


def test_a_replaced_version_of_a_file_may_be_gone():
    content, _ = parquet(base(T3))
    newer = {done(T3)[0]: committed("UPSERT", stat(base(T3), written=3, size=len(content)))}
    contents = COMMITS | newer | {base(T3): content}
    assert damaged_files(Files("t", PROPERTIES, [*done(T3)[1:]], contents)) == []


def test_the_blocks_of_a_log_tile_the_file():
    assert log_damage(LOG) == ""
    assert log_damage(b"") == "the file has no block"
    assert "block 2" in log_damage(LOG[:-1]) and "has 52" in log_damage(LOG[:-5])
    assert "first length" in log_damage(block() + b"#HUDI#\x00")
    assert "begin with the mark" in log_damage(LOG + b"rest")
    wrong = block()[:-8] + struct.pack(">q", 3)
    assert "two lengths of block 1 differ" in log_damage(wrong)


def test_a_damaged_log_of_the_metadata_table_is_found():
    key = f".hoodie/metadata/files/.files-0000-0_{T2}.log.1_0-12-34"
    intact = Files("t", PROPERTIES, [], PLACES | COMMITS | {key: LOG})
    cut = Files("t", PROPERTIES, [], PLACES | COMMITS | {key: LOG[: len(LOG) // 2]})
    assert damaged_files(intact) == damaged_metadata(intact) == []
    assert damaged_files(cut) == damaged_metadata(cut) != []
