"""Reconciler of virtual nodes: created before the first binding, kept while a pod names them.

Owns the writes. With the policy `all` every node is kept. Server-side apply is used because tenants
may label their nodes. A node with a tenant's changes is kept, too. Must not know which fields are
shown.

Hazards: a node may be deleted only if no pod names it, or if the super node no longer exists.
Otherwise its pods, also finished ones, are deleted with it. A node may be shown for a pod only if
the pod's twin runs on it, because a tenant may write any node name into its pods.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from kubeio import Object, errors
from kubeio.cache.store import Entry
from kubeio.controller.worker import Done, NotReadyYet, RequeueAfter, Result
from syncer.controllers import reverted_edits
from syncer.model import diff
from syncer.model.keys import NODE, Key
from syncer.rules.nodes import node_pool, virtual_nodes
from syncer.safety.expectations import CACHE_BEHIND_SECONDS, ClusterSide
from syncer.safety.hot_loop_guard import WriteScope
from syncer.safety.parked_differences import TENANT_SIDE
from syncer.tenants.session import Session
from tenancy import wellknown
from tenancy.resources import NODES

_NO_TIME = datetime.min.replace(tzinfo=UTC)

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def ensure_node(name: str, key: Key, session: Session) -> None:
    """Create the node to which a pod will be bound. Raises Wait if that fails.

    The first pod that needs the node creates it in its own reconcile, and later pods wait. The
    node's own key would run after all of them.
    """
    node_key = session.build_key(NODE, "", name)
    if not _is_node_complete(node_key, session):
        session.node_memory.add_awaited(key, name)
        await _create_for_pod(node_key, session)
        if not _is_node_complete(node_key, session):
            session.work.add_waiter(node_key, key)
            session.queue.add(node_key, first=True)
            raise NotReadyYet("the virtual node is being created")
    session.node_memory.forget_pod(key)


def _is_node_complete(key: Key, session: Session) -> bool:
    """Return True if a node has the syncer's status, in the cache or by the last answers."""
    shown = session.stores[NODE].get("", key.name)
    if session.node_memory.is_created(key.name):
        if session.expectations.is_behind(ClusterSide.TENANT, key, shown):
            return True
        session.node_memory.forget_created(key.name)  # the cache is up to date
    return shown is not None and virtual_nodes.has_own_status(shown.decode())


async def _create_for_pod(key: Key, session: Session) -> None:
    """Create a node for a pod, or wait while another pod does. The node's key handles failures."""
    making = session.node_memory.get_creation(key.name)
    if making is not None:
        await making.wait()
    elif session.hot_loop_guard.get_pause(key) <= 0:
        try:
            await reconcile_node(key, session)
        except (errors.KubeError, NotReadyYet) as problem:
            _log.debug("node.not_created", node=key.name, problem=str(problem))


async def reconcile_node(key: Key, session: Session) -> Result:
    """Show or delete a node. One reconcile at a time, because pods call it outside of the queue."""
    async with session.node_memory.reserve(key.name):
        return await _reconcile_locked(key, session)


async def _reconcile_locked(key: Key, session: Session) -> Result:
    below = session.super_cluster.nodes.get("", key.name)
    shown = session.stores[NODE].get("", key.name)
    if below is None and shown is not None and wellknown.SUPER_CLUSTER in shown.annotations:
        return Done()  # the virtual node of a target, which has its own key
    if session.twins.is_behind(key, shown, None):
        return RequeueAfter(CACHE_BEHIND_SECONDS)
    if below is None:
        return await _handle_super_node_deleted(key, shown, session)
    if not _is_node_wanted(below, shown, session):
        if session.pods.has_pods_on_node(key.name):
            return Done()  # pods name it, without proof that they ran there
        return await _keep_for_grace_period(key, shown, session)
    session.grace_timers.clear_unused(key)
    super_node = below.decode()
    await _write_node(key, super_node, shown, session)
    return Done()


def _is_node_wanted(below: Entry, shown: Entry | None, session: Session) -> bool:
    is_in_pool = node_pool.is_in_pool(below.labels, session.view.policy.nodes)
    if (session.view.exposes_all_nodes and is_in_pool) or _is_about_to_be_named(
        below.name, session
    ):
        return True
    pods = session.pods.list_pods_on_node(below.name)
    if shown is not None and shown.annotations.get(wellknown.UID) == below.uid:
        if pods:
            return True  # a finished pod keeps its node, without a twin
        if is_in_pool and session.node_index.has(below.name):
            return True  # otherwise a cordoned node would return schedulable
    return any(_is_bound_to(below.name, *pod, session) for pod in pods)


def _is_about_to_be_named(name: str, session: Session) -> bool:
    for pod_key, node in session.node_memory.iterate_awaited():
        pod = session.stores["Pod"].get(pod_key.namespace, pod_key.name)
        if pod is None or pod.deleting:
            session.node_memory.forget_pod(pod_key)
        elif node == name:
            return True
    return False


def _is_bound_to(node: str, namespace: str, name: str, session: Session) -> bool:
    """Return True if a pod's own twin is bound to a node."""
    pod = session.stores["Pod"].get(namespace, name)
    twin = session.twins.get_store("Pod").get(session.view.get_super_namespace(namespace), name)
    if pod is None or twin is None or not session.twins.is_twin(twin, pod.uid):
        return False
    return (twin.decode().get("spec") or {}).get("nodeName") == node


