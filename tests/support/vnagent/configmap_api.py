"""A super API server with one ConfigMap, for tests: it has to end watches and lie on demand."""

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import trustme

from tests.support.vnagent import tls_sockets

NAME = "vn-agent-access"
NAMESPACE = "vc-manager"
ANSWER = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n"


@dataclass
class FakeApi:
    """Answers gets and watches of the ConfigMap, in a thread for each connection."""

    data: Mapping[str, str] | None = None
    status: bytes = b"200 OK"
    watch_status: bytes = b"200 OK"
    asked: list[str] = field(default_factory=list)
    """Request targets."""
    otherwise: Callable[[ssl.SSLSocket, bytes], None] | None = None
    """Answers what is not about ConfigMaps."""
    port: int = 0
    version: int = 1
    _lines: list[bytes] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _cut: int = 0

    def put(self, data: Mapping[str, str] | None) -> None:
        """Change the object, or delete it."""
        was, self.data = self.data, data
        self.version += 1
        kind = "DELETED" if data is None else "ADDED" if was is None else "MODIFIED"
        self.say(kind, self._object())

    def say(self, kind: str, found: object) -> None:
        """Tell the watches of an event."""
        with self._changed:
            self._lines.append(json.dumps({"type": kind, "object": found}).encode())
            self._changed.notify_all()

    def end_watches(self) -> None:
        """End every watch in order."""
        with self._changed:
            self._cut += 1
            self._changed.notify_all()

    @contextlib.contextmanager
    def running(self, authority: trustme.CA) -> Iterator["FakeApi"]:
        """Listen."""
        with tls_sockets.serving(
            tls_sockets.server_context(authority, "127.0.0.1"), self._behave
        ) as (port, _):
            self.port = port
            try:
                yield self
            finally:
                self.end_watches()

    def _object(self) -> object:
        metadata = {"name": NAME, "namespace": NAMESPACE, "resourceVersion": str(self.version)}
        return {"metadata": metadata, "data": self.data or {}}

    def _behave(self, peer: ssl.SSLSocket) -> None:
        head = tls_sockets.read_until(peer, b"\r\n\r\n")
        if not head:  # gone before it asked
            return
        target = head.split(b" ")[1].decode()
        with self._changed:  # who sees that it was asked may say something at once
            told, cut, first = len(self._lines), self._cut, self._there()
            self.asked.append(target)
        if self.otherwise is not None and "/configmaps" not in target:
            self.otherwise(peer, head)
        elif "watch=true" not in target:
            status = self.status if self.data is not None else b"404 Not Found"
            body = json.dumps(self._object()).encode()
            peer.sendall(ANSWER % (status, len(body)) + body)
        elif self.watch_status != b"200 OK":
            peer.sendall(ANSWER % (self.watch_status, 0))
        else:
            self._tell(peer, told, cut, [] if "resourceVersion=" in target else first)
        tls_sockets.half_close(peer)

    def _there(self) -> list[bytes]:
        """Return what a watch from no version is told first."""
        there = {"type": "ADDED", "object": self._object()}
        return [json.dumps(there).encode()] if self.data is not None else []

    def _tell(self, peer: ssl.SSLSocket, told: int, cut: int, first: list[bytes]) -> None:
        """Tell of what is there, and of what changes since so many lines and cuts."""
        peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            with self._changed:
                while not first and len(self._lines) == told and self._cut == cut:
                    self._changed.wait()
                lines, over = self._lines[told:], self._cut > cut
            told += len(lines)
            lines, first = first + lines, []
            for line in lines:
                whole = line + b"\n"
                half = len(whole) // 2  # a line comes in pieces
                for part in (whole[:half], whole[half:]):
                    peer.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            if over:
                peer.sendall(b"0\r\n\r\n")
                return
