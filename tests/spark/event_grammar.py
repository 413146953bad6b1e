"""Messages for the pipeline's parser, generated from a seed: valid ones, and many mutations.

A draft stores an event's members as JSON text, so that a mutation can spell them in any way. Most
mutations change a draft; token and byte mutations change the message that was built from it.
About a third of the messages stay valid. If several mutations make a message invalid, the expected
reason is the first of them in `REASONS`.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from random import Random
from typing import NamedTuple

from event_oracle import EPOCH, MICROSECOND, micros

from lab_env.shop.events import FIELDS, MAX_DEPTH, MAX_EVENT_BYTES, OPS, STATUSES


def parts(text: str) -> list[str]:
    """Split a text at its vertical bars."""
    return text.split("|")


TEXT_FIELDS = tuple(name for name in FIELDS if name != "amount")
IDENTIFIERS = ("event_id", "order_id", "customer_id", "product_id")
TIME_FIELDS = ("order_ts", "sent_at")
DAY = timedelta(days=1)

SPACES = [letter for letter in map(chr, range(sys.maxunicode + 1)) if letter.isspace()]
# None of these is white space to Python, although most of them are invisible.
NEARLY_SPACES = list("\u180e\u200b\u200c\u200d\u2060\u2800\u3164\ufeff\u00ad")
CONTROLS = [chr(code) for code in (*range(32), *range(0x7F, 0xA0))]
OTHER_DIGITS = ["٠١٢٣٤٥٦٧٨٩", "０１２３４５６７８９", "०१२३४५६७८९", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗"]
ODD_TEXT = [
    *("é", "e\u0301", "ß", "İ", "\u2028", "\u202e", "\ufffd", "\ufffe", "\uffff", "\ue000"),
    *("\U0001f600", "\U0010ffff", '"', "\\", "/", "'", "<b>", "${x}", "\\u0041"),
    *SPACES,
    *NEARLY_SPACES,
]
PLAIN = re.compile(r'"[^"\\\x00-\x1f]*"')  # JSON text of a string without escapes
# Bytes that are no UTF-8: bare, cut off, overlong, half a surrogate, beyond the last character.
BROKEN_UTF8 = [
    *(b"\xe4", b"\x80", b"\xff", b"\xfe", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc0\x80"),
    *(b"\xc1\xbf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf", b"\xed\xa0\xbd"),
    *(b"\xed\xa0\xbd\xed\xb8\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80"),
]
BAD_ESCAPES = [
    *("\\x41", "\\u12", "\\u 041", "\\U00000041", "\\'", "\\0", "\\a", "\\u", "\\v", "\\ "),
    *("\\u004g", "\\u{41}", "\\\n", "\\N{DIGIT ONE}", "\\u-041", "\\u+041", "\\u0x41"),
    # Halves of surrogate pairs: alone, in the wrong order, before something else.
    *("\\uD83D", "\\uDE00", "\\ude00\\ud83d", "\\ude00\\ude00", "\\ud83d\\u0041", "\\ud83dx"),
    *("\\ud83d\\n", "\\ud83d\\ud83d", "\\ud83d\\ud83d\\ude00", "\\ud83d\\udbff", "\\ud83d\\ue000"),
    "\\ud83d\\",
]
BAD_NUMBERS = parts(
    "01|-01|00|1.|-1.|.5|-.5|+1|+1.5|0x1F|1e|1e+|1E-|-|--1|1_000|1,5|1.5.1|1e1.5|1e1e1|−1|١٢|１２|"
    "1f|1d|1L|12 5|NaN|-NaN|nan|Infinity|-Infinity|inf|+Infinity|0b1|1n|0.|-0.e1|1e٣|1.٥|1٠|00.5|"
    "- 1|1 e5|0e|-e5|1.e5|1e5.|Infinity1"
)
BAD_LITERALS = parts(
    "True|FALSE|NULL|Null|None|undefined|nul|tru|truee|nulll|yes|null1|true false|nil|falsetrue|n|"
    "t|'text'|text|`text`|b'x'"
)
SPACE_TOKENS = list("\v\f\u00a0\u0085\u2028\ufeff\u3000\u200b\x1c\0")
LOOKALIKES = {
    ":": ("=", "=", ":=", "=>", "::", " ", ",", ";", "："),
    ",": (";", ",,", " ", "", ":", "\n", "，", "}", "]"),
    "{": ("(", "[", "<", "{{", ""),
    "}": (")", "]", ">", "}}", ",}"),
    "[": ("(", "{", "<", "[[", ""),
    "]": (")", "}", ">", "]]", ",]"),
}
COMMENTS = ["/* note */", "// note\n", "# note\n", "<!-- note -->", "-- note\n", "/**/"]
ODD_NAMES = [
    *("", " ", "note", "Amount", "amount ", " amount", "order_id\0", "ORDER_ID", "op\u200b", "ор"),
    *("a.b", "`", "event", "reason", "unknown", "value", "__proto__", "é", "e\u0301", "\U0001f600"),
    *("\u0000", "\n", "\x7f", "\uffff", '"', "\\", "order-id", "orderId", "None", "n" * 300, "١"),
]


class Message(NamedTuple):
    """A record's value, and its Kafka timestamp in microseconds since 1970."""

    value: bytes | None
    arrived_us: int | None


