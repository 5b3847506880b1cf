"""Handling of one request of a tenant, from its head to its end.

The module owns the order of the checks: place, head, route, permit, pod, kubelet. It must not know
how connections are accepted. Hazard: no call may go to the kubelet before all checks have passed,
and a connection must serve one request only. Otherwise a second request could pass unchecked behind
the first.
"""

import asyncio
import contextlib
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import Protocol

import structlog

from vnagent.authz import metrics
from vnagent.authz.client_identity import Caller
from vnagent.authz.metrics import Unheard
from vnagent.authz.permissions import Permits
from vnagent.authz.pod_authorizer import OwnedPod
from vnagent.client.upstream_server import Opened
from vnagent.limits.concurrency import (
    BYTES_OF_A_REQUEST,
    RUN_SECONDS,
    RUNS,
    RUNS_PER_TENANT,
    Streams,
)
from vnagent.limits.peer_backoff import TOLD_AT_ONCE, TOLD_SECONDS, Rebuffs
from vnagent.limits.token_bucket import Buckets
from vnagent.nodeapi.node_reads import Document
from vnagent.protocol import http_heads, routes
from vnagent.protocol.errors import Reason, RefusedError
from vnagent.protocol.http_heads import RequestHead, ResponseProblemError
from vnagent.protocol.routes import Route, Verb
from vnagent.server import audit
from vnagent.server.audit import Session
from vnagent.stream.graceful_close import part
from vnagent.stream.relay import Deadlines, Deaf, Pump
from vnagent.stream.stream_states import End
from vnagent.stream.tls_stream import Channel, ChannelLostError
from vnagent.upstream.node_upstream import Headers

HEAD_SECONDS = 10.0
SWITCH_SECONDS = 60.0
"""Limit in seconds for a kubelet to switch protocols. Without it a node that vanished silently
would keep a caller waiting.
"""
HAND_OVER_SECONDS = 30.0
"""Limit in seconds for a caller to read an answer that is held in memory."""
PIECE_BYTES = 64 * 1024
_FLOODS = frozenset({Reason.TENANT_FULL, Reason.TENANT_FAST})


_log = structlog.get_logger(__name__)


class CallerGoneError(Exception):
    """The caller has closed the connection before it was answered."""


class Gatekeeper(Protocol):
    """Authorizer that decides which tenant a pod belongs to."""

    async def admit(self, caller: Caller, route: Route) -> OwnedPod:
        """Return the pod of a route, or raise RefusedError."""


class Opener(Protocol):
    """Opener of streams to pods."""

    async def open(self, route: Route, pod: OwnedPod, headers: Headers) -> Opened:
        """Send a stream request for an admitted pod. Raises RefusedError."""


class Reader(Protocol):
    """Reader that answers calls about the whole node."""

    def one(self, vc_uid: str) -> AbstractContextManager[None]:
        """Reserve a tenant's place from request to answer. Raises RefusedError without a free
        place.
        """

    async def answer(self, caller: Caller, route: Route) -> Document:
        """Return the answer of a read for a caller, or raise RefusedError."""


