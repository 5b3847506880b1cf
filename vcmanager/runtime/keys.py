"""Reconcile keys: a kind and a name.

Pure. One queue has all kinds, so that one process has one order of work.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tenancy import wellknown

Kind = Literal[
    "VirtualCluster",
    "ClusterVersion",
    "CertificateSigningRequest",
    "AgentTrust",
    "AgentAccess",
    "NodeAddress",
    "SuperCluster",
    "Departure",
]


@dataclass(frozen=True, slots=True)
class Key:
    """One object that a reconcile looks at."""

    kind: Kind
    namespace: str
    name: str

    def fields(self) -> dict[str, str]:
        """Return what logs call it."""
        found = {"kind": self.kind, "name": self.name}
        return {**found, "namespace": self.namespace} if self.namespace else found

    @property
    def group(self) -> str:
        """Each tenant is a group of its own; what is not a tenant's shares one."""
        if self.kind == "VirtualCluster":
            return f"{self.namespace}/{self.name}"
        return self.kind


AGENT_TRUST = Key("AgentTrust", "", "vn-agent")
"""Whom the agents trust; there before any tenant is, as the agents wait for it."""

AGENT_ACCESS = Key("AgentAccess", "", "vn-agent")
"""What the policies let tenants call, for the agents."""


def virtual_cluster(namespace: str, name: str) -> Key:
    """Return the key of a VirtualCluster."""
    return Key("VirtualCluster", namespace, name)


def departure(namespace: str, uid: str) -> Key:
    """Return the key of the end of a VirtualCluster; another may have its name by now."""
    return Key("Departure", namespace, uid)


def of_listed(found: Mapping[str, Any]) -> Key:
    """Return the key of a VirtualCluster as a list has it."""
    metadata = found["metadata"]
    return virtual_cluster(metadata["namespace"], metadata["name"])


AGENT_TRUST_LABELS = {wellknown.CONTROLLED: "true", wellknown.COMPONENT: wellknown.AGENT}
"""On what the agents trust and read, so that a change of it is seen."""


def node_address(address: str) -> Key:
    """Return the key of an address that no node has any more."""
    return Key("NodeAddress", "", address)


def parent_of(metadata: Mapping[str, Any]) -> Key | None:
    """Return what looks after an object of ours: its VirtualCluster, or what is the agents'."""
    labels = metadata.get("labels") or {}
    if labels.get(wellknown.COMPONENT) == wellknown.TARGET_AGENT:
        target = labels.get(wellknown.TARGET)
        return Key("SuperCluster", "", target) if target else None
    if labels.get(wellknown.COMPONENT) == wellknown.AGENT and wellknown.VC_NAME not in labels:
        return AGENT_ACCESS if metadata.get("name") == wellknown.AGENT_ACCESS else AGENT_TRUST
    namespace, name = labels.get(wellknown.VC_NAMESPACE), labels.get(wellknown.VC_NAME)
    return virtual_cluster(namespace, name) if namespace and name else None
