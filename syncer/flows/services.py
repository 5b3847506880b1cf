"""One Service: as any plain kind, but the super cluster may refuse its IP or its node port.

Owns what follows from a refusal. Must not know how a Service is built. Hazard: a Service whose IP
cannot be had gets no twin at all, because one with another IP would be worse than none.
"""

import structlog

from kubeio import Object, errors
from kubeio.worker import Again, Verdict, Wait
from syncer import downward
from syncer.downward import Pair
from syncer.keys import Key
from syncer.kinds import Kind
from syncer.session import Session
from syncer.special import services

TELL_AFTER = 4
"""Tries after which the tenant is told; an address that was just freed is had again sooner."""
RETRY_SECONDS = 30.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile(kind: Kind, key: Key, session: Session) -> Verdict:
    """Bring one Service in step."""
    try:
        return await downward.reconcile(kind, key, session)
    except errors.Invalid as problem:
        return await _refused(kind, key, problem, session)


async def _refused(kind: Kind, key: Key, problem: errors.Invalid, session: Session) -> Verdict:
    pair = downward.look(kind, key, session)
    about = services.refusal(problem)
    if pair.tenant_x is None or not about:
        raise problem
    if about == "address":
        address = (pair.tenant_x.decode().get("spec") or {}).get("clusterIP", "")
        message = (
            f"spec.clusterIP {address} is in use outside this cluster, so the Service has no"
            " endpoints yet; it is tried again, or delete it and create it anew"
        )
        if session.queue.failures(key) >= TELL_AFTER:
            await session.notices.tell(
                kind.resource, pair.tenant_x, reason=services.IP_UNAVAILABLE, message=message
            )
        raise Wait("the address is in use outside of the tenant")
    return await _without_own_port(kind, pair, session)


async def _without_own_port(kind: Kind, pair: Pair, session: Session) -> Verdict:
    """The node port is taken below: have one given, and show the tenant which."""
    twin = await downward.build(kind, pair, session)
    if twin is None or pair.tenant_x is None:
        return Again(RETRY_SECONDS)
    if pair.super_x is None:
        _log.info("service.port_given")
        return await downward.post(kind, pair, services.without_node_ports(twin), session)
    return await _take_given(kind, pair, pair.super_x.decode(), twin, session)


async def _take_given(
    kind: Kind, pair: Pair, live: Object, twin: Object, session: Session
) -> Verdict:
    """The twin keeps its ports; what else differs is written, and its ports go up."""
    twin = services.with_live_ports(twin, live)
    if not await downward.change(kind, pair, live, twin, session):
        await downward.carry_up(kind, pair, live, session)
    return Again(RETRY_SECONDS)
