"""Lesson 18's colleague: outcomes of its writes, and errors if it is missing or was killed."""

from queue import Empty
from types import SimpleNamespace

import pytest

from lab_env.lessons.l18.colleague import (
    COLLEAGUE,
    COMMITTED,
    Colleague,
    Running,
    WriteFailed,
    attempt,
    why_failed,
)
from lab_env.platform.errors import LabError


def test_without_a_colleague_the_error_says_where_to_begin():
    with pytest.raises(LabError) as error:
        Colleague.of(SimpleNamespace(namespace="lesson-18"))
    assert "first cell" in error.value.next_step


def colleague_who(is_alive: bool, messages=()) -> Colleague:
    """Return a colleague without a kernel, whose notebook answers with these messages."""
    mara, said = Colleague.__new__(Colleague), iter(messages)
    mara._manager = SimpleNamespace(is_alive=lambda: is_alive)
    mara._last = "code"

    def next_message(timeout):
        for message in said:
            return message
        raise Empty

    mara._client = SimpleNamespace(
        execute=lambda code, store_history: "code", get_iopub_msg=next_message
    )
    mara._start = Running(COLLEAGUE, 1.0, ended=2.0, outcome=COMMITTED)
    return mara


def message(kind: str, **content) -> dict:
    return {"parent_header": {"msg_id": "code"}, "msg_type": kind, "content": content}


def test_after_a_colleague_was_killed_the_error_says_how_to_start_another():
    with pytest.raises(LabError, match="has ended") as error:
        colleague_who(is_alive=False).run("1 + 1")
    assert "colleague = Colleague(lab)" in error.value.next_step


def test_what_her_write_failed_with_is_part_of_the_error():
    said = [
        message("error", ename="Py4JJavaError", evalue=STACK),
        message("status", execution_state="idle"),
    ]
    with pytest.raises(WriteFailed) as error:
        colleague_who(is_alive=True, messages=said).run("write()")
    assert error.value.outcome.startswith("HoodieWriteConflictException")


CAUSE = (
    "Caused by: org.apache.hudi.exception.HoodieWriteConflictException: "
    "java.util.ConcurrentModificationException: Cannot resolve"
)
STACK = f"""An error occurred while calling o92.save.
: org.apache.spark.SparkException: Writing job failed
\tat org.apache.spark.Something(Some.scala:1)
{CAUSE}
\tat org.apache.hudi.More(More.java:2)
Caused by: java.util.ConcurrentModificationException: Cannot resolve
"""


def test_the_reason_of_a_failed_write_is_the_exception_of_hudi():
    assert why_failed(STACK) == (
        "HoodieWriteConflictException: ConcurrentModificationException: Cannot resolve"
    )
    lost = STACK.replace("ConcurrentModification", "io.FileNotFound")
    closed = lost.replace(
        "java.util.io.FileNotFoundException: Cannot resolve\n\tat", "not closed\n\tat"
    )
    assert why_failed(closed) == (
        "HoodieWriteConflictException: not closed (FileNotFoundException: Cannot resolve)"
    )
    assert why_failed("name 'upsert' is not defined") == "name 'upsert' is not defined"


def test_an_attempt_notes_its_end_and_does_not_fail():
    good, bad = attempt(dict, a=1), attempt(int, "O-17")
    assert good.outcome == COMMITTED and good.ended >= good.began
    assert "invalid literal" in bad.outcome
