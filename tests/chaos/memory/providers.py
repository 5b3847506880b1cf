"""Controllers of a cluster that answer objects: a volume for a claim, an address for an Ingress, a
count for a budget.

Must not know tenants. Each answer comes once, a while after its object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tenancy.resources import (
    INGRESSES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    Resource,
)
from tests.support.memapi import verbs
from tests.support.memapi.cluster import Collection, MemoryCluster
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.watches import Object, StoredObject

_SECONDS = 0.6
ADDRESS = {"ingress": [{"ip": "198.51.100.7"}]}


class _Provider:
    """Calls `answer` for objects of a kind as they are a while after they were made or changed."""

    def __init__(
        self,
        cluster: MemoryCluster,
        resource: Resource,
        answer: Callable[[Collection, Object], None],
    ) -> None:
        self._collection = cluster.of(resource)
        self._answer = answer
        self._collection.listeners.append(self._heard)

    def look(self) -> None:
        """Begin again, as after a restart."""
        for stored in self._collection.all():
            self._heard("ADDED", stored.decode())

    def _heard(self, kind: str, body: Object) -> None:
        if kind != "DELETED":
            metadata = body["metadata"]
            place = (metadata.get("namespace", ""), metadata["name"])
            asyncio.get_running_loop().call_later(_SECONDS, self._act, place, metadata["uid"])

    def _act(self, place: tuple[str, str], uid: str) -> None:
        stored = self._collection.get(*place)
        body = stored.decode() if stored is not None else None
        if body is not None and body["metadata"]["uid"] == uid:
            self._answer(self._collection, body)


class StorageProvider:
    """Gives each claim of a cluster a volume, and takes it with the claim."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._volumes = cluster.of(PERSISTENT_VOLUMES)
        _Provider(cluster, PERSISTENT_VOLUME_CLAIMS, self._bind)
        cluster.of(PERSISTENT_VOLUME_CLAIMS).listeners.append(self._heard)

    def _bind(self, claims: Collection, claim: Object) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        if spec.get("volumeName"):
            return
        name = f"pvc-{metadata['uid']}"
        reference = {key: metadata[key] for key in ("namespace", "name", "uid")}
        capacity = spec["resources"]["requests"]
        volume = {
            "metadata": {"name": name},
            "spec": {
                "accessModes": spec["accessModes"],
                "capacity": capacity,
                "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **reference},
                "csi": {"driver": "csi.example.com", "volumeHandle": name},
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": spec["storageClassName"],
            },
        }
        made = verbs.create(self._cluster, self._volumes, "", volume, "provisioner").decode()
        self._volumes.put({**made, "status": {"phase": "Bound"}})
        status = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": capacity}
        claims.put({**claim, "spec": {**spec, "volumeName": name}, "status": status})

    def _heard(self, kind: str, body: Object) -> None:
        stored = self._volumes.get("", f"pvc-{body['metadata']['uid']}")
        if kind == "DELETED" and stored is not None:
            asyncio.get_running_loop().call_later(_SECONDS, self._drop, stored)

    def _drop(self, stored: StoredObject) -> None:
        there = self._volumes.get("", stored.name)
        if there is not None:
            try:
                verbs.delete(self._volumes, there, {})
            except StatusError:
                return


def serve_ingresses(cluster: MemoryCluster) -> None:
    """Give each Ingress of a cluster its address."""

    def answer(ingresses: Collection, body: Object) -> None:
        if (body.get("status") or {}).get("loadBalancer") != ADDRESS:
            ingresses.put({**body, "status": {"loadBalancer": ADDRESS}})

    _Provider(cluster, INGRESSES, answer)


class BudgetProvider(_Provider):
    """Says of each budget of a cluster how many pods it wants healthy."""

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster, POD_DISRUPTION_BUDGETS, self._count)

    @staticmethod
    def _count(budgets: Collection, body: Object) -> None:
        seen = {
            "observedGeneration": body["metadata"]["generation"],
            "desiredHealthy": body["spec"]["minAvailable"],
        }
        if (body.get("status") or {}) != seen:
            budgets.put({**body, "status": seen})