class Requests:
    """Server of requests of identified callers."""

    def __init__(
        self,
        *,
        permits: Permits,
        gate: Gatekeeper,
        upstream: Opener,
        reads: Reader,
        streams: Streams,
        deadlines: Deadlines,
        paces: Buckets,
    ) -> None:
        """Store the parts. `paces` limits how often a tenant may send requests."""
        self._paces = paces
        self._permits = permits
        self._gate = gate
        self._reads = reads
        self._upstream = upstream
        self._streams = streams
        self._deadlines = deadlines
        self._runs = Streams(per_tenant=RUNS_PER_TENANT, total=RUNS, what="runs")
        self._rebuffs = Rebuffs(TOLD_AT_ONCE, TOLD_SECONDS)

    async def serve(self, channel: Channel, caller: Caller) -> None:
        """Serve the one request of a connection, and leave the channel closing."""
        loop = asyncio.get_running_loop()
        if self._rebuffs.is_shut(_who(caller), loop.time()):
            metrics.refused(Unheard.REPEATED, caller.vc_uid)
            channel.abort()
            return
        session = Session(caller, result=End.DRAINED.value)
        # A refusal keeps the place of its request until it is answered. Otherwise the number of
        # refusals would be unbounded.
        with contextlib.ExitStack() as places:
            await self._serve(channel, session, places)

    async def _serve(
        self, channel: Channel, session: Session, places: contextlib.ExitStack
    ) -> None:
        caller, loop = session.caller, asyncio.get_running_loop()
        try:
            places.enter_context(self._streams.one(caller.vc_uid))
            self._pace(caller)
            await self._answered(channel, session, places)
        except RefusedError as refusal:
            session.result = refusal.reason.value
            is_flood = refusal.reason in _FLOODS and session.route is None
            if is_flood and self._rebuffs.count(_who(caller), loop.time()):
                _log.warning("a tenant goes on past its limit, now unheard", tenant=caller.key)
            if session.status:  # its head is sent, so a message would be read as part of the stream
                channel.cut()
                return
            session.status = refusal.status
            extra = ((b"Retry-After", b"1"),) if refusal.status in (429, 503) else ()
            await _answer(channel, refusal.status, refusal.sentence, extra)
        except (CallerGoneError, ChannelLostError):
            session.result = End.CALLER_GONE.value
            channel.abort()
        except asyncio.CancelledError:
            channel.cut()
            raise
        finally:
            audit.record(session)

    async def _answered(
        self, channel: Channel, session: Session, places: contextlib.ExitStack
    ) -> None:
        head = await _read_head(channel)
        if longer := len(head.target) // BYTES_OF_A_REQUEST:
            now = asyncio.get_running_loop().time()
            self._paces.owe(_who(session.caller), now, longer)
        route = session.route = routes.parse(head.method, head.target)
        if session.caller.has_figures_only and route.verb is not Verb.METRICS:
            raise RefusedError(
                403, Reason.FIGURES_ONLY, "this certificate is for /metrics/resource alone"
            )
        upgrade = _check_upgrade(route, http_heads.requested_upgrade(head))
        session.protocol = upgrade.decode()
        if route.verb is Verb.HEALTH:
            session.status, session.result = 200, End.COMPLETE.value
            await _answer(channel, 200, "ok")
            return
        if route.is_read:
            await self._read(channel, route, session)
            return
        async with self._permits.one(session.caller.vc_uid, route.verb):
            if route.verb is Verb.RUN:
                places.enter_context(self._runs.one(session.caller.vc_uid))
            pod = await self._gate.admit(session.caller, route)
            with metrics.streaming(session.caller.vc_uid, route.verb):
                opened = await self._open(channel, head, route, pod, upgrade)
                await self._stream(channel, opened, session, pod, upgrade)

    def _pace(self, caller: Caller) -> None:
        """Use one turn of the tenant's rate before anything is read. Raises RefusedError.

        A head that never arrives, or that is malformed, costs a turn too.
        """
        if not self._paces.take(_who(caller), asyncio.get_running_loop().time()):
            raise RefusedError(
                429,
                Reason.TENANT_FAST,
                "this cluster asks more of the node than is its turn; try again",
            )

    async def _read(self, channel: Channel, route: Route, session: Session) -> None:
        with (
            self._reads.one(session.caller.vc_uid),
            metrics.streaming(session.caller.vc_uid, route.verb),
        ):
            document = await self._reads.answer(session.caller, route)
            session.status = 200
            head = http_heads.write_answer_head(200, len(document.body), document.content_type)
            session.result = (await _hand_over(channel, head, document.body)).value
            session.bytes_down = len(document.body)

    async def _open(
        self, channel: Channel, head: RequestHead, route: Route, pod: OwnedPod, upgrade: bytes
    ) -> Opened:
        headers = (
            http_heads.upgrade_headers(head, upgrade) if upgrade else [(b"Connection", b"close")]
        )
        if not upgrade:
            channel.pour_into(Deaf(channel))
        if channel.has_ended:  # before a command runs without a caller
            raise CallerGoneError
        opening = self._upstream.open(route, pod, headers)
        seconds = self._head_seconds(route)
        timed = metrics.FIRST_BYTE_SECONDS.time() if upgrade else contextlib.nullcontext()
        try:
            with timed:
                return await _unless_gone(channel, seconds, opening)
        except TimeoutError as error:
            if not upgrade:  # The node is healthy, but the tenant's own program is silent.
                sentence = f"the container has said nothing within {seconds:.0f} seconds"
                raise RefusedError(408, Reason.SILENT, sentence) from error
            raise RefusedError(
                504, Reason.KUBELET_DOWN, "the node's kubelet did not answer in time"
            ) from error

    def _head_seconds(self, route: Route) -> float:
        """Return the limit in seconds for a kubelet to begin its answer.

        A kubelet answers a switch of protocols at once, a command at the command's end, and a log
        with its first line.
        """
        if route.switches:
            return SWITCH_SECONDS
        if route.verb is Verb.RUN:
            return RUN_SECONDS
        return min(self._deadlines.idle_seconds, self._deadlines.total_seconds)

    async def _stream(
        self, channel: Channel, opened: Opened, session: Session, pod: OwnedPod, upgrade: bytes
    ) -> None:
        wanted = 101 if upgrade else 200
        if opened.head.status != wanted:
            await self._pass_refusal(channel, opened, session, pod)
            return
        try:
            written = (
                http_heads.write_switch(opened.head, upgrade)
                if upgrade
                else http_heads.write_stream(opened.head)
            )
        except ResponseProblemError as error:
            opened.channel.abort()
            raise RefusedError(
                502, Reason.KUBELET_ODD, "the node's kubelet gave no usable answer"
            ) from error
        session.status = wanted
        pump = Pump(
            channel,
            opened.channel,
            is_two_way=bool(upgrade),
            deadlines=self._deadlines,
            greeting=written,
        )
        try:
            await pump.run()
        finally:
            session.result = pump.end.value
            session.bytes_up, session.bytes_down = pump.bytes_up, pump.bytes_down

    async def _pass_refusal(
        self, channel: Channel, opened: Opened, session: Session, pod: OwnedPod
    ) -> None:
        """Send the kubelet's refusal to the caller, with the tenant's names."""
        status = opened.head.status
        text = (await opened.peer.explain(opened)).decode("utf-8", "replace")
        if not 400 <= status < 600:
            raise RefusedError(
                502, Reason.KUBELET_ODD, "the node's kubelet gave an answer of an unexpected kind"
            )
        session.status, session.result = status, "kubelet_refused"
        told = text.replace(pod.super_namespace, pod.tenant_namespace)
        told = told.replace(pod.super_uid, pod.tenant_uid)
        await _answer(channel, status, told.rstrip("\n"))


