"""Judges row changes by the contract in `lab_env/pipeline/envelopes.py`.

Like `event_oracle` it is plain Python, derived from the contract and not from the reader's code.
"""

import base64
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from event_oracle import Number, day_of, is_nothing, parts_of, read_object

PLACEHOLDER = "__debezium_unavailable_value"
EPOCH = datetime(1970, 1, 1)
TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?Z", re.ASCII)
ENDLESS = re.compile(r"[+-]?infinity|[+-]\d{4,}-\d\d-\d\dT[0-9:.]+Z", re.ASCII)
UNITS_PER_SECOND = {"MILLIS": 10**3, "MICROS": 10**6, "NANOS": 10**9}
BITS = {"INT": 31, "BIGINT": 63}
HUNDRED_DAYS_US = 100 * 86_400 * 10**6
ORDER_OF_VALUES = (
    "unavailable_value",
    "wrong_type",
    "wrong_partition",
    "impossible_timestamp",
    "wrong_unit",
)


class Changed(NamedTuple):
    """A row change; times in microseconds, dates in days since 1970."""

    row: tuple
    op: str
    commit_lsn: int
    lsn: int
    moved_from: str | None


class Wrong(Exception):
    """Error for a value that does not fit its column; its text is the reason."""


def judge(
    key: bytes | None, value: bytes | None, expected: tuple[str, str], columns: Mapping[str, str]
) -> str | Changed:
    """Return the change in a record, or the reason why it is not a row change.

    Args:
        columns: the format of each of the table's columns, by name.
    """
    if key is None:
        return "no_key"
    if value is None:
        return "tombstone"
    if not value.strip(b" \t\r\n"):
        return "empty"
    envelope = read_object(value)
    if isinstance(envelope, str):
        return envelope
    return _envelope_reason(envelope, expected) or _change(envelope, columns)


def _envelope_reason(envelope: dict, expected: tuple[str, str]) -> str | None:
    op, source = envelope.get("op"), envelope.get("source")
    if op is None and source is None:
        return "schemas_enabled" if {"schema", "payload"} <= set(envelope) else "not_an_envelope"
    if isinstance(source, dict):
        for name, right in zip(("schema", "table"), expected, strict=True):
            if source.get(name) is not None and source[name] != right:
                return "other_table"
    if op == "t":
        return "truncate"
    return None if isinstance(op, str) and op in set("rcud") else "unknown_op"


def _change(envelope: dict, columns: Mapping[str, str]) -> str | Changed:
    op = envelope["op"]
    positions = _positions(envelope.get("source"))
    if positions is None:
        return "no_log_position"
    image = envelope.get("before" if op == "d" else "after")
    if not isinstance(image, dict):
        return "no_row_image"
    place = ("order_id", "partition_date")
    nothing = any(is_nothing(image.get(name)) for name in place)
    if op == "d" and nothing:
        return "key_only"
    if op != "d" and any(name not in image for name in columns):
        return "missing_column"
    if nothing:
        return "null_key"
    judged = place if op == "d" else tuple(columns)
    reasons = {_why(columns[name], image[name]) for name in judged}
    if not _is_day(image["partition_date"]):
        reasons.add("wrong_partition")
    if first := next((reason for reason in ORDER_OF_VALUES if reason in reasons), None):
        return first
    row = tuple(
        None if _why(form, image.get(name)) else _value(form, image.get(name))
        for name, form in columns.items()
    )
    before = envelope.get("before")
    old = before.get("partition_date") if op == "u" and isinstance(before, dict) else None
    moved = _is_day(old) and old != image["partition_date"]
    return Changed(row, op, *positions, old if moved else None)


def _positions(source: object) -> tuple[int, int] | None:
    """Return the log positions of last commit and change; None if they violate the contract."""
    if not isinstance(source, dict):
        return None
    commit = own = None
    if source.get("sequence") is not None:
        text = source["sequence"]
        if not isinstance(text, str) or text[:1] != "[" or text[-1:] != "]":
            return None
        parts = text[1:-1].replace(", ", ",", 1).split(",")
        found = [re.fullmatch(r'"(\d{1,19})"|null', part, re.ASCII) for part in parts]
        if len(found) != 2 or None in found:
            return None
        commit, own = (None if match[1] is None else _whole(match[1]) for match in found)
    if own is None:
        own = _integer(source.get("lsn"))
    if own is None or any(not 0 <= place < 2**63 for place in (own, commit or 0)):
        return None
    return own if commit is None else commit, own


