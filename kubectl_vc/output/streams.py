"""Standard streams of the process: usable if the caller closed one, and writes that can fail.

Hazard: the descriptors 0, 1 and 2 must be open. Otherwise the next file that is opened, such as a
kubeconfig, would get one of them, and messages would be written into it.
"""

import contextlib
import io
import os
import sys
from typing import TextIO

from kubectl_vc.output.cli_errors import CliError, ReaderGoneError


def prepare_streams() -> None:
    """Open the null device for each closed standard stream, and let any text be written.

    A character that the encoding of the stream does not have is written as an escape sequence.
    """
    for number, mode in enumerate(("r", "w", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number
        name = ("stdin", "stdout", "stderr")[number]
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write(stream: TextIO, text: str) -> None:
    """Write a text. Raises ReaderGoneError after the end of a pipe's reader, otherwise CliError."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError as problem:
        _discard(stream)
        raise ReaderGoneError("the reader of the output has ended") from problem
    except OSError as problem:
        _discard(stream)
        raise CliError(f"the output cannot be written: {problem.strerror}.") from problem


def _discard(stream: TextIO) -> None:
    """Redirect a stream to the null device. The flush at the exit then cannot fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor
        os.dup2(null, stream.fileno())
    os.close(null)
