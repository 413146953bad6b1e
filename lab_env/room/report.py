"""What a seat sends to the room: one small JSON object, the same at each check and heartbeat.

Every field is a number, an id or a word of a fixed list, except the name that the learner gave. The
room refuses any other field, so an answer has no place to be in.
"""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

MAX_BODY_BYTES = 2048
MAX_NAME = 40
BEAT_S = 3.0  # from one heartbeat of a seat to the next
SILENT_AFTER_S = 10.0  # three heartbeats lost: the kernel, the machine or the network is gone

Word = Annotated[str, Field(pattern=r"^[a-z][a-z_-]{0,19}$")]


class Report(BaseModel):
    """The whole of what a seat reports.

    Args:
        seat: a random id, made when the seat joined.
        name: what the learner gave with `--name`; empty otherwise.
        doctor: the worst verdict of `lab doctor`; empty if it has not run.
        doctor_about: what that verdict is about, for example `java`, `ports`: never the finding.
        lesson: two digits; empty while no lesson runs.
        exercise: id of the exercise that was checked last; empty before the first check.
        outcome: what that check found; `lab in trouble` if a server of the lab failed.
        attempts: how often this exercise was attempted.
        message: which of the check's messages was shown, as an id (`lab_env.room.messages`).
        error: the exception's name if the learner's code raised a well-known one.
        idle_seconds: since the last check, or since the lesson's start.
        leaving: the seat leaves the room.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    seat: str = Field(pattern=r"^[0-9a-f]{16}$")
    name: str = Field("", max_length=MAX_NAME)
    doctor: Literal["", "ok", "warn", "fail"] = ""
    doctor_about: tuple[Word, ...] = Field((), max_length=30)
    # Not \d, which takes the digits of every script.
    lesson: str = Field("", pattern=r"^([0-9]{2})?$")
    exercise: str = Field("", pattern=r"^([0-9]{2}\.[0-9])?$")
    outcome: Literal["", "passed", "not yet", "error in your code", "lab in trouble"] = ""
    attempts: int = Field(0, ge=0, le=9999)
    message: str = Field("", pattern=r"^([0-9a-f]{10})?$")
    error: str = Field("", pattern=r"^([A-Za-z0-9]{1,40})?$")
    idle_seconds: float = Field(0, ge=0, le=1e7, allow_inf_nan=False)
    leaving: bool = False

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        # Neither line breaks nor the marks that turn the direction of the text around them.
        if not name.isprintable():
            raise ValueError("a name has printable characters only")
        return name


def parse_report(body: bytes) -> Report | None:
    """The report in a request's body; None if it is anything else."""
    try:
        return Report.model_validate_json(body)
    except ValidationError:
        return None


def is_name(text: str) -> bool:
    """Whether the room takes this name."""
    return len(text) <= MAX_NAME and text.isprintable()


def is_code(text: str) -> bool:
    """Whether the text looks like a room's code."""
    return bool(re.fullmatch(r"[a-z0-9]{4}-[a-z0-9]{4}", text))
