"""The pipeline's parser follows the contract in `lab_env/shop/events.py` for any message.

An oracle in plain Python judges the same messages as the pipeline, in one Spark job; the verdict,
every value of a row and the names of unknown fields must agree.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from contract import assert_agree, assert_every_reason, kind
from event_grammar import Message, messages
from event_oracle import Number, Reader, Refused, Valid, judge, micros

from lab_env.pipeline import parsing
from lab_env.pipeline.messages import Malformed, read_event
from lab_env.shop.events import FIELDS, MAX_EVENT_BYTES, REASONS

RECORDS = "value BINARY, key BINARY, topic STRING, partition INT, offset LONG, arrived_us LONG"
NOW_US = micros(datetime(2026, 11, 21, 2, 14, 16, tzinfo=UTC))
GOOD = (
    b'{"event_id":"E-1","op":"update","order_id":"O-1","customer_id":"C-1","product_id":"P-1",'
    b'"amount":12.5,"status":"paid","order_ts":"2026-11-21T02:14:15.123456Z",'
    b'"partition_date":"2026-11-21","sent_at":"2026-11-21T02:14:15.223456Z"}'
)
BROKER_LIMIT = 1_000_000
MOST_SECONDS = 0.05


def edited(old: bytes | str, new: bytes | str) -> bytes:
    """Return the good event with one part of its text replaced."""
    old, new = (text.encode() if isinstance(text, str) else text for text in (old, new))
    assert old in GOOD
    return GOOD.replace(old, new)


def with_member(member: bytes | str) -> bytes:
    """Return the good event with one more member, given as JSON text."""
    return edited('"}', b'",' + (member.encode() if isinstance(member, str) else member) + b"}")


def changed(**changes: object) -> bytes:
    """Return the good event with some fields changed, to any type."""
    return json.dumps(json.loads(GOOD) | changes).encode()


# Messages of kinds that a parser with several readings let through, or refused without need.
CASES = {
    "cents above ten million": (edited("12.5", "12345678.90"), "valid"),
    "cents of ten billion less one": (edited("12.5", "9999999999.99"), "valid"),
    "ten billion": (edited("12.5", "1e10"), "wrong_type"),
    "twenty decimals": (edited("12.5", "12.5000000000000000001"), "wrong_type"),
    "minus zero": (edited("12.5", "-0.0"), "valid"),
    "zero with a huge exponent": (edited("12.5", "0e99999999999999999999"), "valid"),
    "an exponent that would fill the memory": (edited("12.5", "1e400000000"), "wrong_type"),
    "a negative amount that rounds to zero": (edited("12.5", "-1e-400000000"), "negative_amount"),
    "a second amount": (with_member('"amount":-3.00'), "duplicate_key"),
    "a second amount in escapes": (with_member('"\\u0061mount":-3.00'), "duplicate_key"),
    "a nested duplicate": (with_member('"lines":[{"a":1,"a":2}]'), "duplicate_key"),
    "a number beside nested text of the same name": (
        edited('"order_id":"O-1"', '"order_id":5,"lines":[{"order_id":"O-1-1"}]'),
        "wrong_type",
    ),
    "nested fields of the same name": (with_member('"total":{"amount":"12.50"}'), "valid"),
    "a name in escapes": (edited('"order_id"', '"\\u006frder_id"'), "valid"),
    "a date with a line end": (edited('-21","sent', '-21\\n","sent'), "impossible_timestamp"),
    "a date with CRLF": (edited('-21","sent', '-21\\r\\n","sent'), "impossible_timestamp"),
    "an identifier of a tab": (edited("O-1", "\\t"), "null_key"),
    "an identifier of a no-break space": (edited("O-1", "\u00a0"), "null_key"),
    "an identifier with a NUL": (edited("O-1", "O-\\u0000"), "control_character"),
    "an identifier in Latin-1": (edited("O-1", b"O-\xe4"), "not_json"),
    "half a surrogate pair as bytes": (edited("O-1", b"O-\xed\xa0\xbd"), "not_json"),
    "a short escape just before the end": (edited("15.223456Z", "\\u1"), "not_json"),
    "a byte-order mark": (b"\xef\xbb\xbf" + GOOD, "byte_order_mark"),
    "a byte-order mark after white space": (b" \xef\xbb\xbf" + GOOD, "not_json"),
    "nanoseconds": (edited("123456Z", "123456789Z"), "time_format"),
    "seven decimals": (edited("123456Z", "1234567Z"), "time_format"),
    "six decimals": (edited("123456Z", "000001Z"), "valid"),
    "no decimals": (edited(".123456Z", "Z"), "valid"),
    "an offset": (edited("123456Z", "123456+00:00"), "time_format"),
    "a leap second": (edited("02:14:15.1", "23:59:60.1"), "impossible_timestamp"),
    "sent before 2020": (changed(sent_at="2019-12-31T23:59:59.9Z"), "impossible_timestamp"),
    "blank names of unknown fields": (with_member('"":1," ":2'), "valid"),
    "the date of Tokyo": (edited("21T02:14:15.1", "20T23:30:00.1"), "impossible_timestamp"),
    "199 arrays deep": (with_member(f'"x":{"[" * 199}1{"]" * 199}'), "valid"),
    "200 arrays deep": (with_member(f'"x":{"[" * 200}1{"]" * 200}'), "too_deep"),
    "200 arrays deep, the last one empty": (with_member(f'"x":{"[" * 200}{"]" * 200}'), "valid"),
    "900 arrays deep": (with_member(f'"x":{"[" * 900}1{"]" * 900}'), "too_deep"),
    "an object without fields": (b"{}", "missing_key"),
    "only an order_id": (b'{"order_id":"O-1"}', "missing_field"),
    "a name without quotes": (b"{nonsense}", "not_json"),
    "white space": (b"\n\t ", "empty"),
    "an empty order_id": (changed(order_id=""), "null_key"),
    "an order_id that is a number": (changed(order_id=5), "wrong_type"),
    "an order_id that is an object": (changed(order_id={"a": 1}), "wrong_type"),
    "an empty event_id": (changed(event_id=""), "missing_field"),
    "no event_id": (changed(event_id=None), "missing_field"),
    "an amount that is text": (changed(amount="12.50"), "wrong_type"),
    "three decimals": (changed(amount=12.999), "wrong_type"),
    "a negative amount": (changed(amount=-0.001), "negative_amount"),
    "an unknown status": (changed(status="exploded"), "unknown_status"),
    "a time without a date": (changed(order_ts="12:00"), "impossible_timestamp"),
    "a time in two days": (changed(order_ts="2026-11-23T02:00:00.000000Z"), "impossible_timestamp"),
    "a year": (changed(partition_date="2026"), "impossible_timestamp"),
    "a date with a time": (changed(partition_date="2026-11-21T05:00:00Z"), "impossible_timestamp"),
    "a date in blanks": (changed(partition_date=" 2026-11-21 "), "impossible_timestamp"),
    "a date after the order": (changed(partition_date="9999-01-01"), "impossible_timestamp"),
}


@pytest.fixture(scope="module")
def sent(pytestconfig) -> list[Message]:
    """The cases, then the generated messages."""
    generated = messages(pytestconfig.getoption("seed"), pytestconfig.getoption("messages"))
    return [*(Message(value, NOW_US) for value, _ in CASES.values()), *generated]


@pytest.fixture(scope="module")
def verdicts(sent) -> list[str | Valid]:
    """The contract's verdict on each message."""
    return [judge(*message) for message in sent]