def _whole(digits: str) -> int:
    """Convert digits to an integer; a huge number becomes 10**400, which is above every limit."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) < 400 else 10**400


def _integer(value: object) -> int | None:
    """Return a JSON number's value if it has no fraction or exponent, else None."""
    if not isinstance(value, Number) or not re.fullmatch(r"-?[0-9]+", value.text):
        return None
    size = _whole(value.text.lstrip("-"))
    return -size if value.text.startswith("-") else size


def _is_day(value: object) -> bool:
    return isinstance(value, str) and day_of(value) is not None


def _why(form: str, value: object) -> str | None:
    try:
        _value(form, value)
    except Wrong as wrong:
        return str(wrong)
    return None


def _value(form: str, value: object) -> object:
    """Return a column's value; raise `Wrong` if it does not fit the column."""
    if value is None:
        return None
    if _is_placeholder(value):
        raise Wrong("unavailable_value")
    kind = form.partition("(")[0]
    forms: dict[str, Callable] = {"STRING": _text, "DECIMAL": _decimal, "TIMESTAMP": _time}
    if kind in forms:
        if not isinstance(value, str):
            raise Wrong("wrong_type")
        return forms[kind](form, value)
    if kind == "BOOLEAN":
        if value is not True and value is not False:
            raise Wrong("wrong_type")
        return value
    whole = _integer(value)
    if whole is None:
        raise Wrong("wrong_type")
    if kind in BITS:
        if not -(2 ** BITS[kind]) <= whole < 2 ** BITS[kind]:
            raise Wrong("wrong_type")
        return whole
    return _day(whole) if kind == "DATE" else _number_of(kind, whole)


def _is_placeholder(value: object) -> bool:
    raw = PLACEHOLDER.encode()
    if isinstance(value, Number):
        return False
    if isinstance(value, str):
        hstore = '{"' + PLACEHOLDER + '":"' + PLACEHOLDER + '"}'
        return value in (PLACEHOLDER, base64.b64encode(raw).decode(), raw.hex(), hstore)
    if isinstance(value, list):
        numbers = [_integer(one) for one in value]
        return numbers == list(raw) or any(_is_placeholder(one) for one in value)
    if isinstance(value, dict):
        return any(_is_placeholder(one) for pair in value.items() for one in pair)
    return False


def _text(form: str, value: str) -> str:
    return value


def _decimal(form: str, value: str) -> Decimal:
    precision, scale = map(int, re.findall(r"\d+", form))
    found = re.fullmatch(r"([+-]?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,9}))?", value)
    if not found:
        raise Wrong("wrong_type")
    is_negative, digits, power = parts_of(found)
    if not digits:
        return Decimal(0)
    if power < -scale or len(digits) + power > precision - scale:
        raise Wrong("wrong_type")
    unscaled = int(digits) * 10 ** (power + scale)
    return Decimal((is_negative, tuple(map(int, str(unscaled))), -scale))


def _time(form: str, value: str) -> int:
    found = TIME.fullmatch(value)
    if not found:
        raise Wrong("impossible_timestamp" if _is_endless(value) else "wrong_type")
    *clock, fraction = found.groups(default="")
    try:
        moment = datetime(*map(int, clock))
    except ValueError:
        raise Wrong("impossible_timestamp") from None
    return (moment - EPOCH) // timedelta(microseconds=1) + int(fraction.ljust(6, "0") or 0)


def _is_endless(value: str) -> bool:
    return value != "+infinity" and ENDLESS.fullmatch(value) is not None


def _day(days: int) -> int:
    first, last = (datetime.min - EPOCH).days, (datetime.max - EPOCH).days
    if not first <= days <= last:
        raise Wrong("impossible_timestamp")
    return days


def _number_of(kind: str, count: int) -> int:
    units = UNITS_PER_SECOND[kind.removeprefix("TIMESTAMP_")]
    first = -62_135_596_800 * units
    if not first <= count < first + 315_537_897_600 * units:  # 9,999 years
        raise Wrong("impossible_timestamp")
    micros = count * 10**6 // units
    if 0 < micros < HUNDRED_DAYS_US:
        raise Wrong("wrong_unit")
    return micros
