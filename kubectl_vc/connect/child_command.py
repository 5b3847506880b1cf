"""Command of a user in the context of a tenant, with its exit code.

Hazard: Ctrl-C must reach the command only. It goes to every process of the terminal, and this one
must stay to remove the temporary kubeconfig.
"""

import contextlib
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence

from kubectl_vc.output.cli_errors import CliError


class CommandNotFoundError(CliError):
    """The command does not exist. The exit code is 127, as in shells."""

    exit_code = 127


class CommandNotExecutableError(CliError):
    """The command cannot be executed. The exit code is 126, as in shells."""

    exit_code = 126


def run_command(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command, and return its exit code: 128 and the signal's number if one ended it."""
    try:
        with (
            _without_interrupts(),
            subprocess.Popen(words, env=environment) as process,
            _with_terminate(process),
        ):
            code = process.wait()
    except FileNotFoundError as problem:
        raise CommandNotFoundError(
            f"the command {words[0]!r} was not found. Check its name and PATH."
        ) from problem
    except OSError as problem:
        raise CommandNotExecutableError(
            f"the command {words[0]!r} cannot be started: {problem.strerror}."
        ) from problem
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Do nothing at Ctrl-C for the length of a block. The command decides what it does."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)  # unlike SIG_IGN, not inherited
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _with_terminate(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Pass SIGTERM on to the command for the length of a block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
