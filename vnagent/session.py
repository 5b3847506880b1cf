"""One request of a tenant, from its head to its end.

Owns the order of the checks: head, route, place, pod, kubelet. Must not know how connections are
accepted. Hazard: nothing is asked of the kubelet for a request before all checks have passed, and a
connection carries one request only, so that nothing can hide behind it.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from vnagent import audit, heads, metrics, routes
from vnagent.audit import Session
from vnagent.channel import Channel, ChannelLostError
from vnagent.gate import Gate, OwnedPod
from vnagent.heads import RequestHead, ResponseProblemError
from vnagent.identity import Caller
from vnagent.kubelet import Kubelet, Opened
from vnagent.limits import Streams
from vnagent.pump import Deadlines, End, Pump
from vnagent.refusals import Reason, RefusedError
from vnagent.routes import Route, Verb

HEAD_SECONDS = 10.0
SWITCH_SECONDS = 60.0
"""For a kubelet to switch protocols; a node that vanished without a word would keep a caller."""
DRAINED = "drained"
"""How a session is recorded that the agent's own end has cut off."""


class CallerGoneError(Exception):
    """The caller has closed the connection before it was answered."""


class Requests:
    """Serves requests of callers that are known."""

    def __init__(
        self, *, gate: Gate, kubelet: Kubelet, streams: Streams, deadlines: Deadlines
    ) -> None:
        self._gate = gate
        self._kubelet = kubelet
        self._streams = streams
        self._deadlines = deadlines

    async def serve(self, channel: Channel, caller: Caller) -> None:
        """Serve the one request of a connection, and leave the channel closing."""
        session = Session(caller, result=DRAINED)
        try:
            await self._serve(channel, session)
        except RefusedError as refusal:
            session.status, session.result = refusal.status, refusal.reason.value
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

    async def _serve(self, channel: Channel, session: Session) -> None:
        with self._streams.one(session.caller.vc_uid):
            head = await _read_head(channel)
            route = session.route = routes.parse(head.method, head.target)
            upgrade = _check_upgrade(route, heads.requested_upgrade(head))
            if route.verb is Verb.HEALTH:
                session.status, session.result = 200, End.COMPLETE.value
                await _answer(channel, 200, "ok")
                return
            pod = await self._gate.admit(session.caller, route)
            with metrics.OPEN_STREAMS[route.verb].track_inprogress():
                opened = await self._open(channel, head, route, pod, upgrade)
                await self._stream(channel, opened, session, pod, upgrade)

    async def _open(
        self, channel: Channel, head: RequestHead, route: Route, pod: OwnedPod, upgrade: bytes
    ) -> Opened:
        try:
            target = routes.render(
                route, super_namespace=pod.super_namespace, super_uid=pod.super_uid
            )
        except ValueError as error:
            raise RefusedError(
                502, Reason.KUBELET_ODD, "the node's kubelet lists the pod in an odd way"
            ) from error
        headers = heads.upgrade_headers(head, upgrade) if upgrade else [(b"Connection", b"close")]
        opening = self._kubelet.open(route.method, target, headers)
        if not upgrade:
            return await _unless_gone(channel, opening)
        try:
            with metrics.FIRST_BYTE_SECONDS.time():
                async with asyncio.timeout(SWITCH_SECONDS):
                    return await _unless_gone(channel, opening)
        except TimeoutError as error:
            raise RefusedError(
                504, Reason.KUBELET_DOWN, "the node's kubelet did not answer in time"
            ) from error

    async def _stream(
        self, channel: Channel, opened: Opened, session: Session, pod: OwnedPod, upgrade: bytes
    ) -> None:
        wanted = 101 if upgrade else 200
        if opened.head.status != wanted:
            await self._pass_refusal(channel, opened, session, pod)
            return
        try:
            written = (
                heads.write_switch(opened.head, upgrade)
                if upgrade
                else heads.write_stream(opened.head)
            )
        except ResponseProblemError as error:
            opened.channel.abort()
            raise RefusedError(
                502, Reason.KUBELET_ODD, "the node's kubelet gave no usable answer"
            ) from error
        session.status = wanted
        channel.write(written)
        pump = Pump(channel, opened.channel, is_two_way=bool(upgrade), deadlines=self._deadlines)
        try:
            session.result = (await pump.run()).value
        finally:
            session.bytes_up, session.bytes_down = pump.bytes_up, pump.bytes_down

    async def _pass_refusal(
        self, channel: Channel, opened: Opened, session: Session, pod: OwnedPod
    ) -> None:
        """Tell the caller what the kubelet said, in the tenant's words."""
        status = opened.head.status
        text = (await self._kubelet.explain(opened)).decode("utf-8", "replace")
        if not 400 <= status < 600:
            raise RefusedError(
                502, Reason.KUBELET_ODD, "the node's kubelet gave an answer of an unexpected kind"
            )
        session.status, session.result = status, "kubelet_refused"
        told = text.replace(pod.super_namespace, pod.tenant_namespace)
        told = told.replace(pod.super_uid, pod.tenant_uid)
        await _answer(channel, status, told.rstrip("\n"))


async def _read_head(channel: Channel) -> RequestHead:
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            block = await channel.read_until(heads.END, heads.MAX_REQUEST_HEAD_BYTES)
    except TimeoutError as error:
        raise RefusedError(
            408, Reason.SLOW, f"no request came within {HEAD_SECONDS:.0f} seconds"
        ) from error
    if block is None:
        raise RefusedError(431, Reason.MALFORMED, "the request head is too long")
    return heads.parse_request(block)


def _check_upgrade(route: Route, upgrade: bytes) -> bytes:
    if route.switches and not upgrade:
        raise RefusedError(400, Reason.NOT_AN_UPGRADE, "Upgrade request required")
    if upgrade and not route.switches:
        raise RefusedError(400, Reason.MALFORMED, f"{route.verb.value} does not switch protocols")
    return upgrade


async def _unless_gone(channel: Channel, opening: Coroutine[Any, Any, Opened]) -> Opened:
    """Wait for the kubelet as long as the caller does: a silent log may have no head for hours."""
    opened = asyncio.ensure_future(opening)
    gone = asyncio.ensure_future(channel.ended())
    try:
        await asyncio.wait({opened, gone}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        opened.add_done_callback(_drop)
        raise
    finally:
        for waiting in (opened, gone):
            waiting.cancel()  # does nothing to one that is done
        await asyncio.gather(opened, gone, return_exceptions=True)
    if opened.cancelled():
        raise CallerGoneError
    return opened.result()


def _drop(opened: asyncio.Future[Opened]) -> None:
    """Close what was opened for nobody."""
    if not opened.cancelled() and opened.exception() is None:
        opened.result().channel.abort()


async def _answer(channel: Channel, status: int, sentence: str, extra: heads.Headers = ()) -> None:
    """Write an answer of our own and part: the caller reads it before the connection is gone."""
    with contextlib.suppress(ChannelLostError, TimeoutError):
        channel.write(heads.write_answer(status, f"{sentence}\n".encode(), extra))
        channel.finish()
        # Closing at once on a caller that still sends would make the kernel drop the answer.
        async with asyncio.timeout(2.0):
            while await channel.read():
                pass
    channel.close()
