"""The super cluster as the syncer sees it: one client and the caches that all tenants share.

Owns which super objects are watched and whose they are. Must not know sessions: whoever is
interested subscribes. Hazard: only objects with our label are cached, so a foreign object under one
of our names is seen by nobody until a create runs into it.
"""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial

from kubeio.client import Client
from kubeio.optional import OptionalReflector
from kubeio.reflector import Reflector
from kubeio.store import Entry, Store
from kubeio.turns import Turns
from syncer.keys import HOME, TOKEN, Key
from syncer.kinds import BY_NAME, KINDS, reduction_of
from syncer.mirrors import MIRRORS
from syncer.ranges import SuperRanges
from syncer.special import ingress_hosts
from syncer.view import DOMAIN
from tenancy import marks, ownership
from tenancy.resources import (
    EVENTS,
    INGRESSES,
    IP_ADDRESSES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    TENANT_POLICIES,
    VIRTUAL_CLUSTERS,
    Resource,
)

BY_TENANT = "tenant"
"""Index of super objects by the UID of the VirtualCluster that their label names."""
BY_NODE = "node"
"""Index of agent pods by their node."""

PORTION_SECONDS = 0.002
"""What the watches that all tenants share have of each turn of the loop: more than what runs have
that begin in it, as an event that is left there waits behind those of all other tenants."""

_SYNCED = f"{marks.CONTROLLED}=true,{marks.NAMESPACE}"
"""Objects of tenant namespaces; those of root namespaces, with their keys, stay out of memory."""
_OTHERS = f"!{marks.CONTROLLED}"
_CREDENTIALS = f"{marks.CREDENTIAL}={marks.CREDENTIAL_SYNCER}"
_AGENTS = f"app.kubernetes.io/name={marks.AGENT}"

OWNED: tuple[Resource, ...] = (*(kind.resource for kind in KINDS), SERVICE_ACCOUNTS)
"""Kinds of which the syncer makes objects in the super cluster."""


_INDEXES = {INGRESSES.kind: {ingress_hosts.BY_HOST: ingress_hosts.hosts_named}}


def _tenant_of(entry: Entry) -> Iterable[str]:
    uid = entry.labels.get(marks.VC_UID)
    return (uid,) if uid else ()


def _node_of(entry: Entry) -> Iterable[str]:
    node = (entry.decode().get("spec") or {}).get("nodeName")
    return (node,) if node else ()


class SuperCluster:
    """One super cluster."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str = HOME,
        domain: str = DOMAIN,
        turns: Turns | None = None,
    ) -> None:
        """`namespace` is where the product's own components run, `domain` the cluster's own."""
        self.client = client
        self.turns = turns or Turns()
        self.name = name
        self.namespace = namespace
        self.domain = domain
        self.stores: Mapping[str, Store] = {
            resource.kind: Store({BY_TENANT: _tenant_of, **_INDEXES.get(resource.kind, {})})
            for resource in OWNED
        }
        self.other_ingresses = Store(_INDEXES[INGRESSES.kind])
        self.nodes = Store()
        self.addresses = Store()
        self.service_cidrs = Store()
        self.ranges = SuperRanges(self.nodes, self.service_cidrs)
        self.events = Store(keeps=False)  # each is told as it comes, and never looked up
        self.agents = Store({BY_NODE: _node_of})
        self.virtual_clusters = Store()
        self.credentials = Store()
        self.policies = Store()
        self.volumes = Store({BY_TENANT: _tenant_of})
        self.classes: Mapping[str, Store] = {mirror.resource.kind: Store() for mirror in MIRRORS}
        is_over = self.turns.portion(PORTION_SECONDS)
        follow = partial(Reflector, client, side="super", is_turn_over=is_over)
        follow_optional = partial(OptionalReflector, client, side="super", is_turn_over=is_over)
        self.reflectors: tuple[Reflector | OptionalReflector, ...] = (
            *(
                follow(
                    resource,
                    self.stores[resource.kind],
                    label_selector=_SYNCED,
                    reduce=reduction_of(resource.kind),
                )
                for resource in OWNED
            ),
            follow(INGRESSES, self.other_ingresses, label_selector=_OTHERS),
            follow(NODES, self.nodes),
            follow(IP_ADDRESSES, self.addresses),
            follow(SERVICE_CIDRS, self.service_cidrs),
            follow(EVENTS, self.events, has_bookmarks=False),
            follow(PODS, self.agents, namespace=namespace, label_selector=_AGENTS),
            follow(VIRTUAL_CLUSTERS, self.virtual_clusters),
            follow(SECRETS, self.credentials, label_selector=_CREDENTIALS),
            follow(TENANT_POLICIES, self.policies),
            follow(PERSISTENT_VOLUMES, self.volumes),
            *(
                (follow_optional if mirror.optional else follow)(
                    mirror.resource, self.classes[mirror.resource.kind]
                )
                for mirror in MIRRORS
            ),
        )

    @property
    def read_by_builders(self) -> Mapping[str, Store]:
        """Return the caches that builders may look into."""
        read = (
            INGRESSES.kind,
            NAMESPACES.kind,
            PERSISTENT_VOLUME_CLAIMS.kind,
            PODS.kind,
            POD_DISRUPTION_BUDGETS.kind,
        )
        return {
            **self.classes,
            **{kind: self.stores[kind] for kind in read},
            NODES.kind: self.nodes,
            PERSISTENT_VOLUMES.kind: self.volumes,
            ingress_hosts.OTHERS: self.other_ingresses,
        }

    async def run(self) -> None:
        """Follow all collections until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"super-{reflector.resource.plural}")

    async def wait_synced(self) -> None:
        """Wait until every cache has held a complete list."""
        for reflector in self.reflectors:
            await reflector.wait_synced()

    def missing(self) -> str:
        """Return which caches are not complete yet, for the probes; empty when all are."""
        found = sorted({r.resource.plural for r in self.reflectors if not r.synced})
        return f"waits for {', '.join(found)}" if found else ""

    def agent_address(self, node: str) -> str:
        """Return the address of the agent pod on a node, empty when there is none."""
        for entry in self.agents.index(BY_NODE, node):
            if not entry.deleting:
                return str((entry.decode().get("status") or {}).get("podIP") or "")
        return ""

    def key_of(self, kind: str, entry: Entry) -> Key | None:
        """Return the key that a super object belongs to, by its labels and annotations."""
        tenant = entry.labels.get(marks.VC_UID, "")
        namespace = entry.labels.get(marks.NAMESPACE, "")
        if not tenant or not namespace:
            return None
        if kind in ("Namespace", "ServiceAccount"):
            return Key(tenant, self.name, "Namespace", "", namespace)
        if kind == "Secret" and marks.TOKEN_SECONDS in entry.annotations:
            return Key(tenant, self.name, TOKEN, namespace, entry.name)
        return Key(tenant, self.name, kind, namespace, BY_NAME[kind].tenant_name(entry.name))

    def owned_by(self, tenant: str) -> Iterable[tuple[str, Entry]]:
        """Yield every cached super object of a tenant with its kind."""
        for kind, store in self.stores.items():
            for entry in store.index(BY_TENANT, tenant):
                yield kind, entry

    def is_twin(self, entry: Entry | None, *, vc_uid: str, uid: str) -> bool:
        """Tell whether a super object is ours and belongs to this tenant object."""
        if entry is None:
            return False
        owner = ownership.owner_of({"annotations": entry.annotations})
        return owner is not None and owner.vc_uid == vc_uid and owner.uid == uid
