"""Reconcilers of a tenant's quota: held objects, the report, and ResourceQuotas as a second check.

Owns the Events about objects that the quota holds back, the ConfigMap in the tenant, and the
objects in super namespaces. Must not count: `syncer.safety.quota_accounting` does.

Hazard: the report must not be synced to the super cluster. It would count, so each report would
lead to the next one.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, RequeueAfter, Result
from syncer.controllers import reverted_edits
from syncer.model.keys import LIMIT_RANGE, RESOURCE_QUOTA, SERVICE_VARIABLES, TOKEN, Key
from syncer.rules.configuration import config_maps_secrets
from syncer.rules.quota import quota_objects
from syncer.rules.quota.quota_objects import MAX_REPORTED_OBJECTS
from syncer.safety import proven_deletes
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import SUPER_SIDE
from syncer.safety.quota_accounting import QUOTA_EXCEEDED, QuotaExceededError
from syncer.tenants.session import Session
from tenancy import names
from tenancy.resources import CONFIG_MAPS, LIMIT_RANGES, PODS, RESOURCE_QUOTAS, Resource

FOREIGN_RETRY_SECONDS = 300.0
"""Retry interval in seconds for a name that a foreign object has, because no watch shows it."""
MAX_REPORTED_PODS = 20
"""Maximum number of waiting pods that get an Event about one object that all of them need."""

_RESOURCES: Mapping[str, Resource] = {RESOURCE_QUOTA: RESOURCE_QUOTAS, LIMIT_RANGE: LIMIT_RANGES}

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


# --- held objects ---------------------------------------------------------------------------------


async def hold_key(key: Key, problem: QuotaExceededError, session: Session) -> Result:
    """Report to the tenant that an object exceeds the quota. A release queues its key."""
    session.quota.hold(key, problem)
    _log.info("quota.exceeded", resources=[excess.resource for excess in problem.excesses])
    message = (
        f"The quota of this cluster is used up: {problem}. The object is synced when enough is"
        " free. Delete other objects, or ask your platform administrator for more: spec.quota of"
        " the TenantPolicy (rule quota)."
    )
    for resource, entry in _list_concerned(key, session):
        await session.event_recorder.record(resource, entry, reason=QUOTA_EXCEEDED, message=message)
    return Done()


async def report_held_need(tenant_x: Entry, need: Key, session: Session) -> bool:
    """Report to a pod that the quota holds back an object that it needs. Returns False if not."""
    problem = session.quota.get_refusal(need)
    if problem is None:
        return False
    message = (
        f"The pod waits for {need.kind} {need.name}, which exceeds the quota of this cluster:"
        f" {problem}. Delete other objects, or ask your platform administrator for more:"
        " spec.quota of the TenantPolicy (rule quota)."
    )
    await session.event_recorder.record(PODS, tenant_x, reason=QUOTA_EXCEEDED, message=message)
    return True


def _list_concerned(key: Key, session: Session) -> list[tuple[Resource, Entry]]:
    """Return the tenant objects to report to: the object itself, or the pods that need it."""
    kind = session.kinds.get(key.kind)
    if kind is not None:
        found = session.stores[key.kind].get(key.namespace, key.name)
        return [(kind.resource, found)] if found is not None else []
    if key.kind not in (TOKEN, SERVICE_VARIABLES):
        return []
    waiting = sorted(session.work.waiters.list_waiters(key))[:MAX_REPORTED_PODS]
    pods = (session.stores[PODS.kind].get(each.namespace, each.name) for each in waiting)
    return [(PODS, pod) for pod in pods if pod is not None]


# --- the report in the tenant ---------------------------------------------------------------------


async def reconcile_report(key: Key, session: Session) -> Result:
    """Write the ConfigMap that shows the tenant its quota, or delete it if there is none."""
    accountant = session.quota
    entry = session.stores[CONFIG_MAPS.kind].get(*names.QUOTA_REPORT)
    if session.stores["Namespace"].get("", names.QUOTA_REPORT[0]) is None:
        return Done()
    if not accountant.hard:
        session.synced_states.forget(key)
        session.synced_states.pop_deletion(key)
        if entry is not None and not entry.deleting:
            written_key = session.build_key(CONFIG_MAPS.kind, *names.QUOTA_REPORT)
            await session.writer.delete_tenant_object(written_key, CONFIG_MAPS, entry)
        return Done()
    waiting = [
        (f"{key.kind} {key.namespace}/{key.name}".replace(" /", " "), str(problem))
        for key, problem in accountant.list_waiting(MAX_REPORTED_OBJECTS)
    ]
    wanted = quota_objects.build_report(
        accountant.hard, accountant.count_used(), waiting, accountant.waiting_count
    )
    states = session.synced_states
    if entry is not None and config_maps_secrets.has_same_content(entry.decode(), wanted):
        states.record(key, wanted["data"], entry.resource_version)
        return Done()
    try:
        written = await session.writer.apply_unguarded(CONFIG_MAPS, wanted)
    except (errors.Forbidden, errors.Invalid) as problem:  # by a webhook of the tenant
        _log.info("quota.report_refused", problem=str(problem))
        return RequeueAfter(FOREIGN_RETRY_SECONDS)
    if entry is None:
        await reverted_edits.report_recreated(key, CONFIG_MAPS, written, session)
    else:
        found = entry.decode().get("data") or {}
        shown = {
            name: found.get(name) for name in wanted["data"]
        }  # a key of the tenant's own stays
        if states.is_replaced(key, shown, entry):
            await reverted_edits.report_reverted(CONFIG_MAPS, entry, ["data"], session)
    states.record(key, wanted["data"], written["metadata"]["resourceVersion"])
    return Done()


# --- the second check in the super cluster --------------------------------------------------------


def enqueue_namespace_quota(namespace: str, session: Session) -> None:
    """Queue the ResourceQuota and the LimitRange of a namespace that differ from the policy."""
    if not session.is_home:
        return
    for kind in _RESOURCES:
        key = session.build_key(kind, namespace, names.QUOTA)
        entry, wanted = _get_entry(key, session), _build(key, session)
        if wanted is None and entry is None:
            continue
        if (
            wanted is None
            or entry is None
            or quota_objects.build_replacement(entry.decode(), wanted) is not None
        ):
            session.work.enqueue(key)


async def reconcile_namespace_quota(key: Key, session: Session) -> Result:
    """Create, restore or delete one ResourceQuota or LimitRange."""
    entry = _get_entry(key, session)
    if session.twins.is_behind(key, None, entry):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    below = session.view.get_super_namespace(key.namespace)
    space = session.twins.get_store("Namespace").get("", below)
    if key.name != names.QUOTA or space is None or space.deleting:
        return Done()  # the end of the namespace ends its objects
    wanted, resource = _build(key, session), _RESOURCES[key.kind]
    if wanted is None:
        if entry is not None and not entry.deleting and _is_own(entry, session):
            await _delete(key, entry, session)
        return Done()
    if entry is None:
        return await _create(key, wanted, session)
    if entry.deleting or not _is_own(entry, session):
        return Done()
    live, scope = entry.decode(), WriteScope(key, SUPER_SIDE)
    body = quota_objects.build_replacement(live, wanted)
    if body is None:
        session.parked.clear_if_converged(key, SUPER_SIDE)
    else:
        await session.writer.update_super_object(scope, resource, body, before=live)
    return Done()


def _get_entry(key: Key, session: Session) -> Entry | None:
    below = session.view.get_super_namespace(key.namespace)
    return session.twins.get_store(key.kind).get(below, key.name)


def _build(key: Key, session: Session) -> Object | None:
    namespace = session.stores["Namespace"].get("", key.namespace)
    if namespace is None:
        return None
    build = (
        quota_objects.build_resource_quota
        if key.kind == RESOURCE_QUOTA
        else quota_objects.build_limit_range
    )
    return build(namespace, session.view, session.view.policy.quota)


def _is_own(entry: Entry, session: Session) -> bool:
    annotations: Mapping[str, Any] = {"annotations": entry.annotations}
    return session.tenant.owns(annotations)


async def _create(key: Key, wanted: Object, session: Session) -> Result:
    resource = _RESOURCES[key.kind]
    try:
        await session.writer.create_super_object(key, resource, wanted)
    except errors.AlreadyExists:  # a foreign object, or one that lost its labels
        _log.warning("quota.name_taken", kind=key.kind, namespace=wanted["metadata"]["namespace"])
        return RequeueAfter(FOREIGN_RETRY_SECONDS)
    return Done()


async def _delete(key: Key, entry: Entry, session: Session) -> None:
    target = proven_deletes.build_own_target(key, _RESOURCES[key.kind], entry)
    await session.proven_deletes.delete_proven(target)
