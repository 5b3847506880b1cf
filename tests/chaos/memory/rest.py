"""What must hold when nothing is left to do: the super cluster as the tenants say, and back.

Owns the invariants I1 and I4 of the reference (`reliability-security.md`, 4b): which tenant objects
have a twin, what it says, what nobody owns any more, and what tenants read of their pods. An oracle
of its own: nothing of the syncer's is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenancy import ownership, wellknown
from tenancy.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.chaos.memory import shown, tokens, variables
from tests.chaos.memory.judge import SYNCED, Invariant, Object
from tests.chaos.memory.kinds import OTHERS
from tests.chaos.likeness import TERMINAL, differences, is_labelled, needs, untold

if TYPE_CHECKING:
    from tests.chaos.memory.tenant import SimulatedTenant
    from tests.chaos.memory.world import MachineWorld


def problems(world: MachineWorld) -> list[Invariant]:
    """Return what is not as it must be when nothing is left to do: I1, I4, and orphans."""
    found: list[Invariant] = []
    for tenant in world.tenants:
        if tenant.is_deleted:
            found += _left(world, tenant)
        elif tenant.is_engaged:
            for resource, body in list(tenant.alive.values()):
                if resource in SYNCED:
                    found += _missing(world, tenant, resource, body)
            found += _orphans(world, tenant)
            found += shown.problems(world, tenant)
    return found


def _left(world: MachineWorld, tenant: SimulatedTenant) -> list[Invariant]:
    """Nothing stays of a tenant whose VirtualCluster was deleted."""
    owned = world.owned(tenant)
    unmarked = {
        body["metadata"]["name"]
        for kind, body in owned
        if kind is NAMESPACES and not is_labelled(body["metadata"])
    }  # vc-manager takes nothing that is not marked twice
    stays = [
        f"{resource.kind} {body['metadata']['name']}"
        for resource, body in owned
        if not unmarked & {body["metadata"]["name"], body["metadata"].get("namespace")}
    ]
    if world.below.of(VIRTUAL_CLUSTERS).get("default", tenant.tenant.name) is not None:
        stays.append(f"VirtualCluster {tenant.tenant.name}")
    return [Invariant("I1", f"{tenant.side} was deleted: {what} is still there") for what in stays]


def held(world: MachineWorld) -> list[Invariant]:
    """Return what is missing below while deletes are held: all that has its place there free."""
    return [
        Invariant("I1", f"deletes are held: {tenant.side}: {resource.kind} {name} has no twin")
        for tenant in world.tenants
        if world.holds(tenant) and tenant.is_followed
        for resource, body in list(tenant.alive.values())
        if resource in (PODS, SERVICES)
        for name in (f"{body['metadata']['namespace']}/{body['metadata']['name']}",)
        if _is_wanted(world, tenant, resource, body) and _is_free(world, tenant, resource, body)
    ]


def _is_free(
    world: MachineWorld, tenant: SimulatedTenant, resource: Resource, body: Object
) -> bool:
    """Tell whether nothing is in the way of a twin."""
    metadata = body["metadata"]
    space = next(
        space
        for kind, space in tenant.alive.values()
        if kind is NAMESPACES and space["metadata"]["name"] == metadata["namespace"]
    )
    below = world.twin(tenant, NAMESPACES, space["metadata"])
    return (
        "deletionTimestamp" not in metadata
        and below is not None
        and "deletionTimestamp" not in below["metadata"]
        and is_labelled(below["metadata"])
        and not _is_taken(world, tenant, resource, metadata)
        and world.below.of(resource).get(below["metadata"]["name"], metadata["name"]) is None
    )


def _orphans(world: MachineWorld, tenant: SimulatedTenant) -> list[Invariant]:
    found = []
    for resource, body in world.owned(tenant):
        metadata = body["metadata"]
        if world.sight.is_out_of_sight(metadata):
            continue
        if wellknown.TOKEN_SECONDS in metadata["annotations"]:
            found += tokens.problems(world, tenant, body)
            continue
        uid = metadata["annotations"][wellknown.UID]
        if uid not in tenant.alive:
            text = f"{resource.kind} {metadata['name']}: its tenant object {uid} is gone"
            found.append(Invariant("I1", f"{tenant.side}: orphan: {text}"))
        elif "deletionTimestamp" in metadata:
            found.append(Invariant("I1", f"{tenant.side}: {metadata['name']} goes for ever"))
    return found


def _missing(
    world: MachineWorld, tenant: SimulatedTenant, resource: Resource, body: Object
) -> list[Invariant]:
    metadata = body["metadata"]
    title = f"{tenant.side}: {resource.kind} {metadata.get('namespace', '')}/{metadata['name']}"
    twin = world.twin(tenant, resource, metadata)
    if "deletionTimestamp" in metadata:
        if metadata.get("finalizers"):
            return []
        return [Invariant("I4", f"{title} is still on its way out")]
    if _is_taken(world, tenant, resource, metadata):
        return []
    is_wanted = _is_wanted(world, tenant, resource, body)
    if twin is None:
        return [Invariant("I1", f"{title} has no twin")] if is_wanted else []
    if not is_wanted and world.sight.is_out_of_sight(twin["metadata"]):
        return []
    found = _differences(world, tenant, body, twin)
    problems = [Invariant("I1", f"{title}: {text}") for text in found]
    if resource is PODS:
        problems += [Invariant("I4", f"{title}: {text}") for text in _told(tenant, body, twin)]
        problems += [Invariant("I1", f"{title}: {text}") for text in tokens.missing(world, twin)]
        unseen = variables.problems(world, tenant, body, twin)
        problems += [Invariant("I1", f"{title}: {text}") for text in unseen]
    return problems


def _is_taken(
    world: MachineWorld, tenant: SimulatedTenant, resource: Resource, metadata: Object
) -> bool:
    """Tell whether a stranger has the name below."""
    if resource is NAMESPACES:
        return False
    below = tenant.below(metadata["namespace"])
    stored = world.below.of(resource).get(below, metadata["name"])
    if stored is not None and ownership.read_owner(stored.decode()["metadata"]) is None:
        return True
    if resource is not PODS:
        return False
    strangers = {
        (kind, found.name)
        for kind in (CONFIG_MAPS, SECRETS)
        for found in world.below.of(kind).all()
        if found.namespace == below and ownership.read_owner(found.decode()["metadata"]) is None
    }
    pod = tenant.alive[metadata["uid"]][1]
    return bool(strangers & needs(pod))


def _is_wanted(
    world: MachineWorld, tenant: SimulatedTenant, resource: Resource, body: Object
) -> bool:
    metadata = body["metadata"]
    if resource is NAMESPACES:
        return True
    if resource is SERVICES:
        return (metadata["namespace"], metadata["name"]) != ("default", "kubernetes")
    if resource in OTHERS:
        return OTHERS[resource].is_wanted(body)
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


def _told(tenant: SimulatedTenant, pod: Object, twin: Object) -> list[str]:
    """I4: what the tenant reads of a pod is what its twin says."""
    found, node = untold(pod, twin), twin["spec"].get("nodeName")
    is_there = node == pod["spec"].get("nodeName")
    if node and is_there and tenant.cluster.of(NODES).get("", node) is None:
        found.append(f"its node {node} is not in the tenant")
    return found


def _differences(
    world: MachineWorld, tenant: SimulatedTenant, body: Object, twin: Object
) -> list[str]:
    """I1: return in what a twin is not what its tenant object says."""
    resource = tenant.alive[body["metadata"]["uid"]][0]
    found = differences(resource, body, twin)
    if resource in OTHERS and is_labelled(twin["metadata"]):
        found += OTHERS[resource].differences(world, tenant, body, twin)
    return found
