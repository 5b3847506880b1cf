"""The command line inside of the process of a test, with its output and its exit code."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kubectl_vc.app import run


@dataclass(frozen=True)
class CommandResult:
    """The result of a command."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """Return both outputs."""
        return self.stdout + self.stderr


def invoke(*words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> CommandResult:
    """Run a command to its end. An internal error fails the test."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        _environment(env or {}),
        _input(stdin),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            run(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
    assert "error: internal error: " not in err.getvalue(), err.getvalue()
    return CommandResult(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _input(text: str) -> Iterator[None]:
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    try:
        yield
    finally:
        sys.stdin = before


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def assert_usage_error(words: tuple[str, ...], told: str) -> None:
    """Fail unless a call ends with 2 and one clear sentence."""
    done = invoke(*words)
    assert told in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.splitlines()[0].endswith((".", "?"))
    assert done.stderr.splitlines()[-1].startswith("See 'kubectl vc")
    assert (done.exit_code, done.stdout) == (2, "")
