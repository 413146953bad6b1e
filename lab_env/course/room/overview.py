"""The room's data about its seats, held in memory until the room closes."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock

from lab_env.course import registry
from lab_env.course.room.messages import message_text
from lab_env.course.room.report import SILENT_AFTER_S, Report

MAX_SEATS = 200
SLACK_S = 1.0  # two reports of one activity differ by their travel time
VERDICT_WORDS = {"ok": "ok", "warn": "warns of", "fail": "FAIL:"}


class RoomFull(Exception):
    """The room accepts no more seats."""


@dataclass
class SeatState:
    """A seat's latest report and activity; times are in seconds on the overview's clock.

    `failing` has the time of the first failure, by exercise, or by lesson if it failed to start.
    """

    number: int
    report: Report
    heard: float
    active: float
    failing: dict[str, float] = field(default_factory=dict)

    @property
    def stuck_since(self) -> float | None:
        """The time when the last checked exercise first failed; None if it has since passed."""
        return self.failing.get(_place(self.report))


@dataclass(frozen=True)
class Row:
    """One seat's row on the page, as text; the page must escape every field."""

    label: str
    where: str
    attempts: str
    outcome: str
    stuck: str
    message: str
    doctor: str
    healthy: bool
    heard: str
    silent: bool


class Overview:
    """All seats of a room; `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._seats: dict[str, SeatState] = {}
        self._lock = Lock()
        self._came = 0
        self._titles = {
            exercise.id: exercise.title
            for lesson in registry.lessons().values()
            for exercise in lesson.exercises
        }

    def receive(self, report: Report) -> int:
        """Store a report and return the seat's number; raise RoomFull if the room is full."""
        now = self._clock()
        with self._lock:
            if report.leaving:
                left = self._seats.pop(report.seat, None)
                return left.number if left else 0
            seat = self._seats.get(report.seat) or self._new_seat(report, now)
            seat.heard = now
            active = now - report.idle_seconds
            # A seat may have two notebooks open: the last one used counts. Reports from the shell
            # (`lab room join`, `lab doctor`) name no lesson.
            if report.lesson and active >= seat.active - SLACK_S:
                _take_activity(seat, report, active)
            else:
                fresh = {"name", "doctor", "doctor_about"}
                changed = {name: getattr(report, name) for name in fresh}
                seat.report = seat.report.model_copy(update=changed)
            return seat.number

    def _new_seat(self, report: Report, now: float) -> SeatState:
        if len(self._seats) >= MAX_SEATS:
            longest = min(self._seats.values(), key=lambda seat: seat.heard)
            if now - longest.heard <= SILENT_AFTER_S:
                raise RoomFull
            del self._seats[longest.report.seat]
        self._came += 1
        who = report.model_copy(update={"lesson": "", "exercise": "", "outcome": ""})
        self._seats[report.seat] = SeatState(self._came, who, heard=now, active=-math.inf)
        return self._seats[report.seat]

    def rows(self) -> list[Row]:
        """Return all seats: the longest stuck first, then the others, longest idle first."""
        now = self._clock()
        with self._lock:
            seats = [replace(s, failing=dict(s.failing)) for s in self._seats.values()]
        # Outside the lock: a lesson's first message takes long, and seats wait only one second.
        return [self._row(seat, now) for seat in sorted(seats, key=_order)]

    def stuck_at(self) -> list[tuple[str, int]]:
        """Return the number of stuck seats per exercise, highest first."""
        counts: dict[str, int] = {}
        with self._lock:
            for seat in self._seats.values():
                if seat.stuck_since is not None:
                    place = _place(seat.report)
                    counts[place] = counts.get(place, 0) + 1
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))

    def _row(self, seat: SeatState, now: float) -> Row:
        report, since = seat.report, seat.stuck_since
        return Row(
            label=report.name or f"seat {seat.number}",
            where=self._where(report),
            attempts=str(report.attempts) if report.exercise else "",
            outcome=report.outcome,
            stuck="" if since is None else duration(now - since),
            message=report.error or message_text(report.lesson, report.message),
            doctor=_verdict(report) or "not run",
            healthy=report.doctor != "fail",
            heard=f"{duration(now - seat.heard)} ago",
            silent=now - seat.heard > SILENT_AFTER_S,
        )

    def _where(self, report: Report) -> str:
        if report.exercise:
            return f"{report.exercise} {self._titles.get(report.exercise, '')}".strip()
        return f"lesson {report.lesson}" if report.lesson else "no lesson yet"


def duration(seconds: float) -> str:
    """Format a time span: `40 s`, `12 min`, `1 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(int(seconds) // 60, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def _take_activity(seat: SeatState, report: Report, active: float) -> None:
    seat.report, seat.active = report, active
    if report.outcome in ("", "passed"):
        seat.failing.pop(_place(report), None)
    else:
        seat.failing.setdefault(_place(report), active)


def _verdict(report: Report) -> str:
    subjects = ", ".join(report.doctor_about)
    return f"{VERDICT_WORDS.get(report.doctor, '')} {subjects}".strip()


def _place(report: Report) -> str:
    return report.exercise or report.lesson


def _order(seat: SeatState) -> tuple[bool, float]:
    since = seat.stuck_since
    return since is None, seat.active if since is None else since
