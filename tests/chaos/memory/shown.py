"""Mirrored objects of the super cluster in its tenants at rest: classes, volumes and nodes.

Owns that part of the invariant I4. An oracle of its own: nothing of the syncer's is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenancy import ownership, wellknown
from tenancy.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
)
from tests.chaos.oracles import Violation
from tests.support.memapi.watches import Object

if TYPE_CHECKING:
    from tests.chaos.memory.tenant import SimulatedTenant
    from tests.chaos.memory.world import MachineWorld

OWN_TAINT = "own"
"""The one that tenants give the nodes that they are shown."""
CLASSES = (STORAGE_CLASSES, PRIORITY_CLASSES)
_FIELDS = ("provisioner", "reclaimPolicy", "value")


def problems(world: MachineWorld, tenant: SimulatedTenant) -> list[Violation]:
    """Return what a tenant is shown and is not so, or is so and is not shown."""
    texts = [*_classes(world, tenant), *_volumes(world, tenant), *_nodes(world, tenant)]
    return [Violation("I4", f"{tenant.side}: {text}") for text in texts]


def _classes(world: MachineWorld, tenant: SimulatedTenant) -> list[str]:
    found = []
    for resource in CLASSES:
        above = {stored.name: stored.decode() for stored in tenant.cluster.of(resource).all()}
        offered = {
            stored.name: stored.decode()
            for stored in world.below.of(resource).all()
            if resource is STORAGE_CLASSES or stored.labels.get(wellknown.SUPER_PUBLIC) == "true"
        }
        for name, body in offered.items():
            own = above.get(name)
            if own is None:
                found.append(f"{resource.kind} {name} is not shown")
            elif _is_marked(own):
                found += [
                    f"{resource.kind} {name}: {field} is {own.get(field)}, below {body.get(field)}"
                    for field in _FIELDS
                    if own.get(field) != body.get(field)
                ]
        found += [
            f"{resource.kind} {name} is shown, and is not offered"
            for name, own in above.items()
            if _is_marked(own) and name not in offered
        ]
    return found


def _volumes(world: MachineWorld, tenant: SimulatedTenant) -> list[str]:
    claimed = {
        body["metadata"]["uid"]
        for stored in world.below.of(PERSISTENT_VOLUME_CLAIMS).all()
        for body in (stored.decode(),)
        if (owner := ownership.read_owner(body["metadata"])) is not None
        and owner.vc_uid == tenant.tenant.uid
    }
    there = {
        stored.name: stored.decode()["spec"]["claimRef"]["uid"]
        for stored in world.below.of(PERSISTENT_VOLUMES).all()
    }
    return [
        f"PersistentVolume {stored.name} is shown, and no claim below has it"
        for stored in tenant.cluster.of(PERSISTENT_VOLUMES).all()
        if _is_marked(stored.decode()) and there.get(stored.name) not in claimed
    ]


def _nodes(world: MachineWorld, tenant: SimulatedTenant) -> list[str]:
    found = []
    for stored in tenant.cluster.of(NODES).all():
        below = world.below.of(NODES).get("", stored.name)
        taints = [_taints(each.decode()) for each in (stored, below) if each is not None]
        if len(taints) > 1 and taints[0] != taints[1]:
            found.append(f"Node {stored.name}: taints are {taints[0]}, below {taints[1]}")
    return found


def _taints(node: Object) -> list[str]:
    """Return the taints of a node but for those that its tenant gave it: they stay."""
    found = (node.get("spec") or {}).get("taints") or ()
    return sorted(each["key"] for each in found if each["key"] != OWN_TAINT)


def _is_marked(body: Object) -> bool:
    metadata = body["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return wellknown.MIRRORED in labels or wellknown.UID in annotations
