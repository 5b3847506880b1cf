"""What must hold when nothing is left to do: the super cluster as the tenants say, and back.

Owns the invariants I1 and I4 of the reference (`reliability-security.md`, 4b): which tenant objects
have a twin, what it says, what nobody owns any more, and what tenants read of their pods. An oracle
of its own: nothing of the syncer's is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenancy import marks, ownership
from tenancy.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
)
from tests.properties.machine.judge import SYNCED, Break, Object
from tests.support.likeness import TERMINAL, differences, is_labelled, needs, untold

if TYPE_CHECKING:
    from tests.properties.machine.tenant import TenantSide
    from tests.properties.machine.world import World


def problems(world: World) -> list[Break]:
    """Return what is not as it must be when nothing is left to do: I1, I4, and orphans."""
    found: list[Break] = []
    for tenant in world.tenants:
        for resource, body in list(tenant.alive.values()):
            if resource in SYNCED:
                found += _missing(world, tenant, resource, body)
        found += _orphans(world, tenant)
    return found


def _orphans(world: World, tenant: TenantSide) -> list[Break]:
    found = []
    for resource, body in world.owned(tenant):
        metadata = body["metadata"]
        if marks.TOKEN_SECONDS in metadata["annotations"] or not is_labelled(metadata):
            continue  # without our labels it is seen by nobody: a known hazard of the caches
        uid = metadata["annotations"][marks.UID]
        if uid not in tenant.alive:
            text = f"{resource.kind} {metadata['name']}: its tenant object {uid} is gone"
            found.append(Break("I1", f"{tenant.side}: orphan: {text}"))
        elif "deletionTimestamp" in metadata:
            found.append(Break("I1", f"{tenant.side}: {metadata['name']} goes for ever"))
    return found


def _missing(world: World, tenant: TenantSide, resource: Resource, body: Object) -> list[Break]:
    metadata = body["metadata"]
    title = f"{tenant.side}: {resource.kind} {metadata.get('namespace', '')}/{metadata['name']}"
    twin = world.twin(tenant, resource, metadata)
    if "deletionTimestamp" in metadata:
        if metadata.get("finalizers"):
            return []
        return [Break("I4", f"{title} is still on its way out")]
    if _is_taken(world, tenant, resource, metadata):
        return []
    is_wanted = _is_wanted(world, tenant, resource, body)
    if twin is None:
        return [Break("I1", f"{title} has no twin")] if is_wanted else []
    if not is_wanted and not is_labelled(twin["metadata"]):
        return []  # seen by nobody, and nobody asks for it: the same hazard
    problems = [Break("I1", f"{title}: {text}") for text in differences(resource, body, twin)]
    if resource is PODS:
        problems += [Break("I4", f"{title}: {text}") for text in _told(tenant, body, twin)]
    return problems


def _is_taken(world: World, tenant: TenantSide, resource: Resource, metadata: Object) -> bool:
    """Tell whether a stranger has the name below."""
    if resource is NAMESPACES:
        return False
    below = tenant.below(metadata["namespace"])
    stored = world.below.of(resource).get(below, metadata["name"])
    if stored is not None and ownership.owner_of(stored.decode()["metadata"]) is None:
        return True
    if resource is not PODS:
        return False
    strangers = {
        (kind, found.name)
        for kind in (CONFIG_MAPS, SECRETS)
        for found in world.below.of(kind).all()
        if found.namespace == below and ownership.owner_of(found.decode()["metadata"]) is None
    }
    pod = tenant.alive[metadata["uid"]][1]
    return bool(strangers & needs(pod))


def _is_wanted(world: World, tenant: TenantSide, resource: Resource, body: Object) -> bool:
    metadata = body["metadata"]
    if resource is NAMESPACES:
        return True
    if resource is SERVICES:
        return (metadata["namespace"], metadata["name"]) != ("default", "kubernetes")
    if resource is PODS:
        return body["status"].get("phase") not in TERMINAL
    if metadata["name"] == "kube-root-ca.crt":
        return False
    return any(
        kind is PODS
        and pod["metadata"]["namespace"] == metadata["namespace"]
        and "deletionTimestamp" not in pod["metadata"]
        and pod["status"].get("phase") not in TERMINAL
        and (resource, metadata["name"]) in needs(pod)
        for kind, pod in tenant.alive.values()
    )


def _told(tenant: TenantSide, pod: Object, twin: Object) -> list[str]:
    """I4: what the tenant reads of a pod is what its twin says."""
    found, node = untold(pod, twin), twin["spec"].get("nodeName")
    is_there = node == pod["spec"].get("nodeName")
    if node and is_there and tenant.cluster.of(NODES).get("", node) is None:
        found.append(f"its node {node} is not in the tenant")
    return found
