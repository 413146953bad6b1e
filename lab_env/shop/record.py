"""Generate the files in `data/`: customers and the recorded order stream, from fixed seeds.

Run `python -m lab_env.shop.record` to generate both again; a test checks that they do not change.
"""

import base64
import csv
import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from random import Random

import orjson

from lab_env.shop.model import DATA, Send, generate

CUSTOMERS = DATA / "customers.csv"
RECORDING = DATA / "orders.jsonl.gz"
SEED = 20260105
SENDS = 10_000
# All shares are given: the recording must not depend on anyone's settings.
SHARES = {
    "update": 0.30,
    "cancel": 0.03,
    "erase": 0.01,
    "late": 0.03,
    "duplicate": 0.02,
    "malformed": 0.01,
    "lateness_seconds": 5.0,
}

GIVEN_NAMES = """
Ada Amara Anna Ben Carla Chen Clara Dana David Elif Emil Eva Farid Finn Grace Hana Ida Ines Ivan
Jana Jonas Kofi Lara Leo Lina Luca Maja Marta Mei Milan Nadia Nils Noor Olga Omar Paul Petra Rafael
Rosa Sami Sara Sven Tara Tom Uma Vera Yara Yusuf Zoe Zora
"""
FAMILY_NAMES = """
Abe Adler Bakker Berg Costa Demir Diaz Eriksen Fischer Garcia Haas Horvat Ito Jansen Kaya Keller
Kim Kovacs Lang Larsen Lopez Maier Marin Mensah Moreau Nagy Novak Okafor Olsen Park Patel Peters
Reyes Rossi Sato Silva Singh Soto Torres Vidal Wagner Wang Weber Wolf Yilmaz
"""
PLACES = (
    ("Amsterdam", "NL"),
    ("Barcelona", "ES"),
    ("Berlin", "DE"),
    ("Copenhagen", "DK"),
    ("Ghent", "BE"),
    ("Graz", "AT"),
    ("Lisbon", "PT"),
    ("Lyon", "FR"),
    ("Munich", "DE"),
    ("Prague", "CZ"),
    ("Turin", "IT"),
    ("Zagreb", "HR"),
)


def customers_csv(n: int = 500) -> str:
    """Make the text of `customers.csv`: invented customers, with id, name, city and country."""
    rng = Random(SEED)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["customer_id", "name", "city", "country"])
    for number in range(1, n + 1):
        name = f"{_any(GIVEN_NAMES.split(), rng)} {_any(FAMILY_NAMES.split(), rng)}"
        writer.writerow([f"c-{number:04d}", name, *_any(PLACES, rng)])
    return text.getvalue()


def recorded_sends() -> Iterator[Send]:
    """Generate the sends of the recording: about an hour around midnight."""
    return generate(
        SENDS, SEED, rate=SENDS / 3600, start="2026-01-05T23:30:00Z", worker_id="rec", **SHARES
    )


def to_line(send: Send) -> bytes:
    """Format a send as one line of the recording; a value that is not UTF-8 becomes base64."""
    fields = {
        "send_id": send.send_id,
        "event_id": send.event_id,
        "order_id": send.order_id,
        "op": send.op,
        "order_ts": send.order_ts,
        "kind": send.kind,
        "at": send.at,
    }
    try:
        fields["value"] = send.value.decode()
    except UnicodeDecodeError:
        fields["value_base64"] = base64.b64encode(send.value).decode()
    return orjson.dumps(fields) + b"\n"


def from_line(line: bytes) -> Send:
    """Parse a line that `to_line` made."""
    fields = orjson.loads(line)
    encoded = fields.pop("value_base64", None)
    value = base64.b64decode(encoded) if encoded else fields.pop("value").encode()
    return Send(**fields, value=value, key=fields["order_id"])


def recording(path: Path = RECORDING) -> Iterator[Send]:
    """Yield the recorded stream, in the order of sending."""
    with gzip.open(path, "rb") as file:
        yield from map(from_line, file)


def write() -> None:
    """Write both files of `data/` that this module generates."""
    CUSTOMERS.write_text(customers_csv(), encoding="utf-8")
    with open(RECORDING, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.writelines(map(to_line, recorded_sends()))


def _any(options, rng: Random):
    return options[int(rng.random() * len(options))]


if __name__ == "__main__":
    write()
    print(
        f"{CUSTOMERS.name} and {RECORDING.name} ({RECORDING.stat().st_size / 1024:.0f} KiB) made."
    )
