"""A lab room accepts only reports; a report contains no answer and never delays a check."""

import json
import re
import socket
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from threading import Thread

import pytest
from fakes import Clock
from own_lab import allowed, wait_until

from lab_env.course.answers import Unreadable, as_number
from lab_env.course.exercises import Exercises
from lab_env.course.room import command, seat
from lab_env.course.room.messages import error_name, message_id, message_text
from lab_env.course.room.overview import MAX_SEATS, Overview, RoomFull
from lab_env.course.room.report import BEAT_S, MAX_BODY_BYTES, SILENT_AFTER_S, Report, parse_report
from lab_env.course.room.seat import Membership, Seat
from lab_env.course.room.server import REFRESH_S, RoomServer, page
from lab_env.platform.errors import LabError
from lab_env.platform.services import Finding
from lab_env.platform.settings import REPOSITORY

CODE, KEY = "abcd-2345", "the-key-of-the-page"
SEAT = "0123456789abcdef"
STUCK = {"lesson": "04", "exercise": "04.1", "outcome": "not yet", "attempts": 3}


class Recording(Overview):
    """An `Overview` that stores the reports it receives."""

    def __init__(self):
        super().__init__()
        self.received: list[Report] = []

    def receive(self, report: Report) -> int:
        self.received.append(report)
        return super().receive(report)


@contextmanager
def open_room(overview: Overview):
    with RoomServer(("127.0.0.1", 0), overview, CODE, KEY) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def room():
    overview = Recording()
    with open_room(overview) as port:
        yield overview, port


def ask(port: int, method: str, path: str, body: bytes | None = None, **headers) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def post(port: int, body: bytes, code: str = CODE, **headers) -> int:
    return ask(port, "POST", "/seats", body, Authorization=f"Bearer {code}", **headers)[0]


def report(**fields) -> bytes:
    return json.dumps({"seat": SEAT} | fields).encode()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, report(**STUCK)),
        (400, report(answer="my answer")),  # a field that no report has
        (400, report(seat="../../etc")),
        (400, report(lesson="٠٤")),  # digits, but of another script
        (400, report(outcome="<b>not yet</b>")),
        (400, report(message="You say 3.")),  # text in the place of an id
        (400, report(doctor_about=["/home/alice"])),
        (400, report(name="x" * 41)),
        (400, report(name="a\nb")),
        (400, report(name="\u202egnorw")),  # would turn the direction of the page's text
        (400, report(attempts="3")),
        (400, report(attempts=10**9)),
        (400, report(idle_seconds=-1)),
        (400, b'{"seat": "%s", "idle_seconds": NaN}' % SEAT.encode()),
        (400, b"[]"),
        (400, b"\xff\xfe"),
        (400, b""),
        (413, report(name="x" * MAX_BODY_BYTES)),
    ],
    ids=lambda value: str(value)[:70],
)
def test_the_room_takes_reports_and_nothing_else(room, status, body):
    overview, port = room
    before = len(overview.received)
    assert post(port, body) == status
    assert len(overview.received) - before == (status == 200)


@pytest.mark.parametrize("code", ["", "abcd-2346", KEY, "é"])
def test_a_report_needs_the_rooms_code(room, code):
    overview, port = room
    before = len(overview.received)
    assert post(port, report(), code.encode().decode("latin-1")) == 403
    assert len(overview.received) == before


def test_a_body_of_no_known_length_is_not_read(room):
    _, port = room
    assert post(port, report(), **{"Content-Length": "many"}) == 411
    # The answer comes before a body that is announced too long, and never sent.
    assert post(port, b"", **{"Content-Length": str(10**30)}) == 413
    assert post(port, b"", **{"Content-Length": "0" * 9 + str(10**9)}) == 413


@pytest.mark.parametrize("query", ["", "?key=", f"?key={CODE}", f"?key={KEY}x", "?key=%ff"])
def test_the_page_needs_a_key_of_its_own(room, query):
    assert ask(room[1], "GET", f"/{query}")[0] == 403
    assert ask(room[1], "GET", f"/?key={KEY}")[0] == 200


@pytest.fixture
def joined(home, monkeypatch):
    """Join a room through the file in LAB_HOME; yield the room's `Overview`."""
    overview = Recording()
    with open_room(overview) as port:
        home.mkdir()
        member = Membership(address=f"http://127.0.0.1:{port}", code=CODE, seat=SEAT, doctor="ok")
        (home / seat.FILE).write_text(member.model_dump_json())
        here = [True]  # the seat's thread outlives the test, but reports nothing then
        own = Seat(lambda: seat.membership() if here else None)
        overview.own = own
        yield overview
        here.clear()


def test_a_check_sends_no_value_that_the_learner_typed(joined):
    outcome = Exercises(lab=None, watcher=joined.own).check(
        "02.4", lambda events, size, readers: 5817
    )
    assert "you pay for 5817" in outcome.text
    wait_until(lambda: joined.received, seconds=10, every=0.02)
    (sent,) = joined.received
    assert (sent.exercise, sent.outcome, sent.attempts) == ("02.4", "not yet", 1)
    assert "5817" not in sent.model_dump_json()
    shown = message_text("02", sent.message)
    assert shown == "…, read by …, fit into fewer shards; you pay for …."


