"""Parse and validate one Debezium change event strictly: return it, or raise `Malformed`.

Like `messages`, whose JSON parser it uses, this is plain Python. `REASONS` lists what is rejected.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any, NamedTuple, TypeGuard

from lab_env.pipeline.messages import DATE_FORM, EPOCH, TIME_FORM, Malformed, read_object

# The columns of the shop's PostgreSQL table `orders` that go to the lake, with the form in which
# the connector sends each. The connector's configuration decides the form; values are never used to
# guess it. A default connector with `decimal.handling.mode=string` sends
#   STRING, BOOLEAN, INT, BIGINT   text, a boolean, integers
#   DECIMAL(p,s)                   a numeric, as text
#   DATE                           a date, as days since 1970
#   TIMESTAMP                      a timestamptz, as text: 2026-11-21T02:14:15.5Z
#   TIMESTAMP_MICROS               a timestamp, as microseconds since 1970
#   TIMESTAMP_MILLIS               a timestamp(0) to (3), as milliseconds; with
#                                  time.precision.mode=connect every timestamp
#   TIMESTAMP_NANOS                as time.precision.mode=nanoseconds sends it
ORDERS = {
    "order_id": "STRING",
    "customer_id": "STRING",
    "amount": "DECIMAL(12,2)",
    "status": "STRING",
    "partition_date": "STRING",
    "updated_at": "TIMESTAMP",
}
TABLE = "public.orders"  # for a topic whose name does not contain the table
# Without them Hudi cannot find the row of a delete, and raises no error. Debezium fills unknown NOT
# NULL columns with empty text, with 0 or with 1970: keep them text.
KEY, PARTITION = "order_id", "partition_date"
FOLDER = "the partition's folder"  # checked in addition to the columns
WRITES, DELETE, TRUNCATE = ("r", "c", "u"), "d", "t"
# Debezium's placeholder for a large unchanged value, which PostgreSQL does not log.
UNAVAILABLE = "__debezium_unavailable_value"

# The contract: a record is a change of a row unless one of these applies; the first that does is
# the reason. The *image* is the row that counts: `before` of a delete, else `after`. Further
# members and columns are allowed, whatever they contain. *Blank* is as in the contract of events.
REASONS = {
    "no_key": "the record has no key",
    "tombstone": "no value; not a dead letter: it follows each delete",
    # As in the contract of events, without its size limit:
    "empty": "only JSON's white space",
    "byte_order_mark": "begins with the byte-order mark of UTF-8",
    "not_json": "not exactly one JSON object, or not UTF-8",
    "truncated": "begins like a JSON object, but ends too early",
    "too_deep": "nested too deep",
    "duplicate_key": "an object at any depth has two members with the same name",
    "schemas_enabled": (
        "has `schema` and `payload`, and neither op nor source: set the connector's "
        "value.converter.schemas.enable to false"
    ),
    "not_an_envelope": "op and source are both absent or null",
    "other_table": (
        "source.schema or source.table is present, not null, and not that of the expected table"
    ),
    "truncate": "op is t: the table was emptied, and no row is named",
    "unknown_op": "op is not one of r (read by a snapshot), c, u, d",
    "no_log_position": (
        'source.sequence is not null, absent or a text like `["120","90"]` (the positions of the '
        "last commit and of the change itself, of up to 19 digits; each may be null; one space "
        "after the comma is allowed); or it has no second position and source.lsn is not an "
        "integer; or one of them is not within 0 to 2^63 - 1"
    ),
    "no_row_image": "the image is not an object",
    "key_only": (
        "a delete whose image has order_id or partition_date absent, null or blank: the table "
        "needs REPLICA IDENTITY FULL"
    ),
    "missing_column": "the image lacks a column: dropped or renamed; NULL would be sent as null",
    "null_key": "order_id or partition_date is null or blank",
    # From here on, only order_id and partition_date of a delete count; its other unreadable values
    # are NULL.
    "unavailable_value": (
        "a value is Debezium's placeholder for what the log does not have: as text, as the Base64 "
        "or the hex of its bytes or as a JSON object's text; or a list or an object that has one "
        "of these as a member or as a name, at any depth, or a list of its bytes as integers"
    ),
    "wrong_type": (
        "a value that is not null does not have the form of its column, see `ORDERS` (an integer "
        "has no point and no exponent); a DECIMAL(p,s) is not a decimal number (`129.90`, `1E+2`), "
        "or too large, or not a multiple of its last digit; an INT or BIGINT is out of range"
    ),
    "wrong_partition": "partition_date is not a day in the form `2026-11-21`: it names a folder",
    "impossible_timestamp": (
        "a time or date is infinity, before the year 1 or after 9999 (some databases' zero time, "
        "0001-01-01, is valid), or no such time, like 2026-02-31"
    ),
    "wrong_unit": (
        "a time that comes as a number is within the first hundred days of 1970, but not its first "
        "moment: where the numbers of a coarser unit land after a change of the column's type"
    ),
}
IN_ORDER = tuple(REASONS)

LARGEST = 2**63 - 1
POSITION = r'(?:"([0-9]{1,19})"|null)'
SEQUENCE = re.compile(rf"\[{POSITION}, ?{POSITION}\]")
DECIMAL_TYPE = re.compile(r"DECIMAL\(([0-9]+),([0-9]+)\)")
DECIMAL_FORM = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,9})?")
WIDE = Context(prec=60)  # the default of 28 digits is less than a DECIMAL may have
# Java's form of a year without four digits; Debezium has its own text for infinity.
OTHER_YEAR = re.compile(r"[+-][0-9]{4,}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")
INFINITY = frozenset({"infinity", "-infinity"})
MICROSECOND, DAY = timedelta(microseconds=1), timedelta(days=1)
TIMES = range((datetime.min - EPOCH) // MICROSECOND, (datetime.max - EPOCH) // MICROSECOND + 1)
DAYS = range((datetime.min - EPOCH) // DAY, (datetime.max - EPOCH) // DAY + 1)
COARSER = range(1, 100 * DAY // MICROSECOND)

PLACEHOLDER_BYTES = UNAVAILABLE.encode()
BYTES = list(PLACEHOLDER_BYTES)  # for arrays of integers
PLACEHOLDERS = frozenset(
    {
        UNAVAILABLE,
        b64encode(PLACEHOLDER_BYTES).decode(),
        PLACEHOLDER_BYTES.hex(),
        f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}',  # an hstore
    }
)

ReadValue = Callable[[Any], Any]


class Change(NamedTuple):
    """A change of a row; times in microseconds, dates in days since 1970.

    `commit_lsn` is the position of the last commit before the change's transaction, `lsn` that of
    the change itself, `moved_from` the table partition that an update moved the row out of, and
    `committed_ms` the time of the database's commit, in milliseconds since 1970.
    """

    row: tuple
    op: str
    commit_lsn: int
    lsn: int
    moved_from: str | None
    committed_ms: int | None


class ChangeReader:
    """Reads change events of one table.

    Args:
        columns: types of the table's columns, as in `ORDERS`; they must include `KEY` and
        `PARTITION`.
        table: `schema.table`. If empty, it is taken from the topic's name, which Debezium builds as
        `prefix.schema.table`; for other topic names it is `TABLE`.

    Raises:
        ValueError: the type of a column is unknown.
    """

    def __init__(self, columns: Mapping[str, str], table: str = "") -> None:
        self.table = table
        self.readers = {name: _value_reader(form) for name, form in columns.items()}

    def read(self, key: bytes | None, value: bytes | None, topic: str) -> Change:
        """Read and validate one record; raise `Malformed` if it describes no change of a row."""
        if key is None:
            raise Malformed("no_key")
        if value is None:
            raise Malformed("tombstone")
        envelope = read_object(value, most=None)
        op, source = self._judge_envelope(envelope, topic)
        commit_lsn, lsn = _positions(source)
        before, after = envelope.get("before"), envelope.get("after")
        image = before if op == DELETE else after
        if type(image) is not dict:
            raise Malformed("no_row_image")
        row = self._deleted_row(image) if op == DELETE else self._written_row(image)
        moved_from = _moved_from(before, image) if op == "u" else None
        committed_ms = source.get("ts_ms")
        known_ms = committed_ms if _is_position(committed_ms) else None
        return Change(row, op, commit_lsn, lsn, moved_from, known_ms)

    def _judge_envelope(self, envelope: dict, topic: str) -> tuple[str, dict]:
        op, source = envelope.get("op"), envelope.get("source")
        if op is None and source is None:
            with_schema = "schema" in envelope and "payload" in envelope
            raise Malformed("schemas_enabled" if with_schema else "not_an_envelope")
        source = source if type(source) is dict else {}
        schema, table = self._expected_table(topic)
        if source.get("schema") not in (None, schema) or source.get("table") not in (None, table):
            raise Malformed("other_table")
        if op == TRUNCATE:
            raise Malformed("truncate")
        if op != DELETE and op not in WRITES:
            raise Malformed("unknown_op")
        return op, source

    def _expected_table(self, topic: str) -> list[str]:
        if self.table or topic.count(".") < 2:
            return (self.table or TABLE).split(".", 1)
        return topic.rsplit(".", 2)[1:]

    def _written_row(self, image: dict) -> tuple:
        if not self.readers.keys() <= image.keys():
            raise Malformed("missing_column")
        if _is_nothing(image[KEY]) or _is_nothing(image[PARTITION]):
            raise Malformed("null_key")
        row, reasons = self._values(image)
        if reasons:
            raise Malformed(min(reasons.values(), key=IN_ORDER.index))
        return row

    def _deleted_row(self, image: dict) -> tuple:
        if _is_nothing(image.get(KEY)) or _is_nothing(image.get(PARTITION)):
            raise Malformed("key_only")
        row, reasons = self._values(image)
        of_place = [reasons[name] for name in (KEY, PARTITION, FOLDER) if name in reasons]
        if of_place:
            raise Malformed(min(of_place, key=IN_ORDER.index))
        return row

    def _values(self, image: dict) -> tuple[tuple, dict[str, str]]:
        """Values of the columns, and the reasons for unreadable ones, which become NULL."""
        values, reasons = [], {}
        for name, read in self.readers.items():
            try:
                values.append(read(image.get(name)))
            except Malformed as malformed:
                values.append(None)
                reasons[name] = malformed.args[0]
        if not _is_day(image[PARTITION]):
            reasons[FOLDER] = "wrong_partition"
        return tuple(values), reasons


def _is_nothing(value: Any) -> bool:
    return value is None or (type(value) is str and not value.strip())


def _is_integer(value: Any) -> TypeGuard[int]:
    return type(value) is int  # True is an int, too


def _moved_from(before: Any, after: dict) -> str | None:
    old = before.get(PARTITION) if type(before) is dict else None
    return old if _is_day(old) and old != after[PARTITION] else None


def _positions(source: dict) -> tuple[int, int]:
    """Positions of the last commit before the change's transaction, and of the change itself.

    Rows of an incremental snapshot have no `source.lsn`, but a `source.sequence`.
    """
    text, commit, own = source.get("sequence"), None, None
    if text is not None:
        found = SEQUENCE.fullmatch(text) if type(text) is str else None
        if not found:
            raise Malformed("no_log_position")
        commit, own = (digits and int(digits) for digits in found.groups())
    lsn = source.get("lsn") if own is None else own
    commit = lsn if commit is None else commit
    if _is_position(commit) and _is_position(lsn):
        return commit, lsn
    raise Malformed("no_log_position")


def _is_position(value: Any) -> TypeGuard[int]:
    return _is_integer(value) and 0 <= value <= LARGEST


def _value_reader(form: str) -> ReadValue:
    if found := DECIMAL_TYPE.fullmatch(form):
        return partial(_decimal, *map(int, found.groups()))
    if form not in READERS:
        raise ValueError(f"unknown form of a column: {form}")
    return READERS[form]


def _of_type(wanted: type, value: Any) -> Any:
    if value is not None and type(value) is not wanted:
        raise Malformed("unavailable_value" if _is_unavailable(value) else "wrong_type")
    return value


def _is_unavailable(value: Any) -> bool:
    if type(value) is str:
        return value in PLACEHOLDERS
    if type(value) is dict:
        return any(map(_is_unavailable, (*value.keys(), *value.values())))
    return type(value) is list and (value == BYTES or any(map(_is_unavailable, value)))


def _text(value: Any) -> str | None:
    text = _of_type(str, value)
    if text in PLACEHOLDERS:
        raise Malformed("unavailable_value")
    return text


def _integer(bits: int, value: Any) -> int | None:
    if _of_type(int, value) is not None and not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise Malformed("wrong_type")
    return value


def _decimal(precision: int, scale: int, value: Any) -> Decimal | None:
    """Exact value; the range is checked before the number is scaled."""
    text = _text(value)
    if text is None:
        return None
    if not DECIMAL_FORM.fullmatch(text):
        raise Malformed("wrong_type")
    number = Decimal(text)
    if not number:
        return Decimal(0)
    if number.adjusted() >= precision - scale:
        raise Malformed("wrong_type")
    scaled = number.quantize(Decimal(1).scaleb(-scale), context=WIDE)
    if scaled != number:
        raise Malformed("wrong_type")
    return scaled


def _date(value: Any) -> int | None:
    if _of_type(int, value) is not None and value not in DAYS:
        raise Malformed("impossible_timestamp")
    return value


def _time(value: Any) -> int | None:
    text = _text(value)
    if text is None:
        return None
    if not TIME_FORM.fullmatch(text):
        no_such_time = text in INFINITY or OTHER_YEAR.fullmatch(text)
        raise Malformed("impossible_timestamp" if no_such_time else "wrong_type")
    try:
        return (datetime.fromisoformat(text[:-1]) - EPOCH) // MICROSECOND
    except ValueError:
        raise Malformed("impossible_timestamp") from None


def _number_of(nanoseconds: int, value: Any) -> int | None:
    """Convert a count of units, each `nanoseconds` long, to microseconds since 1970."""
    if _of_type(int, value) is None:
        return None
    micros = value * nanoseconds // 1000
    if micros not in TIMES:
        raise Malformed("impossible_timestamp")
    if micros in COARSER:
        raise Malformed("wrong_unit")
    return micros


def _is_day(value: Any) -> bool:
    try:
        return bool(DATE_FORM.fullmatch(value) and date.fromisoformat(value))
    except (TypeError, ValueError):
        return False


READERS: dict[str, ReadValue] = {
    "STRING": _text,
    "BOOLEAN": partial(_of_type, bool),
    "INT": partial(_integer, 32),
    "BIGINT": partial(_integer, 64),
    "DATE": _date,
    "TIMESTAMP": _time,
    "TIMESTAMP_MILLIS": partial(_number_of, 1_000_000),
    "TIMESTAMP_MICROS": partial(_number_of, 1_000),
    "TIMESTAMP_NANOS": partial(_number_of, 1),
}
