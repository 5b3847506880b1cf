"""Reconciler of the ConfigMaps with service variables, which pods name as their first source.

Owns the writes. A ConfigMap is created when a pod of its namespace needs it, and updated while the
namespace has pods. It is deleted with its super namespace. Must not know which variables there are.

Hazard: a pod must wait for a ConfigMap with the current Services. Otherwise its first container
would start without the variables of a Service that was created before the pod.
"""

from collections.abc import Mapping
from typing import Any

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import adoption, cached_objects, live_reads, rejection_events
from syncer.model.keys import SERVICE_VARIABLES, Key
from syncer.model.references import ObjectReference
from syncer.model.tenant_view import API_SERVICE
from syncer.rules.configuration import cache_transforms, config_maps_secrets, service_variables
from syncer.safety import proven_deletes
from syncer.safety.expectations import CACHE_BEHIND_SECONDS
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import SUPER_SIDE
from syncer.tenants.session import Session
from tenancy import names
from tenancy.resources import CONFIG_MAPS, PODS

MAX_REPORTED_PODS = 20
"""Maximum number of waiting pods that get an Event about one failed write. More Events would repeat
the text for pods of the same controllers."""


def count_bytes(namespace: str, *, links: bool, session: Session) -> int:
    """Return the size in bytes of the variables that a pod of a namespace gets."""
    variables = _list_variables(namespace, session, links=links)
    return session.service_variables.count_bytes(variables)


def get_outdated_key(namespace: str, *, links: bool, session: Session) -> Key | None:
    """Return the key of the ConfigMap that a pod must wait for, or None if it is current."""
    name = names.SERVICE_VARIABLES if links else names.API_VARIABLES
    key = session.build_key(SERVICE_VARIABLES, namespace, name)
    entry = get_super_config_map(key, session)
    if entry is None or entry.deleting or session.twins.is_leaving(key, entry):
        return key
    memory, variables = session.service_variables, _list_variables(namespace, session, links=links)
    if memory.is_current(entry, variables):
        return None
    wanted = _build(key, session)
    is_own = session.tenant.owns({"annotations": entry.annotations})
    if wanted is None or not is_own:
        return key
    if not config_maps_secrets.has_same_content(entry.decode(), wanted):
        return key  # other differences, such as a webhook's label, must not block a pod
    memory.record_current(entry, variables)
    return None


def enqueue_missing(namespace: str, twin: Mapping[str, Any], session: Session) -> None:
    """Queue the deleted ConfigMap that the containers of a super pod name."""
    for container in (twin["spec"].get("containers") or ())[:1]:
        source: Mapping[str, Any] = next(iter(container.get("envFrom") or ()), {})
        name = (source.get("configMapRef") or {}).get("name")
        key = session.build_key(SERVICE_VARIABLES, namespace, str(name))
        if name in service_variables.NAMES and get_super_config_map(key, session) is None:
            session.queue.add(key)


def get_super_config_map(key: Key, session: Session) -> Entry | None:
    """Return the ConfigMap of a key from the cache of the super cluster."""
    below = session.view.get_super_namespace(key.namespace)
    return session.twins.get_store(CONFIG_MAPS.kind).get(below, key.name)


async def reconcile_service_variables(key: Key, session: Session) -> Result:
    """Create or update one ConfigMap."""
    entry = get_super_config_map(key, session)
    if session.twins.is_behind(key, None, entry):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    wanted, is_needed = _build(key, session), _is_needed(key, session)
    if wanted is None or not is_needed:
        await adoption.find_vanished_twin(session.kinds[CONFIG_MAPS.kind], key, session)
        waits = is_needed and _lacks_api(key, session)
        return RequeueAfter(CACHE_BEHIND_SECONDS) if waits else Done()
    size = service_variables.count_bytes(wanted.get("data") or {})
    if size > service_variables.MAX_VARIABLE_BYTES or (entry is not None and entry.deleting):
        return Done()  # new pods are rejected, or the end of the ConfigMap queues the key
    try:
        return await _write(key, entry, wanted, session)
    except rejection_events.REFUSAL_ERRORS as refusal:
        if refusal.has_cause("NamespaceTerminating"):
            raise NotReadyYet("the super namespace is being deleted") from refusal
        for tenant_x in _list_waiting_pods(key, session):
            await rejection_events.report_failed(
                session.kinds[PODS.kind], tenant_x, refusal, session
            )
        raise


async def _write(key: Key, entry: Entry | None, wanted: Object, session: Session) -> Result:
    if entry is None:
        return await _create(key, wanted, session)
    if not session.tenant.owns({"annotations": entry.annotations}):
        return await _report_name_taken(key, session)
    return await _update(key, entry, wanted, session)


def _list_variables(
    namespace: str, session: Session, *, links: bool
) -> service_variables.EnvironmentVariables:
    return service_variables.list_tenant_variables(
        session.view, namespace, links=links, cache=session.service_variables
    )


