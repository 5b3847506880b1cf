"""HTTP/1.1 over one connection, by hand: requests in, answers and watches out.

Owns framing. It answers in the turn of the loop in which the request came. For a share of the
writes, it answers in the next turn, after the watches were notified, because real servers do
either. Hazards: it reads only the requests of well-behaved clients, and those must wait for an
answer before they send again.
"""

import asyncio
import random
import time
from typing import cast

from tenancy.resources import Resource
from tests.support.memapi.api import ApiRequest, MemoryApi
from tests.support.memapi.lists import RequestedWatch
from tests.support.memapi.watches import CollectionWatch

_PHRASES = {200: "OK", 201: "Created", 202: "Accepted"}
_LAST = b"0\r\n\r\n"
_USUAL = (
    "Audit-Id: 7b0cf3c5-3f0e-4f1c-9b3e-1f8a0c5d6e7f\r\n"
    "Cache-Control: no-cache, private\r\n"
    "Content-Type: application/json\r\n"
    "X-Kubernetes-Pf-Flowschema-Uid: 5f0f5bb1-5c0c-4a7a-9d0f-6f6a4b1e2d3c\r\n"
    "X-Kubernetes-Pf-Prioritylevel-Uid: 0d9f2c4e-8a6b-4c1d-b2e3-4f5a6b7c8d9e\r\n"
)


class ApiConnection(asyncio.Protocol):
    """One client."""

    def __init__(
        self,
        api: MemoryApi,
        followed: "WatchConnections",
        *,
        echo_first: float = 0.0,
        chunk_bytes: int = 0,
    ) -> None:
        """Lines of a watch are sent in chunks of `chunk_bytes`, 0: as large as they are."""
        self._api = api
        self._echo_first = echo_first
        self._chunk_bytes = chunk_bytes
        self._followed = followed
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._watch: tuple[RequestedWatch, CollectionWatch] | None = None
        self._is_last = False
        self._ending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - any end is one
        """Forget the watch."""
        self._leave()
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer every whole request."""
        self._buffer = self._buffer + data if self._buffer else data
        while self._buffer and self._transport is not None and self._take():
            pass

    def _take(self) -> bool:
        at = self._buffer.find(b"\r\n\r\n")
        if at < 0:
            return False
        lines = self._buffer[:at].decode("latin-1").split("\r\n")
        headers = dict(_header(line) for line in lines[1:])
        ends = at + 4 + int(headers.get("content-length", "0"))
        if len(self._buffer) < ends:
            return False
        method, target, _ = lines[0].split(" ")
        request = ApiRequest(
            method=method,
            target=target,
            body=self._buffer[at + 4 : ends],
            accept=headers.get("accept", ""),
            content=headers.get("content-type", ""),
            agent=headers.get("user-agent", ""),
            authorization=headers.get("authorization", ""),
        )
        self._buffer = self._buffer[ends:]
        self._is_last = headers.get("connection", "") == "close"
        answer = self._api.answer(request)
        if isinstance(answer, RequestedWatch):
            self._follow(answer)
        else:
            status, body = answer
            text = _head(status, f"Content-Length: {len(body)}\r\n") + body
            if method != "GET" and random.random() < self._echo_first:  # noqa: S311 - a load, no secret
                asyncio.get_running_loop().call_soon(self._send, text)
            else:
                self._send(text)
            self._let_go()
        return True

    def _follow(self, asked: RequestedWatch) -> None:
        self._send(_head(200, "Transfer-Encoding: chunked\r\n"))
        watch = asked.begin(self._tell, self._end)
        if watch is None:
            self._send(_LAST)
            self._let_go()
            return
        self._watch = (asked, watch)
        self._followed.add(self)
        self._ending = asyncio.get_running_loop().call_later(asked.seconds, self._end)

    def _tell(self, lines: bytes) -> None:
        size = self._chunk_bytes or len(lines)
        for at in range(0, len(lines), size):
            chunk = lines[at : at + size]
            self._send(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    @property
    def watched(self) -> Resource | None:
        """The kind that is watched, if one is."""
        return None if self._watch is None else self._watch[0].collection.resource

    def say(self, line: bytes) -> None:
        """Send the watch a line, whatever it means."""
        if self._watch is not None:
            self._watch[1].say(line)

    def close(self) -> None:
        """Close the connection from the server's side, without a word."""
        if self._transport is not None:
            self._transport.abort()

    def bookmark(self) -> None:
        """Send the cluster's current revision to the watch."""
        if self._watch is not None:
            asked, _ = self._watch
            self.say(self._api.cluster.bookmark(asked.collection.resource))

    def _end(self) -> None:
        self._leave()
        self._send(_LAST)
        self._let_go()

    def _let_go(self) -> None:
        """Close the connection if its client wants no second answer on it."""
        if self._is_last and self._transport is not None:
            asyncio.get_running_loop().call_soon(self._transport.close)

    def _leave(self) -> None:
        if self._watch is not None:
            asked, watch = self._watch
            asked.collection.leave(watch)
            self._followed.discard(self)
            self._watch = None
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _send(self, content: bytes) -> None:
        if self._transport is not None:
            self._transport.write(content)


class WatchConnections:
    """All connections with a watch: who gets a bookmark each minute."""

    def __init__(self) -> None:
        self._slots: list[set[ApiConnection]] = [set() for _ in range(60)]

    def add(self, connection: ApiConnection) -> None:
        """Remember a connection."""
        self._slots[hash(connection) // 64 % 60].add(connection)

    def discard(self, connection: ApiConnection) -> None:
        """Forget it."""
        self._slots[hash(connection) // 64 % 60].discard(connection)

    async def run(self) -> None:
        """Send bookmarks until cancelled, to a sixtieth of all each second.

        A loop that is late makes up for it: a client takes a minute and a quarter without a byte
        for the end of its watch.
        """
        done = int(time.monotonic())
        while True:
            await asyncio.sleep(1.0)
            while done < int(time.monotonic()):
                done += 1
                for connection in list(self._slots[done % 60]):
                    connection.bookmark()


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.lower(), value.strip()


def _head(status: int, more: str) -> bytes:
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    phrase = _PHRASES.get(status, "No")
    return f"HTTP/1.1 {status} {phrase}\r\n{_USUAL}Date: {date}\r\n{more}\r\n".encode()
