"""Run commands and show them as a reader would type them.

Hazard: a command's output may be piped away, so what is printed here is flushed line by line.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path


class TranscriptError(Exception):
    """A command of the transcript failed. The message names it and what to check."""


def say(text: str) -> None:
    """Print a paragraph of the transcript."""
    print(text, flush=True)


@dataclass(frozen=True, kw_only=True)
class DemoShell:
    """One prompt: a name the reader sees, and the kubeconfig its commands use."""

    prompt: str
    kubeconfig: Path
    path: str
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def run(self, *command: str | Path, cwd: Path | None = None) -> None:
        """Show a command and its output. Raises StepError when it fails."""
        words = [str(word) for word in command]
        say(f"{self.prompt}$ {shlex.join(words)}")
        done = subprocess.run(
            words, env=self._env(), cwd=cwd, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            raise TranscriptError(
                f"{shlex.join(words)} ended with {done.returncode}. See its output"
            )
        say("")

    def run_for_last_line(self, *command: str, allowed: Collection[int]) -> int:
        """Show a command and the last line of its output, and return its exit code.

        Raises TranscriptError for an exit code that is not allowed.
        """
        say(f"{self.prompt}$ {shlex.join(command)} | tail -n 1")
        done = subprocess.run(command, env=self._env(), capture_output=True, text=True, check=False)
        if done.returncode not in allowed:
            raise TranscriptError(
                f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()}"
            )
        say(f"{done.stdout.strip().rpartition(chr(10))[2]}\n")
        return done.returncode

    def read(self, *command: str) -> str:
        """Return a command's output without showing it. Raises StepError when it fails."""
        done = subprocess.run(command, env=self._env(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise TranscriptError(f"{shlex.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def _env(self) -> dict[str, str]:
        return {**self.environment, "KUBECONFIG": str(self.kubeconfig), "PATH": self.path}


def shown(path: Path, root: Path) -> Path:
    """Return a path as short as the reader can still use it from the folder `root`."""
    return path.relative_to(root) if path.is_relative_to(root) else path


def fail(problem: Exception) -> int:
    """Print what went wrong and return the exit code."""
    sys.stdout.flush()
    sys.stderr.write(f"error: {problem}\n")
    return 1
