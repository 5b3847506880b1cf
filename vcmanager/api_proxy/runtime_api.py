"""Client of HAProxy's Runtime API, over its unix socket.

Must not know what a map means. Hazard: HAProxy closes the connection after each line of commands,
so each call opens its own.
"""

import asyncio
from collections.abc import Sequence

_COMMANDS_PER_LINE = 40
"""A line must fit into one buffer of HAProxy (16 KiB). A command has at most 400 bytes."""
_MAX_ANSWER_BYTES = 64 * 1024 * 1024


class RuntimeApiError(Exception):
    """HAProxy cannot be reached, or refused a command."""


class RuntimeApi:
    """The Runtime API of the HAProxy in this pod."""

    def __init__(self, socket: str, *, timeout: float = 10.0) -> None:
        """Set the path of the socket, and the seconds that a call may take."""
        self._socket = socket
        self._timeout = timeout

    async def read(self, command: str) -> str:
        """Return the answer to a command. Raises RuntimeApiError."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._exchange(command)
        except (OSError, TimeoutError, UnicodeDecodeError) as problem:
            reason = str(problem) or type(problem).__name__
            raise RuntimeApiError(f"{self._socket}: HAProxy does not answer: {reason}") from problem

    async def write(self, commands: Sequence[str]) -> None:
        """Run commands that answer nothing when they succeed. Raises RuntimeApiError."""
        for start in range(0, len(commands), _COMMANDS_PER_LINE):
            part = commands[start : start + _COMMANDS_PER_LINE]
            answer = (await self.read(";".join(part))).strip()
            if answer:
                raise RuntimeApiError(f"HAProxy refused a command: {answer[:200]}")

    async def _exchange(self, line: str) -> str:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            writer.write(f"{line}\n".encode())
            await writer.drain()
            received = bytearray()
            while chunk := await reader.read(65_536):
                received += chunk
                if len(received) > _MAX_ANSWER_BYTES:
                    raise RuntimeApiError(f"HAProxy answered more than {_MAX_ANSWER_BYTES} bytes")
            return received.decode()
        finally:
            writer.close()
