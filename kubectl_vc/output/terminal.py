"""Output for the user: lines on a pipe, a moving line on a terminal.

Owns the two streams. Must not know the verbs. Hazard: text for people must never reach a stream
that a program reads. Therefore objects are written to `out` only, and every other method states its
stream.

Hazard: control characters in text of a server must be escaped. Otherwise an escape sequence in the
message of a condition could rewrite the screen of the user.
"""

import contextlib
import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from kubectl_vc.output import durations, streams
from kubectl_vc.output.cli_errors import CliError
from tenancy.control_characters import escape_control_characters

if TYPE_CHECKING:
    from rich.live import Live

QUIET_SECONDS = 10.0
"""Seconds without output on a pipe before a new reason to wait is printed."""
REPEAT_SECONDS = 60.0
"""Seconds before a reason to wait is printed again. It is the same time if two reasons alternate,
as they do for a container that is restarted."""


class Terminal:
    """Output streams for a command's results and complaints."""

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        answers: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`answers` is the stream that a user types into. None: no user is there."""
        self._out, self._err, self._answers, self._clock = out, err, answers, clock

    def print_result(self, text: str) -> None:
        """Print a result."""
        text = escape_control_characters(text)
        streams.write(self._out, text if text.endswith("\n") else f"{text}\n")

    def print_warning(self, text: str) -> None:
        """Print a message that is not a result."""
        with contextlib.suppress(CliError):  # a closed stderr does not end the work
            streams.write(self._err, f"{escape_control_characters(text)}\n")

    def ask_for_name(self, name: str, shown: str, *, effect: str, done: str) -> None:
        """Compare the name that the user types. Raises CliError for another name.

        `effect` is a sentence about the command, and `done` the participle of its verb.
        """
        answer = self.ask(f"{effect} Type its name to go on: ")
        if answer is not None and answer != name:
            raise CliError(f"{shown}: the typed name is {answer!r}, so nothing was {done}.")

    def ask(self, question: str) -> str | None:
        """Return the line that the user types, or None if no user is at a terminal.

        The question is written to the stream for errors, as kubectl does.
        """
        if self._answers is None or not self._answers.isatty():
            return None
        self._err.write(question)
        self._err.flush()
        return self._answers.readline().strip()

    def create_progress(self, *, to_errors: bool = False) -> "Progress":
        """Return the display of a wait, with a moving line if the output is a terminal.

        `to_errors` keeps standard output free for a document.
        """
        stream = self._err if to_errors else self._out
        moves = stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
        return LiveProgress(stream, self._clock) if moves else Progress(stream, self._clock)


class Progress:
    """Steps of a wait, each with the time since its beginning, as plain lines."""

    def __init__(self, out: TextIO, clock: Callable[[], float]) -> None:
        self._out, self._clock = out, clock
        self._started_at = clock()
        self._printed_at = self._started_at
        self._waiting, self._reason, self._printed_reason = "", "", ""
        self._printed_at_by_reason: dict[str, float] = {}

    def __enter__(self) -> Self:
        """Start the clock."""
        self._started_at = self._printed_at = self._clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing, because plain lines stay."""

    @property
    def elapsed(self) -> str:
        """Time since the start."""
        return durations.format_elapsed(self._clock() - self._started_at)

    def finish_step(self, text: str) -> None:
        """Report a finished step."""
        self._write_line(text)

    def set_waiting(self, text: str, *, reason: str = "") -> None:
        """Record the awaited condition. It is printed after a while without other output.

        `reason` identifies the condition. The text may change while the reason stays. The default
        is the text.
        """
        text = escape_control_characters(text)
        # Messages of conditions have the first words already.
        self._waiting = text.removeprefix("waiting for ").removeprefix("Waiting for ")
        self._reason = reason or self._waiting

    def tick(self) -> None:
        """Print the awaited condition if it is due. Called about once a second during a wait."""
        now, printed_at = self._clock(), self._printed_at_by_reason.get(self._reason)
        is_due = printed_at is None or now - printed_at >= REPEAT_SECONDS
        if self._waiting and is_due and now - self._printed_at >= QUIET_SECONDS:
            again = "still " if self._reason == self._printed_reason else ""
            self._printed_reason, self._printed_at_by_reason[self._reason] = self._reason, now
            self._write_line(f"{again}waiting for {self._waiting}")

    def _write_line(self, text: str) -> None:
        self._printed_at = self._clock()
        streams.write(self._out, f"{escape_control_characters(text)} ({self.elapsed})\n")


class LiveProgress(Progress):
    """Steps of a wait, with a moving line at the end for the awaited condition and the time."""

    def __init__(self, out: TextIO, clock: Callable[[], float]) -> None:
        super().__init__(out, clock)
        self._live: Live | None = None

    def __enter__(self) -> Self:
        """Start the clock and the drawing."""
        from rich.console import Console  # noqa: PLC0415 - only a terminal pays for it
        from rich.live import Live  # noqa: PLC0415
        from rich.spinner import Spinner  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        super().__enter__()
        spinner = Spinner("dots")
        console = Console(file=self._out, highlight=False)

        def line() -> Spinner:
            waiting = " ".join((self._waiting or "the server").split())
            text = Text(f"{self.elapsed} waiting for {waiting}")
            # A wrapped line would be drawn again each time and push the other lines away.
            text.truncate(max(console.width - 3, 10), overflow="ellipsis")
            spinner.update(text=text)
            return spinner

        self._live = Live(
            console=console, get_renderable=line, refresh_per_second=8, transient=True
        )
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove the moving line."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def finish_step(self, text: str) -> None:
        """Report a finished step in a line before the moving line."""
        if self._live is None:
            super().finish_step(text)
            return
        from rich.text import Text  # noqa: PLC0415

        done = Text.assemble(("✓", "green"), f" {escape_control_characters(text)} ({self.elapsed})")
        self._live.console.print(done, soft_wrap=True)

    def tick(self) -> None:
        """Do nothing, because the line moves by itself."""