def test_an_exception_sends_its_name_and_neither_its_text_nor_the_code(joined):
    def shards(events, size, readers):
        return {"needed": 1}["my_own_key"]

    Exercises(lab=None, watcher=joined.own).check("02.4", shards)
    wait_until(lambda: joined.received, seconds=10, every=0.02)
    (sent,) = joined.received
    assert (sent.outcome, sent.error, sent.message) == ("error in your code", "KeyError", "")
    assert "my_own_key" not in sent.model_dump_json()


def test_trouble_of_the_lab_is_reported_and_the_doctor_is_called_once(
    joined, monkeypatch, tmp_path
):
    called = tmp_path / "called"
    monkeypatch.setattr(seat, "DOCTOR", ("sh", "-c", f"echo x >> '{called}'"))
    monkeypatch.setattr(seat, "BEAT_S", 0.05)
    exercises = Exercises(
        None, checks=lambda number: {}, watcher=joined.own
    )  # so that the lab raises its error
    for _ in range(2):
        with pytest.raises(LabError, match="no check"):
            exercises.check("02.4", 1)
    # Each report asks whether the doctor is needed.
    wait_until(lambda: len(joined.received) > 3 and called.exists() and called.read_text())
    assert joined.received[-1].outcome == "lab in trouble"
    assert called.read_text() == "x\n"


def test_a_lesson_that_cannot_start_is_reported_and_a_demo_is_not(joined, monkeypatch, capsys):
    monkeypatch.setattr(seat, "DOCTOR", ("true",))
    own = joined.own
    for lesson in ("demo-cdc", "07"):
        with pytest.raises(LabError), own.entering(lesson):
            raise LabError("The services are not running.")
    wait_until(lambda: joined.received, seconds=10, every=0.02)
    assert [(sent.lesson, sent.outcome) for sent in joined.received] == [("07", "lab in trouble")]
    assert ("07", 1) in joined.stuck_at()
    with own.entering("07"):
        pass
    assert "lab room leave" in capsys.readouterr().out
    wait_until(lambda: len(joined.received) > 1, seconds=10, every=0.02)
    assert ("07", 1) not in joined.stuck_at()


def test_who_left_sends_nothing(joined, home):
    (home / seat.FILE).unlink()
    Exercises(lab=None, watcher=joined.own).check("02.4", lambda events, size, readers: 5817)
    assert joined.own._thread is None and joined.received == []


def test_a_room_that_never_answers_costs_a_check_no_time_and_is_named_once(capsys):
    with socket.create_server(("127.0.0.1", 0)) as mute:  # it accepts, and says nothing
        address = f"http://127.0.0.1:{mute.getsockname()[1]}"
        member = Membership(address=address, code=CODE, seat=SEAT)
        members = [member]
        own = Seat(lambda: members[0] if members else None)
        slowest = 0.0
        for attempt in range(3):
            started = time.monotonic()
            own.checked("04.1", "not yet", attempt, "You say 3.")
            slowest = max(slowest, time.monotonic() - started)
            wait_until(lambda: own._lost, seconds=10, every=0.02)
        members.clear()
    assert slowest < allowed(0.5)
    assert capsys.readouterr().out.count("The room does not answer.") == 1


def test_the_guide_names_every_field_that_is_sent():
    guide = (REPOSITORY / "docs" / "instructors.md").read_text(encoding="utf-8")
    shown = re.search(r"```json\n(.*?)```", guide, re.DOTALL)[1]
    assert list(json.loads(shown)) == list(Report.model_fields)
    assert parse_report(shown.encode())
    named = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", guide, re.MULTILINE)))
    assert set(Report.model_fields) <= set(named)
    words = " ".join(guide.split())
    assert f"every {BEAT_S:g} seconds while" in words and f"every {REFRESH_S} seconds and" in words
    assert re.search(rf"for {SILENT_AFTER_S:g} seconds[^.]* \*silent\*", words)


@pytest.mark.parametrize(
    ("lesson", "typed"),
    [("05", "'O-17; DROP TABLE'"), ("11", "'s3://my-own-bucket'"), ("20", "{}")],
)
def test_a_message_is_known_by_its_template(lesson, typed):
    with pytest.raises(Unreadable) as unreadable:
        as_number(typed)
    assert typed in str(unreadable.value)
    found = message_text(lesson, message_id(lesson, str(unreadable.value)))
    assert found == "A number is expected, not …."


def test_what_is_no_message_of_the_lesson_has_no_id():
    assert message_id("04", "The learner's own text, as long as you like.") == ""
    assert message_text("04", "0123456789") == message_text("../../", "0123456789") == ""
    assert error_name("AnalysisException: no column x.") == "AnalysisException"
    assert error_name("MySecretError: 5.") == ""


