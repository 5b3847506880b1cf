"""Clock that a test sets."""

from __future__ import annotations


class Clock:
    """A time that only tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now
