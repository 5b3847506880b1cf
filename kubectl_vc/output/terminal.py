"""Say things to the person: lines on a pipe, a moving line on a terminal.

Owns the two streams. Must not know the verbs. Hazard: what is printed for people must never reach a
stream that a program reads, so objects go to `out` alone and everything else says which it uses.
"""

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from kubectl_vc.output import durations

if TYPE_CHECKING:
    from rich.live import Live

PATIENCE = 10.0
"""Seconds without a line after which a pipe is told what is waited for."""
REMINDER = 30.0
"""The same for what it was told before."""


class Terminal:
    """Where a command's results and complaints go."""

    def __init__(
        self, out: TextIO, err: TextIO, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out, self._err, self._clock = out, err, clock

    def say(self, text: str) -> None:
        """Print a result."""
        self._out.write(text if text.endswith("\n") else f"{text}\n")
        self._out.flush()

    def warn(self, text: str) -> None:
        """Print what is no result."""
        self._err.write(f"{text}\n")
        self._err.flush()

    def progress(self) -> "Progress":
        """Return the display of a wait, moving when a person looks at it."""
        moves = self._out.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
        return LiveProgress(self._out, self._clock) if moves else Progress(self._out, self._clock)


class Progress:
    """Steps of a wait, each with the time since its beginning, as plain lines."""

    def __init__(self, out: TextIO, clock: Callable[[], float]) -> None:
        self._out, self._clock = out, clock
        self._began = clock()
        self._spoke = self._began
        self._waiting, self._told = "", ""

    def __enter__(self) -> Self:
        """Begin to count."""
        self._began = self._spoke = self._clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End; nothing is left to take away."""

    @property
    def elapsed(self) -> str:
        """How long it takes so far."""
        return durations.elapsed(self._clock() - self._began)

    def done(self, text: str) -> None:
        """Tell a step that is over."""
        self._write(text)

    def waiting(self, text: str) -> None:
        """Note what is waited for; it is told when nothing else is for a while."""
        self._waiting = text.removeprefix("waiting for ")  # conditions begin so, too

    def tick(self) -> None:
        """Called about every second while nothing happens."""
        patience = PATIENCE if self._waiting != self._told else REMINDER
        if self._waiting and self._clock() - self._spoke >= patience:
            again = "still " if self._waiting == self._told else ""
            self._told = self._waiting
            self._write(f"{again}waiting for {self._waiting}")

    def _write(self, text: str) -> None:
        self._spoke = self._clock()
        self._out.write(f"{text} ({self.elapsed})\n")
        self._out.flush()


class LiveProgress(Progress):
    """The same, with a line below that shows what is waited for and for how long."""

    def __init__(self, out: TextIO, clock: Callable[[], float]) -> None:
        super().__init__(out, clock)
        self._live: Live | None = None

    def __enter__(self) -> Self:
        """Begin to count and to draw."""
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
            # A line that wraps would be drawn anew each time and push the others away.
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
        """Take the moving line away."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def done(self, text: str) -> None:
        """Tell a step that is over, above the moving line."""
        if self._live is None:
            super().done(text)
            return
        from rich.text import Text  # noqa: PLC0415

        done = Text.assemble(("✓", "green"), f" {text} ({self.elapsed})")
        self._live.console.print(done, soft_wrap=True)

    def tick(self) -> None:
        """Do nothing: the line moves by itself."""
