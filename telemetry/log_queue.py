"""Log handler that never blocks its caller: a queue, and a thread that writes.

Owns the queue and the count of dropped lines. Must not know the content of a line.

Hazard: the event loop must not wait for a write. A full pipe of the container runtime would
otherwise stop the process for all tenants, and its Lease would expire.
"""

import logging
import queue
import sys
import threading
import time
from typing import TextIO

from telemetry import metrics

MAX_QUEUED_LINES = 4096
"""Number of lines in the queue after which lines are dropped. It is some megabytes."""
MAX_LINE_CHARACTERS = 16_384
"""Length in characters at which lines are cut, which bounds the memory of the queue."""
FLUSH_SECONDS = 2.0
"""Longest time in seconds that the end of the process waits for the lines."""


class QueueingHandler(logging.Handler):
    """Formats lines where they are logged, and writes them in a thread of its own."""

    def __init__(self, stream: TextIO, *, max_lines: int = MAX_QUEUED_LINES) -> None:
        """Start the thread."""
        super().__init__()
        self.dropped = 0
        """Number of lines that were dropped because the queue was full."""
        self._stream = stream
        self._max_lines = max_lines
        self._queue: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._is_idle = threading.Event()
        self._thread = threading.Thread(target=self._write_lines, name="logs", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line, or drop it if the queue is full."""
        if self._queue.qsize() >= self._max_lines:
            self.dropped += 1
            metrics.LOG_LINES_DROPPED.inc()
            return
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - as in logging: a bad record must end no caller
            self.handleError(record)
            return
        self._is_idle.clear()
        self._queue.put(line[:MAX_LINE_CHARACTERS])

    def flush(self) -> None:
        """Wait until the lines are written, for a limited time."""
        deadline = time.monotonic() + FLUSH_SECONDS
        while self._thread.is_alive() and time.monotonic() < deadline:
            if self._queue.empty() and self._is_idle.wait(0.01):
                return
            time.sleep(0.005)

    def _write_lines(self) -> None:
        while True:
            line = self._queue.get()
            try:
                self._stream.write(f"{line}\n")
                if self._queue.empty():
                    self._stream.flush()
                    self._is_idle.set()
            except (OSError, ValueError):  # the stream is closed, as at the end of a test
                if sys.is_finalizing():
                    return
