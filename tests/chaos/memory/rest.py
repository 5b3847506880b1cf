"""Rules at rest: the super cluster matches the tenants, and the tenants match it.

Owns the invariants I1 and I4 of the reference (`reliability-security.md`, 4b): which tenant objects
have a twin, what it says, what has no owner, and what tenants read of their pods. An oracle
of its own: nothing of the syncer's is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tenancy import ownership, wellknown
from tenancy.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.chaos import oracles
from tests.chaos.memory import shown, tokens, variables
from tests.chaos.memory.judge import SYNCED, Object
from tests.chaos.memory.kinds import OTHERS
from tests.chaos.memory.tenant import SCALE_TO_ZERO
from tests.chaos.oracles import Violation, is_labelled, needs
from tests.support import policy_matrix
from tests.support.policy_matrix import NetworkPod

if TYPE_CHECKING:
    from tests.chaos.memory.tenant import SimulatedTenant
    from tests.chaos.memory.world import MachineWorld


_INVARIANTS: Mapping[str, str] = {
    **dict.fromkeys(("lost", "different", "orphan"), "I1"),
    **dict.fromkeys(("untold", "unfinished"), "I4"),
}
"""The invariant that a violation is of."""


def problems(world: MachineWorld) -> list[Violation]:
    """Return what is not as it must be when nothing is left to do: I1, I4, and orphans."""
    found: list[Violation] = []
    for tenant in world.tenants:
        if tenant.is_deleted:
            found += _left(world, tenant)
        elif tenant.sleep == SCALE_TO_ZERO:
            found += _still_running(world, tenant)
        elif tenant.is_followed:
            for resource, body in list(tenant.alive.values()):
                if resource in SYNCED:
                    found += _missing(world, tenant, resource, body)
            found += _orphans(world, tenant)
            found += shown.problems(world, tenant)
    return found


def _left(world: MachineWorld, tenant: SimulatedTenant) -> list[Violation]:
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
    return [Violation("I1", f"{tenant.side} was deleted: {what} is still there") for what in stays]


def _still_running(world: MachineWorld, tenant: SimulatedTenant) -> list[Violation]:
    """No pod runs of a tenant whose sleep stops them."""
    return [
        Violation("I4", f"{tenant.side} is asleep: pod {body['metadata']['name']} still runs")
        for resource, body in world.owned(tenant)
        if resource is PODS
    ]


def held(world: MachineWorld) -> list[Violation]:
    """Return what is missing below while deletes are held: all that has its place there free."""
    return [
        Violation("I1", f"deletes are held: {tenant.side}: {resource.kind} {name} has no twin")
        for tenant in world.tenants
        if world.holds(tenant) and tenant.is_followed
        for resource, body in list(tenant.alive.values())
        if resource in (PODS, SERVICES)
        for name in (f"{body['metadata']['namespace']}/{body['metadata']['name']}",)
        if _is_wanted(tenant, resource, body) and _is_free(world, tenant, resource, body)
    ]


def _is_free(
    world: MachineWorld, tenant: SimulatedTenant, resource: Resource, body: Object
) -> bool:
    """Return whether nothing is in the way of a twin."""
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


def _orphans(world: MachineWorld, tenant: SimulatedTenant) -> list[Violation]:
    found = []
    for resource, body in world.owned(tenant):
        metadata = body["metadata"]
        if world.sight.is_out_of_sight(metadata):
            continue
        if wellknown.TOKEN_SECONDS in metadata["annotations"]:
            found += tokens.problems(world, tenant, body)
            continue
        uid = metadata["annotations"][wellknown.UID]
        is_alive = uid in tenant.alive
        found += oracles.check_twin(tenant.side, resource, body, uid, is_alive=is_alive)
    return _as_invariants(found)


def _missing(
    world: MachineWorld, tenant: SimulatedTenant, resource: Resource, body: Object
) -> list[Violation]:
    metadata = body["metadata"]
    twin = world.twin(tenant, resource, metadata)
    is_ending = "deletionTimestamp" in metadata
    if metadata.get("finalizers") if is_ending else _is_taken(world, tenant, resource, metadata):
        return []
    is_wanted = _is_wanted(tenant, resource, body)
    is_left = twin is not None and not is_ending and not is_wanted
    if twin is not None and is_left and world.sight.is_out_of_sight(twin["metadata"]):
        return []
    found = oracles.check_object(tenant.side, resource, body, twin, is_wanted=is_wanted)
    if twin is not None and not is_ending:
        about = f"{tenant.side}: {oracles.title(resource, metadata)}"
        more = _more_differences(world, tenant, resource, body, twin)
        found += [Violation(rule, f"{about}: {text}") for rule, text in more]
    return _as_invariants(found)


def _as_invariants(found: Sequence[Violation]) -> list[Violation]:
    return [each._replace(rule=_INVARIANTS.get(each.rule, each.rule)) for each in found]


def _is_taken(
    world: MachineWorld, tenant: SimulatedTenant, resource: Resource, metadata: Object
) -> bool:
    """Return whether a foreign object has the name in the super cluster."""
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


def _is_wanted(tenant: SimulatedTenant, resource: Resource, body: Object) -> bool:
    if resource in OTHERS:
        return OTHERS[resource].is_wanted(body)
    pods = (found for kind, found in tenant.alive.values() if kind is PODS)
    return oracles.is_wanted(resource, body, pods)


def _more_differences(
    world: MachineWorld, tenant: SimulatedTenant, resource: Resource, body: Object, twin: Object
) -> Iterator[tuple[str, str]]:
    """Yield what only the machine knows of a twin, each with its rule."""
    if resource in OTHERS and is_labelled(twin["metadata"]):
        found = OTHERS[resource].differences(world, tenant, body, twin)
        yield from (("different", text) for text in found)
    if resource is PODS:
        node = twin["spec"].get("nodeName")
        is_there = node == body["spec"].get("nodeName")
        if node and is_there and tenant.cluster.of(NODES).get("", node) is None:
            yield "untold", f"its node {node} is not in the tenant"
        yield from (("different", text) for text in tokens.missing(world, twin))
        unseen = variables.problems(world, tenant, body, twin)
        yield from (("different", text) for text in unseen)
        if is_labelled(twin["metadata"]):
            yield from (("different", text) for text in _unlike_policies(tenant, body, twin))


def _unlike_policies(tenant: SimulatedTenant, body: Object, twin: Object) -> Iterator[str]:
    """Yield the directions in which a twin has a wrong mark of the tenant's network policies."""
    metadata = body["metadata"]
    pod = NetworkPod("192.0.2.1", metadata["name"], metadata["namespace"], _labels(body), {})
    policies = [
        found
        for kind, found in tenant.alive.values()
        if kind is NETWORK_POLICIES and "deletionTimestamp" not in found["metadata"]
    ]
    for direction, mark in (
        ("Ingress", wellknown.POLICED_INGRESS),
        ("Egress", wellknown.POLICED_EGRESS),
    ):
        wanted = any(policy_matrix.is_selected(each, pod, direction) for each in policies)
        if wanted != (_labels(twin).get(mark) == "true"):
            yield f"its mark for {direction} is not {wanted}, as the tenant's policies select it"


def _labels(body: Object) -> Mapping[str, str]:
    return body["metadata"].get("labels") or {}
