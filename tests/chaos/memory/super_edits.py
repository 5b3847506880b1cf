"""Writes of the super cluster's admin, of other writers and of failing kubelets.

Each function is one step, as in `tenant_edits`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenancy import ownership, wellknown
from tenancy.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    PRIORITY_CLASSES,
    SECRETS,
    SERVICES,
    STORAGE_CLASSES,
    Resource,
)
from tests.chaos.edits import ADMIN_DATA, ADMIN_LABELS, NAMES, PLAIN, news
from tests.chaos.memory.kinds import OTHERS
from tests.chaos.memory.tenant import SCALE_TO_ZERO
from tests.chaos.memory.tenant_edits import tenant_of
from tests.support.memapi.cluster import Collection
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.watches import Object, StoredObject

if TYPE_CHECKING:
    from tests.chaos.memory.world import MachineWorld


def _twins(world: MachineWorld, *resources: Resource) -> list[tuple[Collection, StoredObject]]:
    return [
        (world.below.of(resource), stored)
        for resource in resources
        for stored in world.below.of(resource).all()
        if ownership.read_owner(stored.decode()["metadata"]) is not None
    ]


def _picked(
    world: MachineWorld, number: int, *resources: Resource
) -> tuple[Collection, StoredObject] | tuple[None, None]:
    found = _twins(world, *resources)
    return found[number % len(found)] if found else (None, None)


def edit_below(world: MachineWorld, numbers: Sequence[int]) -> None:
    collection, stored = _picked(world, numbers[0], PODS, *PLAIN)
    if collection is None or stored is None:
        return

    def edited(found: Object) -> Object:
        metadata = found["metadata"]
        match numbers[1] % 4:
            case 0:
                world.sight.strips(found)
                return {**found, "metadata": {**metadata, "labels": ADMIN_LABELS}}
            case 1:
                labels = {**(metadata.get("labels") or {}), **ADMIN_LABELS}
                return {**found, "metadata": {**metadata, "labels": labels}}
            case 2 if "data" in found:
                return {**found, "data": ADMIN_DATA}
            case _ if "selector" in (found.get("spec") or {}):
                return {**found, "spec": {**found["spec"], "selector": ADMIN_LABELS}}
        return found

    world.change(collection, stored.namespace, stored.name, edited)


def end_below(world: MachineWorld, numbers: Sequence[int]) -> None:
    collection, stored = _picked(world, numbers[0], PODS, PODS, *PLAIN)
    if collection is not None and stored is not None:
        world.remove(collection, stored.namespace, stored.name, (None, 0)[numbers[1] % 2])


def strip_other_below(world: MachineWorld, numbers: Sequence[int]) -> None:
    """A twin of some other kind, or a namespace, or a token, loses its labels."""
    collection, stored = _picked(world, numbers[0], *OTHERS, NAMESPACES, SECRETS)
    if collection is None or stored is None or _is_root(world, stored.name):
        return

    def edited(found: Object) -> Object:
        world.sight.strips(found)
        labels = found["metadata"].get("labels") or {}
        kept = {key: value for key, value in labels.items() if "/" not in key}
        return {**found, "metadata": {**found["metadata"], "labels": kept}}

    world.change(collection, stored.namespace, stored.name, edited)


def _is_root(world: MachineWorld, name: str) -> bool:
    return any(name == tenant.tenant.root for tenant in world.tenants)


def end_other_below(world: MachineWorld, numbers: Sequence[int]) -> None:
    kinds = [kind for kind in OTHERS if kind is not PERSISTENT_VOLUME_CLAIMS]
    collection, stored = _picked(world, numbers[0], *kinds, SECRETS)
    if collection is not None and stored is not None:
        world.remove(collection, stored.namespace, stored.name)


def offer(world: MachineWorld, numbers: Sequence[int]) -> None:
    """A class that tenants are shown comes, changes or goes."""
    resource = (STORAGE_CLASSES, PRIORITY_CLASSES)[numbers[0] % 2]
    name = NAMES[numbers[1] % len(NAMES)]
    said: Object = {"value": 1000 + numbers[3] % 5}
    if resource is STORAGE_CLASSES:
        said = {"provisioner": "csi.example.com"}
        said["reclaimPolicy"] = ("Delete", "Retain")[numbers[3] % 2]
    labels = {wellknown.SUPER_PUBLIC: ("true", "true", "no")[numbers[4] % 3]}
    metadata = {"name": name, "labels": labels}
    if numbers[2] % 3 == 0:
        world.remove(world.below.of(resource), "", name)
        return

    def edited(found: Object) -> Object:
        return {**found, **said, "metadata": {**found["metadata"], "labels": labels}}

    if not world.change(world.below.of(resource), "", name, edited):
        world.make(world.below, resource, "", {"metadata": metadata, **said})


def taint(world: MachineWorld, numbers: Sequence[int]) -> None:
    """A node changes."""
    nodes = world.below.of(NODES).all()
    taints = [{"key": f"t{each}", "effect": "NoSchedule"} for each in range(numbers[1] % 3)]
    world.change(
        world.below.of(NODES),
        "",
        nodes[numbers[0] % len(nodes)].name,
        lambda found: {**found, "spec": {**(found.get("spec") or {}), "taints": taints}},
    )


def tell(world: MachineWorld, numbers: Sequence[int]) -> None:
    """Something below says something of a pod, in the super cluster's names."""
    collection, stored = _picked(world, numbers[0], PODS)
    if collection is None or stored is None:
        return
    metadata = stored.decode()["metadata"]
    regarded = {key: metadata[key] for key in ("namespace", "name", "uid")}
    event = {
        "metadata": {"name": f"{stored.name}.{numbers[1]}"},
        "involvedObject": {"kind": "Pod", "apiVersion": "v1", **regarded},
        "reason": "Told",
        "message": f"pod {stored.namespace}/{stored.name} is on its way",
        "type": "Normal",
        "count": 1 + numbers[2] % 3,
    }
    with contextlib.suppress(StatusError):
        world.make(world.below, EVENTS, stored.namespace, event)


