"""A super cluster, tenants, and everyone but the syncer who lives there.

Owns the clusters, the controllers that end namespaces and put things into new ones, kubelets, and
what a tenant's store was before it was restored. All of it is played in virtual time. A step of a
script does something to it. Must not know the syncer beyond its processes.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
from typing import Any

from kubeio.config.endpoint import Endpoint
from syncer.lifecycle.tenant_manager import KUBECONFIG_NAME
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
    STORAGE_CLASSES,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.chaos.memory.controllers import NamespaceControllers, furnish
from tests.chaos.memory.judge import HOME, IN_FLIGHT_SECONDS, WorldChecker
from tests.chaos.memory.kinds import STORAGE_CLASS
from tests.chaos.memory.loop import EPOCH, VirtualLoop
from tests.chaos.memory.manager import MachineManager
from tests.chaos.memory.network import NetworkFaults
from tests.chaos.memory.providers import BudgetProvider, StorageProvider, serve_ingresses
from tests.chaos.memory.replica import SimulatedReplica
from tests.chaos.memory.sight import ObservedStores
from tests.chaos.memory.tenant import SCALE_TO_ZERO, SimulatedTenant
from tests.support import kwok_nodes
from tests.support.memapi import clusters, verbs
from tests.support.memapi.api import MemoryApi
from tests.support.memapi.cluster import ClusterState, Collection, MemoryCluster
from tests.support.memapi.kubelet import MemoryKubelet
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.watches import Object, StoredObject

SUPER = "super"
NODES = clusters.NODE_NAMES[:2]
_PORT = 9000


class MachineWorld:
    """Everything of one run."""

    def __init__(self, loop: VirtualLoop, seed: int, *, tenants: int, replicas: int) -> None:
        self.loop = loop
        self.chance = random.Random(seed)  # noqa: S311 - the same at each run
        self.faults = NetworkFaults(random.Random(seed + 1))  # noqa: S311 - the same at each run
        self.endpoint = Endpoint(server=f"http://127.0.0.1:{_PORT}", name=SUPER)
        self.below = self._cluster(SUPER, "10.96.0.0/12")
        self.tenants: list[SimulatedTenant] = []
        self._begin_below()
        for number in range(tenants):
            self.tenants.append(self._tenant(number))
        self.apis = [MemoryApi(self.below), *(MemoryApi(each.cluster) for each in self.tenants)]
        self.judge = WorldChecker(self)
        self.kubelet = MemoryKubelet(self.below, NODES, step=0.4, staged=False, events=False)
        StorageProvider(self.below)
        serve_ingresses(self.below)
        self.budgets = [BudgetProvider(tenant.cluster) for tenant in self.tenants]
        self.controllers = [
            NamespaceControllers(self.below),
            *(NamespaceControllers(t.cluster) for t in self.tenants),
        ]
        self.replicas = [SimulatedReplica(self, f"syncer-{number}") for number in range(replicas)]
        self.manager = MachineManager(self)
        self.trace: list[str] = []
        self.sight = ObservedStores(self.below, self.replicas)

    def _cluster(self, name: str, slice_: str) -> MemoryCluster:
        made = clusters.fresh(
            name,
            slice_,
            accounts=False,
            clock=lambda: EPOCH + self.loop.time(),
            chance=self.chance,
            keeps_events=True,
        )
        for space in ("default", "kube-system", "kube-public", "kube-node-lease"):
            furnish(made, space)
        return made

    def _begin_below(self) -> None:
        for node in kwok_nodes.nodes(len(NODES)):
            self.make(self.below, clusters.NODES, "", node)
        self.make(self.below, NAMESPACES, "", {"metadata": {"name": HOME}})
        offered = {"metadata": {"name": STORAGE_CLASS}, "provisioner": "csi.example.com"}
        self.make(self.below, STORAGE_CLASSES, "", offered)

    def _tenant(self, number: int) -> SimulatedTenant:
        cluster = self._cluster(f"tenant{number}", clusters.service_range(number))
        metadata = {"name": f"vc{number}", "finalizers": [wellknown.FINALIZER]}
        body = {"metadata": metadata, "spec": {"clusterVersionName": "v1.36"}}
        made = self.make(self.below, VIRTUAL_CLUSTERS, "default", body).decode()
        status = {"status": {"serviceCidr": clusters.service_range(number)}}
        stored = verbs.found(self.below.of(VIRTUAL_CLUSTERS), "default", f"vc{number}")
        verbs.patch(
            self.below.of(VIRTUAL_CLUSTERS),
            stored,
            lambda found: {**found, **status},
            status,
            "vc-manager",
            subresource="status",
        )
        uid = made["metadata"]["uid"]
        root = names.build_root_namespace("default", f"vc{number}", uid)
        tenant = Tenant(name=f"vc{number}", namespace="default", uid=uid, root=root)
        labels = ownership.build_owner_labels(tenant, "")
        self.make(self.below, NAMESPACES, "", {"metadata": {"name": root, "labels": labels}})
        found = SimulatedTenant(number, cluster, tenant)
        found.follow()
        self.engage(found)
        return found

    def engage(self, tenant: SimulatedTenant) -> None:
        """Give the syncer a credential for a tenant."""
        labels = ownership.build_owner_labels(tenant.tenant, "")
        secret = {
            "metadata": {
                "name": KUBECONFIG_NAME,
                "labels": {**labels, wellknown.CREDENTIAL: wellknown.CREDENTIAL_SYNCER},
            },
            "data": {KUBECONFIG_NAME: _kubeconfig(tenant.number)},
        }
        with contextlib.suppress(StatusError):
            self.make(self.below, SECRETS, tenant.tenant.root, secret)
        tenant.is_engaged = True

    def disengage(self, tenant: SimulatedTenant) -> None:
        """Take that away."""
        self.remove(self.below.of(SECRETS), tenant.tenant.root, KUBECONFIG_NAME)
        tenant.is_engaged = False

    def sleep(self, tenant: SimulatedTenant, workloads: str) -> None:
        """Set `spec.sleep` of a tenant, or remove it if `workloads` is empty."""

        def changed(found: Object) -> Object:
            spec = {key: value for key, value in found["spec"].items() if key != "sleep"}
            return {**found, "spec": {**spec, **({"sleep": sleep} if workloads else {})}}

        sleep = {"workloads": workloads}
        if self.change(self.below.of(VIRTUAL_CLUSTERS), "default", tenant.tenant.name, changed):
            stops = SCALE_TO_ZERO in (tenant.sleep, workloads)
            tenant.sleep = workloads
            if stops:
                tenant.pods_end_until = self.loop.time() + IN_FLIGHT_SECONDS

    def stops_pods(self, tenant: SimulatedTenant) -> bool:
        """Return whether the syncer may delete pods that their tenant keeps."""
        return tenant.sleep == SCALE_TO_ZERO or self.loop.time() < tenant.pods_end_until

    def make(
        self, cluster: MemoryCluster, resource: Resource, space: str, body: Object
    ) -> StoredObject:
        """Make an object with a cluster admin's hand. Raises RefusedError."""
        copied = json.loads(json.dumps(body))
        return verbs.create(cluster, cluster.of(resource), space, copied, "admin")

    def change(self, collection: Collection, space: str, name: str, change: Any) -> bool:
        """Change an object in place. Tells whether that could be."""
        stored = collection.get(space, name)
        if stored is None:
            return False
        try:
            verbs.patch(collection, stored, change, {}, "admin")
        except StatusError:
            return False
        return True

    def remove(
        self, collection: Collection, space: str, name: str, grace: int | None = None
    ) -> bool:
        """Delete an object. Tells whether that could be."""
        stored = collection.get(space, name)
        if stored is None:
            return False
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        try:
            verbs.delete(collection, stored, options)
        except StatusError:
            return False
        return True

    def reached(self, endpoint: Endpoint) -> tuple[str, MemoryApi]:
        """Return which cluster an endpoint leads to."""
        number = int(endpoint.server.rpartition(":")[2]) - _PORT
        return (SUPER if not number else f"tenant{number - 1}"), self.apis[number]

    def of(self, uid: str) -> SimulatedTenant | None:
        """Return the tenant of a VirtualCluster."""
        return next((each for each in self.tenants if each.tenant.uid == uid), None)

    def at(self, side: str) -> MemoryCluster:
        """Return the cluster of a side."""
        return self.below if side == SUPER else self.tenants[int(side[6:])].cluster

    def settled(self, tenant: SimulatedTenant, state: ClusterState) -> bool:
        """Return whether the store guard has counted everything that a restore would lose.

        It counts a while after a write. A restore within that while, to a moment before the write,
        is the known limit of its promise (`syncer.safety.store_guard`).
        """
        root = self.below.of(NAMESPACES).get("", tenant.tenant.root)
        counted = root.decode()["metadata"].get("annotations", {}) if root else {}
        recorded = int(counted.get(wellknown.STORE_REVISION, "0"))
        kept = {
            stored.decode()["metadata"]["uid"]
            for objects in state.objects.values()
            for stored in objects.values()
        }
        present = {} if self.holds(tenant) else tenant.alive
        return recorded > 0 and all(
            int(body["metadata"]["resourceVersion"]) <= recorded
            for uid, (_, body) in {**present, **tenant.newest}.items()
            if uid not in kept
        )

    def twin(self, tenant: SimulatedTenant, resource: Resource, metadata: Object) -> Object | None:
        """Return the super object that is the twin of a tenant object, if there is one."""
        space, name = metadata.get("namespace", ""), metadata["name"]
        if resource is CONFIG_MAPS and name == "kube-root-ca.crt":
            return None
        is_space = resource is NAMESPACES
        place = ("", tenant.below(name)) if is_space else (tenant.below(space), name)
        stored = self.below.of(resource).get(*place)
        if stored is None:
            return None
        body = stored.decode()
        owner = ownership.read_owner(body["metadata"])
        is_own = owner is not None and owner.vc_uid == tenant.tenant.uid
        return body if is_own and owner is not None and owner.uid == metadata["uid"] else None

    def owned(self, tenant: SimulatedTenant) -> list[tuple[Resource, Object]]:
        """Return the super objects that record this tenant as their owner."""
        spelled = tenant.tenant.uid.encode()
        return [
            (collection.resource, body)
            for collection in self.below.collections.values()
            for stored in collection.all()
            if spelled in stored.body
            for body in (stored.decode(),)
            if (owner := ownership.read_owner(body["metadata"])) is not None
            and owner.vc_uid == tenant.tenant.uid
        ]

    def is_confirming(self, tenant: SimulatedTenant) -> bool:
        """Return whether a person's word about a store waits to be taken."""
        stored = self.below.of(VIRTUAL_CLUSTERS).get("default", tenant.tenant.name)
        return stored is not None and wellknown.CONFIRM_DELETES.encode() in stored.body

    def restore(self, tenant: SimulatedTenant, state: ClusterState, bump: int) -> None:
        """Put an older store behind the tenant's address."""
        if tenant.newer is None:
            tenant.lost, tenant.newer = dict(tenant.alive), tenant.cluster.save()
        tenant.restores += 1
        self._put_store(tenant, state, bump)
        tenant.before = {u: found for u, found in tenant.lost.items() if u not in tenant.alive}
        self._resume(tenant)

    def _put_store(self, tenant: SimulatedTenant, state: ClusterState, bump: int = 0) -> None:
        if self.holds(tenant):
            self.sight.noticed(tenant.side)
        before = tenant.alive
        tenant.cluster.restore(state, bump=bump)
        self.sight.restored(tenant.side, tenant.cluster.revision)
        tenant.look()
        tenant.revived |= {
            uid: self.loop.time()
            for uid in tenant.alive
            if uid not in before or "deletionTimestamp" in before[uid][1]["metadata"]
        }

    def bring_back(self, tenant: SimulatedTenant) -> None:
        """Put the newest store back."""
        if tenant.newer is not None:
            self._put_store(tenant, tenant.newer)
            tenant.settle()
            self._resume(tenant)

    def confirm(self, tenant: SimulatedTenant) -> None:
        """Say, as the CLI does, that the tenant's store is meant to stay."""
        system = tenant.cluster.of(NAMESPACES).get("", "kube-system")
        assert system is not None
        uid = system.decode()["metadata"]["uid"]
        tenant.settle()
        self.sight.noticed(tenant.side)

        def confirmed(found: Object) -> Object:
            annotations = found["metadata"].get("annotations") or {}
            metadata = {**found["metadata"]}
            metadata["annotations"] = {**annotations, wellknown.CONFIRM_DELETES: uid}
            return {**found, "metadata": metadata}

        collection = self.below.of(VIRTUAL_CLUSTERS)
        self.change(collection, "default", tenant.tenant.name, confirmed)

    def holds(self, tenant: SimulatedTenant) -> bool:
        """Return whether the VirtualCluster says that deletes are held."""
        stored = self.below.of(VIRTUAL_CLUSTERS).get("default", tenant.tenant.name)
        status = stored.decode().get("status", {}) if stored is not None else {}
        return any(
            each["type"] == wellknown.DELETES_HELD and each["status"] == "True"
            for each in status.get("conditions") or ()
        )

    def _resume(self, tenant: SimulatedTenant) -> None:
        self.controllers[1 + tenant.number].look()
        self.budgets[tenant.number].look()


def _kubeconfig(number: int) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "it",
                "cluster": {
                    "server": f"http://127.0.0.1:{_PORT + 1 + number}",
                    "certificate-authority-data": base64.b64encode(b"nobody").decode(),
                },
            }
        ],
        "users": [{"name": "it", "user": {"token": "none"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    }
    return base64.b64encode(json.dumps(document).encode()).decode()
