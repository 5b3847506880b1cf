"""The controllers of a cluster that know namespaces: what comes into new ones, and how they end.

Must not know tenants. Hazard: a cluster that was restored has other namespaces. `look` restarts.
"""

from __future__ import annotations

import asyncio

from tenancy.resources import CONFIG_MAPS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from tests.support.memapi import verbs
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.watches import Object


def furnish(cluster: MemoryCluster, space: str) -> None:
    """Put into a namespace what controllers put there."""
    for resource, body in (
        (SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}),
        (CONFIG_MAPS, {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "none"}}),
    ):
        if cluster.of(resource).get(space, body["metadata"]["name"]) is None:
            try:
                verbs.create(cluster, cluster.of(resource), space, body, "controllers")
            except StatusError:
                return  # gone, or on its way out


class NamespaceControllers:
    """Namespace controllers of one cluster."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._spaces = cluster.of(NAMESPACES)
        self._spaces.listeners.append(self._heard)
        self._ending: set[str] = set()

    def look(self) -> None:
        """Begin again, as after a restart."""
        self._ending.clear()
        for stored in self._spaces.all():
            self._heard("ADDED", stored.decode())

    def _heard(self, kind: str, body: Object) -> None:
        name, loop = body["metadata"]["name"], asyncio.get_running_loop()
        if kind == "ADDED":
            loop.call_later(0.05, furnish, self._cluster, name)
        if kind != "DELETED" and "deletionTimestamp" in body["metadata"]:
            uid = body["metadata"]["uid"]
            if uid not in self._ending:
                self._ending.add(uid)
                loop.call_later(0.2, self._empty, name, uid)

    def _empty(self, name: str, uid: str) -> None:
        """Delete what is in a namespace, and look again until nothing is."""
        stored = self._spaces.get("", name)
        metadata = stored.decode()["metadata"] if stored is not None else {}
        if stored is None or metadata["uid"] != uid or "deletionTimestamp" not in metadata:
            self._ending.discard(uid)
            return
        left = 0
        for collection in self._cluster.collections.values():
            if not collection.resource.namespaced:
                continue
            for found in [each for each in collection.all() if each.namespace == name]:
                if b'"deletionTimestamp"' not in found.body or collection.resource is not PODS:
                    verbs.delete(collection, found, {})
                left += collection.get(found.namespace, found.name) is not None
        if not left:
            self._ending.discard(uid)
            verbs.finalize(self._spaces, stored, {"spec": {"finalizers": []}})
            return
        asyncio.get_running_loop().call_later(1.0, self._empty, name, uid)