@pytest.fixture(scope="module")
def answers(spark, sent) -> list:
    """The pipeline's result for each message, in one job."""
    rows = [
        (None if value is None else bytearray(value), b"k", "orders", 0, offset, arrived_us)
        for offset, (value, arrived_us) in enumerate(sent)
    ]
    records = spark.createDataFrame(rows, RECORDS, verifySchema=False).selectExpr(
        "value", "key", "topic", "partition", "offset", "timestamp_micros(arrived_us) AS timestamp"
    )
    values = [
        f"unix_micros(event.{name})" if name in ("order_ts", "sent_at") else f"event.{name}"
        for name in FIELDS
    ]
    others = ("offset", "reason", "unknown", "event IS NOT NULL")
    found = sorted(map(tuple, parsing.parse(records).selectExpr(*others, *values).collect()))
    assert [row[0] for row in found] == list(range(len(sent)))
    return [_answer(*row[1:4], row[4:]) for row in found]


def _answer(reason: str | None, unknown: list[str] | None, has_event: bool, event: tuple):
    """Return a reason or an event, as the oracle does; any other combination matches no verdict."""
    if reason is None and has_event:
        return Valid(event, unknown)
    return reason if not has_event and unknown is None else (reason, event, unknown)


def test_the_oracle_knows_the_cases():
    told = {name: kind(judge(value, NOW_US)) for name, (value, _) in CASES.items()}
    assert told == {name: reason for name, (_, reason) in CASES.items()}


def test_the_oracle_reads_json_as_python_does(sent):
    """Python's JSON parser refuses the same texts, except where it is known to be lenient."""
    wrong = []
    for value, _ in sent:
        try:
            text = (value or b"")[:MAX_EVENT_BYTES].decode()
            read = Reader(text).message()
        except UnicodeDecodeError:
            continue
        except Refused as refused:
            read = str(refused)
        if read != "too_deep" and read != (python := _python_reads(text)):
            is_refused_by_both = isinstance(read, str) and python is None
            wrong += [] if is_refused_by_both else [(text, read, python)]
    assert not wrong, min(wrong, key=lambda case: len(case[0]))


def _python_reads(text: str) -> dict | None:
    def refuse(constant: str):
        raise ValueError(constant)

    def members(pairs: list[tuple]) -> dict:
        json.dumps(pairs, ensure_ascii=False).encode()  # half a surrogate pair is a ValueError
        return dict(pairs)

    try:
        read = json.loads(
            text,
            object_pairs_hook=members,
            parse_constant=refuse,
            parse_int=Number,
            parse_float=Number,
        )
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


def test_the_grammar_reaches_every_verdict(verdicts):
    assert_every_reason(verdicts, REASONS, most_valid=0.45)


