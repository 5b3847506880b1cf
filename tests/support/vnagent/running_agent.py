"""An agent in this process between a recording kubelet and callers with certificates.

The kubelet is a fake because it has to misbehave on demand. The node tests use a real one.
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
from prometheus_client import REGISTRY

from tenancy import agent_permissions, wellknown
from tenancy.agent_permissions import AgentPermissions, KubeletCall
from tests.support import tls_sockets
from tests.support.vnagent import certificates
from tests.support.vnagent.certificates import VALID, VC_UID, ClientCertificate, SigningAuthority
from vnagent.authz import metrics
from vnagent.authz.permissions import PermissionEnforcer
from vnagent.authz.pod_authorizer import PodAuthorizer
from vnagent.client.https_client import HttpsClient, ServerAddress
from vnagent.limits.concurrency import StreamLimiter
from vnagent.limits.token_bucket import TenantBuckets
from vnagent.nodeapi.node_reads import NodeReads
from vnagent.nodeapi.target_pods import TargetPods
from vnagent.server.request import Authorizer, NodeReader, RequestHandler, StreamOpener
from vnagent.server.server import AgentServer
from vnagent.stream import tls_contexts
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.stream.relay import RelayDeadlines
from vnagent.upstream.apiserver import ApiServerUpstream
from vnagent.upstream.node_upstream import NodeUpstream
from vnagent.upstream.target_kubelets import TargetKubelets
from vnagent.upstream.upstream_mode import UpstreamSetting

NODE = "node-1"
LISTS = b"GET /api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1 "
SPACE = "default-b41df0-one-web"
UID = "aaaaaaaa-0000-4000-8000-000000000000"
OTHER = "22222222-0000-4000-8000-000000000000"
"""UID of another VirtualCluster."""
SUPER_UID = "bbbbbbbb-0000-4000-8000-000000000000"
LOGS = b"GET /containerLogs/web/shop/main HTTP/1.1\r\nHost: a\r\n\r\n"
EXEC = (
    b"POST /exec/web/shop/main?command=id&output=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n"
    b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    b"X-Stream-Protocol-Version: v5.channel.k8s.io\r\n\r\n"
)
RUN = b"POST /run/web/shop/main?cmd=id%20-u HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
GREETING = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"

Answering = Callable[[ssl.SSLSocket, bytes], None]


def shop(vc_uid: str = VC_UID, **other: object) -> dict[str, object]:
    """Return the one pod of the kubelet's list."""
    annotations = {
        wellknown.VC_UID: vc_uid,
        wellknown.UID: UID,
        wellknown.NAMESPACE: "web",
        wellknown.CONTAINERS: "main",
    }
    metadata = {"name": "shop", "namespace": SPACE, "uid": SUPER_UID, "annotations": annotations}
    return {"metadata": metadata, "spec": {**other}}


def access(*off: KubeletCall, vc_uid: str = VC_UID) -> dict[str, str]:
    """Return what vc-manager writes when one tenant's policy has these switches off."""
    everything = frozenset(KubeletCall)
    policies = {"baseline": everything, "shops": everything - set(off)}
    found = AgentPermissions(policies, {OTHER: "baseline", VC_UID: "baseline"} | {vc_uid: "shops"})
    return {agent_permissions.DOCUMENT_KEY: agent_permissions.encode_permissions(found)}


def unhurried() -> TenantBuckets:
    """Return turns for a caller that repeats requests without end. Each loop has its own clock."""
    return TenantBuckets(1, 0.0)


def saying(answer: bytes) -> Answering:
    """Answer every request in the same words."""
    return lambda peer, _: peer.sendall(answer)


