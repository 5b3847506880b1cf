"""Say things to the person: lines on a pipe, a moving line on a terminal.

Owns the two streams. Must not know the verbs. Hazard: what is printed for people must never reach a
stream that a program reads, so objects go to `out` alone and everything else says which it uses.
"""

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from kubectl_vc import durations

if TYPE_CHECKING:
    from rich.live import Live

PATIENCE = 10.0
"""Seconds that a step may stand still before a pipe is told what it waits for."""


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
        self._waiting, self._since, self._told = "", self._began, ""

    def __enter__(self) -> Self:
        """Begin to count."""
        self._began = self._since = self._clock()
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
        self._out.write(f"{text} ({self.elapsed})\n")
        self._out.flush()

    def waiting(self, text: str) -> None:
        """Note what is waited for; it is told when it stays the same for a while."""
        text = text.removeprefix("waiting for ")  # conditions begin so, too
        if text != self._waiting:
            self._waiting, self._since = text, self._clock()

    def tick(self) -> None:
        """Called about every second while nothing happens."""
        stuck = self._waiting and self._clock() - self._since >= PATIENCE
        if stuck and self._waiting != self._told:
            self._told = self._waiting
            self._out.write(f"waiting for {self._waiting} ({self.elapsed})\n")
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
