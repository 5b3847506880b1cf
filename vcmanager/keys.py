"""What a reconcile is about: a kind and a name.

Pure. One queue holds all kinds, so that one process has one order of work.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tenancy import marks

Kind = Literal["VirtualCluster", "ClusterVersion", "CertificateSigningRequest", "AgentTrust"]


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


def virtual_cluster(namespace: str, name: str) -> Key:
    """Return the key of a VirtualCluster."""
    return Key("VirtualCluster", namespace, name)


def parent_of(metadata: Mapping[str, Any]) -> Key | None:
    """Return the VirtualCluster that an object in a root namespace belongs to, or None."""
    labels = metadata.get("labels") or {}
    namespace, name = labels.get(marks.VC_NAMESPACE), labels.get(marks.VC_NAME)
    return virtual_cluster(namespace, name) if namespace and name else None
