"""A command's exit code, and the signals that reach it."""

import os
import signal
import sys

import pytest

from kubectl_vc.connect.child_command import (
    CommandNotExecutableError,
    CommandNotFoundError,
    run_command,
)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 42", 42),
        ("kill -TERM $$", 128 + signal.SIGTERM),
        ("kill -INT $PPID; exit 7", 7),
        ("kill -TERM $PPID; exec sleep 60", 128 + signal.SIGTERM),
        ('test "$KUBECONFIG" = /there', 0),
    ],
)
def test_the_exit_code_is_the_commands(script, code):
    """An interrupt does not end this process before the command, and SIGTERM is passed on."""
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    environment = {**os.environ, "KUBECONFIG": "/there"}
    assert run_command(["sh", "-c", script], environment) == code
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_command_inherits_no_ignored_signal():
    check = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    assert run_command([sys.executable, "-c", check], dict(os.environ)) == 0


def test_commands_that_cannot_be_started():
    with pytest.raises(CommandNotFoundError, match="was not found") as missing:
        run_command(["no-such-command"], dict(os.environ))
    with pytest.raises(CommandNotExecutableError, match="cannot be started") as folder:
        run_command(["/"], dict(os.environ))
    assert (missing.value.exit_code, folder.value.exit_code) == (127, 126)
