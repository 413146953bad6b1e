"""Show a changing object: updated in place in a notebook or terminal, else as new lines."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

LINE_EVERY_S = 5.0


@contextmanager
def live_display() -> Generator[Callable[[object], None]]:
    """Yield a function that shows an object's current state in this process's output."""
    if _in_notebook():
        yield _cell()
    elif sys.stdout.isatty():
        from rich.live import Live

        with Live(auto_refresh=False) as live:
            yield lambda shown: live.update(str(shown), refresh=True)
    else:
        lines = _Lines()
        try:
            yield lines.show
        finally:
            lines.print()


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    return bool(ipython and getattr(ipython.get_ipython(), "kernel", None))


def _cell() -> Callable[[object], None]:
    from IPython.display import display

    handles = []

    def show(shown: object) -> None:
        if handles:
            handles[0].update(shown)
        else:
            handles.append(display(shown, display_id=True))

    return show


class _Lines:
    def __init__(self):
        self._printed, self._last = 0.0, ""

    def show(self, shown: object) -> None:
        self._last = str(shown)
        if time.monotonic() - self._printed > LINE_EVERY_S:
            self.print()

    def print(self) -> None:
        if self._last:
            print(self._last, flush=True)
        self._printed, self._last = time.monotonic(), ""