def test_the_pipeline_agrees_with_the_contract(sent, verdicts, answers, pytestconfig):
    assert_agree(sent, verdicts, answers, pytestconfig.getoption("seed"))


Maker = Callable[[int], bytes]  # makes an event of about this size


def _full(make: Callable[[str], bytes], before: str, filler: str, after: str) -> Maker:
    """Return a maker that repeats the filler."""

    def of_size(size: int) -> bytes:
        room = size - len(make(before + after))
        return make(before + filler * (room // len(filler.encode())) + after)

    return of_size


def _filled(before: str, filler: str, after: str) -> Maker:
    """Return a maker of good events with an extra member full of fillers."""
    return _full(with_member, before, filler, after)


def _instead(field: str, before: str, filler: str, after: str) -> Maker:
    """Return a maker of events with one field's value full of fillers."""
    name = f'"{field}":'
    old = name + json.dumps(json.loads(GOOD)[field])
    return _full(lambda text: edited(old, name + text), before, filler, after)


def _many_names(size: int) -> bytes:
    return with_member(",".join(f'"{number:x}":0' for number in range((size - len(GOOD)) // 10)))


COSTLY: dict[str, Maker] = {
    "digits of the amount": _instead("amount", "1", "7", ""),
    "decimals of the amount": _instead("amount", "1.", "7", ""),
    "zeros and their exponent": _instead("amount", "1", "0", "e-3000"),
    "digits of an exponent": _instead("amount", "1e", "9", ""),
    "digits of a negative exponent": _instead("amount", "1e-", "9", ""),
    "zero with an exponent": _instead("amount", "0e", "9", ""),
    "huge exponents": _filled('"x":[', "1e400000000,", "0]"),
    "digits elsewhere": _filled('"x":', "7", ""),
    "nested arrays": lambda size: with_member(
        f'"x":{"[" * (size // 2 - 200)}{"]" * (size // 2 - 200)}'
    ),
    "arrays never closed": lambda size: b'{"x":' + b"[" * (size - 5),
    "objects never closed": lambda size: b'{"x":' * (size // 5),
    "deep and wide": _filled('"x":[0', "," + "[" * 190 + "]" * 190, "]"),
    "many duplicates, deep": _filled('"x":[0', "," + '{"a":' * 190 + "0" + ',"a":0}' * 190, "]"),
    "escapes": _filled('"x":"', "\\u0041", '"'),
    "surrogate pairs": _filled('"x":"', "\\ud83d\\ude00", '"'),
    "backslashes": _filled('"x":"', "\\\\", '"'),
    "backslashes, cut": lambda size: _filled('"x":"', "\\\\", '"')(size)[: size - 200],
    "escapes in an identifier": _instead("order_id", '"', "\\u0041", '"'),
    "blanks in an identifier": _instead("order_id", '"', "\u3000", 'x"'),
    "a blank identifier": _instead("order_id", '"', "\u3000", '"'),
    "controls in an identifier": _instead("customer_id", '"', "\u0085", '"'),
    "a long op": _instead("op", '"', "create", '"'),
    "a long time": _instead("order_ts", '"2026-11-21T02:14:15.', "0", 'Z"'),
    "a long offset": _instead("sent_at", '"2026-11-21T02:14:15+', "0", '"'),
    "a long date": _instead("partition_date", '"', "2026-11-21", '"'),
    "a long text": _filled('"x":"', "x", '"'),
    "a long text of emoji": _filled('"x":"', "\U0001f600", '"'),
    "names": _many_names,
    "one name": _filled('"x":0', ',"x":0', ""),
    "one name in escapes": _filled('"\\u0078":0', ',"\\u0078":0', ""),
    "a long name twice": lambda size: with_member(",".join([f'"{"x" * (size // 2 - 150)}":0'] * 2)),
    "nothing but white space": lambda size: b" " * size,
    "white space before": lambda size: GOOD.rjust(size),
    "white space after": lambda size: GOOD.ljust(size),
    "white space within": _filled('"x":', " ", "1"),
    "white space, then no JSON": lambda size: b"\n" * (size - 1) + b"\v",
    "broken UTF-8 at the end": lambda size: _filled('"x":"', "é", '"')(size)[:-8] + b"\xff",
    "commas": _filled('"x":[', ",", "]"),
    "quotes": lambda size: b'{"x":' + b'"' * (size - 6),
    "NULs": lambda size: b"\0" * size,
}


@pytest.mark.parametrize("size", [MAX_EVENT_BYTES, BROKER_LIMIT])
def test_no_message_costs_more_than_50_ms(size):
    costs = {kind: _least_seconds(make(size)) for kind, make in COSTLY.items()}
    dear = {kind: seconds for kind, seconds in costs.items() if seconds > MOST_SECONDS}
    assert not dear


def _least_seconds(value: bytes) -> float:
    """Return the processor seconds to parse a value, the least of three: other load only adds."""
    return min(_seconds(value) for _ in range(3))


def _seconds(value: bytes) -> float:
    start = time.process_time()
    with suppress(Malformed):
        read_event(value, NOW_US)
    return time.process_time() - start
