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
        with _handle_signals() as signals, subprocess.Popen(words, env=environment) as process:
            signals.process = process
            if signals.is_terminated:  # before the command was there
                process.terminate()
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


class _Signals:
    """Signals that this process received for the command."""

    process: "subprocess.Popen[bytes] | None" = None
    is_terminated = False

    def terminate(self) -> None:
        """Pass SIGTERM on to the command."""
        self.is_terminated = True
        if self.process is not None:
            self.process.terminate()


@contextlib.contextmanager
def _handle_signals() -> Iterator[_Signals]:
    """Leave Ctrl-C to the command and pass SIGTERM on to it, for the length of a block."""
    signals = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals  # only the main thread receives signals
        return
    # Unlike SIG_IGN, a handler is not inherited by the command.
    handlers = {signal.SIGINT: lambda *_: None, signal.SIGTERM: lambda *_: signals.terminate()}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
