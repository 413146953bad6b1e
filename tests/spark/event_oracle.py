"""Judges messages by the contract in `lab_env/shop/events.py`, in plain Python.

It is derived from the contract and not from the pipeline's parser, so that it can check the parser.
It is slow, but each step can be compared with one sentence of the contract.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple
from unicodedata import category

from lab_env.shop.events import FIELDS, MAX_DEPTH, MAX_EVENT_BYTES, OPS, STATUSES

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DAY_US = timedelta(days=1) // MICROSECOND
JSON_SPACE = " \t\n\r"
DIGITS = "0123456789"
HEX = DIGITS + "abcdefABCDEF"
ESCAPES = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))
DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
TIME = re.compile(DATE.pattern + r"T([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]{1,6})?Z")
NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")


def micros(moment: datetime) -> int:
    """Return the moment in microseconds since 1970."""
    return (moment - EPOCH) // MICROSECOND


YEAR_2020_US = micros(datetime(2020, 1, 1, tzinfo=UTC))
YEAR_2100_US = micros(datetime(2100, 1, 1, tzinfo=UTC))


class Valid(NamedTuple):
    """A valid event: its values in the order of `FIELDS`, times in microseconds since 1970."""

    event: tuple
    unknown: list[str] | None


class Number(NamedTuple):
    """A JSON number as spelled in the message."""

    text: str


class Refused(Exception):
    """Error at the place where the message stops being valid JSON; its text is the reason."""


class Reader:
    """A reader of one JSON object (RFC 8259) that stops at the first invalid character.

    Args:
        text: the message, decoded from UTF-8.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.has_duplicate = False

    def message(self) -> dict:
        """Read the whole text as one object; a duplicate name sets `has_duplicate`."""
        self._space()
        self._take("{", "not_json")
        fields = self._object(0)
        self._space()
        if self.at < len(self.text):
            raise Refused("not_json")
        return fields

    def _next(self) -> str:
        """Return the next character; raise an error if the message has ended."""
        if self.at == len(self.text):
            raise Refused("truncated")
        return self.text[self.at]

    def _take(self, allowed: str, reason: str = "not_json") -> str:
        found = self._next()
        if found not in allowed:
            raise Refused(reason)
        self.at += 1
        return found

    def _space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in JSON_SPACE:
            self.at += 1

    def _value(self, depth: int) -> object:
        """Read a value at a nesting depth within the message."""
        begins = self._next()
        if depth + 1 > MAX_DEPTH:
            raise Refused("too_deep")
        match begins:
            case "{" | "[" as bracket:
                self.at += 1
                return self._object(depth + 1) if bracket == "{" else self._array(depth + 1)
            case '"':
                return self._string()
            case "t":
                return self._literal("true", True)
            case "f":
                return self._literal("false", False)
            case "n":
                return self._literal("null", None)
            case _:
                return self._number()

    def _literal(self, word: str, value: object) -> object:
        for letter in word:
            self._take(letter)
        return value

    def _object(self, depth: int) -> dict:
        members: dict = {}
        for _ in self._until("}"):
            name = self._string()
            self._space()
            self._take(":")
            self._space()
            value = self._value(depth)
            self.has_duplicate |= name in members
            members[name] = value
        return members

    def _array(self, depth: int) -> list:
        return [self._value(depth) for _ in self._until("]")]

    def _until(self, bracket: str) -> Iterator[None]:
        """Yield at each item of a list that ends at a bracket."""
        self._space()
        if self._has(bracket):
            return
        while True:
            self._space()
            yield
            self._space()
            if self._take("," + bracket) == bracket:
                return

    def _number(self) -> Number:
        start = self.at
        if self._next() == "-":
            self.at += 1
        if self._take(DIGITS) != "0":
            self._digits()
        if self._has("."):
            self._take(DIGITS)
            self._digits()
        if self._has("eE"):
            self._has("+-")
            self._take(DIGITS)
            self._digits()
        return Number(self.text[start : self.at])

    def _has(self, wanted: str) -> bool:
        """Consume the next character if it is one of those wanted; return whether it was."""
        found = self.at < len(self.text) and self.text[self.at] in wanted
        self.at += found
        return found

    def _digits(self) -> None:
        while self._has(DIGITS):
            pass

    def _string(self) -> str:
        self._take('"')
        letters: list[str] = []
        while (letter := self._next()) != '"':
            if letter < " ":
                raise Refused("not_json")
            self.at += 1
            letters.append(self._escape() if letter == "\\" else letter)
        self.at += 1
        return "".join(letters)

    def _escape(self) -> str:
        kind = self._take("u" + "".join(ESCAPES))
        if kind != "u":
            return ESCAPES[kind]
        unit = self._unit()
        if not 0xD800 <= unit < 0xE000:
            return chr(unit)
        self._take("\\")
        self._take("u")
        low = self._unit()
        if not (unit < 0xDC00 <= low < 0xE000):
            raise Refused("not_json")
        return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))

    def _unit(self) -> int:
        return int("".join(self._take(HEX) for _ in range(4)), 16)


