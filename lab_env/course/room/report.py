"""A seat's report to the room: a small JSON object, with the same fields for checks and heartbeats.

Every field is a number, an id or a word from a fixed list, except the name that the learner gave.
The room rejects all other fields, so an answer cannot be sent.
"""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

MAX_BODY_BYTES = 2048
MAX_NAME = 40
BEAT_S = 3.0  # between two heartbeats of a seat
SILENT_AFTER_S = 10.0  # three missed heartbeats: kernel, machine or network is gone

Word = Annotated[str, Field(pattern=r"^[a-z][a-z_-]{0,19}$")]


class Report(BaseModel):
    """All data that a seat sends.

    `doctor` is the verdict of `lab doctor`; `doctor_about` names its subjects, never details.
    `message` is the id of the check's message (`lab_env.course.room.messages`), and `error` the
    name of a well-known exception raised by the learner's code.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    seat: str = Field(pattern=r"^[0-9a-f]{16}$")
    name: str = Field("", max_length=MAX_NAME)
    doctor: Literal["", "ok", "warn", "fail"] = ""
    doctor_about: tuple[Word, ...] = Field((), max_length=30)
    # Not \d, which matches digits of every script.
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
        # No line breaks or characters that change the text direction.
        if not name.isprintable():
            raise ValueError("a name may contain printable characters only")
        return name


def parse_report(body: bytes) -> Report | None:
    """Parse a request's body; return None if it is not a valid report."""
    try:
        return Report.model_validate_json(body)
    except ValidationError:
        return None


def is_name(text: str) -> bool:
    return len(text) <= MAX_NAME and text.isprintable()


def is_code(text: str) -> bool:
    """True if the text has the form of a room's code."""
    return bool(re.fullmatch(r"[a-z0-9]{4}-[a-z0-9]{4}", text))
