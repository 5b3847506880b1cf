"""Raw request targets through the whole serving path, from the head to the kubelet's answer.

FIG-01, SEC-03, SEC-07, SEC-10, SEC-14.

Only the sockets are left out: heads, routes, permits, gate and pump are the agent's own. What may
reach the kubelet is a finite set, written down in `tries` and not computed by the agent.
"""

import contextlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime

import pytest

from tests.properties.agent.tries import (
    READS,
    SUPER,
    RequestMaker,
    RequestTry,
    own_paths,
    pod_list,
    whole_answers,
)
from tests.support.vnagent.certificates import KEY, VC_UID
from tests.support.vnagent.metric_series import agent_series
from tests.support.vnagent.running_agent import access, unhurried
from vnagent.authz import pod_authorizer
from vnagent.authz.client_identity import ClientIdentity
from vnagent.authz.metrics import UpstreamMode
from vnagent.authz.permissions import PermissionEnforcer
from vnagent.authz.pod_authorizer import OwnedPod, PodAuthorizer
from vnagent.client.upstream_server import OpenedStream
from vnagent.limits.concurrency import StreamLimiter
from vnagent.nodeapi import singleflight
from vnagent.nodeapi.node_reads import NodeReads
from vnagent.protocol import http_heads
from vnagent.protocol.routes import Route
from vnagent.server.request import RequestHandler
from vnagent.stream.relay import RelayDeadlines
from vnagent.stream.tls_stream import StreamSink
from vnagent.upstream.node_upstream import build_kubelet_target

FULL = 1_000_000
ONE_IN = 10
"""How many targets there are for each valid one."""

QUERY = re.compile(r"[A-Za-z0-9._~%+&=-]*")