def _lacks_api(key: Key, session: Session) -> bool:
    """Return True if only the Service of the tenant's API is missing.

    Its API server creates it again. Until then no ConfigMap is written. Otherwise a kubelet would
    give the address of the super cluster's API to containers.
    """
    is_there = session.stores["Namespace"].get("", key.namespace) is not None
    return is_there and session.stores["Service"].get(*API_SERVICE) is None


def _build(key: Key, session: Session) -> Object | None:
    """Return the ConfigMap as it should be.

    None if its tenant namespace or the Service of the tenant's API does not exist.
    """
    namespace = session.stores["Namespace"].get("", key.namespace)
    if namespace is None or _lacks_api(key, session):
        return None
    links = key.name == names.SERVICE_VARIABLES
    variables = _list_variables(key.namespace, session, links=links)
    return service_variables.build_config_map(key.name, namespace, session.view, variables)


def _build_change(live: Mapping[str, Any], wanted: Object) -> Object | None:
    return config_maps_secrets.build_replacement(live, wanted, CONFIG_MAPS.kind)


def _is_needed(key: Key, session: Session) -> bool:
    """Return True if the namespace has pods in this super cluster."""
    if session.connection.assignments.is_split:
        has_pods = session.pods.has_namespace(key.namespace)
    else:
        has_pods = bool(session.stores["Pod"].list(key.namespace))
    below = session.view.get_super_namespace(key.namespace)
    ref = ObjectReference(CONFIG_MAPS.kind, key.name)
    return has_pods or session.twins.is_named_by_pod(ref, below)


async def _create(key: Key, wanted: Object, session: Session) -> Result:
    session.namespaces.get_ready(key)
    try:
        await session.writer.create_super_object(key, CONFIG_MAPS, wanted)
    except errors.AlreadyExists:
        return await _resolve_name_conflict(key, wanted, session)
    return Done()


async def _resolve_name_conflict(key: Key, wanted: Object, session: Session) -> Result:
    """Read the object that has the name: one that lost its labels, or a foreign one."""
    live = await session.super_client.get(
        CONFIG_MAPS, key.name, namespace=wanted["metadata"]["namespace"], metadata_only=True
    )
    if not session.tenant.owns(live["metadata"]):
        return await _report_name_taken(key, session)
    await adoption.restore_labels(session.kinds[CONFIG_MAPS.kind], live["metadata"], session)
    return RequeueAfter(CACHE_BEHIND_SECONDS)


async def _update(key: Key, entry: Entry, wanted: Object, session: Session) -> Result:
    live, scope = entry.decode(), WriteScope(key, SUPER_SIDE)
    body = _build_change(live, wanted)
    if body is not None and cache_transforms.is_any_outline(live, body):
        whole = await live_reads.fetch_super_object(CONFIG_MAPS, entry, session)
        live = whole.decode()
        body = _build_change(live, wanted)
    if body is None:
        session.parked.clear_if_converged(key, SUPER_SIDE)
        session.work.wake_waiters(key)
        return Done()
    if config_maps_secrets.is_fixed(live, wanted):
        await _delete(scope, entry, body, live, session)
        return Done()  # its end queues the key, which creates it again
    await session.writer.update_super_object(scope, CONFIG_MAPS, body, before=live)
    return Done()


async def _delete(
    scope: WriteScope, entry: Entry, body: Object, live: Object, session: Session
) -> None:
    """Delete a ConfigMap that was made immutable, unless that is parked."""
    key = scope.key
    target = proven_deletes.build_own_target(key, CONFIG_MAPS, entry)
    with session.twins.mark_leaving(key, entry):
        await session.proven_deletes.delete_unless_parked(
            scope, target, body, before=live, tenant_x=None
        )


async def _report_name_taken(key: Key, session: Session) -> Result:
    """Report a foreign object to the pods that wait. It is not touched."""
    message = (
        f"The ConfigMap {key.name} for its service variables: the name is taken where the pod runs."
        " Ask your platform administrator (rule name-taken)."
    )
    for tenant_x in _list_waiting_pods(key, session):
        await session.event_recorder.record(
            PODS, tenant_x, reason=cached_objects.NAME_TAKEN, message=message
        )
    return RequeueAfter(cached_objects.FOREIGN_RETRY_SECONDS)


def _list_waiting_pods(key: Key, session: Session) -> list[Entry]:
    """Return some of the pods that wait for a ConfigMap. All of them go on waiting."""
    waiting = session.work.waiters.pop_waiters(key)
    for each in waiting:
        session.work.add_waiter(key, each)
    found = (session.stores["Pod"].get(each.namespace, each.name) for each in sorted(waiting))
    return [entry for entry in found if entry is not None][:MAX_REPORTED_PODS]
