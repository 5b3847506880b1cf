"""One tenant of a world: its cluster, and what it had before it was restored.

Owns the truth about its objects: which are alive, and which a restore has lost whose twins must
stay until it is settled which store it is. Must not know the super cluster.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tenancy.ownership import Tenant
from tenancy.resources import NAMESPACES, Resource
from tests.chaos.edits import ChaosTenant
from tests.support.memapi.cluster import ClusterState, MemoryCluster
from tests.support.memapi.watches import Object

SCALE_TO_ZERO = "ScaleToZero"
"""`workloads` of a sleep that stops the tenant's pods."""


@dataclass
class SimulatedTenant(ChaosTenant):
    """One tenant: its cluster, and what it had before it was restored."""

    number: int
    cluster: MemoryCluster
    tenant: Tenant
    alive: dict[str, tuple[Resource, Object]] = field(default_factory=dict)
    """Every object by its UID, as it is now."""
    lost: dict[str, tuple[Resource, Object]] = field(default_factory=dict)
    """What was there before a restore. Empty when it is settled which store stays."""
    spaces: set[str] = field(default_factory=set)
    """Every namespace that it ever made."""
    before: dict[str, tuple[Resource, Object]] = field(default_factory=dict)
    """What of that the store that is there now was restored without."""
    revived: dict[str, float] = field(default_factory=dict)
    """What another store has brought back that was on its way out, or gone: when, by UID."""
    snapshots: list[ClusterState] = field(default_factory=list)
    newer: ClusterState | None = None
    restores: int = 0
    is_engaged: bool = True
    """Whether the syncer has a credential for it."""
    sleep: str = ""
    """`workloads` of `spec.sleep`. Empty if the tenant is awake."""
    pods_end_until: float = float("-inf")
    """When the last delete of a pod that its sleep began must have arrived."""
    is_deleted: bool = False
    """Whether its VirtualCluster was deleted."""
    is_let_go: bool = False
    """Whether the syncer said that nothing of it is in hand any longer."""
    is_silent: bool = False
    """Whether the syncer must have left it by now."""

    @property
    def is_followed(self) -> bool:
        """Whether the syncer is to follow it."""
        return self.is_engaged and not self.is_deleted and not self.sleep

    def follow(self) -> None:
        """Know what is there from now on."""
        for collection in self.cluster.collections.values():
            collection.listeners.append(self._heard(collection.resource))
        self.look()

    def look(self) -> None:
        """Learn what is there."""
        self.alive = {
            body["metadata"]["uid"]: (collection.resource, body)
            for collection in self.cluster.collections.values()
            for body in (stored.decode() for stored in collection.all())
        }

    def _heard(self, resource: Resource) -> Any:
        def heard(kind: str, body: Object) -> None:
            uid = body["metadata"]["uid"]
            if resource is NAMESPACES:
                self.spaces.add(body["metadata"]["name"])
            if kind == "DELETED":
                self.alive.pop(uid, None)
            else:
                self.alive[uid] = (resource, json.loads(json.dumps(body)))

        return heard

    def truth(self, uid: str) -> tuple[Resource, Object] | None:
        """Return the object of a UID that must not lose its twin. None when there is none."""
        return self.alive.get(uid) or self.before.get(uid)

    @property
    def newest(self) -> dict[str, tuple[Resource, Object]]:
        """The content of the newest store, also while an older one is in use."""
        return self.alive if self.newer is None else self.lost

    def settle(self) -> None:
        """Know that the store which is there now stays."""
        self.newer, self.lost, self.before = None, {}, {}
