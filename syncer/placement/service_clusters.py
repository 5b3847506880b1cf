"""Clusters of the pods of one tenant's Services.

Owns the facts of each checked Service, and the record of those with pods in several clusters. Must
not report them. Hazard: the cluster of a Service's pods must be remembered. A scan of the whole
namespace for each bound pod would use all processor time.
"""

from collections.abc import Callable
from typing import NamedTuple

from kubeio import Object
from kubeio.cache.store import Entry


class AssignedService(NamedTuple):
    """Facts of a Service that decide where its pods may run."""

    version: str
    selector: Object
    """A label selector. Empty for a Service that selects nothing."""
    assigned_cluster: str
    """The cluster of all of its pods at the last check. Empty: not checked yet."""


class ServiceClusters:
    """The Services of one tenant, by UID."""

    def __init__(self) -> None:
        self._split: set[str] = set()
        self._services: dict[str, AssignedService] = {}

    def get(self, service: Entry, read_selector: Callable[[Entry], Object]) -> AssignedService:
        """Return the facts of a Service. A changed Service is read again."""
        found = self._services.get(service.uid)
        if found is None or found.version != service.resource_version:
            found = AssignedService(service.resource_version, read_selector(service), "")
            self._services[service.uid] = found
        return found

    def record_cluster(self, uid: str, name: str) -> None:
        """Record that all pods of a Service are in one cluster."""
        self._services[uid] = self._services[uid]._replace(assigned_cluster=name)

    def record_split(self, uid: str) -> None:
        """Record that the tenant was informed about a Service with pods in several clusters."""
        self._split.add(uid)
        self._services.pop(uid, None)

    def is_split(self, uid: str) -> bool:
        """Return True if the tenant was informed about this Service."""
        return uid in self._split

    def forget(self, uid: str) -> None:
        """Forget a deleted Service."""
        self._split.discard(uid)
        self._services.pop(uid, None)
