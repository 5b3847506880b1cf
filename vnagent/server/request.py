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
from vnagent.authz.client_identity import ClientIdentity
from vnagent.authz.metrics import RejectedConnection
from vnagent.authz.permissions import PermissionEnforcer
from vnagent.authz.pod_authorizer import OwnedPod
from vnagent.client.upstream_server import OpenedStream
from vnagent.limits.concurrency import (
    BYTES_PER_REQUEST_TURN,
    MAX_RUNS,
    MAX_RUNS_PER_TENANT,
    RUN_SECONDS,
    StreamLimiter,
)
from vnagent.limits.peer_backoff import FLOOD_BURST, FLOOD_INTERVAL_SECONDS, PeerBackoff
from vnagent.limits.token_bucket import TenantBuckets
from vnagent.nodeapi.node_reads import NodeDocument
from vnagent.protocol import http_heads, routes
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.protocol.http_heads import InvalidResponseError, RequestHead
from vnagent.protocol.routes import Route, RouteVerb
from vnagent.server import audit
from vnagent.server.audit import RequestAudit
from vnagent.stream.graceful_close import close_after_read
from vnagent.stream.relay import DiscardingSink, RelayDeadlines, StreamRelay
from vnagent.stream.stream_states import StreamEnd
from vnagent.stream.tls_stream import StreamLostError, TlsStream
from vnagent.upstream.node_upstream import HeaderList

REQUEST_HEAD_SECONDS = 10.0
UPGRADE_SECONDS = 60.0
"""Limit in seconds for a kubelet to switch protocols. Without it a node that vanished silently
would keep a caller waiting.
"""
RESPONSE_READ_SECONDS = 30.0
"""Limit in seconds for a caller to read an answer that is held in memory."""
WRITE_CHUNK_BYTES = 64 * 1024
_FLOOD_REASONS = frozenset({RefusalReason.TENANT_FULL, RefusalReason.TENANT_FAST})


_log = structlog.get_logger(__name__)


class CallerDisconnectedError(Exception):
    """The caller has closed the connection before it was answered."""


class Authorizer(Protocol):
    """Authorizer that decides which tenant a pod belongs to."""

    async def authorize(self, caller: ClientIdentity, route: Route) -> OwnedPod:
        """Return the pod of a route, or raise RefusedError."""


class StreamOpener(Protocol):
    """Opener of streams to pods."""

    async def open(self, route: Route, pod: OwnedPod, headers: HeaderList) -> OpenedStream:
        """Send a stream request for an admitted pod. Raises RefusedError."""


class NodeReader(Protocol):
    """Reader that answers calls about the whole node."""

    def hold_read(self, vc_uid: str) -> AbstractContextManager[None]:
        """Reserve a tenant's place from request to answer. Raises RefusedError without a free
        place.
        """

    async def read(self, caller: ClientIdentity, route: Route) -> NodeDocument:
        """Return the answer of a read for a caller, or raise RefusedError."""


