"""Show a changing object: updated in place in a notebook or terminal, else as new lines."""

import sys
import time
from typing import Protocol

LINE_EVERY_S = 5.0


class Display(Protocol):
    def update(self, shown: object) -> None:
        """Show the object's current state."""


def live_display():
    """Return the display that suits this process's output, as a context manager."""
    if _in_notebook():
        return _Notebook()
    return _Terminal() if sys.stdout.isatty() else _Lines()


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    return bool(ipython and getattr(ipython.get_ipython(), "kernel", None))


class _Notebook:
    def __enter__(self):
        from IPython.display import display

        self._handle = None
        self._display = display
        return self

    def update(self, shown: object) -> None:
        if self._handle is None:
            self._handle = self._display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def __exit__(self, *_) -> None:
        pass


class _Terminal:
    def __enter__(self):
        from rich.live import Live

        self._live = Live(auto_refresh=False)
        self._live.start()
        return self

    def update(self, shown: object) -> None:
        self._live.update(str(shown), refresh=True)

    def __exit__(self, *_) -> None:
        self._live.stop()


class _Lines:
    def __enter__(self):
        self._printed, self._last = 0.0, ""
        return self

    def update(self, shown: object) -> None:
        self._last = str(shown)
        if time.monotonic() - self._printed > LINE_EVERY_S:
            self._print()

    def __exit__(self, *_) -> None:
        self._print()

    def _print(self) -> None:
        if self._last:
            print(self._last, flush=True)
        self._printed, self._last = time.monotonic(), ""
