"""HTTP/1.1 as a man in the middle reads and writes it: heads, bodies, chunks.

Owns framing. Must not know TLS, Kubernetes or faults. Strict on nothing: both ends are ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

HEAD_BYTES = 2**20
_HOP = frozenset({"content-length", "transfer-encoding", "connection"})


class ProxiedRequest(NamedTuple):
    """A request as it came."""

    method: str
    target: str
    """Path and query."""
    headers: Sequence[tuple[str, str]]
    body: bytes

    @property
    def path(self) -> str:
        """The target without its query."""
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        """The parameters. The last of each name counts."""
        return {key: found[-1] for key, found in parse_qs(urlsplit(self.target).query).items()}

    @property
    def is_watch(self) -> bool:
        """Whether its answer comes for as long as someone listens."""
        return self.query.get("watch", "") in ("1", "true")

    def encoded(self) -> bytes:
        """Return it as it goes on."""
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{key}: {value}" for key, value in self.headers if key.lower() not in _HOP]
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + self.body


class ResponseHeader(NamedTuple):
    """The head of an answer."""

    status: int
    headers: Sequence[tuple[str, str]]

    def get(self, name: str) -> str:
        """Return a header's value, empty without it."""
        return next((value for key, value in self.headers if key.lower() == name), "")

    def encoded(self, framing: str) -> bytes:
        """Return it as it goes on, with a header that says how long the body is."""
        lines = [f"HTTP/1.1 {self.status} -"]
        lines += [f"{key}: {value}" for key, value in self.headers if key.lower() not in _HOP]
        return "\r\n".join([*lines, framing]).encode("latin-1") + b"\r\n\r\n"


class ProxiedResponse(NamedTuple):
    """A whole answer."""

    head: ResponseHeader
    body: bytes

    def encoded(self) -> bytes:
        """Return it as it goes on."""
        return self.head.encoded(f"Content-Length: {len(self.body)}") + self.body


def reply(status: int, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> ProxiedResponse:
    """Return an answer of our own."""
    return ProxiedResponse(
        ResponseHeader(status, [("Content-Type", "application/json"), *headers]), body
    )


def chunk(content: bytes) -> bytes:
    """Return a piece of an endless answer."""
    return b"%x\r\n%s\r\n" % (len(content), content)


LAST = b"0\r\n\r\n"
"""The proper end of an endless answer."""


async def read_request(reader: asyncio.StreamReader) -> ProxiedRequest:
    """Read one request. Raises IncompleteReadError when there is none any longer."""
    first, headers = await _head(reader)
    method, target, _ = first.split(" ")
    length = next((int(value) for key, value in headers if key.lower() == "content-length"), 0)
    return ProxiedRequest(
        method, target, headers, await reader.readexactly(length) if length else b""
    )


async def read_head(reader: asyncio.StreamReader) -> ResponseHeader:
    """Read the head of an answer, whatever is told before it."""
    while True:
        first, headers = await _head(reader)
        status = int(first.split(" ")[1])
        if status >= 200:
            return ResponseHeader(status, headers)


async def read_body(reader: asyncio.StreamReader, head: ResponseHeader) -> bytes:
    """Read the whole body of an answer."""
    if head.get("transfer-encoding").lower() == "chunked":
        return b"".join([piece async for piece in chunks(reader)])
    length = head.get("content-length")
    return await reader.readexactly(int(length)) if length else b""


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Read a body piece by piece until its proper end."""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")


async def _head(reader: asyncio.StreamReader) -> tuple[str, list[tuple[str, str]]]:
    raw = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = raw.rstrip("\r\n").split("\r\n")
    headers = []
    for line in lines:
        key, _, value = line.partition(":")
        headers.append((key, value.strip()))
    return first, headers