@dataclass
class FakeKubelet:
    """Records every head that arrives, and answers as configured."""

    pods: list[dict[str, object]] = field(default_factory=lambda: [shop()])
    answer: Answering = field(default_factory=lambda: saying(GREETING))
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    lists_status: bytes = b"200 OK"
    lists: bytes = b"GET /pods "
    """How a request for the list of pods begins."""
    host: str = "127.0.0.1"
    """Where it listens."""
    named: str = ""
    """Name in its certificate. Empty: the default."""

    @property
    def asked(self) -> list[bytes]:
        """The request lines of everything but the lists of pods."""
        lines = (head.split(b"\r\n")[0] for head in self.heads)
        return [line for line in lines if not line.startswith(self.lists)]

    def behave(self, peer: ssl.SSLSocket) -> None:
        """Serve one connection, which must carry one request."""
        self.connections += 1
        head = tls_sockets.read_until(peer, b"\r\n\r\n")
        if not head:
            return  # a warm connection without a request
        self.handle(peer, head)
        tls_sockets.half_close(peer)
        with contextlib.suppress(OSError):
            tls_sockets.read_all(peer)

    def handle(self, peer: ssl.SSLSocket, head: bytes) -> None:
        """Answer one request."""
        self.heads.append(head)
        if head.startswith(self.lists):
            body = json.dumps({"items": self.pods}).encode()
            length = b"Content-Length: %d\r\n\r\n" % len(body)
            peer.sendall(b"HTTP/1.1 %s\r\n" % self.lists_status + length + body)
        else:
            self.answer(peer, head)

    @contextlib.contextmanager
    def running(self, authority: trustme.CA) -> Iterator["FakeKubelet"]:
        """Listen."""
        context = tls_sockets.server_context(authority, self.named or self.host)
        with tls_sockets.serving(context, self.behave, self.host) as (port, _):
            self.port = port
            yield self


def api_server(**other: object) -> FakeKubelet:
    """Return a super API server, which differs from a kubelet in where it lists pods."""
    return FakeKubelet(lists=LISTS, **other)


@dataclass
class RunningAgent:
    """A running agent and what it takes to call it."""

    port: int
    server: AgentServer
    streams: StreamLimiter
    permits: PermissionEnforcer
    kubelet: FakeKubelet
    api: FakeKubelet
    upstream: NodeUpstream
    client_authority: SigningAuthority
    serving_authority: trustme.CA
    folder: Path
    token_file: Path

    def context(self, leaf: ClientCertificate | None = VALID, *chain: bytes) -> ssl.SSLContext:
        """Return a caller's context. None sends no certificate."""
        context = tls_sockets.client_context(self.serving_authority)
        if leaf is not None:
            certificates.present(context, self.folder, self.client_authority, leaf, *chain)
        return context

    async def send(self, raw: bytes, context: ssl.SSLContext | None = None) -> bytes:
        """Send bytes as a tenant and return everything that comes back until the end."""
        context = context or self.context()

        def talk() -> bytes:
            with tls_sockets.dial(self.port, context) as peer:
                peer.sendall(raw)
                return tls_sockets.read_all(peer)

        return await asyncio.to_thread(talk)


