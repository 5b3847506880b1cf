"""Edits of tenants on their own objects.

Each function is one step: it takes a world and some small numbers that say which object it is
about, and does nothing where there is nothing to do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenancy.resources import (
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
    Resource,
)
from tests.chaos.edits import NAMES, PLAIN, SPACES, data, grace, image, labels, pod
from tests.chaos.memory import tokens
from tests.chaos.memory.kinds import OTHERS, MachineKind
from tests.chaos.memory.shown import OWN_TAINT
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.watches import Object

if TYPE_CHECKING:
    from tests.chaos.memory.tenant import SimulatedTenant
    from tests.chaos.memory.world import MachineWorld


def tenant_of(world: MachineWorld, numbers: Sequence[int]) -> SimulatedTenant:
    return world.tenants[numbers[0] % len(world.tenants)]


def space_of(numbers: Sequence[int]) -> str:
    return SPACES[numbers[1] % len(SPACES)]


def name_of(numbers: Sequence[int]) -> str:
    return NAMES[numbers[2] % len(NAMES)]


def _try(
    world: MachineWorld, tenant: SimulatedTenant, resource: Resource, space: str, body: Object
) -> None:
    with contextlib.suppress(StatusError):
        world.make(tenant.cluster, resource, space, body)


def make_space(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant = tenant_of(world, numbers)
    _try(world, tenant, NAMESPACES, "", {"metadata": {"name": space_of(numbers)}})


def end_space(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant = tenant_of(world, numbers)
    world.remove(tenant.cluster.of(NAMESPACES), "", space_of(numbers))


def renew_space(world: MachineWorld, numbers: Sequence[int]) -> None:
    """A namespace is deleted, and made again as soon as its name is free."""
    end_space(world, numbers)
    tenant, left = tenant_of(world, numbers), [10]

    def again() -> None:
        make_space(world, numbers)
        left[0] -= 1
        stored = tenant.cluster.of(NAMESPACES).get("", space_of(numbers))
        if left[0] and (stored is None or b'"deletionTimestamp"' in stored.body):
            world.loop.call_later(0.3, again)

    again()


def make(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant, resource = tenant_of(world, numbers), PLAIN[numbers[3] % len(PLAIN)]
    body = {"metadata": {"name": name_of(numbers)}, **data(tenant, resource, numbers[4])}
    _try(world, tenant, resource, space_of(numbers), body)


def edit(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant, resource = tenant_of(world, numbers), PLAIN[numbers[3] % len(PLAIN)]

    def edited(found: Object) -> Object:
        told = data(tenant, resource, numbers[4])
        spec = {**found["spec"], **told["spec"]} if "spec" in told else None
        return {**found, **told, **({"spec": spec} if spec else {})}

    world.change(tenant.cluster.of(resource), space_of(numbers), name_of(numbers), edited)


def end(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant, resource = tenant_of(world, numbers), PLAIN[numbers[3] % len(PLAIN)]
    world.remove(tenant.cluster.of(resource), space_of(numbers), name_of(numbers))


def _other(numbers: Sequence[int]) -> tuple[MachineKind, str]:
    row = tuple(OTHERS.values())[numbers[3] % len(OTHERS)]
    return row, row.one_name or name_of(numbers)


def make_other(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant, (row, name) = tenant_of(world, numbers), _other(numbers)
    space = space_of(numbers)
    said = row.body(tenant, f"{space}/{name}", numbers[4])
    metadata = {"name": name, "labels": said.pop("labels", {})}
    _try(world, tenant, row.resource, space, {"metadata": metadata, **said})


def edit_other(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant, (row, name) = tenant_of(world, numbers), _other(numbers)
    said = row.body(tenant, f"{space_of(numbers)}/{name}", numbers[4])
    said.pop("labels", None)

    def edited(found: Object) -> Object:
        spec = {"spec": {**found["spec"], **said["spec"]}} if "spec" in said else {}
        return {**found, **said, **spec}

    world.change(tenant.cluster.of(row.resource), space_of(numbers), name, edited)


def end_other(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant, (row, name) = tenant_of(world, numbers), _other(numbers)
    world.remove(tenant.cluster.of(row.resource), space_of(numbers), name)


def edit_shown(world: MachineWorld, numbers: Sequence[int]) -> None:
    """A tenant changes or takes away what is only shown to it."""
    tenant = tenant_of(world, numbers)
    resource = (STORAGE_CLASSES, PRIORITY_CLASSES, NODES)[numbers[1] % 3]
    shown = tenant.cluster.of(resource).all()
    if not shown:
        return
    stored = shown[numbers[2] % len(shown)]
    if numbers[3] % 2 and resource is not NODES:
        world.remove(tenant.cluster.of(resource), "", stored.name)
    else:
        world.change(tenant.cluster.of(resource), "", stored.name, _spoilt)


def _spoilt(found: Object) -> Object:
    if found["kind"] == NODES.kind:
        own, spec = {"key": OWN_TAINT, "effect": "PreferNoSchedule"}, found.get("spec") or {}
        return {**found, "spec": {**spec, "taints": [own]}}
    return {**found, "reclaimPolicy": "Retain"} if "provisioner" in found else {**found, "value": 1}


def make_token_pod(world: MachineWorld, numbers: Sequence[int]) -> None:
    """A pod that asks for a token of its account."""
    tenant = tenant_of(world, numbers)
    body = pod(tenant, name_of(numbers), numbers)
    spec = {**body["spec"], "serviceAccountName": "default"}
    spec["volumes"] = [*spec["volumes"], tokens.volume(("", "vault")[numbers[4] % 2])]
    _try(world, tenant, PODS, space_of(numbers), {**body, "spec": spec})


def make_pod(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant = tenant_of(world, numbers)
    _try(world, tenant, PODS, space_of(numbers), pod(tenant, name_of(numbers), numbers))


def edit_pod(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant = tenant_of(world, numbers)

    def edited(found: Object) -> Object:
        if numbers[3] % 2:
            metadata = {**found["metadata"], "labels": labels(tenant, numbers[4])}
            return {**found, "metadata": metadata}
        first = {**found["spec"]["containers"][0], "image": image(numbers[4])}
        return {**found, "spec": {**found["spec"], "containers": [first]}}

    world.change(tenant.cluster.of(PODS), space_of(numbers), name_of(numbers), edited)


def end_pod(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant = tenant_of(world, numbers)
    world.remove(tenant.cluster.of(PODS), space_of(numbers), name_of(numbers), grace(numbers))


def renew_pod(world: MachineWorld, numbers: Sequence[int]) -> None:
    """The same name again at once: someone had forced the end of what had it."""
    tenant = tenant_of(world, numbers)
    world.remove(tenant.cluster.of(PODS), space_of(numbers), name_of(numbers), 0)
    make_pod(world, numbers)
