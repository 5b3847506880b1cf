"""An agent in this process between a recording kubelet and callers with certificates.

The kubelet is a fake because it has to misbehave on demand; what a real one does, the node tests
see.
"""

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import trustme

from tenancy import marks
from tests.unit.vnagent import certificates, wires
from tests.unit.vnagent.certificates import VALID, VC_UID, Authority, Leaf
from vnagent import tls
from vnagent.channel import ReceiveBuffer
from vnagent.gate import Gate
from vnagent.kubelet import Kubelet
from vnagent.limits import Streams
from vnagent.origin import Address, Origin
from vnagent.pump import Deadlines
from vnagent.reload import WatchedFile
from vnagent.server import Server
from vnagent.session import Requests

SPACE = "default-b41df0-one-web"
UID = "aaaaaaaa-0000-4000-8000-000000000000"
SUPER_UID = "bbbbbbbb-0000-4000-8000-000000000000"
LOGS = b"GET /containerLogs/web/shop/main HTTP/1.1\r\nHost: a\r\n\r\n"
EXEC = (
    b"POST /exec/web/shop/main?command=id&output=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n"
    b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    b"X-Stream-Protocol-Version: v5.channel.k8s.io\r\n\r\n"
)
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
GREETING = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"

Answering = Callable[[ssl.SSLSocket, bytes], None]


def shop(vc_uid: str = VC_UID, **other: object) -> dict[str, object]:
    """Return the one pod of the kubelet's list."""
    annotations = {
        marks.VC_UID: vc_uid,
        marks.UID: UID,
        marks.NAMESPACE: "web",
        marks.CONTAINERS: "main",
    }
    metadata = {"name": "shop", "namespace": SPACE, "uid": SUPER_UID, "annotations": annotations}
    return {"metadata": metadata, "spec": {**other}}


def saying(answer: bytes) -> Answering:
    """Answer every request in the same words."""
    return lambda peer, _: peer.sendall(answer)


@dataclass
class FakeKubelet:
    """Records every head that comes, and answers as it is told."""

    pods: list[dict[str, object]] = field(default_factory=lambda: [shop()])
    answer: Answering = field(default_factory=lambda: saying(GREETING))
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    lists_status: bytes = b"200 OK"

    @property
    def asked(self) -> list[bytes]:
        """The request lines of everything but the lists of pods."""
        lines = (head.split(b"\r\n")[0] for head in self.heads)
        return [line for line in lines if not line.startswith(b"GET /pods ")]

    def behave(self, peer: ssl.SSLSocket) -> None:
        """Serve one connection, which must carry one request."""
        self.connections += 1
        head = wires.read_until(peer, b"\r\n\r\n")
        if not head:
            return  # a connection that was kept warm for nobody
        self.heads.append(head)
        if head.startswith(b"GET /pods "):
            body = json.dumps({"items": self.pods}).encode()
            length = b"Content-Length: %d\r\n\r\n" % len(body)
            peer.sendall(b"HTTP/1.1 %s\r\n" % self.lists_status + length + body)
        else:
            self.answer(peer, head)
        wires.half_close(peer)
        with contextlib.suppress(OSError):
            wires.read_all(peer)

    @contextlib.contextmanager
    def running(self, authority: trustme.CA) -> Iterator["FakeKubelet"]:
        """Listen."""
        with wires.serving(wires.server_context(authority, "127.0.0.1"), self.behave) as (port, _):
            self.port = port
            yield self


@dataclass
class Stage:
    """A running agent and what it takes to call it."""

    port: int
    server: Server
    streams: Streams
    kubelet: FakeKubelet
    client_authority: Authority
    serving_authority: trustme.CA
    folder: Path
    token_file: Path

    def context(self, leaf: Leaf | None = VALID, *chain: bytes) -> ssl.SSLContext:
        """Return a caller's context; None shows no certificate."""
        context = wires.client_context(self.serving_authority)
        if leaf is not None:
            certificates.present(context, self.folder, self.client_authority, leaf, *chain)
        return context

    async def send(self, raw: bytes, context: ssl.SSLContext | None = None) -> bytes:
        """Send bytes as a tenant and return everything that comes back until the end."""
        context = context or self.context()

        def talk() -> bytes:
            with wires.dial(self.port, context) as peer:
                peer.sendall(raw)
                return wires.read_all(peer)

        return await asyncio.to_thread(talk)


@contextlib.asynccontextmanager
async def staged(
    folder: Path,
    kubelet: FakeKubelet,
    *,
    kubelet_authority: trustme.CA | None = None,
    streams: Streams | None = None,
    server_name: str = "127.0.0.1",
) -> AsyncIterator[Stage]:
    """Run an agent before a kubelet."""
    authority = trustme.CA()
    callers = certificates.make_authority()
    serving = authority.issue_cert("127.0.0.1")
    trusted = WatchedFile(folder / "kubelet-ca.crt")
    token = WatchedFile(folder / "token")
    token.path.write_bytes(b"first-token\n")
    with kubelet.running(authority):
        trusted.path.write_bytes((kubelet_authority or authority).cert_pem.bytes())
        for file in (trusted, token):
            await file.refresh()
        buffer = ReceiveBuffer()
        origin = Origin(
            Address("127.0.0.1", kubelet.port, server_name),
            authorities=trusted,
            token=token,
            buffer=buffer,
        )
        ours = Kubelet(origin)
        places = streams or Streams()
        requests = Requests(
            gate=Gate(ours.fetch_pods),
            kubelet=ours,
            streams=places,
            deadlines=Deadlines(check_seconds=0.05),
        )
        server = Server(requests, buffer)
        context = tls.server_context(
            certificate=serving.cert_chain_pems[0].bytes(),
            key=serving.private_key_pem.bytes(),
            client_authorities=callers.pem,
        )
        server.trust(context, [callers.certificate])
        port = await server.listen("127.0.0.1", 0)
        warming = asyncio.ensure_future(ours.keep_warm())
        try:
            yield Stage(port, server, places, kubelet, callers, authority, folder, token.path)
        finally:
            await server.close(drain_seconds=0)
            warming.cancel()
            await asyncio.gather(warming, return_exceptions=True)
            ours.drop_warm()


class Gateway:
    """Holds a fake kubelet's answer back until it is opened."""

    def __init__(self, answer: bytes = GREETING) -> None:
        self._answer = answer
        self._open = threading.Event()
        self.entered = threading.Event()

    def __call__(self, peer: ssl.SSLSocket, _: bytes) -> None:
        """Wait, then answer."""
        self.entered.set()
        self._open.wait(wires.PATIENCE_SECONDS)
        peer.sendall(self._answer)

    def open(self) -> None:
        """Let every answer go."""
        self._open.set()
