"""`lab room`: opens, joins or leaves a room; also sends it the verdict of `lab doctor`."""

import ipaddress
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.client import HTTPException
from urllib.parse import urlsplit

import psutil
from pydantic import ValidationError

from lab_env.course.room.report import MAX_NAME, Report, is_code, is_name
from lab_env.course.room.seat import FILE, Membership, Refused, about, membership, send
from lab_env.platform.errors import LabError
from lab_env.platform.processes.state import (
    home,
    new_secret,
    read_state,
    update_state,
    write_private,
)
from lab_env.platform.services import Finding
from lab_env.platform.settings import settings

ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # no letter that looks like a digit
EXPOSED = (
    "Other machines can reach the room. Seats need its code and the page needs its key, but "
    "nothing is encrypted: anyone who can read this network's traffic can read both, and the "
    "reports."
)


def open_room(bind: str, new_code: bool, say: Callable[[str], None], warn: Callable[[str], None]):
    """Serve a room on an IPv4 address, by default LAB_BIND, until Ctrl-C.

    With a new code, all seats must join again. `warn` is called if other machines can reach the
    room.
    """
    from lab_env.course.room.overview import Overview
    from lab_env.course.room.server import RoomServer

    host, port = _ipv4(bind or settings().bind), settings().room_port
    code, key = kept_secrets(new_code)
    shown = [f"http://{address}:{port}" for address in _addresses(host)]
    joins = [f"lab room join {address} {code}" for address in shown]
    try:
        server = RoomServer((host, port), Overview(), code, key, joins[0])
    except OSError as error:
        raise LabError(
            f"The room cannot listen on {host}:{port}: {error.strerror}.",
            "set LAB_ROOM_PORT to a free port, or --bind to an address of this machine.",
        ) from None
    if not ipaddress.IPv4Address(host).is_loopback:
        warn(EXPOSED)
    for address, typed in zip(shown, joins, strict=True):
        say(f"The page, only for you: {address}/?key={key}")
        say(f"A seat joins with: {typed}")
    say("Ctrl-C closes the room. Its page and data are then gone; the code stays.")
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("The room is closed.")


def join(address: str, code: str, name: str, findings: Sequence[Finding]) -> tuple[int, Report]:
    """Join a room and send a first report; return the seat's number and that report."""
    address, code = _address(address), code.strip().lower()
    if not is_code(code):
        raise LabError(f"{code!r} is not a room's code.", "type it as the page shows it: abcd-2345")
    if not is_name(name):
        raise LabError(
            f"A name has at most {MAX_NAME} printable characters.", "choose a shorter one."
        )
    known = membership()
    seat = known.seat if known else secrets.token_hex(8)
    verdict, subjects = verdict_of(findings)
    joined = Membership(
        address=address,
        code=code,
        seat=seat,
        name=name,
        doctor=verdict,
        doctor_about=subjects,
    )
    report = about(joined)
    number = _send_or_say(joined, report)
    _keep(joined)
    if known and known.address != address:
        with suppress(OSError, HTTPException, Refused):  # the room joined before may be gone
            send(known, about(known, leaving=True))
    return number, report


def leave() -> bool:
    """Leave the room; return False if this lab had joined none."""
    joined = membership()
    (home() / FILE).unlink(missing_ok=True)
    if joined:
        with suppress(OSError, HTTPException, Refused):  # a closed room shows nobody
            send(joined, about(joined, leaving=True))
    return joined is not None


def tell_verdict(findings: Sequence[Finding]) -> None:
    """Send the verdict on `lab doctor`'s findings to the room, if this lab has joined one."""
    if joined := membership():
        verdict, subjects = verdict_of(findings)
        joined = joined.model_copy(update={"doctor": verdict, "doctor_about": subjects})
        # The lesson's next report repeats it.
        with suppress(OSError, HTTPException, Refused, ValidationError):
            report = about(joined)
            _keep(joined)
            send(joined, report)


def verdict_of(findings: Sequence[Finding]) -> tuple[str, tuple[str, ...]]:
    """Return the worst verdict and the subjects that have it, without paths or addresses."""
    for worst in ("fail", "warn"):
        if subjects := {finding.subject for finding in findings if finding.verdict == worst}:
            return worst, tuple(sorted(subjects))
    return "ok", ()


def _keep(joined: Membership) -> None:
    write_private(home() / FILE, joined.model_dump_json(indent=1) + "\n")


def _send_or_say(joined: Membership, report: Report) -> int:
    try:
        return send(joined, report)
    except Refused as refused:
        why = {403: "does not accept this code", 503: "is full"}
        said = why.get(refused.status, f"refuses the report (HTTP {refused.status})")
        raise LabError(
            f"The room {said}.", "ask the instructor for the address and code."
        ) from None
    except (OSError, HTTPException) as error:
        raise LabError(
            f"No room answers at {joined.address}: {error}.",
            "check the address; the instructor runs `lab room` with --bind.",
        ) from None


def kept_secrets(new: bool) -> tuple[str, str]:
    """Return the room's code and key, which are stored so that seats need not join again."""
    known = read_state().get("room", {})
    if new or not {"code", "key"} <= known.keys():
        letters = "".join(secrets.choice(ALPHABET) for _ in range(8))
        update_state("room", code=f"{letters[:4]}-{letters[4:]}", key=new_secret())
        known = read_state()["room"]
    return known["code"], known["key"]


def _ipv4(address: str) -> str:
    try:
        return str(ipaddress.IPv4Address(address))
    except ValueError:
        raise LabError(
            f"{address!r} is not an IPv4 address.",
            "use --bind 0.0.0.0 for all networks of this machine.",
        ) from None


def _addresses(host: str) -> list[str]:
    """Return the addresses at which seats reach the server; for 0.0.0.0, this machine's."""
    if host != "0.0.0.0":
        return [host]
    found = (
        part.address
        for parts in psutil.net_if_addrs().values()
        for part in parts
        if part.family.name == "AF_INET"
    )
    outside = [address for address in found if not ipaddress.IPv4Address(address).is_loopback]
    route = _address_of_route()
    return sorted(outside, key=lambda address: (address != route, address)) or ["127.0.0.1"]


def _address_of_route() -> str:
    """Return this machine's address on its default route, or empty text; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]
    return ""


def _address(text: str) -> str:
    try:
        parts = urlsplit(text.strip().rstrip("/"))
        usable = parts.scheme == "http" and parts.hostname and parts.port
    except ValueError:
        usable = False
    if not usable or parts.path or parts.query or parts.fragment or parts.username:
        raise LabError(
            f"{text!r} is not a room's address.",
            "type it as the page shows it: http://192.168.1.7:8790",
        )
    return f"http://{parts.netloc}"
