"""Fakes that several unit tests use."""


class Clock:
    """A clock whose time, in seconds, a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now
