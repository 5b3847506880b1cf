"""The wall clock of the syncer's processes, set to whatever a drill says.

Owns the small library that stands between them and libc, compiled on the spot. What is monotonic
goes on as it was, and no one else's clock changes.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).parent / "clock.c"


class ClockOffset:
    """How far ahead the processes are that were started with `env`."""

    def __init__(self, folder: Path) -> None:
        """Compile the library. Raises MissingCompilerError."""
        self._file = folder / "clock-ahead"
        self._library = folder / "clock.so"
        folder.mkdir(parents=True, exist_ok=True)
        self.set(0.0)
        compiler = shutil.which("cc")
        if compiler is None:
            raise MissingCompilerError("there is no C compiler `cc`, which makes the clock")
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(_SOURCE)]
        subprocess.run([*command, "-lm"], check=True, capture_output=True)

    @property
    def env(self) -> dict[str, str]:
        """The environment that gives a process this clock."""
        return {"LD_PRELOAD": str(self._library), "CLOCK_AHEAD": str(self._file)}

    def set(self, ahead: float) -> None:
        """Have it this many seconds ahead of everyone else's, or behind."""
        if not self._file.exists():
            self._file.write_bytes(struct.pack("d", ahead))
            return
        with self._file.open("r+b") as file:  # in place: they have it in memory
            file.write(struct.pack("d", ahead))


class MissingCompilerError(Exception):
    """The clock cannot be made here."""
