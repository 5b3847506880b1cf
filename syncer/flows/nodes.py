"""One virtual node: there before the first binding, and kept while a pod names it.

Owns the effects. Server-side apply, because tenants may label their nodes. Must not know which
leaves are shown. Hazard: a node that goes while pods name it takes their objects along, finished
ones included; so it goes only when none does, or when the super node itself is gone.
"""

import structlog

from kubeio import Object, errors
from kubeio.store import Entry
from kubeio.worker import Again, Done, Verdict, Wait
from syncer.downward import BEHIND_SECONDS
from syncer.expectations import Side
from syncer.keys import NODE, Key
from syncer.session import Session
from syncer.special import nodes
from tenancy import marks
from tenancy.resources import NODES

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def present(name: str, key: Key, session: Session) -> None:
    """Raise Wait until the tenant has a node that a pod is about to be bound to."""
    entry = session.stores[NODE].get("", name)
    if entry is not None and nodes.is_complete(entry.decode()):
        session.reminders.nodes.pop(key, None)
        return
    session.reminders.nodes[key] = name
    node_key = session.key(NODE, "", name)
    session.wait_for(node_key, key)
    session.queue.add(node_key)
    raise Wait("the virtual node is on its way")


async def reconcile(key: Key, session: Session) -> Verdict:
    """Show a node as it is, or take it away."""
    below = session.super_cluster.nodes.get("", key.name)
    shown = session.stores[NODE].get("", key.name)
    if session.is_behind(key, shown, None):
        return Again(BEHIND_SECONDS)
    if below is None:
        return await _gone_below(key, shown, session)
    if not _is_wanted(key.name, session):
        return await _linger(key, shown, session)
    session.reminders.needed(key)
    super_node = below.decode()
    virtual = shown.decode() if shown is not None else None
    await _show(key, super_node, virtual, session)
    return Done()


def _is_wanted(name: str, session: Session) -> bool:
    if session.pods.is_on_node(name):
        return True
    for pod_key, node in list(session.reminders.nodes.items()):
        pod = session.stores["Pod"].get(pod_key.namespace, pod_key.name)
        if pod is None or pod.deleting:
            del session.reminders.nodes[pod_key]
        elif node == name:
            return True
    return False


async def _show(key: Key, super_node: Object, virtual: Object | None, session: Session) -> None:
    client = session.tenant_client
    wanted = nodes.node(super_node)
    if virtual is None or not nodes.is_node_shown(virtual, wanted):
        written = await client.apply(NODES, wanted, field_manager=marks.SYNCER)
        session.expectations.wrote(Side.TENANT, key, written["metadata"]["resourceVersion"])
        session.fuse.wrote(key)
        _log.info("node.shown", node=key.name)
    status = nodes.status(super_node, session.super_cluster.agent_address(key.name))
    if virtual is None or not nodes.is_status_shown(virtual, status):
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": key.name},
            "status": status,
        }
        written = await client.apply(NODES, body, field_manager=marks.SYNCER, subresource="status")
        session.expectations.wrote(Side.TENANT, key, written["metadata"]["resourceVersion"])
        session.fuse.wrote(key)
        _log.debug("node.status_shown", node=key.name)


async def _linger(key: Key, shown: Entry | None, session: Session) -> Verdict:
    if shown is None or not nodes.is_ours(shown.decode()):
        return Done()
    left = session.reminders.left_to_linger(key)
    if left > 0:
        return Again(left)
    await _remove(key, shown, session)
    return Done()


async def _gone_below(key: Key, shown: Entry | None, session: Session) -> Verdict:
    if shown is None or not nodes.is_ours(shown.decode()):
        return Done()
    try:
        await session.super_client.get(NODES, key.name, metadata_only=True)
    except errors.NotFound:
        await _remove(key, shown, session)
        return Done()
    raise Wait("the super node lives, the cache is behind", BEHIND_SECONDS)


async def _remove(key: Key, shown: Entry, session: Session) -> None:
    try:
        await session.tenant_client.delete(NODES, key.name, uid=shown.uid)
    except errors.NotFound:
        return
    session.expectations.deleted(Side.TENANT, key, shown)
    _log.info("node.removed", node=key.name)
