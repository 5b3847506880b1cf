"""Client and shared caches of one super cluster.

Owns the watched resources of each super cluster, and the owner of each object. Resources that only
the home cluster has are in `syncer.clusters.home_cluster`. Must not know sessions. Handlers
subscribe. Hazard: only objects with the syncer's label are cached. A foreign object with the name
of a twin stays unseen until a create conflicts with it.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from kubeio.api.client import Client
from kubeio.cache.crd_reflector import OptionalReflector
from kubeio.cache.reflector import Reflector
from kubeio.cache.store import Entry, Store
from kubeio.http import transport_protocol
from kubeio.loop_budget import Turns
from syncer.model.keys import TOKEN, Key
from syncer.model.super_cidrs import SuperRanges
from syncer.model.tenant_view import DOMAIN
from syncer.placement.capacity import Inventory
from syncer.rules.network import ingress_hosts
from syncer.rules.registry import BY_NAME, KINDS, reduction_of
from tenancy import ownership, wellknown
from tenancy.resources import (
    EVENTS,
    INGRESSES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    Resource,
)

BY_TENANT = "tenant"
"""Index of super objects by the UID of the VirtualCluster in their label."""

PORTION_SECONDS = 0.002
"""Time in seconds per event-loop iteration for the watches that all tenants share. It is longer
than the time for reconciles that begin in the iteration. An event that is left waits behind those
of all other tenants.
"""

_SYNCED = f"{wellknown.CONTROLLED}=true,{wellknown.NAMESPACE}"
"""Objects of tenant namespaces. Root namespaces, with their keys, stay out of memory."""

OWNED: tuple[Resource, ...] = (*(kind.resource for kind in KINDS), SERVICE_ACCOUNTS)
"""Kinds of which the syncer creates objects in the home cluster."""
AT_TARGETS: tuple[Resource, ...] = (
    *(kind.resource for kind in KINDS if kind.at_targets),
    SERVICE_ACCOUNTS,
)
"""The same for every target."""


MOST_LIST_BYTES = transport_protocol.MAX_ANSWER_BYTES
"""Maximum size in bytes of one list of a target, which may be hostile. It is the size that one
answer of any server may have. A larger list is not synced, and the SuperCluster reports it.
"""
MOST_SIDES = 32
"""Maximum number of targets with a metric label of their own. Later ones share one label."""

_INDEXES = {INGRESSES.kind: {ingress_hosts.BY_HOST: ingress_hosts.hosts_named}}


_sides: set[str] = set()


def side_of(name: str, registration: str) -> str:
    """Return the metric label of a super cluster: `super`, or `target-NAME` in a bounded number."""
    if not registration:
        return "super"
    if name not in _sides and len(_sides) >= MOST_SIDES:
        return "target-other"
    _sides.add(name)
    return f"target-{name}"


def tenant_of(entry: Entry) -> Iterable[str]:
    """Return the index values of a super object: the UID of its VirtualCluster."""
    uid = entry.labels.get(wellknown.VC_UID)
    return (uid,) if uid else ()


class SuperCluster:
    """One super cluster."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        registration: str = "",
        owned: tuple[Resource, ...] = AT_TARGETS,
        domain: str = DOMAIN,
        turns: Turns | None = None,
    ) -> None:
        """`registration` is the UID of its SuperCluster, empty for the home cluster.

        `owned` are the kinds whose twins are created there. `domain` is the cluster's DNS domain.
        """
        self.client = client
        self.turns = turns or Turns()
        self.name = name
        self.registration = registration
        self.domain = domain
        ours = f"{wellknown.SUPER_CLUSTER}={registration}"
        synced = f"{_SYNCED},{ours}" if registration else _SYNCED
        self.stores: Mapping[str, Store] = {
            resource.kind: Store({BY_TENANT: tenant_of, **_INDEXES.get(resource.kind, {})})
            for resource in owned
        }
        self.nodes = Store()
        self.service_cidrs = Store()
        self.ranges = SuperRanges(self.nodes, self.service_cidrs)
        self.events = Store(keeps=False)  # each is handled on arrival and never looked up
        self._inventory: Inventory | None = None
        self._side = side_of(name, registration)
        self._most = MOST_LIST_BYTES if registration else None
        # Targets share the time like tenants, so that a flood from one delays no other.
        is_home = not registration
        self._is_over = self.turns.portion(PORTION_SECONDS) if is_home else self.turns.is_over
        self.reflectors: tuple[Reflector | OptionalReflector, ...] = (
            *(
                self._follow(
                    resource,
                    self.stores[resource.kind],
                    label_selector=synced,
                    reduce=reduction_of(resource.kind),
                )
                for resource in owned
            ),
            self._follow(NODES, self.nodes),
            self._follow(SERVICE_CIDRS, self.service_cidrs),
            self._follow(EVENTS, self.events, has_bookmarks=False),
        )

    def _follow(self, resource: Resource, store: Store, **options: Any) -> Reflector:
        """Return the reflector of a cache. All reflectors share one portion of an iteration."""
        return Reflector(
            self.client,
            resource,
            store,
            side=self._side,
            turns=self.turns,
            is_turn_over=self._is_over,
            most=self._most,
            **options,
        )

    @property
    def read_by_builders(self) -> Mapping[str, Store]:
        """Return the caches that builders may read."""
        read = (NAMESPACES.kind, PODS.kind, POD_DISRUPTION_BUDGETS.kind)
        return {**{kind: self.stores[kind] for kind in read}, NODES.kind: self.nodes}

    @property
    def inventory(self) -> Inventory:
        """Free capacity of its nodes, counted from the first use on."""
        if self._inventory is None:
            self._inventory = Inventory(self.nodes, self.stores[PODS.kind])
        return self._inventory

    async def run(self) -> None:
        """Watch all resources until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"super-{reflector.resource.plural}")

    async def wait_synced(self) -> None:
        """Wait until every cache has had a complete list."""
        for reflector in self.reflectors:
            await reflector.wait_synced()

    def missing(self) -> str:
        """Return the incomplete caches for the probes. Empty if all are complete."""
        found = sorted({r.resource.plural for r in self.reflectors if not r.synced})
        return f"waits for {', '.join(found)}" if found else ""

    def key_of(self, kind: str, entry: Entry) -> Key | None:
        """Return the key that a super object belongs to, by its labels and annotations."""
        tenant = entry.labels.get(wellknown.VC_UID, "")
        namespace = entry.labels.get(wellknown.NAMESPACE, "")
        if not tenant or not namespace:
            return None
        if kind in ("Namespace", "ServiceAccount"):
            return Key(tenant, self.name, "Namespace", "", namespace)
        if kind == "Secret" and wellknown.TOKEN_SECONDS in entry.annotations:
            return Key(tenant, self.name, TOKEN, namespace, entry.name)
        return Key(tenant, self.name, kind, namespace, BY_NAME[kind].tenant_name(entry.name))

    def owned_by(self, tenant: str) -> Iterable[tuple[str, Entry]]:
        """Yield every cached super object of a tenant with its kind."""
        for kind, store in self.stores.items():
            for entry in store.index(BY_TENANT, tenant):
                yield kind, entry

    def written_for(self, tenant: str) -> Iterable[Entry]:
        """Yield every cached super object of a tenant."""
        return (entry for _, entry in self.owned_by(tenant))

    def is_twin(self, entry: Entry | None, *, vc_uid: str, uid: str) -> bool:
        """Return True if a super object is the twin of this tenant object."""
        if entry is None:
            return False
        owner = ownership.owner_of({"annotations": entry.annotations}, self.registration)
        return owner is not None and owner.vc_uid == vc_uid and owner.uid == uid
