"""The super cluster as the syncer sees it: one client and the caches that all tenants share.

Owns which super objects are watched and whose they are. Must not know sessions: whoever is
interested subscribes. Hazard: only objects with our label are cached, so a foreign object under one
of our names is seen by nobody until a create runs into it.
"""

import asyncio
from collections.abc import Iterable, Mapping

from kubeio.client import Client
from kubeio.reflector import Reflector
from kubeio.store import Entry, Store
from syncer.keys import HOME, TOKEN, Key
from syncer.special import configuration
from tenancy import marks, ownership
from tenancy.resources import (
    CONFIG_MAPS,
    EVENTS,
    IP_ADDRESSES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VIRTUAL_CLUSTERS,
    Resource,
)

BY_TENANT = "tenant"
"""Index of super objects by the UID of the VirtualCluster that their label names."""
BY_NODE = "node"
"""Index of agent pods by their node."""

_SYNCED = f"{marks.CONTROLLED}=true,{marks.NAMESPACE}"
"""Objects of tenant namespaces; those of root namespaces, with their keys, stay out of memory."""
_CREDENTIALS = f"{marks.CREDENTIAL}={marks.CREDENTIAL_SYNCER}"
_AGENTS = f"app.kubernetes.io/name={marks.AGENT}"

OWNED: tuple[Resource, ...] = (
    NAMESPACES,
    PODS,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    SERVICE_ACCOUNTS,
)
"""Kinds of which the syncer makes objects in the super cluster."""


def _tenant_of(entry: Entry) -> Iterable[str]:
    uid = entry.labels.get(marks.VC_UID)
    return (uid,) if uid else ()


def _node_of(entry: Entry) -> Iterable[str]:
    node = (entry.decode().get("spec") or {}).get("nodeName")
    return (node,) if node else ()


class SuperCluster:
    """One super cluster."""

    def __init__(self, client: Client, *, namespace: str, name: str = HOME) -> None:
        """`namespace` is where the product's own components run."""
        self.client = client
        self.name = name
        self.namespace = namespace
        self.stores: Mapping[str, Store] = {
            resource.kind: Store({BY_TENANT: _tenant_of}) for resource in OWNED
        }
        self.nodes = Store()
        self.addresses = Store()
        self.events = Store()
        self.agents = Store({BY_NODE: _node_of})
        self.virtual_clusters = Store()
        self.credentials = Store()
        self.reflectors = (
            *(
                Reflector(
                    client,
                    resource,
                    self.stores[resource.kind],
                    label_selector=_SYNCED,
                    side="super",
                )
                for resource in OWNED
            ),
            Reflector(client, NODES, self.nodes, side="super"),
            Reflector(client, IP_ADDRESSES, self.addresses, side="super"),
            Reflector(client, EVENTS, self.events, side="super"),
            Reflector(
                client, PODS, self.agents, namespace=namespace, label_selector=_AGENTS, side="super"
            ),
            Reflector(client, VIRTUAL_CLUSTERS, self.virtual_clusters, side="super"),
            Reflector(client, SECRETS, self.credentials, label_selector=_CREDENTIALS, side="super"),
        )

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
        name = configuration.tenant_name(entry.name) if kind == "ConfigMap" else entry.name
        return Key(tenant, self.name, kind, namespace, name)

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