@pytest.fixture
def overview():
    return Overview(Clock())


def seat_id(number: int) -> str:
    return f"{number:016x}"


def test_who_is_stuck_longest_comes_first(overview):
    def checked(number: int, at: float, **fields) -> None:
        overview._clock.now = at
        overview.receive(Report(seat=seat_id(number), name=f"s{number}", **(STUCK | fields)))

    checked(1, 0, outcome="passed")
    checked(2, 60)
    checked(3, 30, exercise="04.2")
    checked(3, 120, exercise="04.2", attempts=4)  # tried again: stuck since its first attempt
    checked(4, 150)
    checked(4, 180, outcome="passed")
    rows = overview.rows()
    assert [row.label for row in rows] == ["s3", "s2", "s1", "s4"]
    assert [row.stuck for row in rows] == ["2 min", "2 min", "", ""]
    assert rows[0].where == "04.2 " + overview._titles["04.2"] and rows[0].attempts == "4"
    assert overview.stuck_at() == [("04.1", 1), ("04.2", 1)]


def test_of_two_notebooks_of_a_seat_the_one_used_last_counts(overview):
    overview._clock.now = 100
    overview.receive(Report(seat=SEAT, **STUCK, idle_seconds=5))
    overview.receive(Report(seat=SEAT, lesson="03", idle_seconds=90))
    overview.receive(Report(seat=SEAT, doctor="fail", doctor_about=("java",)))  # from the shell
    (row,) = overview.rows()
    assert row.where.startswith("04.1") and row.doctor == "FAIL: java" and not row.healthy


def test_a_seat_that_is_not_heard_of_is_silent_and_one_that_left_is_gone(overview):
    overview.receive(Report(seat=seat_id(1), **STUCK))
    overview._clock.now = SILENT_AFTER_S + 1
    overview.receive(Report(seat=seat_id(2), **STUCK))
    assert [row.silent for row in overview.rows()] == [True, False]
    overview.receive(Report(seat=seat_id(2), leaving=True))
    assert [row.label for row in overview.rows()] == ["seat 1"]


def test_a_full_room_takes_no_new_seat(overview):
    for number in range(MAX_SEATS):
        overview.receive(Report(seat=seat_id(number)))
    with pytest.raises(RoomFull):
        overview.receive(Report(seat=SEAT))
    assert overview.receive(Report(seat=seat_id(7), **STUCK)) == 8


def test_the_page_has_no_seats_id_which_is_what_a_seat_reports_by(overview):
    overview.receive(Report(seat=SEAT, **STUCK))
    assert SEAT not in page(overview, join="")


def test_joining_sends_the_doctors_verdict_without_its_facts(home, room):
    _, port = room
    fact = f"{home}/jars/a.jar is damaged"
    findings = [Finding("python", "ok", "3.11"), Finding("jars", "fail", fact, "run: x")]
    number, sent = command.join(f"http://127.0.0.1:{port}/", CODE.upper(), "Ada", findings)
    assert number >= 1 and (sent.name, sent.doctor, sent.doctor_about) == ("Ada", "fail", ("jars",))
    assert str(home) not in sent.model_dump_json()
    assert (home / seat.FILE).stat().st_mode & 0o777 == 0o600
    command.tell_verdict([Finding("python", "ok", "3.11")])
    assert seat.membership().doctor == "ok"
    assert command.leave() and seat.membership() is None and not command.leave()


@pytest.mark.parametrize(
    ("address", "code", "name", "says"),
    [
        ("http://127.0.0.1:{port}", "zzzz-2222", "", "does not accept this code"),
        ("http://127.0.0.1:{port}", "guess", "", "not a room's code"),
        ("http://127.0.0.1:{port}", CODE, "x" * 41, "at most 40"),
        ("http://127.0.0.1:1", CODE, "", "No room answers"),
        ("https://127.0.0.1:{port}", CODE, "", "not a room's address"),
        ("127.0.0.1:{port}", CODE, "", "not a room's address"),
        ("http://h:{port}x", CODE, "", "not a room's address"),
    ],
)
def test_a_room_that_does_not_take_the_seat_is_not_joined(home, room, address, code, name, says):
    with pytest.raises(LabError, match=says):
        command.join(address.format(port=room[1]), code, name, [])
    assert seat.membership() is None


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_room_that_other_machines_reach_warns(home, monkeypatch, address):
    monkeypatch.setattr(RoomServer, "__init__", lambda self, *given: None)
    monkeypatch.setattr(RoomServer, "server_close", lambda self: None)
    monkeypatch.setattr(RoomServer, "serve_forever", lambda self: None)
    said, warned = [], []
    command.open_room(address, False, said.append, warned.append)
    command.open_room(address, False, said.append, warned.append)
    assert warned == ([] if address == "127.0.0.1" else [command.EXPOSED] * 2)
    assert said[: len(said) // 2] == said[len(said) // 2 :]  # the code stays
