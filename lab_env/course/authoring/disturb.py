"""Disturbs values, DataFrames and tables in one small way each, for the effect mutants.

Each function yields pairs: what is disturbed, and a function that returns the disturbed value.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any

import pandas as pd

from lab_env.platform import store
from lab_env.tables.hudi.reader import PROPERTIES, parse_properties

Change = tuple[str, Callable[[Any], Any]]
HELPER = "helper"
META = tuple(
    f"_hoodie_{name}"
    for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
)


def changes_of(value: Any) -> Iterator[Change]:
    """Yield the disturbances of a function's result, or of an answer that is a plain value."""
    if is_spark(value, "DataFrame"):
        yield from _of_dataframe(value)
    elif is_spark(value, "StreamingQuery"):
        yield "the query is stopped", _stopped
    elif isinstance(value, pd.DataFrame):
        yield from _of_pandas(value)
    else:
        yield from _of_plain(value)


def is_spark(value: Any, name: str) -> bool:
    """True for an object of Spark, in its classic or its Connect form; imports no Spark."""
    kinds = [kind for kind in type(value).__mro__ if kind.__name__ == name]
    return any(kind.__module__.startswith("pyspark") for kind in kinds)


def _stopped(query: Any) -> Any:
    query.stop()
    return query


def off(value: Any) -> Any:
    """Return a value that differs by the smallest unit of its type; itself if there is none."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case Decimal():
            exponent = value.as_tuple().exponent
            return value + Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0)
        case float():
            return value + 0.01
        case datetime():
            return value + timedelta(microseconds=1)
        case date():
            return value + timedelta(days=1)
        case str():
            return f"{value}x"
    return value


def _of_plain(value: Any) -> Iterator[Change]:
    if isinstance(value, Mapping):
        items = list(value.items())
        if items:
            (first, was), rest = items[0], dict(items[1:])
            yield "an entry less", lambda _: rest
            yield "an entry more", lambda _: {**value, HELPER: was}
            for name, change in _of_plain(was):
                yield f"{first}: {name}", lambda _, c=change: {**value, first: c(was)}
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            was = getattr(value, field.name)
            if off(was) is not was:
                made = f"{field.name} off by one unit"
                yield made, lambda _, n=field.name, w=was: replace(value, **{n: off(w)})
    elif isinstance(value, set | frozenset) and value:
        one = sorted(value, key=str)[0]
        yield "an element less", lambda _: value - {one}
        yield "an element more", lambda _: value | {off(one)}
    elif isinstance(value, list) or type(value) is tuple:
        yield from _of_sequence(value)
    elif off(value) is not value:
        yield "off by one unit", off
        yield "None for it", lambda _: None
        if isinstance(value, float | Decimal) and value != round(value):
            yield "rounded", round


def _of_sequence(value: list | tuple) -> Iterator[Change]:
    kind: Callable[..., Any] = type(value)
    if not value:
        return
    if isinstance(value, list):
        yield "an element less", lambda _: value[1:]
        yield "an element twice", lambda _: [value[0], *value]
        if value != value[::-1]:
            yield "in another order", lambda _: value[::-1]
    for place in sorted({0, len(value) - 1} if isinstance(value, list) else range(len(value))):
        for name, change in changes_of(value[place]):
            yield (
                f"element {place + 1}: {name}",
                lambda _, p=place, c=change: kind([*value[:p], c(value[p]), *value[p + 1 :]]),
            )


def _of_pandas(frame: pd.DataFrame) -> Iterator[Change]:
    yield "a column more", lambda f: f.assign(**{HELPER: 1})
    yield "a column less", lambda f: f.iloc[:, :-1]
    if frame.empty:
        return
    yield "a row less", lambda f: f.iloc[1:]
    yield "a row twice", lambda f: pd.concat([f, f.head(1)])
    for place, column in enumerate(frame.columns):
        was = frame.iloc[0, place]
        was = was.item() if hasattr(was, "item") else was
        if off(was) is not was:
            yield f"{column} off by one unit", lambda f, p=place, w=was: _with_cell(f, p, off(w))
            yield f"NULL for {column}", lambda f, p=place: _with_cell(f, p, None)


def _with_cell(frame: pd.DataFrame, place: int, new: Any) -> pd.DataFrame:
    cells = frame.iloc[:, place].astype(object).tolist()
    return frame.assign(**{frame.columns[place]: [new, *cells[1:]]})


# Per type of Spark: an expression that differs by its smallest unit, and a neighbouring type.
UNITS = {
    "boolean": "NOT {0}",
    "int": "{0} + 1",
    "bigint": "{0} + 1",
    "double": "{0} + 0.01D",
    "timestamp": "{0} + INTERVAL 1 MICROSECOND",
    "date": "date_add({0}, 1)",
    "string": "concat({0}, 'x')",
}
NEIGHBOURS = {"int": "bigint", "bigint": "int", "timestamp": "string", "date": "string"}


def _of_dataframe(frame: Any) -> Iterator[Change]:
    from pyspark.sql import functions as F

    own = [(name, kind) for name, kind in frame.dtypes if not name.startswith("_hoodie_")]
    if not own:
        return
    last = own[-1][0]
    yield "a column more", lambda f: f.withColumn(HELPER, F.lit(1))
    yield "a column less", lambda f: f.drop(last)
    yield "a column renamed in case", lambda f: f.withColumnRenamed(own[0][0], own[0][0].upper())
    for name, kind in own:
        to = "double" if kind.startswith("decimal") else NEIGHBOURS.get(kind)
        if to:
            yield (
                f"{name} as {to}",
                lambda f, n=name, t=to: f.withColumn(n, F.col(f"`{n}`").cast(t)),
            )
    if frame.isStreaming:
        twice = F.explode(F.array(F.lit(1), F.lit(2)))
        yield "every row twice", lambda f: f.withColumn(HELPER, twice).drop(HELPER)
        yield f"NULL for {last}", lambda f: f.withColumn(last, F.lit(None).cast(dict(own)[last]))
        return
    some = frame.limit(50).collect()
    if some:
        yield "a row less", lambda f: f.offset(1)
        yield "a row twice", lambda f: f.union(f.limit(1))
        yield from _of_cells(own, some)


def _of_cells(own: list[tuple[str, str]], some: list) -> Iterator[Change]:
    from pyspark.sql import functions as F

    plain = [name for name, kind in own if kind in UNITS or kind.startswith("decimal")]
    first = some[0]
    if not plain:
        return

    def at(row: Any) -> Any:
        return reduce(lambda a, b: a & b, [_is(name, row[name]) for name in plain])

    def put(name: str, value: Any, row: Any) -> Callable[[Any], Any]:
        kind = dict(own)[name]
        new = F.when(at(row), value.cast(kind)).otherwise(F.col(f"`{name}`"))
        return lambda frame: frame.withColumn(name, new)

    for name in plain:
        kind = dict(own)[name]
        unit = UNITS.get(kind)
        if unit is None:  # a decimal
            scale = int(kind.rstrip(")").partition(",")[2])
            unit = f"{{0}} + CAST('1E-{scale}' AS DECIMAL(38,{scale}))"
        if first[name] is not None:
            yield f"{name} off by one unit", put(name, F.expr(unit.format(f"`{name}`")), first)
        empty = next((row for row in some if row[name] is None), None)
        if empty is not None:
            value = F.lit("0" if kind == "string" else 0 if kind != "boolean" else False)
            yield f"a value for NULL in {name}", put(name, value, empty)
            if kind == "double":
                yield f"NaN for NULL in {name}", put(name, F.lit(float("nan")), empty)
    last = plain[-1]
    if first[last] is not None:
        yield f"NULL for {last}", put(last, F.lit(None), first)
    other = next((row for row in some if row[last] != first[last]), None)
    if other is not None:

        def exchanged(frame: Any) -> Any:
            new = F.when(at(first), F.lit(other[last])).when(at(other), F.lit(first[last]))
            return frame.withColumn(last, new.otherwise(F.col(f"`{last}`")))

        yield f"two rows' {last} exchanged", exchanged


def _is(name: str, value: Any) -> Any:
    from pyspark.sql import functions as F

    return F.col(f"`{name}`").eqNullSafe(F.lit(value))


def changes_of_table(lab: Any, path: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the disturbances of a stored Hudi table that leave its rows as they are."""
    spark, properties = lab.spark, _properties(lab, path)
    if not properties:
        return
    rows = spark.read.format("hudi").load(path)
    rows = rows.drop(*META)

    def write(frame: Any, mode: str) -> None:
        options = _options(properties)
        frame.write.format("hudi").options(**options).mode(mode).save(path)

    def anew() -> None:
        write(spark.createDataFrame(rows.collect(), rows.schema), "overwrite")

    def call(procedure: str, arguments: str = "") -> None:
        name = "disturbed"
        spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
        try:
            spark.sql(f"CALL {procedure}(table => '{name}'{arguments})").collect()
        finally:
            spark.sql(f"DROP TABLE {name}")

    yield "written anew", anew
    yield "an empty commit more", lambda: write(rows.limit(0), "append")
    yield "cleaned", lambda: call("run_clean", ", retain_commits => 1")
    table = lab.xray(path)
    writes = [instant for instant in table.instants if instant.writes and instant.completed]
    if writes:
        newest = writes[-1].requested
        yield "a savepoint more", lambda: call("create_savepoint", f", commit_time => '{newest}'")
    kept = [i.requested for i in table.instants if i.action == "savepoint" and i.completed]
    if kept:
        at = f", instant_time => '{kept[0]}'"
        yield "a savepoint deleted", lambda: call("delete_savepoint", at)
    if table.table_type == "MERGE_ON_READ":
        soon = "options => 'hoodie.compact.inline.max.delta.commits=1'"
        plan = f", op => 'scheduleandexecute', {soon}"
        yield "compacted", lambda: call("run_compaction", plan)


def _properties(lab: Any, path: str) -> dict[str, str]:
    try:
        text = store.read(lab.endpoints, f"{store.key_of(path)}/{PROPERTIES}").decode()
    except Exception:  # no Hudi table
        return {}
    return parse_properties(text)


def _options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options that write into a table of these properties."""
    write = "hoodie.datasource.write."
    given = {
        "hoodie.table.name": properties.get("hoodie.table.name"),
        f"{write}table.type": properties.get("hoodie.table.type"),
        f"{write}recordkey.field": properties.get("hoodie.table.recordkey.fields"),
        f"{write}partitionpath.field": properties.get("hoodie.table.partition.fields"),
        "hoodie.table.ordering.fields": properties.get("hoodie.table.ordering.fields"),
    }
    has_metadata = bool(properties.get("hoodie.table.metadata.partitions"))
    own = {"hoodie.metadata.enable": str(has_metadata).lower(), "hoodie.clean.automatic": "false"}
    return own | {name: value for name, value in given.items() if value}