@dataclass
class Draft:
    """An event under construction.

    Args:
        members: JSON text of each name and value; bytes that are not UTF-8 are surrogate-escaped.
        now: the event's sending time, to which its other times are relative.
        arrived_us: Kafka's timestamp of the record in microseconds since 1970.
    """

    members: list[tuple[str, str]]
    now: datetime
    arrived_us: int | None

    def put(self, field: str, text: str) -> None:
        """Replace the JSON text of a field, if the field still exists."""
        name = f'"{field}"'
        self.members = [(key, text if key == name else value) for key, value in self.members]

    def insert(self, rng: Random, name: str, text: str) -> None:
        """Add a member at a random position; name and value are JSON text."""
        self.members.insert(rng.randint(0, len(self.members)), (name, text))


def messages(seed: int, count: int) -> Iterator[Message]:
    """Yield `count` messages; the same seed gives the same ones."""
    rng = Random(seed)
    return (message(rng) for _ in range(count))


def message(rng: Random) -> Message:
    """Return one message: a valid event with some spelling variations, and often some mutations."""
    draft = valid(rng)
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        rng.choice(VARIATIONS)(rng, draft)
    mutations = rng.choices((0, 1, 2, 3), (20, 53, 17, 10))[0]
    levels = rng.choices(tuple(LEVELS), (1, 1.2, 1.2, 1.5, 1.3, 2, 1.2, 0.8, 0.4), k=mutations)
    for level in levels:
        if level not in WRITTEN_LEVELS:
            rng.choice(LEVELS[level])(rng, draft)
    value: bytes | None = written(rng, draft)
    for level in ("tokens", "bytes"):
        for _ in range(levels.count(level)):
            value = rng.choice(LEVELS[level])(rng, value or b"")
    return Message(value, draft.arrived_us)


def valid(rng: Random) -> Draft:
    """Return a plain valid event."""
    number = rng.randrange(10_000)
    start = datetime(2026, 11, 21, 2, 14, 15, 123456, tzinfo=UTC)
    now = start + rng.randrange(10**13) * MICROSECOND
    order_ts = now - rng.randrange(10**6) * MICROSECOND
    texts = {
        "event_id": f"E-{number}",
        "op": rng.choice(OPS),
        "order_id": f"O-{number}",
        "customer_id": f"C-{number % 100}",
        "product_id": f"P-{number % 10}",
        "status": rng.choice(STATUSES),
        "order_ts": in_form(order_ts),
        "partition_date": str((order_ts - rng.randrange(3) * DAY).date()),
        "sent_at": in_form(now),
    }
    values = {name: quoted(text) for name, text in texts.items()}
    values["amount"] = f"{rng.randrange(10**5)}.{rng.randrange(100):02d}"
    members = [(quoted(name), values[name]) for name in FIELDS]
    return Draft(members, now, micros(now) + rng.randrange(10**6))


def in_form(moment: datetime) -> str:
    """Return a time in the contract's format; `%Y` would not pad years on every platform."""
    return moment.replace(tzinfo=None).isoformat() + "Z"


def quoted(text: str) -> str:
    """Return text as JSON with only the necessary escapes."""
    return '"' + "".join(_plain(letter) for letter in text) + '"'


def spelled(rng: Random, text: str, share: float = 0.3) -> str:
    """Return text as JSON with some of its characters escaped."""
    letters = (_escape(rng, x) if rng.random() < share else _plain(x) for x in text)
    return '"' + "".join(letters) + '"'


