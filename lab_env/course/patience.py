"""Tells a learner who waits for a check what it is doing, and for how long already."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import copy_context

from lab_env.course.outcomes import Card
from lab_env.platform.display.live import live_display

AFTER_S, EVERY_S = 2.0, 1.0


class _Nothing:
    """Takes the place of the line once the check is done."""

    def __repr__(self) -> str:
        return ""

    def _repr_html_(self) -> str:
        return ""


@contextmanager
def explained(exercise_id: str, check: Callable | None) -> Generator[None]:
    """While the body runs for longer than `AFTER_S`, show what the check does and a clock."""
    began, ended = time.monotonic(), threading.Event()

    def tell() -> None:
        if ended.wait(AFTER_S):
            return
        with live_display() as show:
            while True:
                show(Card(f"Checking {exercise_id}: {time.monotonic() - began:.0f} s", what))
                if ended.wait(EVERY_S):
                    return show(_Nothing())

    what = first_sentence(check)
    # A notebook finds the cell of an output by the context of its thread.
    teller = threading.Thread(target=copy_context().run, args=(tell,), daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def first_sentence(check: Callable | None) -> str:
    """Return what a check does, from its docstring."""
    text = " ".join((getattr(check, "__doc__", "") or "").split())
    return f"{text.partition('. ')[0].removesuffix('.')}."
