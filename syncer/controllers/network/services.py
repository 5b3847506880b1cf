"""Reconciler of Services: like any plain kind, but their IP or node port may be refused.

Owns the consequences of a refusal. Must not know how a Service is built. Hazard: a Service whose IP
is taken must get no twin, because a twin with a different IP would be worse. A twin may be
recreated only after the API refused the update and live reads of both sides confirm it.
"""

import contextlib

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import cached_objects, rejection_events, sync_down, sync_up
from syncer.model.decide import DeleteGrounds
from syncer.model.keys import Key
from syncer.model.rejections import RejectedError
from syncer.rules.network import services
from syncer.rules.registry import SyncedKind
from syncer.tenants.session import Session

ATTEMPTS_BEFORE_EVENT = 4
"""Number of attempts before the tenant is informed. An address freed lately is free again
sooner.
"""
RETRY_SECONDS = 30.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def reconcile_service(kind: SyncedKind, key: Key, session: Session) -> Result:
    """Reconcile one Service."""
    asked = session.stores[kind.resource.kind].get(key.namespace, key.name)
    try:
        return await sync_down.reconcile(kind, key, session)
    except errors.Invalid as problem:
        if asked is None or not services.classify_refusal(problem):
            raise
        return await _handle_allocation_refused(kind, key, problem, asked, session)


async def _handle_allocation_refused(
    kind: SyncedKind, key: Key, problem: errors.Invalid, asked: Entry, session: Session
) -> Result:
    pair = cached_objects.read_pair(kind, key, session)
    about = services.classify_refusal(problem)
    tenant_x, super_x = pair.tenant_x, pair.super_x
    if tenant_x is None:
        raise problem
    if (
        about != "port"
        and super_x is not None
        and await _recreate_if_fixed(kind, key, tenant_x, super_x, session)
    ):
        return Done()  # the end of the old twin wakes the key
    if about == "fixed":
        await rejection_events.report_failed(kind, tenant_x, problem, session)
        raise problem
    if about == "address":
        if super_x is None:
            await _check_own_twin(kind, key, tenant_x, session)
        address = (tenant_x.decode().get("spec") or {}).get("clusterIP", "")
        message = (
            f"spec.clusterIP {address} is in use outside this cluster, so the Service has no"
            " endpoints yet. The syncer tries again. To get another address, delete the Service"
            " and create it again."
        )
        if session.queue.count_requeues(key) >= ATTEMPTS_BEFORE_EVENT:
            await session.event_recorder.record(
                kind.resource, tenant_x, reason=services.IP_UNAVAILABLE, message=message
            )
        raise NotReadyYet("the address is in use outside of the tenant")
    return await _create_without_node_ports(
        kind, key, problem, asked, session, tenant_x=tenant_x, super_x=super_x
    )


async def _check_own_twin(kind: SyncedKind, key: Key, tenant_x: Entry, session: Session) -> None:
    """Raise Wait if a twin outside the cache's view has the address."""
    twin = await sync_down.build_twin(kind, key, tenant_x, None, session)
    if twin is not None:
        with contextlib.suppress(errors.NotFound):
            await sync_down.resolve_name_conflict(kind, tenant_x, twin, session)


async def _recreate_if_fixed(
    kind: SyncedKind, key: Key, tenant_x: Entry, super_x: Entry, session: Session
) -> bool:
    """Delete a twin that the API cannot update to the tenant's state. Returns True if it did.

    Both sides are read live, because the caches may be behind each other.
    """
    if not session.twins.is_twin(super_x, tenant_x.uid):
        return False
    own = await session.tenant_client.get(kind.resource, key.name, namespace=key.namespace)
    there = await session.super_client.get(kind.resource, super_x.name, namespace=super_x.namespace)
    uids = (own["metadata"]["uid"], there["metadata"]["uid"])
    if uids != (tenant_x.uid, super_x.uid):
        return False
    try:
        twin = services.build_service(own, session.view)
    except RejectedError:
        return False
    if not services.must_recreate(there, twin):
        return False
    await session.proven_deletes.delete_proven(
        sync_down.build_delete_target(kind, key, super_x, DeleteGrounds.UNWANTED)
    )
    _log.info("service.recreated")
    return True


async def _create_without_node_ports(
    kind: SyncedKind,
    key: Key,
    problem: errors.Invalid,
    asked: Entry,
    session: Session,
    *,
    tenant_x: Entry,
    super_x: Entry | None,
) -> Result:
    """Let the super cluster allocate node ports in place of taken ones, and inform the tenant.

    The API names one port at a time, so each attempt leaves out one more.
    """
    twin = await sync_down.build_twin(kind, key, tenant_x, super_x, session)
    if twin is None:
        return RequeueAfter(RETRY_SECONDS)
    refused = services.parse_refused_ports(problem, twin)
    while True:
        await _report_replaced_ports(kind, asked, refused, session)
        try:
            return await _update_with_given_ports(
                kind, key, twin, refused, session, tenant_x=tenant_x, super_x=super_x
            )
        except errors.Invalid as again:
            more = refused | services.parse_refused_ports(again, twin)
            if services.classify_refusal(again) != "port" or more == refused:
                raise
            refused = more


async def _update_with_given_ports(
    kind: SyncedKind,
    key: Key,
    twin: Object,
    refused: frozenset[int],
    session: Session,
    *,
    tenant_x: Entry,
    super_x: Entry | None,
) -> Result:
    if super_x is None:
        _log.info("service.port_replaced")
        bare = services.strip_node_ports(twin, refused)
        return await sync_down.post_twin(kind, key, tenant_x, bare, session)
    live = super_x.decode()
    kept = services.copy_live_ports(twin, live, refused)
    if not await sync_down.update_twin(kind, key, tenant_x, session, live=live, twin=kept):
        await sync_up.sync_up(kind, key, tenant_x, live, session)
    return RequeueAfter(RETRY_SECONDS)


async def _report_replaced_ports(
    kind: SyncedKind, asked: Entry, refused: frozenset[int], session: Session
) -> None:
    """Report the taken ports, with the same text each time so that it is one Event."""
    numbers = services.list_requested_ports(asked.decode(), refused)
    if numbers:
        message = (
            f"{', '.join(numbers)} is in use outside this cluster, so another number was assigned."
            " See spec.ports."
        )
        await session.event_recorder.record(
            kind.resource, asked, reason=services.PORT_REPLACED, message=message
        )