class RequestHandler:
    """Server of requests of identified callers."""

    def __init__(
        self,
        *,
        permits: PermissionEnforcer,
        gate: Authorizer,
        upstream: StreamOpener,
        reads: NodeReader,
        streams: StreamLimiter,
        deadlines: RelayDeadlines,
        paces: TenantBuckets,
    ) -> None:
        """Store the parts. `paces` limits how often a tenant may send requests."""
        self._rate_limits = paces
        self._permission_enforcer = permits
        self._authorizer = gate
        self._reads = reads
        self._upstream = upstream
        self._streams = streams
        self._deadlines = deadlines
        self._runs = StreamLimiter(per_tenant=MAX_RUNS_PER_TENANT, total=MAX_RUNS, what="runs")
        self._flood_backoff = PeerBackoff(FLOOD_BURST, FLOOD_INTERVAL_SECONDS)

    async def serve(self, channel: TlsStream, caller: ClientIdentity) -> None:
        """Serve the one request of a connection, and leave the channel closing."""
        loop = asyncio.get_running_loop()
        if self._flood_backoff.is_banned(_build_rate_key(caller), loop.time()):
            metrics.count_refused_connection(RejectedConnection.REPEATED, caller.vc_uid)
            channel.abort()
            return
        session = RequestAudit(caller, result=StreamEnd.DRAINED.value)
        # A refusal keeps the place of its request until it is answered. Otherwise the number of
        # refusals would be unbounded.
        with contextlib.ExitStack() as places:
            await self._handle_request(channel, session, places)

    async def _handle_request(
        self, channel: TlsStream, session: RequestAudit, places: contextlib.ExitStack
    ) -> None:
        caller, loop = session.caller, asyncio.get_running_loop()
        try:
            places.enter_context(self._streams.hold_stream(caller.vc_uid))
            self._check_rate(caller)
            await self._handle_routed(channel, session, places)
        except RequestRefusedError as refusal:
            session.result = refusal.reason.value
            is_flood = refusal.reason in _FLOOD_REASONS and session.route is None
            if is_flood and self._flood_backoff.count_refusal(_build_rate_key(caller), loop.time()):
                _log.warning(
                    "a tenant continues beyond its limit, now without an answer", tenant=caller.key
                )
            if session.status:  # its head is sent, so a message would be read as part of the stream
                channel.break_connection()
                return
            session.status = refusal.status
            extra = ((b"Retry-After", b"1"),) if refusal.status in (429, 503) else ()
            await _write_response(channel, refusal.status, refusal.sentence, extra)
        except (CallerDisconnectedError, StreamLostError):
            session.result = StreamEnd.CALLER_GONE.value
            channel.abort()
        except asyncio.CancelledError:
            channel.break_connection()
            raise
        finally:
            audit.write_audit_record(session)

    async def _handle_routed(
        self, channel: TlsStream, session: RequestAudit, places: contextlib.ExitStack
    ) -> None:
        head = await _read_head(channel)
        if longer := len(head.target) // BYTES_PER_REQUEST_TURN:
            now = asyncio.get_running_loop().time()
            self._rate_limits.charge(_build_rate_key(session.caller), now, longer)
        route = session.route = routes.parse_route(head.method, head.target)
        if session.caller.is_metrics_only and route.verb is not RouteVerb.METRICS:
            raise RequestRefusedError(
                403, RefusalReason.METRICS_ONLY, "this certificate is for /metrics/resource only"
            )
        upgrade = _check_upgrade(route, http_heads.get_requested_upgrade(head))
        session.protocol = upgrade.decode()
        if route.verb is RouteVerb.HEALTH:
            session.status, session.result = 200, StreamEnd.COMPLETE.value
            await _write_response(channel, 200, "ok")
            return
        if route.is_read:
            await self._serve_read(channel, route, session)
            return
        async with self._permission_enforcer.hold_permission(session.caller.vc_uid, route.verb):
            if route.verb is RouteVerb.RUN:
                places.enter_context(self._runs.hold_stream(session.caller.vc_uid))
            pod = await self._authorizer.authorize(session.caller, route)
            with metrics.count_open_stream(session.caller.vc_uid, route.verb):
                opened = await self._open_stream(channel, head, route, pod, upgrade)
                await self._relay_stream(channel, opened, session, pod, upgrade)

    def _check_rate(self, caller: ClientIdentity) -> None:
        """Use one turn of the tenant's rate before anything is read. Raises RefusedError.

        A head that never arrives, or that is malformed, costs a turn too.
        """
        if not self._rate_limits.take(_build_rate_key(caller), asyncio.get_running_loop().time()):
            raise RequestRefusedError(
                429,
                RefusalReason.TENANT_FAST,
                "this cluster sends more requests to the node than its share. Try again",
            )

    async def _serve_read(self, channel: TlsStream, route: Route, session: RequestAudit) -> None:
        with (
            self._reads.hold_read(session.caller.vc_uid),
            metrics.count_open_stream(session.caller.vc_uid, route.verb),
        ):
            document = await self._reads.read(session.caller, route)
            session.status = 200
            head = http_heads.write_response_head(200, len(document.body), document.content_type)
            session.result = (await _write_body(channel, head, document.body)).value
            session.bytes_down = len(document.body)

    async def _open_stream(
        self, channel: TlsStream, head: RequestHead, route: Route, pod: OwnedPod, upgrade: bytes
    ) -> OpenedStream:
        headers = (
            http_heads.filter_upgrade_headers(head, upgrade)
            if upgrade
            else [(b"Connection", b"close")]
        )
        if not upgrade:
            channel.attach_sink(DiscardingSink(channel))
        if channel.has_ended:  # before a command runs without a caller
            raise CallerDisconnectedError
        opening = self._upstream.open(route, pod, headers)
        seconds = self._get_head_timeout(route)
        timed = metrics.FIRST_BYTE_SECONDS.time() if upgrade else contextlib.nullcontext()
        try:
            with timed:
                return await _open_unless_disconnected(channel, seconds, opening)
        except TimeoutError as error:
            if not upgrade:  # The node is healthy, but the tenant's own program is silent.
                sentence = f"the container has sent nothing within {seconds:.0f} seconds"
                raise RequestRefusedError(408, RefusalReason.SILENT, sentence) from error
            raise RequestRefusedError(
                504, RefusalReason.KUBELET_DOWN, "the node's kubelet did not answer in time"
            ) from error

    def _get_head_timeout(self, route: Route) -> float:
        """Return the limit in seconds for a kubelet to begin its answer.

        A kubelet answers a switch of protocols at once, a command at the command's end, and a log
        with its first line.
        """
        if route.is_upgrade:
            return UPGRADE_SECONDS
        if route.verb is RouteVerb.RUN:
            return RUN_SECONDS
        return min(self._deadlines.idle_seconds, self._deadlines.total_seconds)

    async def _relay_stream(
        self,
        channel: TlsStream,
        opened: OpenedStream,
        session: RequestAudit,
        pod: OwnedPod,
        upgrade: bytes,
    ) -> None:
        wanted = 101 if upgrade else 200
        if opened.head.status != wanted:
            await self._relay_refusal(channel, opened, session, pod)
            return
        try:
            written = (
                http_heads.write_switching_protocols(opened.head, upgrade)
                if upgrade
                else http_heads.write_stream_head(opened.head)
            )
        except InvalidResponseError as error:
            opened.channel.abort()
            raise RequestRefusedError(
                502, RefusalReason.KUBELET_ODD, "the node's kubelet returned no usable answer"
            ) from error
        session.status = wanted
        relay = StreamRelay(
            channel,
            opened.channel,
            is_two_way=bool(upgrade),
            deadlines=self._deadlines,
            first_bytes=written,
        )
        try:
            await relay.run()
        finally:
            session.result = relay.end.value
            session.bytes_up, session.bytes_down = relay.bytes_up, relay.bytes_down

    async def _relay_refusal(
        self, channel: TlsStream, opened: OpenedStream, session: RequestAudit, pod: OwnedPod
    ) -> None:
        """Send the kubelet's refusal to the caller, with the tenant's names."""
        status = opened.head.status
        text = (await opened.server.read_refusal(opened)).decode("utf-8", "replace")
        if not 400 <= status < 600:
            raise RequestRefusedError(
                502,
                RefusalReason.KUBELET_ODD,
                "the node's kubelet returned an answer of an unexpected kind",
            )
        session.status, session.result = status, "kubelet_refused"
        told = text.replace(pod.super_namespace, pod.tenant_namespace)
        told = told.replace(pod.super_uid, pod.tenant_uid)
        await _write_response(channel, status, told.rstrip("\n"))