@contextlib.asynccontextmanager
async def staged(
    folder: Path,
    kubelet: FakeKubelet,
    *,
    kubelet_authority: trustme.CA | None = None,
    client_authority: SigningAuthority | None = None,
    streams: StreamLimiter | None = None,
    server_name: str = "127.0.0.1",
    wish: UpstreamSetting = UpstreamSetting.KUBELET,
    api: FakeKubelet | None = None,
    registration: str = "",
    is_straight: bool = False,
    paces: TenantBuckets | None = None,
) -> AsyncIterator[RunningAgent]:
    """Run an agent before a kubelet, and a super API server.

    With a registration the API server is a target's, and its pods are served, directly at the
    kubelet or not.
    """
    api = api or api_server()
    authority = trustme.CA()
    callers = client_authority or certificates.make_authority()
    serving = authority.issue_cert("127.0.0.1")
    trusted = WatchedFile(folder / "kubelet-ca.crt")
    token = WatchedFile(folder / "token")
    token.path.write_bytes(b"first-token\n")
    servers = WatchedFile(folder / "api-ca.crt")
    with kubelet.running(authority), api.running(authority):
        servers.path.write_bytes(authority.cert_pem.bytes())
        trusted.path.write_bytes((kubelet_authority or authority).cert_pem.bytes())
        for file in (trusted, token, servers):
            await file.refresh()
        buffer = ReceiveBuffer()
        origin = HttpsClient(
            ServerAddress("127.0.0.1", kubelet.port, server_name),
            authorities=trusted,
            token=token,
            buffer=buffer,
        )
        super_api = HttpsClient(
            ServerAddress("127.0.0.1", api.port, "127.0.0.1"),
            authorities=servers,
            token=token,
            buffer=buffer,
        )
        ours = NodeUpstream(wish, kubelet=origin, api=ApiServerUpstream(super_api, NODE))
        places, permits = streams or StreamLimiter(), PermissionEnforcer()
        permits.update(access())
        nodes = PodAuthorizer(ours.fetch_pods, ours.wait_for_list)
        ways: tuple[Authorizer, StreamOpener, NodeReader] = (nodes, ours, NodeReads(nodes, ours))
        if registration:
            straight = TargetKubelets(
                port=kubelet.port, authorities=trusted, token=token, buffer=buffer
            )
            far = TargetPods(super_api, registration, straight if is_straight else None)
            ways = (far, far, far)
        requests = RequestHandler(
            permits=permits,
            gate=ways[0],
            upstream=ways[1],
            reads=ways[2],
            streams=places,
            deadlines=RelayDeadlines(check_seconds=0.05),
            paces=unhurried() if paces is None else paces,
        )
        server = AgentServer(requests, buffer)
        context = tls_contexts.create_server_context(
            certificate=serving.cert_chain_pems[0].bytes(),
            key=serving.private_key_pem.bytes(),
            client_authorities=callers.pem,
        )
        server.use_context(context, [callers.certificate])
        port = await server.listener.listen("127.0.0.1", 0)
        warming = asyncio.ensure_future(ours.kubelet.keep_warm())
        try:
            yield RunningAgent(
                port=port,
                server=server,
                streams=places,
                permits=permits,
                kubelet=kubelet,
                api=api,
                upstream=ours,
                client_authority=callers,
                serving_authority=authority,
                folder=folder,
                token_file=token.path,
            )
        finally:
            await server.listener.close(drain_seconds=0)
            warming.cancel()
            await asyncio.gather(warming, return_exceptions=True)
            ours.kubelet.drop_warm()


class HeldKubelet:
    """Holds a fake kubelet's answer back until it is opened."""

    def __init__(self, answer: bytes = GREETING) -> None:
        self._answer = answer
        self._open = threading.Event()
        self.entered = threading.Event()

    def __call__(self, peer: ssl.SSLSocket, _: bytes) -> None:
        """Wait, then answer."""
        self.entered.set()
        self._open.wait(tls_sockets.PATIENCE_SECONDS)
        peer.sendall(self._answer)

    def open(self) -> None:
        """Let every answer go."""
        self._open.set()


def status_of(answer: bytes) -> int:
    """Return the status of an answer."""
    return int(answer.split(b" ")[1])


def echo_after_switch(peer: ssl.SSLSocket, head: bytes) -> None:
    """Switch protocols and send back what comes."""
    early = head.partition(b"\r\n\r\n")[2]
    peer.sendall(SWITCHED + b"first ")
    while b"bye" not in early:
        part = peer.recv(1000)
        if not part:
            return
        early += part
    peer.sendall(early)


@contextlib.asynccontextmanager
async def astray(folder, api: FakeKubelet, **other) -> AsyncIterator[RunningAgent]:
    """Run an agent whose kubelet has a certificate of its own."""
    kubelet = FakeKubelet(answer=saying(b"HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n"))
    async with staged(
        folder, kubelet, kubelet_authority=trustme.CA(), api=api, wish=UpstreamSetting.AUTO, **other
    ) as set_up:
        yield set_up


async def outcome(set_up: RunningAgent, context: ssl.SSLContext) -> str:
    """Return how far a caller gets: its status, or `handshake`."""
    try:
        got = await set_up.send(LOGS, context)
    except OSError:
        return "handshake"
    return got.split(b" ")[1].decode() if got else "handshake"


def refused(reason: str, tenant: str = metrics.UNKNOWN_TENANT_LABEL) -> float:
    """Return how many connections were refused for this."""
    labels = {"tenant": tenant, "reason": reason}
    return REGISTRY.get_sample_value("vc_agent_connections_refused_total", labels) or 0.0