def _plain(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return f"\\u{ord(letter):04x}" if letter < " " else letter


def _escape(rng: Random, letter: str) -> str:
    short = dict(zip('"\\/\b\f\n\r\t', '"\\/bfnrt', strict=True))
    if letter in short and rng.random() < 0.5:
        return "\\" + short[letter]
    units = letter.encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join("\\u" + "".join(rng.choice((x, x.upper())) for x in pair) for pair in pairs)


def written(rng: Random, draft: Draft) -> bytes:
    """Return the draft as one JSON object, in a random white-space style."""
    colon, comma, around = rng.choice(
        ((":", ",", ""), (": ", ", ", ""), (" :\t", " ,\n  ", "\r\n"), (":", ",", " "))
    )
    body = comma.join(f"{name}{colon}{value}" for name, value in draft.members)
    text = f"{around}{{{around}{body}{around}}}{around}"
    return text.encode("utf-8", "surrogateescape")


# Variations: a valid event stays valid.


def _respell(part: int, rng: Random, draft: Draft) -> None:
    """Spell the name (part 0) or the text (part 1) of a member differently."""
    at = rng.randrange(len(draft.members))
    member = list(draft.members[at])
    if PLAIN.fullmatch(member[part]):
        member[part] = spelled(rng, member[part][1:-1])
    draft.members[at] = (member[0], member[1])


def _add_a_field(rng: Random, draft: Draft) -> None:
    draft.insert(rng, spelled(rng, rng.choice(("note", "coupon", "lines", "é")), 0.1), _json(rng))


def _respell_the_amount(rng: Random, draft: Draft) -> None:
    draft.put("amount", _cents(rng, rng.choice((0, 1, 99, 100, 12_50, rng.randrange(10**12)))))


def _odd_identifier(rng: Random, draft: Draft) -> None:
    text = "O-" + rng.choice(ODD_TEXT) + "-1"
    if not set(text) & set(CONTROLS):
        draft.put(rng.choice(IDENTIFIERS), spelled(rng, text, 0.2))


def _date_only_earlier(rng: Random, draft: Draft) -> None:
    days = rng.choice((0, 1, 365, 366, 2000))
    draft.put("partition_date", f'"{(draft.now - timedelta(seconds=1) - days * DAY).date()}"')


def _fewer_decimals(rng: Random, draft: Draft) -> None:
    decimals = rng.randint(0, 6)
    text = in_form(draft.now.replace(microsecond=0) - DAY / 24)[:-1]
    fraction = "".join(rng.choice("0123456789") for _ in range(decimals))
    draft.put("sent_at", f'"{text}{"." * bool(decimals)}{fraction}Z"')


VARIATIONS = (
    lambda rng, draft: rng.shuffle(draft.members),
    *(partial(_respell, 1), partial(_respell, 0), _add_a_field, _respell_the_amount),
    *(_odd_identifier, _date_only_earlier, _fewer_decimals),
)


def _json(rng: Random, depth: int = 0) -> str:
    """Return a random JSON value; its objects may use the event's own field names."""
    kind = rng.randrange(8 if depth < 4 else 6)
    match kind:
        case 0:
            return rng.choice(("null", "true", "false"))
        case 1 | 2:
            return _number(rng)
        case 3 | 4 | 5:
            return spelled(rng, rng.choice((*ODD_TEXT, *TEXT_FIELDS, "", "x" * 50)), 0.2)
        case 6:
            return "[" + ",".join(_json(rng, depth + 1) for _ in range(rng.randrange(4))) + "]"
        case _:
            names = rng.sample((*FIELDS, "note", "", "id"), rng.randrange(4))
            pairs = (f"{spelled(rng, name, 0.1)}:{_json(rng, depth + 1)}" for name in names)
            return "{" + ",".join(pairs) + "}"


# Keys


def _duplicate(rng: Random, draft: Draft) -> None:
    name, value = rng.choice(draft.members)
    if rng.random() < 0.4 and PLAIN.fullmatch(name):
        name = spelled(rng, name[1:-1])
    draft.insert(rng, name, rng.choice((value, _json(rng), "-3.00", "null", '""')))


def _nested_duplicate(rng: Random, draft: Draft) -> None:
    name = rng.choice((*FIELDS, *ODD_NAMES[:40]))
    first, second = quoted(name), spelled(rng, name)
    between = rng.choice(("", '"z":1,', '"z":{},'))
    value = f"{{{first}:{_json(rng)},{between}{second}:{_json(rng)}}}"
    for _ in range(rng.choice((0, 0, 1, 2, 5, MAX_DEPTH - 1, MAX_DEPTH))):
        value = rng.choice((f"[{value}]", f'{{"y":{value}}}', f"[0,{value},1]"))
    draft.insert(rng, '"nested"', value)


def _nearly_duplicate(rng: Random, draft: Draft) -> None:
    name = rng.choice(FIELDS)
    other = rng.choice((name.upper(), name + " ", name + "\0", " " + name, name + "\u0301"))
    pair = (("é", "e\u0301"), ("Å", "\u212b"), ("ﬁ", "fi"), ("K", "\u212a"), (name, other))
    for spelling in rng.choice(pair):
        if spelling != name:
            draft.insert(rng, spelled(rng, spelling, 0.2), _json(rng))


def _remove(rng: Random, draft: Draft) -> None:
    """Remove some members, but keep at least one."""
    for _ in range(min(rng.choice((1, 1, 1, 2, 20)), len(draft.members) - 1)):
        draft.members.pop(rng.randrange(len(draft.members)))


def _rename(rng: Random, draft: Draft) -> None:
    if draft.members:
        at = rng.randrange(len(draft.members))
        name, value = draft.members[at]
        text = name[1:-1]
        others = (text.upper(), text.title(), text + " ", text.replace("_", "-"), "")
        others += (text + "\\u0000",)
        draft.members[at] = (f'"{rng.choice(others)}"', value)


def _empty_field(rng: Random, draft: Draft) -> None:
    for name in rng.sample(FIELDS, rng.choice((1, 1, 2))):
        draft.put(name, rng.choice(("null", '""', '" "', "[]", "{}", "0", "false")))


def _odd_name(rng: Random, draft: Draft) -> None:
    for name in rng.sample(ODD_NAMES, rng.choice((1, 2, 4))):
        draft.insert(rng, spelled(rng, name, rng.choice((0, 0.5))), _json(rng))


def _nested_fields(rng: Random, draft: Draft) -> None:
    wrong = ('"12.50"', "5", "null", "-1", "[]", '"2026"', "1e400000000")
    pairs = (f'"{name}":{rng.choice(wrong)}' for name in FIELDS)
    value = "{" + ",".join(pairs) + "}"
    draft.insert(rng, '"total"', rng.choice((value, f"[{value}]", f"[{value},{value}]")))
    if rng.random() < 0.3:
        draft.put(rng.choice(TEXT_FIELDS), "5")


def _bad_name(rng: Random, draft: Draft) -> None:
    escapes = (f'"{escape}"' for escape in BAD_ESCAPES)
    draft.insert(rng, rng.choice((*escapes, "5", "null", "note", "'note'", "[]", '"a\tb"')), "1")


# Strings


def _text_field(rng: Random) -> str:
    return rng.choice((*IDENTIFIERS, "order_id", *TEXT_FIELDS))


def _blank(rng: Random, draft: Draft) -> None:
    letters = rng.choice((SPACES, SPACES, NEARLY_SPACES, SPACES + NEARLY_SPACES))
    text = "".join(rng.choice(letters) for _ in range(rng.choice((0, 1, 1, 1, 2, 5))))
    draft.put(_text_field(rng), spelled(rng, text, 0.4))


def _control(rng: Random, draft: Draft) -> None:
    letter = rng.choice(rng.choice((CONTROLS[:32], CONTROLS[32:], ["\t", "\n", "\0"])))
    letter = letter if rng.random() < 0.4 else spelled(rng, letter, 0.9)[1:-1]
    draft.put(_text_field(rng), f'"{rng.choice(("", "O-"))}{letter}{rng.choice(("", "1"))}"')


def _bad_escape(rng: Random, draft: Draft) -> None:
    escape = rng.choice(BAD_ESCAPES)
    value = f'"O-{escape}{rng.choice(("", "x", "1"))}"'
    if rng.random() < 0.5:
        draft.put(_text_field(rng), value)
    else:
        draft.insert(rng, '"note"', value)


def _odd_text(rng: Random, draft: Draft) -> None:
    letters = "".join(rng.choice(ODD_TEXT) for _ in range(rng.randint(1, 4)))
    draft.put(_text_field(rng), spelled(rng, "O-" + letters, rng.choice((0, 0.3, 1))))


def _broken_utf8(rng: Random, draft: Draft) -> None:
    broken = rng.choice(BROKEN_UTF8).decode("utf-8", "surrogateescape")
    if rng.random() < 0.6:
        draft.put(_text_field(rng), f'"O-{broken}1"')
    else:
        draft.insert(rng, rng.choice((f'"{broken}"', '"note"')), f'"{broken}"')


def _around_a_word(rng: Random, draft: Draft) -> None:
    field = rng.choice(("op", "status"))
    word = rng.choice(OPS if field == "op" else STATUSES)
    space = rng.choice(SPACES + NEARLY_SPACES + ["\0", "s", "d"])
    others = (word.upper(), word.title(), space + word, word + space, word[:-1], word[::-1])
    draft.put(field, spelled(rng, rng.choice((*others, "refund", "ſhipped", "ﬁrst")), 0.1))


def _long_text(rng: Random, draft: Draft) -> None:
    letters = rng.choice(("x", "é", "\U0001f600", " ", "\\n", "\\ud83d\\ude00", '\\"', "\u3000"))
    draft.put(_text_field(rng), f'"{letters * rng.randint(100, 700)}{rng.choice(("", "x"))}"')


# Numbers


def _cents(rng: Random, cents: int) -> str:
    """Return an amount of cents as a JSON number with a random exponent and random zeros."""
    digits, power = str(cents), -2
    zeros = rng.choice((0, 0, 1, 3, 30, 500))
    digits, power = digits + "0" * zeros, power - zeros
    if rng.random() < 0.5:
        shift = rng.choice((0, 0, 1, 2, 5, 19, 30, 400))
        if shift:
            return _shifted(rng, digits, power, shift)
        return digits + _exponent(rng, power)
    while len(digits) <= -power:
        digits = "0" + digits
    return f"{digits[:power]}.{digits[power:]}"


def _shifted(rng: Random, digits: str, power: int, shift: int) -> str:
    """Write `digits` times 10 to the `power` with `shift` decimals and an exponent."""
    digits = digits.rjust(shift + 1, "0")
    whole, decimals = digits[:-shift].lstrip("0") or "0", digits[-shift:]
    return f"{whole}.{decimals}{_exponent(rng, power + shift)}"


def _exponent(rng: Random, power: int) -> str:
    sign = "-" if power < 0 else rng.choice(("", "+"))
    return f"{rng.choice('eE')}{sign}{'0' * rng.choice((0, 0, 0, 1, 10))}{abs(power)}"


def _number(rng: Random) -> str:
    """Return a JSON number of random size and form."""
    sign = rng.choice(("", "", "", "-"))
    whole = rng.choice(("0", str(rng.randrange(1, 10 ** rng.choice((1, 4, 10, 20, 400))))))
    decimals = "".join(rng.choice("0123456789") for _ in range(rng.choice((1, 2, 2, 3, 20, 300))))
    fraction = rng.choice(("", f".{decimals}"))
    size = rng.choice((1, 2, 3, 10, 20, 309, 400, 9999, 400_000_000, 2**31, 2**63, 10**30, 10**400))
    exponent = rng.choice(("", "", _exponent(rng, rng.choice((1, -1)) * size)))
    return f"{sign}{whole}{fraction}{exponent}"


def _any_number_elsewhere(rng: Random, draft: Draft) -> None:
    draft.insert(rng, '"weight"', rng.choice((_number(rng), f"[{_number(rng)}]")))


def _around_a_bound(rng: Random, draft: Draft) -> None:
    whole = rng.choice(("9999999999", "10000000000", "99999999", "0", "12", "1", "10000000"))
    decimals = rng.choice(("0", "00", "01", "99", "990", "995", "999", "005", "001", "0049", "50"))
    tail = rng.choice(("", "", "0" * 20, "9" * 20, "0" * 18 + "1", "0" * 400, "0" * 400 + "1"))
    exponent = rng.choice(("", "", "", "e0", "E-0", "e+1", "e-1", "e-2", "e10", "e00001"))
    number = f"{rng.choice(('', '', '-'))}{whole}.{decimals}{tail}{exponent}"
    numbers = (number, number, "1e10", "1E+9", "9.99999999999e9", "1e-2", "1e-3")
    draft.put("amount", rng.choice(numbers))


def _zero(rng: Random, draft: Draft) -> None:
    zero = rng.choice(("0", "0.0", "0.00", "0." + "0" * 400))
    exponent = rng.choice(("", "e0", "E+400000000", "e-400000000", "e99999999999999999999999"))
    draft.put("amount", f"{rng.choice(('', '-'))}{zero}{exponent}")


def _huge_exponent(rng: Random, draft: Draft) -> None:
    digits = rng.choice(("1", "-1", "9.99", "0.001", "12345678901234567890", "-0.5"))
    sizes = (9, 10, 11, 38, 39, 308, 309, 6144, 6145, 425000000, 10**9, 2**31, 2**63, 10**40)
    size = rng.choice(sizes)
    draft.put("amount", digits + _exponent(rng, rng.choice((1, -1)) * size))


def _balanced_exponent(rng: Random, draft: Draft) -> None:
    zeros = rng.choice((5, 40, 400, 1500))
    powers = (-zeros, -zeros - 2, -zeros - 3, -zeros + 9, -zeros + 10)
    big = "1" + "0" * zeros + _exponent(rng, rng.choice(powers))
    powers = (zeros + 1, zeros - 1, zeros - 2, zeros + 10, zeros + 11)
    small = "0." + "0" * zeros + "1" + _exponent(rng, rng.choice(powers))
    draft.put("amount", rng.choice((big, small, "-" + big, "-" + small)))


def _bad_number(rng: Random, draft: Draft) -> None:
    number = rng.choice(BAD_NUMBERS)
    if rng.random() < 0.6:
        draft.put("amount", number)
    else:
        draft.insert(rng, '"weight"', rng.choice((number, f"[{number}]", f'{{"x":{number}}}')))


def _number_as_text(rng: Random, draft: Draft) -> None:
    draft.put("amount", f'"{rng.choice((_number(rng), _cents(rng, 1250), "", " ", "12.50 EUR"))}"')


def _bad_literal(rng: Random, draft: Draft) -> None:
    literal = rng.choice(BAD_LITERALS)
    if rng.random() < 0.5:
        draft.put(rng.choice(FIELDS), literal)
    else:
        draft.insert(rng, '"flag"', rng.choice((literal, f"[{literal}]")))


# Times and dates


def _put_time(rng: Random, draft: Draft, text: str) -> None:
    for field in rng.choice((("order_ts",), ("sent_at",), TIME_FIELDS)):
        draft.put(field, spelled(rng, text, rng.choice((0, 0, 0.1))))


def _dated(rng: Random, draft: Draft) -> tuple[str, str]:
    """Return the name of a random time or date field, and a valid text for it."""
    field = rng.choice((*TIME_FIELDS, "partition_date"))
    return field, str(draft.now.date()) if field == "partition_date" else in_form(draft.now)


def _fraction(rng: Random, draft: Draft) -> None:
    digits = "".join(rng.choice("0123456789") for _ in range(rng.randint(0, 12)))
    point = rng.choice((".", ".", ".", ".", ",", "", ":", ".."))
    base = in_form((draft.now - timedelta(hours=1)).replace(microsecond=0))[:-1]
    _put_time(rng, draft, f"{base}{point}{digits}Z")


def _other_form(rng: Random, draft: Draft) -> None:
    clock = f"{draft.now:%H:%M:%S}"
    zones = parts(
        "|Z|z|+00:00|-00:00|+0000|+00|+01:00|-23:59|+24:00| UTC|ZZ| Z|[Europe/Berlin]|+01:00:30|"
        "+01:00:30.5|Z+01:00|GMT|-0100"
    )
    gaps = ("T", "t", " ", "_", "\n", "\0", "", "TT", "é", "ß", "\U0001f600", "T ", "\u2009")
    forms = "%Y-%m-%d %Y%m%d %G-W%V-%u %GW%V%u %Y-%j %Y/%m/%d %y-%m-%d +00%Y-%m-%d %d.%m.%Y"
    days = _in_forms(draft.now, f"{forms} %Y-%-m-%-d %g-w%V-%u -%Y-%m-%d")
    clocks = (clock, clock, clock[:5], clock[:2], clock.replace(":", ""), clock + ".5", clock[:4])
    clocks += (clock + ".123456789", clock + ",5", clock + ".", clock[:-1], clock + ":00", "")
    # One part at a time is odd, or all are.
    chosen = [days[:1], gaps[:1], clocks[:1], zones[1:2]]
    for at in rng.choice(((0,), (1,), (2,), (3,), (0, 1), (2, 3), (0, 1, 2, 3))):
        chosen[at] = (days, gaps, clocks, zones)[at]
    _put_time(rng, draft, "".join(map(rng.choice, chosen)))


def _in_forms(moment: date, forms: str) -> list[str]:
    return [moment.strftime(form) for form in forms.split()]


def _impossible_time(rng: Random, draft: Draft) -> None:
    year = rng.choice(parts("2026|2026|2024|2025|2100|0000|0001|9999|2020|2019"))
    month = rng.choice(parts("02|02|01|04|11|12|00|13|99"))
    day = rng.choice(parts("28|29|30|31|32|00|01|21"))
    clock_parts = ("00|12|23|24|25|99", "00|59|60|99", "00|59|60|61|99")
    clock = ":".join(rng.choice(parts(part)) for part in clock_parts)
    if rng.randrange(6):
        clock = rng.choice(("23:59:60", "24:00:00", "12:00:00"))
    text = f"{year}-{month}-{day}T{clock}{rng.choice(('', '.0', '.999999'))}Z"
    _put_time(rng, draft, text)


def _time_bound(rng: Random, draft: Draft) -> None:
    step = rng.choice((-1000, -1, 0, 1, 1000)) * MICROSECOND
    arrived_us = draft.arrived_us or 0
    latest = (draft.now if abs(arrived_us) > 10**16 else EPOCH + arrived_us * MICROSECOND) + DAY
    first = datetime(2020, 1, 1, tzinfo=UTC)
    bound = rng.choice((latest, latest, first, datetime(2100, 1, 1, tzinfo=UTC), draft.now))
    _put_time(rng, draft, in_form(bound + step))
    if rng.random() < 0.5:
        draft.put("partition_date", f'"{rng.choice((first, first - DAY, bound)).date()}"')


def _no_time(rng: Random, draft: Draft) -> None:
    seconds = micros(draft.now) // 10**6
    texts = parts(
        f"yesterday|now|0|| |T|Z|1970-01-01T00:00:00Z|NaT|null|{'-' * 20}|{seconds}|{seconds}000|"
        f"{seconds}.5|{seconds}Z|P1D|12:00|12:00:00Z"
    )
    if rng.random() < 0.3:
        field = rng.choice((*TIME_FIELDS, "partition_date"))
        draft.put(field, rng.choice((f"{seconds}", "0", "-1")))
    else:
        _put_time(rng, draft, rng.choice(texts))


def _around_a_time(rng: Random, draft: Draft) -> None:
    field, text = _dated(rng, draft)
    letter = rng.choice([*SPACES, *NEARLY_SPACES, "\0", "Z", "0", "\x7f", "\ufeff", "\r\n"])
    draft.put(field, spelled(rng, rng.choice((text + letter, letter + text)), rng.choice((0, 0.2))))


def _digits_of_another_script(rng: Random, draft: Draft) -> None:
    field, text = _dated(rng, draft)
    places = [at for at, letter in enumerate(text) if letter.isdigit()]
    for at in rng.sample(places, rng.choice((1, len(places)))):
        text = text[:at] + rng.choice(OTHER_DIGITS)[int(text[at])] + text[at + 1 :]
    draft.put(field, quoted(text))


def _small_letters(rng: Random, draft: Draft) -> None:
    text = in_form(draft.now)
    draft.put(rng.choice(TIME_FIELDS), quoted(rng.choice((text.lower(), text.replace("Z", "z")))))


def _flipped_time(rng: Random, draft: Draft) -> None:
    """Replace, remove or double one character of a time or date."""
    field, text = _dated(rng, draft)
    at = rng.randrange(len(text))
    middle = rng.choice(("", text[at] * 2, rng.choice("0123456789-:.TZW +,/")))
    draft.put(field, quoted(text[:at] + middle + text[at + 1 :]))


def _other_date(rng: Random, draft: Draft) -> None:
    day = draft.now.date()
    texts = _in_forms(day, "%Y%m%d %G-W%V-%u %G-W%V %GW%V%u %Y-%j %Y/%m/%d %Y-%m %Y")
    texts += [f"{day}T00:00:00Z", f"{day} 00:00:00"]
    texts += _in_forms(day, "%Y-%-m-%-d +%Y-%m-%d -%Y-%m-%d %g-w%V-%u")
    texts += parts(
        "2026-02-29|2024-02-29|2026-11-31|2026-13-01|2026-00-10|2026-10-00|0000-01-01|0001-01-01|"
        "9999-12-31|10000-01-01|2020-02-30|2100-02-29|2026-W54-1|2026-W47-8|2020-01-01|2019-12-31|"
        f"today||0|{day}Z|{day}+00:00|2026-11-2١"
    )
    draft.put("partition_date", quoted(rng.choice(texts)))


def _day_order(rng: Random, draft: Draft) -> None:
    midnight = draft.now.replace(hour=0, minute=0, second=0, microsecond=0)
    order_ts = midnight + rng.choice((-1, 0, 1, 10**6)) * MICROSECOND
    draft.put("order_ts", quoted(in_form(order_ts)))
    day = (midnight + rng.choice((-1, 0, 1)) * DAY).date()
    draft.put("partition_date", quoted(str(day)))


def _arrival(rng: Random, draft: Draft) -> None:
    years = [micros(datetime(year, 1, 1, tzinfo=UTC)) for year in (2019, 2020, 2099, 2100, 2100)]
    far = (0, -1, -1000, -(10**15), micros(draft.now) // 1000, micros(draft.now) * 1000, 2**62)
    step = rng.choice((-1000, -1, -1, 0, 0, 1))
    draft.arrived_us = rng.choice((None, *far, *(year + step for year in years)))


def _early_arrival(rng: Random, draft: Draft) -> None:
    gap = rng.choice((DAY, DAY, 2 * DAY, DAY / 2)) + rng.choice((-1, 0, 1)) * MICROSECOND
    draft.arrived_us = micros(draft.now - gap)


# Nesting


def _nest(rng: Random, draft: Draft) -> None:
    near = range(MAX_DEPTH - 3, MAX_DEPTH + 4)
    depth = rng.choice((1, 2, 10, *near, *near, 500, 1000, 1900))
    array, object_ = ("[", "]"), ('{"a":', "}")
    mix = rng.choice(((array,), (object_,), (array, object_, ("[[],", "]"))))
    opened, closed = "", ""
    for _ in range(depth):
        begin, end = rng.choice(mix)
        opened, closed = opened + begin, end + closed
    inner = rng.choice(("1", '"x"', "", "null", "{", "]", "NaN", '{"a":1,"a":2}', "[]", "1,"))
    half = closed[: depth // 2]
    closed = rng.choice((closed, closed, closed, closed[1:], closed + "]", "", half))
    value = opened + inner + closed
    if rng.random() < 0.8:
        draft.insert(rng, '"deep"', value)
    else:
        draft.put(rng.choice(FIELDS), value)


def _wide(rng: Random, draft: Draft) -> None:
    """Add many short branches, so that the JSON is wide but never deeply nested."""
    branches = ("[]", "{}", "[[1]]", '{"a":[]}')
    value = ",".join(rng.choice(branches) for _ in range(rng.randint(1, 400)))
    draft.insert(rng, '"wide"', f"[{value}]")


# Sizes


def _pad(rng: Random, draft: Draft) -> None:
    """Pad the message to about the maximum size, or rarely to any size that a broker accepts."""
    size = MAX_EVENT_BYTES + rng.choice((-2, -1, 0, 1, 2, -60, 60))
    if rng.random() < 0.02:
        size = int(10 ** rng.uniform(4, 6))
    filler = rng.choice(("x", " ", "9", "é", "[", "\\u0041", "\n", '"k":1,', "1.", "{}"))
    body = ",".join(f"{name}:{value}" for name, value in draft.members)
    room = size - len(body.encode("utf-8", "surrogateescape")) - len('{,"pad":""}')
    padding = filler * (room // len(filler.encode()))
    padding += "x" * (room - len(padding.encode()))
    value = rng.choice((f'"{padding}"', f"{padding[2:]}11", f"{padding}1 "))
    draft.members.append(('"pad"', value))


# Tokens of the written message

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+|\s+|"', re.DOTALL)


def _with_tokens(change: Callable[[Random, list[str]], object]) -> Callable[[Random, bytes], bytes]:
    def mutate(rng: Random, value: bytes) -> bytes:
        tokens = TOKEN.findall(value[:10_000].decode("utf-8", "surrogateescape")) or [""]
        change(rng, tokens)
        return "".join(tokens).encode("utf-8", "surrogateescape") + value[10_000:]

    return mutate


def _repeat_token(rng: Random, tokens: list[str]) -> None:
    at = rng.randrange(len(tokens))
    tokens.insert(rng.choice((at, rng.randint(0, len(tokens)))), tokens[at])


def _replace_token(rng: Random, tokens: list[str]) -> None:
    others = ("{", "}", "[", "]", ",", ":", ";", "=", '"', "'", "null", "true", "0", '""', "", "\\")
    tokens[rng.randrange(len(tokens))] = rng.choice((*others, *BAD_LITERALS, *BAD_NUMBERS))


def _insert_token(rng: Random, tokens: list[str]) -> None:
    others = (*SPACE_TOKENS, *SPACE_TOKENS, *COMMENTS, ",", ":", "{", "}", "[", "]", '"', " ", "\t")
    tokens.insert(rng.randint(0, len(tokens)), rng.choice(others))


def _replace_punctuation(rng: Random, tokens: list[str]) -> None:
    places = [at for at, token in enumerate(tokens) if token in LOOKALIKES]
    if places:
        at = rng.choice(places)
        tokens[at] = rng.choice(LOOKALIKES[tokens[at]])


def _requote_token(rng: Random, tokens: list[str]) -> None:
    places = [at for at, token in enumerate(tokens) if token.startswith('"')]
    if places:
        at = rng.choice(places)
        text = tokens[at][1:-1]
        others = (f"'{text}'", text, f'"{text}', f'{text}"', f"“{text}”", f'""{text}""')
        tokens[at] = rng.choice(others)


def _swap_tokens(rng: Random, tokens: list[str]) -> None:
    one, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    tokens[one], tokens[other] = tokens[other], tokens[one]


def _wrap(rng: Random, tokens: list[str]) -> None:
    text = "".join(tokens)
    wrapped = (f"[{text}]", f'{{"event":{text}}}', spelled(rng, text, 0), f"({text})")
    wrapped += (f"{{{text}}}", f"callback({text});", f"{text},", f"[{text},{text}]")
    tokens[:] = [rng.choice(wrapped)]


def _trailing_comma(rng: Random, tokens: list[str]) -> None:
    places = [at for at, token in enumerate(tokens) if token in "}]{[" and token]
    if places:
        tokens.insert(rng.choice(places) + rng.choice((0, 1)), ",")


# Bytes of the written message


def _cut(rng: Random, value: bytes) -> bytes:
    ends = re.finditer(rb'\\u?[0-9a-fA-F]{0,4}|[\x80-\xff]|[":,{\[]', value)
    places = [len(value) - 1, len(value) - 2, 1, *(match.end() for match in ends)]
    if rng.random() < 0.5:
        return value[: rng.randint(0, len(value))]
    return value[: max(0, rng.choice(places) - rng.choice((0, 0, 1, 2, 3)))]


def _cut_within(rng: Random, value: bytes) -> bytes:
    """Truncate the message within a character, escape, number or word; sometimes close it."""
    pieces = [b"\xc3\xa4", b"\xe2\x82\xac", "\U0001f600".encode(), b"\\u00e4", b"\\ud83d\\ude00"]
    pieces += [b"\\ude00", b"\\ud83d\\u0041", b"\\ud83d\\ud83d", b"\\\\", *BROKEN_UTF8]
    piece = b'"O-' + rng.choice(pieces)
    others = (b"-12.50e+10", b"false", b"null", b"[{}]", b"NaN", b"01")
    piece = rng.choice((piece, piece, piece, *others))
    colons = [match.end() for match in re.finditer(rb":", value[:5_000])] or [len(value)]
    end = rng.choice((b"", b"", b"}", b'"}', b'" }\n', b"x", b'x"}'))
    return value[: rng.choice(colons)] + piece[: rng.randint(1, len(piece))] + end


def _before(rng: Random, value: bytes) -> bytes:
    marks = (*[b"\xef\xbb\xbf"] * 2, b" \xef\xbb\xbf", b"\xef\xbb", b"\xff\xfe", b"\0", b"\n")
    framing = (b"\0\0\0\0\x2a\x02", b")]}'\n", b"\x1e", b"\xc2\xa0", b"\v", b"\f", b"data: ", b",")
    return rng.choice((*marks, *framing, b"{}")) + value


def _after(rng: Random, value: bytes) -> bytes:
    tails = (b" xyz", b",", b"}", b"]", b"\0", b"\n\0", b"\v", b"\f", b"\xc2\xa0", b"//c", b"\n")
    tails += (b"{}", b"\x1a", b"\xef\xbb\xbf", b"\xff", b"null", b" \t\r\n ", b"\\", b'"', b"1")
    return value + rng.choice((*tails, value[:200]))


def _other_encoding(rng: Random, value: bytes) -> bytes:
    text = value.decode("utf-8", "replace")
    encodings = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-7", "cp1252")
    return text.encode(rng.choice(encodings), "replace")


def _flip_bit(rng: Random, value: bytes) -> bytes:
    if not value:
        return value
    changed = bytearray(value)
    for _ in range(rng.choice((1, 1, 2, 5))):
        changed[rng.randrange(min(5_000, len(changed)))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _insert_bytes(rng: Random, value: bytes) -> bytes:
    at = rng.randint(0, min(5_000, len(value)))
    structure = tuple(bytes((byte,)) for byte in b'{}[]":,\\ \n\t\x00\x0b\x0c\x1f\x7f0-.eE')
    inserted = rng.choice((*structure, *BROKEN_UTF8, bytes((rng.randrange(256),))))
    return value[:at] + inserted + value[at:]


def _delete_bytes(rng: Random, value: bytes) -> bytes:
    at = rng.randint(0, min(5_000, len(value)))
    return value[:at] + value[at + rng.choice((1, 1, 2, 10)) :]


def _repeat_bytes(rng: Random, value: bytes) -> bytes:
    start = rng.randint(0, min(5_000, len(value)))
    end = start + rng.choice((1, 5, 50))
    return value[:end] + value[start:end] + value[end:]


def _nothing(rng: Random, value: bytes) -> bytes | None:
    if rng.random() < 0.05:
        return b" " * int(10 ** rng.uniform(3, 6))
    short = (None, b"", b" ", b"\n\t \r", b"\0", b"\v", b"\xc2\xa0", b"{}", b"{ }", b"[]", b"{")
    short += (b"}", b"null", b'"', b'""', b"0", b"\xef\xbb\xbf", b"\xef\xbb\xbf{}", b"\xef\xbb")
    short += (b"NaN", b"[", b" {", b"{}{}", b" [", b"tru", b"-", b"\x1c", b"\xe3\x80\x80", b'{"')
    return rng.choice(short)


LEVELS: dict[str, tuple[Callable, ...]] = {
    "bytes": (
        *(_cut, _cut_within),
        lambda rng, value: value[rng.randint(0, min(40, len(value))) :],
        *(_before, _after, _other_encoding, _flip_bit, _flip_bit),
        *(_insert_bytes, _insert_bytes, _delete_bytes, _delete_bytes, _repeat_bytes, _nothing),
    ),
    "tokens": (
        _with_tokens(lambda rng, tokens: tokens.pop(rng.randrange(len(tokens)))),
        *map(_with_tokens, (_repeat_token, _replace_token, _insert_token)),
        *map(_with_tokens, (_insert_token, _replace_punctuation, _requote_token, _swap_tokens)),
        *map(_with_tokens, (_wrap, _trailing_comma)),
    ),
    "keys": (
        *(_duplicate, _nested_duplicate, _nearly_duplicate, _remove, _rename, _empty_field),
        lambda rng, draft: draft.put(rng.choice(FIELDS), _json(rng)),
        *(_odd_name, _nested_fields, _bad_name),
    ),
    "strings": (
        *(_blank, _blank, _control, _bad_escape, _bad_escape),
        *(_odd_text, _broken_utf8, _around_a_word, _long_text),
    ),
    "numbers": (
        lambda rng, draft: draft.put("amount", _number(rng)),
        *(_any_number_elsewhere, _around_a_bound, _around_a_bound, _zero),
        *(_huge_exponent, _balanced_exponent, _bad_number, _number_as_text, _bad_literal),
        _respell_the_amount,
    ),
    "times": (
        *(_fraction, _fraction, _other_form, _other_form, _impossible_time, _small_letters),
        *(_time_bound, _time_bound, _no_time, _around_a_time, _digits_of_another_script),
        *(_flipped_time, _other_date, _other_date, _day_order),
    ),
    "arrivals": (_arrival, _arrival, _early_arrival),
    "nesting": (_nest, _nest, _nest, _wide),
    "sizes": (_pad,),
}
WRITTEN_LEVELS = ("tokens", "bytes")
