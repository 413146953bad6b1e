"""A seat's client: sends the results of a lesson's checks and heartbeats to the room.

A background thread does the sending, so an unreachable room does not slow the lesson down: the
thread gives up after one second, and the learner sees one line.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPConnection, HTTPException
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from lab_env.course.room.messages import error_name, message_id
from lab_env.course.room.report import BEAT_S, Report
from lab_env.platform.errors import LabError
from lab_env.platform.settings import settings

TIMEOUT_S = 1.0
FILE = "room.json"  # in LAB_HOME; removing the file ends the membership
DOCTOR = (sys.executable, "-I", "-m", "lab_env.cli", "doctor")
DOCTOR_EVERY_S = 60.0


class Membership(BaseModel):
    """A seat's membership of a room, as stored in `room.json`; `address` is the room's URL."""

    model_config = ConfigDict(frozen=True)

    address: str
    code: str
    seat: str
    name: str = ""
    doctor: str = ""
    doctor_about: tuple[str, ...] = ()


class Refused(Exception):
    """The room responded, but rejected the report with this HTTP status."""

    def __init__(self, status: int):
        super().__init__(f"HTTP status {status}")
        self.status = status


def membership() -> Membership | None:
    """Return this lab's membership of a room; None if there is none or the file is damaged."""
    try:
        return Membership.model_validate_json((settings().home / FILE).read_bytes())
    except (OSError, LabError, ValidationError):
        return None


def about(joined: Membership, **activity: Any) -> Report:
    """Build a seat's report; `activity` has those fields of `Report` that concern the lesson."""
    who = joined.model_dump(include={"seat", "name", "doctor", "doctor_about"})
    return Report(**who, **activity)


def send(joined: Membership, report: Report) -> int:
    """Send a report and return the seat's number in the room.

    Raises OSError if the room cannot be reached within a second, HTTPException if the server is
    not a room, and Refused if the code is wrong or the room is full.
    """
    place = urlsplit(joined.address)
    # Direct to the room: no proxy or redirect may get the report.
    connection = HTTPConnection(place.hostname or "", place.port, timeout=TIMEOUT_S)
    try:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {joined.code}"}
        connection.request("POST", "/seats", report.model_dump_json().encode(), headers)
        answer = connection.getresponse()
        content = answer.read(200)
    finally:
        connection.close()
    if answer.status != 200:
        raise Refused(answer.status)
    try:
        return int(json.loads(content)["number"])
    except (ValueError, TypeError, KeyError):
        raise HTTPException("the server there is not a room") from None


@dataclass(frozen=True)
class Activity:
    """The last activity in this process's lesson; `text`, shown to the learner, is never sent."""

    at: float
    lesson: str = ""
    exercise: str = ""
    outcome: str = ""
    attempts: int = 0
    text: str = ""

    @cached_property
    def _message(self) -> str:
        return message_id(self.lesson, self.text) if self.outcome == "not yet" else ""

    def fields(self) -> dict[str, Any]:
        """Return this activity as fields of `Report`."""
        failed = self.outcome == "error in your code"
        return {
            "lesson": self.lesson,
            "exercise": self.exercise,
            "outcome": self.outcome,
            "attempts": min(self.attempts, 9999),
            "message": self._message,
            "error": error_name(self.text) if failed else "",
            "idle_seconds": round(time.monotonic() - self.at, 1),
        }


class Seat:
    """Reports this process's activity to a room; `joined` returns the membership, if any."""

    def __init__(self, joined: Callable[[], Membership | None] = membership):
        self._joined = joined
        self._activity = Activity(time.monotonic())
        self._lock = Lock()
        self._wake = Event()
        self._thread: Thread | None = None
        self._lost = self._told = False
        self._doctor: subprocess.Popen | None = None
        self._needs_doctor = False
        self._examined_at = -DOCTOR_EVERY_S

    @contextmanager
    def entering(self, lesson: str) -> Generator[None]:
        """Report whether the lesson started in the body; demos report only a failure to start."""
        try:
            yield
        except LabError:
            self.trouble(lesson)
            raise
        joined = self._joined()
        if joined and lesson.isdigit():
            print(f"This seat reports to the room {joined.address}; to stop: lab room leave")
            self._report(Activity(time.monotonic(), lesson))

    def checked(self, exercise: str, outcome: str, attempts: int, text: str = "") -> None:
        """Report a check's result in the background; of `text`, only the message's id is sent."""
        if outcome != "not attempted" and self._joined():
            now = time.monotonic()
            self._report(Activity(now, exercise[:2], exercise, outcome, attempts, text))

    def trouble(self, place: str) -> None:
        """Report that the lab itself failed at an exercise or lesson, and start `lab doctor`."""
        lesson, dot, _ = place.partition(".")
        if lesson.isdigit() and self._joined():
            exercise = place if dot else ""
            self._needs_doctor = True
            self._report(Activity(time.monotonic(), lesson, exercise, "lab in trouble"))

    def _report(self, activity: Activity) -> None:
        with self._lock:
            self._activity = activity
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._keep_reporting, name="room", daemon=True)
                self._thread.start()
        self._wake.set()
        if self._lost and not self._told:
            self._told = True
            print("The room does not answer. The lesson continues without it.")

    def _keep_reporting(self) -> None:
        while True:
            self._wake.wait(BEAT_S)
            self._wake.clear()
            joined = self._joined()
            if joined is None:
                return
            try:
                send(joined, about(joined, **self._activity.fields()))
                self._lost = False
                self._call_doctor()
            except Exception:  # no failure here may reach the lesson
                self._lost = True

    def _call_doctor(self) -> None:
        """If needed, start `lab doctor`, which reports to the room; at most once a minute."""
        if self._doctor:
            self._doctor.poll()  # so that it does not stay as a zombie
        if self._needs_doctor and time.monotonic() - self._examined_at >= DOCTOR_EVERY_S:
            self._needs_doctor, self._examined_at = False, time.monotonic()
            nowhere = subprocess.DEVNULL
            self._doctor = subprocess.Popen(DOCTOR, stdin=nowhere, stdout=nowhere, stderr=nowhere)


SEAT = Seat()