def judge(value: bytes | None, arrived_us: int | None) -> str | Valid:
    """Return a message's event, or the reason why it is malformed.

    Args:
        arrived_us: Kafka's timestamp of the record in microseconds since 1970.
    """
    if value is None or not value.strip(JSON_SPACE.encode()):
        return "empty"
    if len(value) > MAX_EVENT_BYTES:
        return "oversized"
    fields = read_object(value)
    if isinstance(fields, str):
        return fields
    return _reason(fields, arrived_us) or _event(fields)


def read_object(value: bytes) -> str | dict:
    """Return the members of a JSON object, or the reason why the bytes are not one."""
    if value.startswith(b"\xef\xbb\xbf"):
        return "byte_order_mark"
    try:
        reader = Reader(_decoded(value))
        fields = reader.message()
    except UnicodeDecodeError:
        return "not_json"
    except Refused as refused:
        return str(refused)
    return "duplicate_key" if reader.has_duplicate else fields


def _decoded(value: bytes) -> str:
    """Decode UTF-8; a truncated last character becomes U+FFFD."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            raise
        return value[: error.start].decode() + "\ufffd"


def _reason(fields: dict, arrived_us: int | None) -> str | None:
    """Return the first reason in `REASONS` that applies to the fields of valid JSON."""
    if "order_id" not in fields:
        return "missing_key"
    if is_nothing(fields["order_id"]):
        return "null_key"
    for name in FIELDS:
        kind = Number if name == "amount" else str
        if fields.get(name) is not None and not isinstance(fields[name], kind):
            return "wrong_type"
    if any(is_nothing(fields.get(name)) for name in FIELDS):
        return "missing_field"
    if any(
        category(letter) == "Cc"
        for name in ("event_id", "order_id", "customer_id", "product_id")
        for letter in fields[name]
    ):
        return "control_character"
    if fields["op"] not in OPS:
        return "unknown_op"
    if fields["status"] not in STATUSES:
        return "unknown_status"
    return _amount_reason(fields["amount"].text) or _times_reason(fields, arrived_us)


def is_nothing(value: object) -> bool:
    """Return True for null and for blank text."""
    return value is None or (isinstance(value, str) and (value == "" or value.isspace()))


def parts_of(number: re.Match[str]) -> tuple[bool, str, int]:
    """Split a number: is it negative, its digits without outer zeros, their power of ten."""
    sign, whole, decimals, exponent = number.groups(default="")
    digits = (whole + decimals).lstrip("0")
    power = int(exponent or 0) - len(decimals) + len(digits) - len(digits.rstrip("0"))
    return sign == "-", digits.rstrip("0"), power


def _amount_reason(number: str) -> str | None:
    is_negative, digits, power = parts_of(NUMBER.fullmatch(number))
    if not digits:
        return None
    if is_negative:
        return "negative_amount"
    is_whole_cents = power >= -2
    is_below_ten_billion = len(digits) + power <= 10
    return None if is_whole_cents and is_below_ten_billion else "wrong_type"


def _amount(number: str) -> Decimal:
    """Return the value of a valid amount: whole cents, below ten billion."""
    _, digits, power = parts_of(NUMBER.fullmatch(number))
    cents = int(digits) * 10 ** (power + 2) if digits else 0
    return Decimal(cents).scaleb(-2)


def _times_reason(fields: dict, arrived_us: int | None) -> str | None:
    times = [fields["order_ts"], fields["sent_at"]]
    day = fields["partition_date"]
    if any(_is_other(datetime, TIME, text) for text in times) or _is_other(date, DATE, day):
        return "time_format"
    moments = [_time(text) for text in times]
    created = day_of(day)
    if None in moments or created is None:
        return "impossible_timestamp"
    if arrived_us is None or not YEAR_2020_US <= arrived_us < YEAR_2100_US:
        return "impossible_record_time"
    for moment in moments:
        if moment.year < 2020 or micros(moment) > arrived_us + DAY_US:
            return "impossible_timestamp"
    if created.year < 2020 or created > moments[0].date():
        return "impossible_timestamp"
    return None


def _time(text: str) -> datetime | None:
    """Parse a time in the contract's format; return None if there is no such time."""
    form = TIME.fullmatch(text)
    if not form:
        return None
    *clock, fraction = form.groups()
    microsecond = int((fraction or ".")[1:].ljust(6, "0"))
    try:
        return datetime(*map(int, clock), microsecond, tzinfo=UTC)
    except ValueError:
        return None


def day_of(text: str) -> date | None:
    """Parse a date in the contract's format; return None if there is no such date."""
    form = DATE.fullmatch(text)
    try:
        return date(*map(int, form.groups())) if form else None
    except ValueError:
        return None


def _is_other(kind: type[date], form: re.Pattern[str], text: str) -> bool:
    """Return True for a time or date in a format other than the contract's."""
    if form.fullmatch(text):
        return False
    try:
        kind.fromisoformat(text.upper())
    except ValueError:
        return False
    return True


def _event(fields: dict) -> Valid:
    values = {
        **fields,
        "amount": _amount(fields["amount"].text),
        "order_ts": micros(_time(fields["order_ts"])),
        "sent_at": micros(_time(fields["sent_at"])),
    }
    unknown = [name for name in fields if name not in FIELDS]
    return Valid(tuple(values[name] for name in FIELDS), unknown or None)
