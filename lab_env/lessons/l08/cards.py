"""Cards of lesson 08: what the footer of each file says about each key of a batch.

Hudi's own class answers for the bloom filters. The score counts the files that a choice of cards
opened in vain, and the rows that it would insert a second time.
"""

import io
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from matplotlib.patches import Rectangle
from pyspark.sql import DataFrame, SparkSession

from lab_env.course.answers import as_rows
from lab_env.lab.handle import Lab
from lab_env.platform import store
from lab_env.platform.display.chart import INK, new_panels, svg
from lab_env.platform.display.palette import SKY

COLUMNS = ("order_id", "day", "file", "file_day", "low", "high", "filter")
DAYS = ("2026-11-20", "2026-11-21")
MAYBE, NEVER = "probably", "certainly not"


@dataclass(frozen=True)
class File:
    """One base file: its day, and the key range and bloom filter of its footer."""

    name: str
    day: str
    low: str
    high: str
    bloom: Any  # a BloomFilter of Hudi's, in Spark's JVM
    keys: frozenset[str]  # not on the cards

    def card(self, order_id: str, day: str) -> tuple[str, ...]:
        """Return what the footer says about the key of a row that names this day."""
        answer = MAYBE if self.bloom.mightContain(order_id) else NEVER
        return (order_id, day, self.name, self.day, self.low, self.high, answer)


def files_of(lab: Lab, path: str) -> list[File]:
    """Return a table's current base files, named a, b, c, ... by day and lowest key."""
    found = []
    for base in (group.base for group in lab.xray(path).current if group.base):
        content = io.BytesIO(store.read(lab.endpoints, f"{store.key_of(path)}/{base.key}"))
        rows = pq.read_table(content, columns=["order_id"])
        footer = {name.decode(): text.decode() for name, text in rows.schema.metadata.items()}
        bloom = _factory(lab.spark).fromString(
            footer["org.apache.hudi.bloomfilter"], footer["hoodie_bloom_filter_type_code"]
        )
        low, high = footer["hoodie_min_record_key"], footer["hoodie_max_record_key"]
        keys = frozenset(rows["order_id"].to_pylist())
        found.append((base.partition.rpartition("=")[2], low, high, bloom, keys))
    found.sort(key=lambda file: file[:2])
    return [File(chr(ord("a") + place), *file) for place, file in enumerate(found)]


def deal(spark: SparkSession) -> tuple[list[File], dict[str, str]]:
    """Return random files, and a batch that has each case that tells a right rule from a wrong one.

    The key ranges overlap. Numbers have no leading zeros, so as text O-9 is larger than O-10. The
    filters err for about one key in five.
    """
    draw = random.SystemRandom()
    while True:
        numbers = draw.sample(range(2, 2000), 320)
        keys = sorted(f"O-{number}" for number in numbers)
        stored, new = keys[::2], keys[1::2]
        files = []
        for place in range(6):
            begin = (place % 3) * 40
            mine = draw.sample(stored[begin : begin + 80], 25)
            bloom = _factory(spark).createBloomFilter(25, 0.2, 1000, "SIMPLE")
            for key in mine:
                bloom.add(key)
            day = DAYS[place // 3]
            name = f"{draw.choice('klmnp')}{place}"
            files.append(File(name, day, min(mine), max(mine), bloom, frozenset(mine)))
        draw.shuffle(files)
        batch = {key: draw.choice(DAYS) for file in files for key in (file.low, file.high)}
        batch |= {
            key: draw.choice(DAYS) for key in (*draw.sample(stored, 10), *draw.sample(new, 25))
        }
        if _has_all_cases(files, batch):
            return files, batch


def _has_all_cases(files: list[File], batch: dict[str, str]) -> bool:
    """True if each rule that is wrong in one point errs somewhere in the batch."""
    seen = set()
    for key, day in batch.items():
        right = 0
        for file in files:
            inside, maybe = file.low <= key <= file.high, file.bloom.mightContain(key)
            low, number, high = (int(text[2:]) for text in (file.low, key, file.high))
            conditions = {"day": file.day == day, "range": inside, "filter": maybe}
            broken = [name for name, holds in conditions.items() if not holds]
            if len(broken) == 1:
                seen.add(broken[0])
            if file.day == day and maybe and inside != (low <= number <= high):
                seen.add(f"as numbers, {inside}")
            if not broken:
                right += 1
                seen |= {end for end in ("low", "high") if key == getattr(file, end)}
        if right > 1:
            seen.add("several")
    wanted = {"day", "range", "filter", "as numbers, True", "as numbers, False"}
    return seen >= wanted | {"low", "high", "several"}


def cards(spark: SparkSession, files: Iterable[File], batch: Mapping[str, str]) -> DataFrame:
    """Return one row for each key of a batch and each file.

    Args:
        batch: the day that each row names, by its key.
    """
    rows = [file.card(key, day) for key, day in batch.items() for file in files]
    return spark.createDataFrame(rows, ", ".join(f"{name} string" for name in COLUMNS))


def card_chart(found: DataFrame) -> str:
    """Draw the cards as a grid with one column per key and one row per file."""
    shown = found.toPandas()
    keys = list(dict.fromkeys(zip(shown["order_id"], shown["day"], strict=True)))
    files = sorted(set(zip(*(shown[n] for n in ("file_day", "file", "low", "high")), strict=True)))
    figure, (axes,) = new_panels(
        ["what the footer of each file says about each key"],
        width=8.4,
        height=1.1 + 0.36 * len(files),
    )
    for card in shown.itertuples():
        column = keys.index((card.order_id, card.day))
        line = files.index((card.file_day, card.file, card.low, card.high))
        fill = SKY if card.filter == MAYBE else "none"
        place = (column - 0.46, line - 0.42)
        axes.add_patch(Rectangle(place, 0.92, 0.84, fc=fill, ec=INK, lw=0.4))
        colour = "black" if card.filter == MAYBE else INK
        axes.text(column, line, card.filter, ha="center", va="center", fontsize=8, color=colour)
    axes.set_xlim(-0.55, len(keys) - 0.45)
    axes.set_ylim(len(files) - 0.5, -0.5)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(keys)), [f"{key}\nday {day[-2:]}" for key, day in keys])
    axes.set_yticks(
        range(len(files)),
        [f"file {name}, day {day[-2:]}: {low} to {high}" for day, name, low, high in files],
    )
    axes.grid(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return svg(figure)


def score(
    files: Iterable[File], batch: Mapping[str, str], searched: Mapping[str, Any]
) -> pd.DataFrame:
    """Count the searched files that have the key, those searched in vain, and doubled rows.

    Args:
        searched: by index, a table with the columns order_id and file.
    """
    home = {(key, file.name) for file in files for key in batch if key in file.keys}
    rows = {}
    for index, answer in searched.items():
        chosen = set(as_rows(answer, ("order_id", "file")))
        found = chosen & home
        rows[index] = {
            "files searched": len(chosen),
            "key found": len(found),
            "in vain": len(chosen - home),
            "old row not found": len(home - found),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def _factory(spark: SparkSession) -> Any:
    return spark._jvm.org.apache.hudi.common.bloom.BloomFilterFactory