def _build_rate_key(caller: ClientIdentity) -> str:
    """Return the key of a caller's rate. A metrics certificate has a rate of its own.

    Other calls of the tenant therefore cannot use up the turns for its metrics.
    """
    return f"{caller.vc_uid}, figures" if caller.is_metrics_only else caller.vc_uid


async def _read_head(channel: TlsStream) -> RequestHead:
    try:
        async with asyncio.timeout(REQUEST_HEAD_SECONDS):
            block = await channel.read_until(http_heads.HEAD_END, http_heads.MAX_REQUEST_HEAD_BYTES)
    except TimeoutError as error:
        raise RequestRefusedError(
            408, RefusalReason.SLOW, f"no request came within {REQUEST_HEAD_SECONDS:.0f} seconds"
        ) from error
    if block is None:
        raise RequestRefusedError(431, RefusalReason.MALFORMED, "the request head is too long")
    return http_heads.parse_request(block)


def _check_upgrade(route: Route, upgrade: bytes) -> bytes:
    if route.is_upgrade and not upgrade:
        raise RequestRefusedError(400, RefusalReason.NOT_AN_UPGRADE, "Upgrade request required")
    if upgrade and not route.is_upgrade:
        raise RequestRefusedError(
            400, RefusalReason.MALFORMED, f"{route.verb.value} does not switch protocols"
        )
    return upgrade


async def _open_unless_disconnected(
    channel: TlsStream, seconds: float, opening: Awaitable[OpenedStream]
) -> OpenedStream:
    """Wait for the kubelet as long as the caller waits. A silent log may have no head for hours.

    Raises TimeoutError after `seconds`, and CallerGoneError if the caller closes.
    """
    try:
        async with asyncio.timeout(seconds) as life:

            def end() -> None:
                if not life.expired():  # an expired timeout cannot be rescheduled
                    life.reschedule(0)

            with channel.on_end(end):
                return await opening
    except TimeoutError as error:
        if channel.has_ended:
            raise CallerDisconnectedError from error
        raise


async def _write_body(channel: TlsStream, head: bytes, body: bytes) -> StreamEnd:
    """Write an answer no faster than its caller reads, then close in order."""
    channel.write(head)
    try:
        async with asyncio.timeout(RESPONSE_READ_SECONDS):
            for start in range(0, len(body), WRITE_CHUNK_BYTES):
                await channel.drain()
                channel.write(body[start : start + WRITE_CHUNK_BYTES])
    except TimeoutError:
        channel.break_connection()
        return StreamEnd.TOO_LONG
    await close_after_read(channel)
    return StreamEnd.COMPLETE


async def _write_response(
    channel: TlsStream, status: int, sentence: str, extra: http_heads.HeaderPairs = ()
) -> None:
    """Write an answer of the agent and close in order."""
    channel.write(http_heads.write_response(status, f"{sentence}\n".encode(), extra))
    await close_after_read(channel)