async def _write_node(key: Key, super_node: Object, shown: Entry | None, session: Session) -> None:
    """Write the differences.

    For a known node the status is first, because its metadata record completion.
    """
    virtual = shown.decode() if shown is not None else None
    view, memory = session.view.policy.nodes.view, session.node_memory
    memory.forget_created(key.name)
    pool = session.view.policy.nodes
    wanted = virtual_nodes.build_node(super_node, view, virtual, pool)
    agent = session.connection.home_cluster.agents.get_for_node(key.name)
    status = virtual_nodes.build_status(super_node, agent, view, virtual, now=datetime.now(UTC))
    for field in virtual_nodes.MIRRORED_FIELDS:
        if memory.is_field_unknown(field):
            status.pop(field, None)

    def build_own_part() -> Object:
        return virtual_nodes.build_node(super_node, view, pool=pool)

    def build_own_status() -> Object:
        found = virtual_nodes.build_status(super_node, agent, view, now=_NO_TIME)
        return {field: value for field, value in found.items() if field in status}

    digest = wanted["metadata"]["annotations"][wellknown.LAST_WRITTEN_DIGEST]
    if virtual is not None and not virtual_nodes.is_status_current(virtual, status, digest):
        written = await apply_node(
            key,
            _build_status_patch(key, status),
            shown,
            session,
            "status",
            build_own_part=build_own_status,
        )
        if written is not None and written.get("spec") is not None:
            virtual = written  # it contains the tenant's latest changes
            wanted = virtual_nodes.build_node(super_node, view, virtual, pool)
    elif virtual is not None:
        record_current(key, build_own_status, shown, session, "status")
    if virtual is None or not virtual_nodes.is_node_current(virtual, wanted):
        if virtual is not None:
            # Otherwise a taint that the tenant adds at this moment would be overwritten.
            wanted["metadata"]["resourceVersion"] = virtual["metadata"]["resourceVersion"]
        await apply_node(key, wanted, shown, session, build_own_part=build_own_part)
    else:
        record_current(key, build_own_part, shown, session)
    if virtual is None and await apply_node(
        key,
        _build_status_patch(key, status),
        None,
        session,
        "status",
        build_own_part=build_own_status,
    ):
        memory.record_created(key.name)


def _build_status_patch(key: Key, status: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": key.name}, "status": status}


def record_current(
    key: Key,
    build_own_part: Callable[[], Object],
    shown: Entry | None,
    session: Session,
    subresource: str = "",
) -> None:
    """Record that a part of a node is as wanted."""
    session.parked.clear_if_converged(key, TENANT_SIDE, subresource)
    if shown is not None and not session.synced_states.has(key, subresource):
        session.synced_states.record(key, build_own_part(), shown.resource_version, subresource)


async def apply_node(
    key: Key,
    body: Object,
    shown: Entry | None,
    session: Session,
    subresource: str = "",
    *,
    build_own_part: Callable[[], Object] = dict,
) -> Object | None:
    """Write a part of a node, unless that is parked. Returns the answer to a write, or None.

    `build_own_part` returns what the super cluster determines, without additions of the tenant. A
    write that changes it back is reported to the tenant.
    """
    scope, before = WriteScope(key, TENANT_SIDE, subresource), shown.decode() if shown else {}
    if session.parked.has(scope, body, before):
        return None
    states, own_part = session.synced_states, build_own_part()
    paths = diff.find_lacking(body, before)
    is_edit = shown is not None and (
        states.is_edit(key, own_part, shown, subresource)
        or await reverted_edits.was_edited(
            key, NODES, shown, paths, session, subresource=subresource
        )
    )
    states.forget_part(key, subresource)
    written = await session.writer.apply_tenant_object(scope, NODES, body, shown)
    if written is None:
        return None
    # An older API drops unknown fields. Repeated writes would never succeed.
    status, taken = body.get("status") or {}, written.get("status") or {}
    session.node_memory.record_unknown_fields(
        f for f in virtual_nodes.MIRRORED_FIELDS if f in status and f not in taken
    )
    _log.debug("node.written", node=key.name, part=subresource or "spec")
    if not diff.find_lacking(body, written):
        states.record(key, own_part, written["metadata"]["resourceVersion"], subresource)
        if shown is not None and is_edit and paths:
            await reverted_edits.report_reverted(
                NODES, shown, paths, session, is_status=subresource == "status"
            )
    if shown is None and not subresource:
        await reverted_edits.report_recreated(key, NODES, written, session)
    return written


async def _keep_for_grace_period(key: Key, shown: Entry | None, session: Session) -> Result:
    if shown is None or not virtual_nodes.is_own_node(shown.decode()):
        return Done()
    left = session.grace_timers.get_remaining_grace(key)
    if left > 0:
        return RequeueAfter(left)
    await delete_node(key, shown, session)
    return Done()


async def _handle_super_node_deleted(key: Key, shown: Entry | None, session: Session) -> Result:
    if shown is None or not virtual_nodes.is_own_node(shown.decode()):
        return Done()
    try:
        await session.super_client.get(NODES, key.name, metadata_only=True)
    except errors.NotFound:
        await delete_node(key, shown, session)
        return Done()
    raise NotReadyYet("the super node exists, the cache is behind", CACHE_BEHIND_SECONDS)


async def delete_node(key: Key, shown: Entry, session: Session) -> None:
    """Delete a node of the syncer."""
    session.node_memory.forget_created(key.name)  # its record no longer applies
    if await session.writer.delete_tenant_object(key, NODES, shown, is_counted=False):
        _log.info("node.deleted", node=key.name)