def remake_below(world: MachineWorld, numbers: Sequence[int]) -> None:
    """A backup is played back over a twin: the same object with another UID, in no time."""
    collection, stored = _picked(world, numbers[0], PODS, SERVICES, SERVICES, *PLAIN)
    body = stored.decode() if stored is not None else {}
    if collection is None or stored is None or "deletionTimestamp" in body["metadata"]:
        return
    world.remove(collection, stored.namespace, stored.name, 0)
    metadata = {
        key: value
        for key, value in body["metadata"].items()
        if key in ("name", "labels", "annotations", "ownerReferences")
    }
    played_back = {**body, "metadata": metadata}
    with contextlib.suppress(StatusError):
        made = world.make(world.below, collection.resource, stored.namespace, played_back)
        world.sight.plays_back(body, made.decode())


def end_space_below(world: MachineWorld, numbers: Sequence[int]) -> None:
    collection, stored = _picked(world, numbers[0], NAMESPACES)
    if collection is not None and stored is not None:
        world.remove(collection, "", stored.name)


def stranger(world: MachineWorld, numbers: Sequence[int]) -> None:
    """Someone puts an object of their own where a twin would stand."""
    tenant = tenant_of(world, numbers)
    resource = (CONFIG_MAPS, SECRETS)[numbers[3] % 2]
    twinless = [
        stored
        for stored in tenant.cluster.of(resource).all()
        if stored.name in NAMES
        and world.below.of(resource).get(tenant.below(stored.namespace), stored.name) is None
    ]
    if not twinless:
        return
    stored = twinless[numbers[4] % len(twinless)]
    body = {"metadata": {"name": stored.name}}
    with contextlib.suppress(StatusError):
        world.make(world.below, resource, tenant.below(stored.namespace), body)


def stranger_leaves(world: MachineWorld, _: Sequence[int]) -> None:
    for resource in (CONFIG_MAPS, SECRETS):
        for stored in world.below.of(resource).all():
            metadata = stored.decode()["metadata"]
            if ownership.read_owner(metadata) is None and stored.name in NAMES:
                world.remove(world.below.of(resource), stored.namespace, stored.name)


def disengage(world: MachineWorld, numbers: Sequence[int]) -> None:
    """The syncer's credential for a tenant goes, and comes back or not."""
    tenant = tenant_of(world, numbers)
    if tenant.is_engaged:
        world.disengage(tenant)
    else:
        world.engage(tenant)


def sleep(world: MachineWorld, numbers: Sequence[int]) -> None:
    """A tenant goes to sleep, with its pods or without them, or wakes."""
    tenant = tenant_of(world, numbers)
    if not tenant.is_deleted:
        asleep = ("Keep", SCALE_TO_ZERO)[numbers[1] % 2]
        world.sleep(tenant, "" if tenant.sleep else asleep)


def delete_tenant(world: MachineWorld, numbers: Sequence[int]) -> None:
    world.manager.delete(tenant_of(world, numbers))


def phase(world: MachineWorld, numbers: Sequence[int]) -> None:
    """A kubelet has news of a pod."""
    collection, stored = _picked(world, numbers[0], PODS)
    if collection is None or stored is None:
        return
    body = stored.decode()
    if not body["spec"].get("nodeName"):
        return
    told = news(body["status"], numbers)
    if told is not None:
        body["status"] = {**body["status"], **told}
        collection.put(body)