class RecordingTransport:
    """Stands where a channel is: what arrives is known, what is written is kept."""

    unsent_bytes = unacknowledged_bytes = 0
    is_lost = has_ended = False

    def __init__(self, arrived: bytes) -> None:
        self._arrived = arrived
        self.sent = bytearray()

    async def read_until(self, mark: bytes, limit: int) -> bytes | None:
        end = self._arrived.find(mark) + len(mark)
        if end < len(mark) or end > limit:
            return None
        block, self._arrived = self._arrived[:end], self._arrived[end:]
        return block

    async def read(self) -> bytes:
        return b""

    async def drain(self) -> None: ...

    def on_end(self, _: Callable[[], None]) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def write(self, *chunks: bytes) -> None:
        self.sent += b"".join(chunks)

    def cork(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def attach_sink(self, sink: StreamSink) -> None:
        if self._arrived:
            sink.handle_data(self._arrived)
        sink.handle_end()

    def set_reading(self, is_wanted: bool) -> None: ...

    def close_write(self) -> None: ...

    close = break_connection = abort = close_write


class CallerTransport(RecordingTransport):
    """A caller of logs stays until it has read everything."""

    stays = False

    def attach_sink(self, sink: StreamSink) -> None:
        if not self.stays:
            super().attach_sink(sink)


class RecordingUpstream:
    """Writes down each request as it would go to a kubelet, and answers with bytes by chance."""

    mode = UpstreamMode.KUBELET
    listed = b""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._answers = whole_answers()
        self.kubelet = self
        self.requests: list[bytes] = []
        self.reads: list[str] = []
        self.wire = RecordingTransport(b"")
        self.body = b""

    async def fetch(self, target: str, *, accept: bytes, limit: int) -> bytes:  # noqa: ARG002
        self.reads.append(target)
        return self._answers[target.partition("?")[0]]

    async def open(
        self, route: Route, pod: OwnedPod, headers: list[tuple[bytes, bytes]]
    ) -> OpenedStream:
        return self._open(route.method, build_kubelet_target(route, pod), headers)

    def _open(self, method: str, target: str, headers: list[tuple[bytes, bytes]]) -> OpenedStream:
        request = http_heads.write_request(method, target, "10.0.0.1:10250", headers, b"token")
        self.requests.append(request)
        body = self._chance.randbytes(self._chance.choice((0, 1, 100, 3000)))
        length = b"Content-Length: %d\r\n" % len(body)
        block = b"HTTP/1.1 200 OK\r\n" + length + b"\r\n"
        if b"\r\nUpgrade: " in request:
            block = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
            block += b"Upgrade: SPDY/3.1\r\n\r\n"
        self.body, self.wire = body, RecordingTransport(body)
        head = http_heads.parse_response(block)
        return OpenedStream(self.wire, head, block, self)  # type: ignore[arg-type]


OWN = own_paths()
LISTED = pod_list()
SHOWN = b"shop.with.dots"
HIDDEN = [
    *(name.encode() for name in (*SUPER.values(), "default-ffffff-two", "vc-manager", "etcd-0")),
    *(b"theirs", b"eeeeeeee-0000"),
]
FOREVER = datetime.max.replace(tzinfo=UTC)


class ServingPath:
    """The serving path, from the head of a request to what reaches the kubelet.

    Make it where a loop runs, and within `unspaced`: it takes its pauses from there.
    """

    def __init__(self, chance: random.Random) -> None:
        """Begin. `chance` makes the kubelet's answers."""
        self._upstream, permits, entrance = (
            RecordingUpstream(chance),
            PermissionEnforcer(),
            PodAuthorizer(_pods),
        )
        permits.update(access())
        self._requests = RequestHandler(
            permits=permits,
            gate=entrance,
            upstream=self._upstream,
            reads=NodeReads(entrance, self._upstream),  # type: ignore[arg-type]
            streams=StreamLimiter(),
            deadlines=RelayDeadlines(),
            paces=unhurried(),
        )

    async def one(self, tried: RequestTry) -> str:
        """Send one request. Return what became of it. Fails when it is not what must."""
        upstream = self._upstream
        upstream.requests.clear()
        upstream.reads.clear()
        caller = ClientIdentity(VC_UID, KEY, FOREVER)
        stream = b"\x80\x03\x00\x01 GET /pods HTTP/1.1\r\n\r\n" if tried.switches else b""
        wire = CallerTransport(tried.head + stream)
        wire.stays = not tried.switches
        await self._requests.serve(wire, caller)  # type: ignore[arg-type]
        sent, where = bytes(wire.sent), (tried.kind, tried.method, tried.target)
        head, _, body = sent.partition(http_heads.HEAD_END)
        assert head.startswith(b"HTTP/1.1 "), where
        status = int(head.split(b" ", 2)[1])
        assert len(upstream.requests) + len(upstream.reads) <= 1, where
        if upstream.reads:
            assert tried.method == b"GET", where
            assert upstream.reads[0].partition("?")[0] in READS, (where, upstream.reads)
            assert status == 200, (where, sent)
            assert SHOWN in body, (where, sent)
            assert not [name for name in HIDDEN if name in body], (where, sent)
            return "filtered"
        assert tried.kind != "read", (where, sent)
        if not upstream.requests:
            assert not tried.wanted, (where, sent)
            assert (status == 200) == (body == b"ok\n"), (where, sent)
            return "refused" if status != 200 else "health"
        request = upstream.requests[0]
        line, *lines = request.split(http_heads.HEAD_END)[0].split(b"\r\n")
        method, target, version = line.decode().split(" ")
        path, _, query = target.partition("?")
        assert (method.encode(), version) == (tried.method, "HTTP/1.1"), (where, request)
        assert path in OWN, (where, request)
        assert QUERY.fullmatch(query), (where, request)
        assert request.count(http_heads.HEAD_END) == 1, (where, request)
        assert lines[-1] == b"Authorization: Bearer token", (where, request)
        assert tried.wanted is None or tried.wanted == target, (where, tried.wanted, request)
        assert status == (101 if tried.switches else 200), (where, sent)
        assert body == upstream.body, where
        assert bytes(upstream.wire.sent) == (stream if tried.switches else b""), where
        return "served"


async def _pods() -> bytes:
    return LISTED


@contextmanager
def unspaced() -> Iterator[None]:
    """Let questions of what is made within the block follow each other at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_authorizer, "MIN_LIST_INTERVAL_SECONDS", 0.0)
        patch.setattr(singleflight, "MIN_QUERY_INTERVAL_SECONDS", 0.0)
        yield


async def run(count: int, seed: int) -> str:
    """Try `count` targets. Return a sentence, or fail with the one that did not hold."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    maker, seen = RequestMaker(chance), Counter[tuple[str, str]]()
    with unspaced():
        served = ServingPath(chance)
        for number in range(count):
            tried = maker.valid() if number % ONE_IN == 0 else maker.invalid()
            seen[tried.kind, await served.one(tried)] += 1
    valid = sum(times for (kind, _), times in seen.items() if kind == "valid")
    series = agent_series()
    assert series <= 200, series
    shown = ", ".join(f"{kind} {end} {times:,}" for (kind, end), times in sorted(seen.items()))
    return (
        f"{count:,} targets, {valid:,} of them valid and served byte for byte, none reached a"
        f" foreign namespace or an unlisted path,"
        f" and the agent's metrics are {series} series ({shown})"
    )