def _who(caller: Caller) -> str:
    """Return the key of a caller's rate. A metrics certificate has a rate of its own.

    Other calls of the tenant therefore cannot use up the turns for its metrics.
    """
    return f"{caller.vc_uid}, figures" if caller.has_figures_only else caller.vc_uid


async def _read_head(channel: Channel) -> RequestHead:
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            block = await channel.read_until(http_heads.END, http_heads.MAX_REQUEST_HEAD_BYTES)
    except TimeoutError as error:
        raise RefusedError(
            408, Reason.SLOW, f"no request came within {HEAD_SECONDS:.0f} seconds"
        ) from error
    if block is None:
        raise RefusedError(431, Reason.MALFORMED, "the request head is too long")
    return http_heads.parse_request(block)


def _check_upgrade(route: Route, upgrade: bytes) -> bytes:
    if route.switches and not upgrade:
        raise RefusedError(400, Reason.NOT_AN_UPGRADE, "Upgrade request required")
    if upgrade and not route.switches:
        raise RefusedError(400, Reason.MALFORMED, f"{route.verb.value} does not switch protocols")
    return upgrade


async def _unless_gone(channel: Channel, seconds: float, opening: Awaitable[Opened]) -> Opened:
    """Wait for the kubelet as long as the caller waits. A silent log may have no head for hours.

    Raises TimeoutError after `seconds`, and CallerGoneError if the caller closes.
    """
    try:
        async with asyncio.timeout(seconds) as life:

            def end() -> None:
                if not life.expired():  # an expired timeout cannot be rescheduled
                    life.reschedule(0)

            with channel.told_of_end(end):
                return await opening
    except TimeoutError as error:
        if channel.has_ended:
            raise CallerGoneError from error
        raise


async def _hand_over(channel: Channel, head: bytes, body: bytes) -> End:
    """Write an answer no faster than its caller reads, then close in order."""
    channel.write(head)
    try:
        async with asyncio.timeout(HAND_OVER_SECONDS):
            for start in range(0, len(body), PIECE_BYTES):
                await channel.drained()
                channel.write(body[start : start + PIECE_BYTES])
    except TimeoutError:
        channel.cut()
        return End.TOO_LONG
    await part(channel)
    return End.COMPLETE


async def _answer(
    channel: Channel, status: int, sentence: str, extra: http_heads.Headers = ()
) -> None:
    """Write an answer of the agent and close in order."""
    channel.write(http_heads.write_answer(status, f"{sentence}\n".encode(), extra))
    await part(channel)
