"""vc-manager, as far as the syncer meets it: what becomes of a VirtualCluster that is deleted.

Owns the order: the syncer's word that it has let go, super namespaces, root namespace, finalizer,
and one more look at what came late.
Whether the word was given is asked of the product. Must not know the syncer's processes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tenancy import wellknown
from tenancy.resources import NAMESPACES, VIRTUAL_CLUSTERS
from tests.support.memapi.cluster import MemoryCluster
from vcmanager.reconcilers import orphan_sweep, virtual_cluster_deletion

if TYPE_CHECKING:
    from tests.chaos.memory.tenant import SimulatedTenant
    from tests.chaos.memory.world import MachineWorld

_LOOK_SECONDS = 0.5
_LATER_SECONDS = 3.0
"""How long after the syncer's word the first namespace goes: time for what must not be."""


class MachineManager:
    """Takes down what is left of tenants that no one wants any longer."""

    def __init__(self, world: MachineWorld) -> None:
        self._world = world
        self._below: MemoryCluster = world.below
        self._begins = 0.0

    def delete(self, tenant: SimulatedTenant) -> None:
        """Have a VirtualCluster deleted, and see it through."""
        if tenant.is_deleted:
            return
        tenant.is_deleted = True
        self._world.remove(self._below.of(VIRTUAL_CLUSTERS), "default", tenant.tenant.name)
        self._look(tenant)

    def _look(self, tenant: SimulatedTenant) -> None:
        later = asyncio.get_running_loop().call_later
        if self._take_down(tenant):
            later(orphan_sweep.ORPHAN_DELAY_SECONDS, self._look_again, tenant)
        else:
            later(_LOOK_SECONDS, self._look, tenant)

    def _look_again(self, tenant: SimulatedTenant) -> None:
        for name in self._theirs(tenant):
            self._world.remove(self._below.of(NAMESPACES), "", name)

    def _theirs(self, tenant: SimulatedTenant) -> list[str]:
        spaces = self._below.of(NAMESPACES).all()
        return [
            each.name
            for each in spaces
            if virtual_cluster_deletion.is_namespace_of_tenant(each.decode(), tenant.tenant)
        ]

    def _take_down(self, tenant: SimulatedTenant) -> bool:
        """Do what can be done now. Tells whether nothing is left."""
        world, collection = self._world, self._below.of(VIRTUAL_CLUSTERS)
        stored = collection.get("default", tenant.tenant.name)
        if stored is None:
            return True
        if not tenant.is_let_go:
            tenant.is_let_go = virtual_cluster_deletion.is_disengaged(
                stored.decode().get("status") or {}
            )
            self._begins = world.loop.time() + _LATER_SECONDS
        if not tenant.is_let_go or world.loop.time() < self._begins:
            return False
        spaces = self._below.of(NAMESPACES)
        theirs = self._theirs(tenant)
        if not theirs and spaces.get("", tenant.tenant.root) is not None:
            theirs = [tenant.tenant.root]
        for name in theirs:
            world.remove(spaces, "", name)
        if not theirs:
            world.change(collection, "default", tenant.tenant.name, _released)
        return False


def _released(found: dict[str, object]) -> dict[str, object]:
    metadata = found["metadata"]
    assert isinstance(metadata, dict)
    kept = [each for each in metadata.get("finalizers") or () if each != wellknown.FINALIZER]
    return {**found, "metadata": {**metadata, "finalizers": kept}}
