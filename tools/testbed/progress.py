"""Progress display for the user: the running step and its time.

A terminal gets one line per step that counts the seconds. Any other output gets plain lines, and a
repeated line for slow steps.

Hazard: every write must hold the one lock. Otherwise lines of two threads would mix.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO


class StepPrinter:
    """A display of steps. `note` adds a plain line between them."""

    def __init__(self, stream: TextIO | None = None, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._quiet = quiet
        self._lock = threading.Lock()
        self._detail = ""

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[StepPrinter]:
        """Show a step while the block runs, and its duration."""
        started = time.monotonic()
        done = threading.Event()
        self._detail = ""
        ticker = threading.Thread(target=self._tick, args=(title, started, done), daemon=True)
        ticker.start()
        try:
            yield self
        except BaseException:
            done.set()
            ticker.join()
            self._line("✗", title, started, end="\n")
            raise
        done.set()
        ticker.join()
        self._detail = ""
        self._line("✓", title, started, end="\n")

    def detail(self, text: str) -> None:
        """Show the current work of the running step."""
        self._detail = text

    def note(self, text: str) -> None:
        """Print a separate line."""
        self._write(f"{text}\n")

    def _tick(self, title: str, started: float, done: threading.Event) -> None:
        period = 0.2 if self._terminal else 20.0
        while not done.wait(period):
            self._line("·", title, started, end="" if self._terminal else "\n")

    def _line(self, sign: str, title: str, started: float, end: str) -> None:
        elapsed = time.monotonic() - started
        text = f"{title} ({self._detail})" if self._detail else title
        line = f"{sign} {text[:84]:<84} {elapsed:6.1f} s"
        self._write(f"\r\x1b[K{line}{end}" if self._terminal else f"{line.rstrip()}{end}")

    def _write(self, text: str) -> None:
        if self._quiet:
            return
        with self._lock:
            self._stream.write(text)
            self._stream.flush()
