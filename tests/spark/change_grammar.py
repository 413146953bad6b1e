"""A database's change events, generated from a seed: valid ones, and mutations at every level.

The JSON mutations come from `event_grammar`; this module adds mutations specific to Debezium.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import NamedTuple

from change_oracle import PLACEHOLDER
from event_grammar import (
    BAD_NUMBERS,
    DAY,
    LEVELS,
    ODD_TEXT,
    OTHER_DIGITS,
    SPACES,
    Draft,
    in_form,
    parts,
    quoted,
    spelled,
    written,
)

from lab_env.pipeline.envelopes import ORDERS

COLUMNS = ORDERS | {
    "gift": "BOOLEAN",
    "items": "INT",
    "points": "BIGINT",
    "rate": "DECIMAL(38,18)",
    "due": "DATE",
    "at_ms": "TIMESTAMP_MILLIS",
    "at_us": "TIMESTAMP_MICROS",
    "at_ns": "TIMESTAMP_NANOS",
}
NOW = datetime(2026, 11, 21, 2, 14, 15, tzinfo=UTC)


class Record(NamedTuple):
    """A Kafka record."""

    key: bytes | None
    value: bytes | None


class Change:
    """A change event under construction: the members of its four objects as JSON text."""

    def __init__(self, rng: Random) -> None:
        self.op = quoted(rng.choice("rcuuud"))
        self.before, self.after = _image(rng), _image(rng)
        lsn = rng.randrange(10**9)
        sequence = f'["{rng.randrange(lsn + 1)}","{lsn}"]'
        self.source = _draft(
            connector='"postgresql"',
            schema='"public"',
            table='"orders"',
            ts_ms=str(rng.randrange(10**13)),
            lsn=str(lsn),
            sequence=rng.choice(("null", quoted(sequence), quoted(sequence))),
        )
        self.envelope = _draft(before="", after="", source="", op="", ts_ms="1")
        self.key: bytes | None = b"{}"

    def image(self) -> Draft:
        """Return the row image that the contract uses: `before` of a delete, else `after`."""
        return self.before if self.op == '"d"' else self.after

    def value(self, rng: Random) -> bytes:
        """Return the message."""
        objects = {"before": self.before, "after": self.after, "source": self.source}
        for name, part in objects.items():
            self._fill(name, written(rng, part).decode("utf-8", "surrogateescape"))
        self._fill("op", self.op)
        return written(rng, self.envelope)

    def _fill(self, name: str, text: str) -> None:
        """Set a member, unless a mutation has already set it."""
        members = self.envelope.members
        self.envelope.members = [
            (key, text if key == f'"{name}"' and not value else value) for key, value in members
        ]


def records(seed: int, count: int) -> Iterator[Record]:
    """Yield `count` records; the same seed gives the same ones."""
    rng = Random(seed)
    return (record(rng) for _ in range(count))


def record(rng: Random) -> Record:
    """Return one record: a valid change, often with some mutations."""
    change = Change(rng)
    mutations = rng.choices((0, 1, 2, 3), (25, 50, 17, 8))[0]
    of_json = rng.choices((False, True), (3, 1), k=mutations)
    for is_json in of_json:
        if is_json:
            drafts = (change.image(), change.image(), change.before, change.source, change.envelope)
            level = rng.choice(("keys", "strings", "numbers", "nesting"))
            rng.choice(LEVELS[level])(rng, rng.choice(drafts))
        else:
            rng.choice(MUTATIONS)(rng, change)
    value: bytes | None = change.value(rng)
    if rng.random() < 0.12:
        value = rng.choice(LEVELS[rng.choice(("tokens", "bytes"))])(rng, value)
    if rng.random() < 0.01:
        value = rng.choice((None, b"", b" \n", b"\xef\xbb\xbf" + (value or b"")))
    return Record(change.key, value)


def _draft(**members: str) -> Draft:
    return Draft([(quoted(name), text) for name, text in members.items()], NOW, None)


def _image(rng: Random) -> Draft:
    at = NOW + rng.randrange(10**6) * timedelta(seconds=1.000001)
    values = {
        "order_id": quoted(f"O-{rng.randrange(100)}"),
        "customer_id": quoted(f"C-{rng.randrange(100)}"),
        "amount": quoted(f"{rng.randrange(10**5)}.{rng.randrange(100):02d}"),
        "status": quoted(rng.choice(("new", "paid"))),
        "partition_date": quoted(str((at - rng.randrange(3) * DAY).date())),
        "updated_at": quoted(in_form(at)),
        "gift": rng.choice(("true", "false")),
        "items": str(rng.randrange(-5, 100)),
        "points": str(rng.randrange(10**12)),
        "rate": quoted(f"{rng.randrange(10**20)}.{rng.randrange(10**18):018d}"),
        "due": str((at.date() - datetime(1970, 1, 1).date()).days),
    }
    micros = int(at.timestamp() * 10**6)
    values |= {"at_ms": str(micros // 1000), "at_us": str(micros), "at_ns": str(micros * 1000)}
    draft = _draft(**values)
    for name in rng.sample(list(values), rng.choice((0, 0, 1, 3))):
        if name not in ("order_id", "partition_date"):
            draft.put(name, "null")
    return draft


def _some(rng: Random, *kinds: str) -> str:
    """Return a random column of one of these kinds."""
    return rng.choice([name for name, form in COLUMNS.items() if form.startswith(kinds)])


def _missing_column(rng: Random, change: Change) -> None:
    draft = rng.choice((change.image(), change.image(), change.before))
    gone = quoted(rng.choice(list(COLUMNS)))
    renamed = rng.choice((None, '"total"', gone.upper()))
    draft.members = [
        (renamed if name == gone else name, value)
        for name, value in draft.members
        if name != gone or renamed
    ]


def _placeholder(rng: Random, change: Change) -> None:
    raw = PLACEHOLDER.encode()
    texts = (PLACEHOLDER, PLACEHOLDER, PLACEHOLDER + " ", PLACEHOLDER.upper(), PLACEHOLDER[1:])
    texts += ("X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", raw.hex(), f"see {PLACEHOLDER}")
    text = rng.choice((*texts, f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}'))
    numbers = rng.choice((list(raw), list(raw[:-1]), [*raw, 0]))
    value = spelled(rng, text, rng.choice((0, 0.1)))
    around = ("%s", "%s", "[%s]", "[1,%s]", "[[%s]]", '{"a":%s}', "{%s:1}", '[{"a":[null,%s]}]')
    value = rng.choice((rng.choice(around) % value, str(numbers).replace(" ", ""), f"[{numbers}]"))
    draft = rng.choice((change.image(), change.image(), change.before))
    draft.put(rng.choice(list(COLUMNS)), value)


def _other_form(rng: Random, change: Change) -> None:
    """Replace a value by one in the format of another column or connector configuration."""
    values = [value for _, value in _image(rng).members]
    others = ("1.0", "1e0", "-0", '"MLw="', "[]", "{}", '""', '"true"', "1", "0", '"1"', "true")
    change.image().put(rng.choice(list(COLUMNS)), rng.choice((*values, *others)))


def _decimal(rng: Random, change: Change) -> None:
    whole = rng.choice(("0", "00", "12", "9999999999", "10000000000", "9" * 20, "1" + "0" * 20))
    decimals = rng.choice(("", ".0", ".50", ".99", ".990", ".005", ".", "." + "9" * 18))
    decimals += rng.choice(("", "", "0" * 20, "0" * 400 + "1"))
    exponent = rng.choice(("", "", "", "e0", "E-10", "E+3", "e-2", "e9", "e-18", "e400000000"))
    exponent = rng.choice((exponent, exponent, "e-400000000", "e9999999999", "e-0000000000"))
    text = f"{rng.choice(('', '', '-', '+'))}{whole}{decimals}{exponent}"
    odd = ("NAN", "NaN", "POSITIVE_INFINITY", "Infinity", "-inf", "", " 1", "1\n", "1_0", "1,5")
    odd += (rng.choice(OTHER_DIGITS)[:3], f"1{rng.choice(SPACES)}", "9" * 5000, *BAD_NUMBERS)
    column = _some(rng, "DECIMAL")
    bound = rng.choice(("9999999999", "10000000000")) + rng.choice(("", ".0", ".99"))
    value = spelled(rng, rng.choice((text, text, bound, rng.choice(odd))), 0.05)
    change.image().put(column, value)


def _time(rng: Random, change: Change) -> None:
    year = rng.choice(("0000", "0001", "1582", "1899", "1970", "2026", "9999", "+10000", "-0043"))
    day = rng.choice(("01-01", "02-29", "02-31", "12-31", "10-10", "13-01"))
    clock = rng.choice(("00:00:00", "23:59:59", "24:00:00", "12:00:60", "12:00", "1:00:00"))
    fraction = rng.choice(("", ".5", ".999999", ".9999999", ".", ",5", ".000000"))
    zone = rng.choice(("Z", "Z", "Z", "Z", "", "z", "+00:00", "+02", " UTC"))
    text = f"{year}-{day}{rng.choice('TTTTt ')}{clock}{fraction}{zone}"
    odd = ("infinity", "-infinity", "Infinity", "+infinity", "yesterday", "", "0", "1795219201000")
    odd += ("+294247-01-10T04:00:25.200Z", "-290308-12-21T19:59:27.6Z", "2026-11-21")
    digits = str.maketrans("0123456789", rng.choice(OTHER_DIGITS))
    odd += (text.translate(digits), text + rng.choice(SPACES))
    easy = f"{rng.choice(('0001', '1969', '9999', '2024'))}-02-{rng.choice(('01', '28', '29'))}"
    easy += f"T{rng.choice(('00:00:00', '23:59:59.999999'))}Z"
    value = rng.choice((text, text, easy, easy, rng.choice(odd)))
    change.image().put("updated_at", quoted(value))


def _count(rng: Random, change: Change) -> None:
    """Set a time, date or integer to a number near one of its limits, in a random unit."""
    name = _some(rng, "TIMESTAMP_", "DATE", "INT", "BIGINT")
    seconds = rng.choice((-62_135_596_800, 253_402_300_800, 0, 86_400 * 100, 1_795_219_201))
    unit = rng.choice((1, 10**3, 10**6, 10**9, 86_400, 10**3, 10**6, 10**9))
    number = seconds // 86_400 if unit == 86_400 else seconds * unit
    infinity = (9223372036825200000, -9223372036832400000, 2147483647, -2147483648, 2**63, -(2**31))
    infinity += (2**31, -(2**31) - 1, 2**63 - 1, -(2**63), -(2**63) - 1, 10**30)
    number = rng.choice((number, number, rng.choice(infinity)))
    number += rng.choice((-1000, -1, 0, 0, 1, 999))
    change.image().put(name, rng.choice((str(number),) * 4 + (f"{number}.0", f'"{number}"')))


def _partition(rng: Random, change: Change) -> None:
    days = ("2026-11-21", "2026-02-31", "0001-01-01", "2026-11-2", "20261121", "1970-01-01")
    day = rng.choice(days)
    before, after = ("", "", "../", " ", "\n"), ("", "", "\n", "/x", " ", "\0")
    text = rng.choice(before) + day + rng.choice(after)
    draft = rng.choice((change.image(), change.before))
    draft.put("partition_date", quoted(rng.choice((text, text, "", "é", "٢٠٢٦-١١-٢١"))))


def _key(rng: Random, change: Change) -> None:
    text = rng.choice((*ODD_TEXT, "", " ", "O-1\n", "\u3000", "O-1"))
    value = rng.choice((quoted(text), quoted(text), "null", "5", "[]", '["O-1"]'))
    change.image().put(rng.choice(("order_id", "order_id", "partition_date")), value)


def _key_only(rng: Random, change: Change) -> None:
    """Turn the change into a delete with only the key, as with the default replica identity."""
    change.op = '"d"'
    filler = rng.choice(({}, dict.fromkeys(COLUMNS, "null"), {"partition_date": '""'}))
    change.before = _draft(**{**filler, "order_id": '"O-1"'})


def _table(rng: Random, change: Change) -> None:
    schemas = parts('"public"|null|"sales"|""|5|"PUBLIC"|["public"]|"public.orders"')
    tables = parts('"orders"|null|"order_items"|""|true|"orders "|{}|"lake"')
    change.source.put("schema", rng.choice((schemas[0], rng.choice(schemas))))
    change.source.put("table", rng.choice((tables[0], rng.choice(tables))))


def _position(rng: Random, change: Change) -> None:
    digits = ("0", "007", "1", str(2**63 - 1), str(2**63), "-1", "1.0", "٣", "", "9" * 30, " 1")
    digits += ("0" * 30 + "1",)
    lsn = rng.choice((*digits[2:6], '"1"', "null", "1.0", "1e3", "true", "[]", "9" * 30, "-0"))
    pair = [rng.choice((f'"{rng.choice(digits)}"', '"7"', "null", "7")) for _ in range(2)]
    text = f"[{rng.choice((',', ',', ', ', ' ,', ',  ')).join(pair)}]"
    odd = ("[]", "[null]", '["1","2","3"]', "", "null", '["1","2"', '{"a":"1"}', ' ["1","2"]')
    texts = (quoted(text), quoted(text), "null", quoted(rng.choice(odd)), '["1","2"]')
    change.source.put("sequence", rng.choice(texts))
    change.source.put("lsn", lsn)


def _op(rng: Random, change: Change) -> None:
    change.op = rng.choice(parts('"t"|"t"|"m"|null|"U"|"u "|""|5|["u"]|"create"|{}|"\\u0075"'))


def _part(rng: Random, change: Change) -> None:
    """Replace one of the envelope's objects by another value, or remove it."""
    name = quoted(rng.choice(("before", "after", "source", "op")))
    value = rng.choice(("null", "null", "[]", "{}", '"text"', "5", None))
    change.envelope.members = [
        (key, value if key == name else text)
        for key, text in change.envelope.members
        if key != name or value
    ]


def _schemas(rng: Random, change: Change) -> None:
    text = change.value(rng).decode("utf-8", "surrogateescape")
    schema = rng.choice(('{"type":"struct"}', "null"))
    members = [('"schema"', schema), ('"payload"', rng.choice((text, text, "null")))]
    if rng.random() < 0.2:
        members.append((rng.choice(('"op"', '"source"', '"x"')), rng.choice(("null", '"u"'))))
    if rng.random() < 0.2:
        members.pop(rng.randrange(2))
    change.envelope.members = members


def _no_key(rng: Random, change: Change) -> None:
    change.key = None


MUTATIONS: tuple[Callable[[Random, Change], None], ...] = (
    *(_missing_column, _placeholder, _placeholder, _other_form, _other_form, _decimal, _decimal),
    *(_time, _time, _count, _count, _count, _partition, _key, _key_only, _table, _position),
    *(_position, _op, _part, _schemas, _no_key),
)
