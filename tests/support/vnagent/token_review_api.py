"""A super API server that knows some tokens, for tests: it has to be silent and lie on demand."""

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme

from tests.support import tls_sockets
from vnagent.client.https_client import HttpsClient, ServerAddress
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.receive_buffer import ReceiveBuffer

READER = {"username": "system:serviceaccount:monitoring:prometheus", "groups": ["a"], "uid": "u"}
GOOD, OTHER, NOBODY = "good.token-1", "other.token-2", "nobody.token-3"


@dataclass
class ReviewApi:
    """Answers reviews. `OTHER` is a user without read rights."""

    status: bytes = b"201 Created"
    odd: bytes = b""
    """Sent instead of any answer."""
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    users: dict[str, Mapping[str, Any]] = field(
        default_factory=lambda: {GOOD: READER, OTHER: {**READER, "username": "somebody"}}
    )

    @property
    def kinds(self) -> list[str]:
        """Received request."""
        return [one["kind"] for one in self.asked]

    def behave(self, peer: ssl.SSLSocket) -> None:
        """Serve one connection."""
        head, _, body = tls_sockets.read_until(peer, b"\r\n\r\n").partition(b"\r\n\r\n")
        if head:
            self.handle(peer, head + b"\r\n\r\n", body)
        tls_sockets.half_close(peer)

    def handle(self, peer: ssl.SSLSocket, head: bytes, body: bytes = b"") -> None:
        """Answer one request."""
        self.heads.append(head)
        (length,) = (
            int(line[15:]) for line in head.split(b"\r\n") if line[:15] == b"Content-Length:"
        )
        while len(body) < length:
            body += peer.recv(65536)
        asked = json.loads(body)
        self.asked.append(asked)
        if self.odd:
            peer.sendall(self.odd)
            return
        answer = json.dumps(
            {**asked, "status": self._status(asked["kind"], asked["spec"])}
        ).encode()
        peer.sendall(
            b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (self.status, len(answer)) + answer
        )

    def _status(self, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        if kind == "TokenReview":
            user = self.users.get(spec["token"])
            return {"authenticated": True, "user": user} if user else {"error": "no such token"}
        wanted = {"path": "/metrics", "verb": "get"}
        is_one = spec["user"] == READER["username"] and spec["nonResourceAttributes"] == wanted
        return {"allowed": is_one}


@contextlib.asynccontextmanager
async def asking(folder: Path, api: ReviewApi) -> AsyncIterator[HttpsClient]:
    """Have an API server, and the agent's side of it."""
    authority = trustme.CA()
    roots, token = WatchedFile(folder / "api-ca.crt"), WatchedFile(folder / "agent-token")
    roots.path.write_bytes(authority.cert_pem.bytes())
    token.path.write_bytes(b"agents-own-token")
    for file in (roots, token):
        await file.refresh()
    with tls_sockets.serving(tls_sockets.server_context(authority, "127.0.0.1"), api.behave) as (
        port,
        _,
    ):
        address = ServerAddress("127.0.0.1", port, "127.0.0.1")
        yield HttpsClient(address, authorities=roots, token=token, buffer=ReceiveBuffer())
