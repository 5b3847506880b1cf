"""A tenant and its session without any network: real caches, and clients that only write down."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Any

import orjson

from kubeio import errors
from kubeio.cache.store import Entry, Store, parse
from kubeio.config.endpoint import Endpoint
from kubeio.controller.fair_queue import FairQueue
from syncer.clusters.home_cluster import Home
from syncer.model.keys import Key, group_of
from syncer.rules import namespaces
from syncer.safety.circuit_breaker import Breaker, Refusals
from syncer.safety.hot_loop_guard import WRITES
from syncer.safety.store_guard import Sight
from syncer.tenants.connection import Link
from syncer.tenants.session import Session
from tenancy import ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.policies import BASELINE, TenantPolicySpec
from tenancy.resources import Resource
from tenancy.specs import parse_virtual_cluster

BODY = {
    "apiVersion": "tenancy.x-k8s.io/v1alpha1",
    "kind": "VirtualCluster",
    "metadata": {"name": "vc", "namespace": "default", "uid": "vc-uid", "resourceVersion": "1"},
    "spec": {"clusterVersionName": "v1.36"},
    "status": {"serviceCidr": "10.96.8.0/22"},
}
CLUSTER = parse_virtual_cluster(BODY)
TENANT: Tenant = CLUSTER.tenant
STORE_UID = "7b0a5f0e-0000-4000-8000-000000000001"
CONTAINERS = [{"name": "main", "image": "i"}]


_READS = ("get", "list")


class Api:
    """An API server's client that answers from `objects` and writes down every request."""

    def __init__(self) -> None:
        self.endpoint = Endpoint(server="https://api.example:6443")
        self.user_agent, self.fence = "unit", None
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.bodies: list[Any] = []
        self.refusals: dict[str, Exception] = {}
        """What a method raises, by its name or its name and kind."""
        self.revision = 1000
        self.refused_writes = Refusals()
        self.breaker = Breaker()

    def _ask(self, verb: str, kind: str, name: str, body: Any = None) -> None:
        self.asked.append((verb, kind, name))
        if verb not in _READS:
            self.bodies.append(body)
        problem = self.refusals.get(f"{verb} {kind}") or self.refusals.get(verb)
        if problem is not None:
            raise problem

    def _written(self, body: Any) -> dict[str, Any]:
        self.revision += 1
        metadata = body.get("metadata", {}) if isinstance(body, dict) else {}
        return {"metadata": {"uid": "new", **metadata, "resourceVersion": str(self.revision)}}

    def writes(self, kind: str = "") -> list[tuple[str, str, str]]:
        """Return the requests that change something."""
        return [asked for asked in self.asked if asked[0] not in _READS and kind in ("", asked[1])]

    async def get(self, resource: Resource, name: str, **_: Any) -> dict[str, Any]:
        self._ask("get", resource.kind, name)
        found = self.objects.get((resource.kind, name))
        if found is None:
            raise errors.NotFound(f"no {name}")
        return found

    async def list(self, resource: Resource, **_: Any) -> dict[str, Any]:
        self._ask("list", resource.kind, "")
        return {"metadata": {"resourceVersion": "5000"}, "items": []}

    async def create(self, resource: Resource, body: Any, **options: Any) -> dict[str, Any]:
        subresource = options.get("subresource", "")
        name = options.get("name") or body.get("metadata", {}).get("name", "")
        self._ask("create", f"{resource.kind}/{subresource}".rstrip("/"), name, body)
        answer = self.objects.get((f"create {subresource}", name))
        return answer or self._written(body)

    async def replace(self, resource: Resource, body: Any, **_: Any) -> dict[str, Any]:
        self._ask("replace", resource.kind, body["metadata"]["name"], body)
        return {**body, **self._written(body)}

    async def apply(self, resource: Resource, body: Any, **_: Any) -> dict[str, Any]:
        self._ask("apply", resource.kind, body["metadata"]["name"], body)
        return self._written(body)

    async def patch(self, resource: Resource, name: str, body: Any, **_: Any) -> dict[str, Any]:
        self._ask("patch", resource.kind, name, body)
        return self._written(body)

    async def delete(self, resource: Resource, name: str, **_: Any) -> dict[str, Any]:
        self._ask("delete", resource.kind, name)
        return {"kind": "Status"}


def put(store: Store, body: dict[str, Any]) -> Entry:
    """Put an object into a cache."""
    entry = parse(orjson.dumps(body))
    store.put(entry, live=True)
    return entry


class World:
    """One link with one session, its two clusters, and short ways to fill the caches."""

    def __init__(self, policy: TenantPolicySpec = BASELINE, *, is_split: bool = False) -> None:
        self.above, self.below = Api(), Api()
        self.declarations = 0
        queue: FairQueue[Key] = FairQueue(name="test", group=group_of, in_flight=8)
        self.super_cluster = Home(self.below, namespace="vc-manager")  # type: ignore[arg-type]
        self.link = Link(
            CLUSTER,
            Endpoint(server="http://127.0.0.1:6443"),  # https would load the trust store, 65 ms
            home=self.super_cluster,
            queue=queue,
            turns=asyncio.Semaphore(),
            is_split=is_split,
        )
        self.session = Session(
            self.link,
            self.super_cluster,
            tenant_slice=ipaddress.ip_network("10.96.8.0/22"),
            policy=policy,
        )
        session, link = self.session, self.link
        link.sessions.append(session)
        link.client = self.above  # type: ignore[assignment]
        session.tenant_client = self.above  # type: ignore[assignment]
        session.notices._client = self.above  # type: ignore[assignment]
        session.deletions._tenant_client = self.above  # type: ignore[assignment]
        session.brake._tenant_client = self.above  # type: ignore[assignment]
        session.brake._sight = Sight(uid=STORE_UID, revision=1, epoch=1, epoch_revision=10**9)
        session.brake._first_uid = STORE_UID
        session.is_ready = link.is_ready = True

    def key(self, kind: str, namespace: str, name: str) -> Key:
        """Return a key of the tenant."""
        return self.session.key(kind, namespace, name)

    def tenant_has(self, kind: str, name: str, namespace: str = "web", **fields: Any) -> Entry:
        """Put a tenant object into its cache."""
        metadata = {"name": name, "uid": f"{name}-uid", "resourceVersion": "50"}
        if namespace:
            metadata["namespace"] = namespace
        metadata |= fields.pop("metadata", {})
        entry = parse(orjson.dumps({"kind": kind, "metadata": metadata, **fields}))
        old = self.session.stores[kind].get(namespace, name)
        self.session.stores[kind].put(entry, live=True)
        if kind == "Pod":
            self.session.pods.set(old, entry)
        return entry

    def super_has(
        self, kind: str, name: str, namespace: str = "web", *, uid: str = "", **fields: Any
    ) -> Entry:
        """Put one of our super objects, the twin of `uid`, into its cache."""
        of = uid or f"{name}-uid"
        metadata = {
            "name": name,
            "namespace": self.session.view.super_namespace(namespace),
            "uid": f"{name}-below",
            "resourceVersion": "60",
            "labels": ownership.labels(TENANT, namespace),
            "annotations": ownership.annotations(TENANT, namespace, of),
        }
        if kind == "Namespace":
            metadata |= {"name": metadata.pop("namespace")}
            level = namespaces.security_level(self.session.view.policy)
            metadata["labels"] = {**metadata["labels"], namespaces.POD_SECURITY: level}
        extra = fields.pop("metadata", {})
        annotations = {**metadata["annotations"], **extra.pop("annotations", {})}
        metadata |= {**extra, "annotations": annotations}
        entry = parse(orjson.dumps({"kind": kind, "metadata": metadata, **fields}))
        self.super_cluster.stores[kind].put(entry, live=True)
        return entry

    def ready(self, namespace: str = "web") -> None:
        """Have a namespace and its account there on both sides."""
        self.tenant_has("Namespace", namespace, namespace="")
        self.super_has("Namespace", namespace, namespace)
        self.super_has("ServiceAccount", "vc-workload", namespace)

    def declared(self, conditions: list[dict[str, Any]] | None = None) -> Entry:
        """Put the VirtualCluster into the cache."""
        status = {**BODY["status"], "conditions": conditions or []}  # type: ignore[dict-item]
        self.declarations += 1
        metadata = {**BODY["metadata"], "resourceVersion": str(self.declarations)}  # type: ignore[dict-item]
        entry = parse(orjson.dumps({**BODY, "metadata": metadata, "status": status}))
        self.super_cluster.virtual_clusters.put(entry, live=True)
        return entry

    def told(self) -> list[str]:
        """Return the reasons of the Events that the tenant was told."""
        return [body["reason"] for body in self.above.bodies if (body or {}).get("reason")]


def is_counted(world: World, key: Key, times: int) -> bool:
    """Tell whether exactly so many writes of a key were counted."""
    for _ in range(WRITES - times):
        world.session.fuse.wrote(key)
    before = world.session.fuse.pause(key)
    world.session.fuse.wrote(key)
    return before == 0 and world.session.fuse.pause(key) > 0


TOKEN_MARKS = {wellknown.TOKEN_SECONDS: "7200", wellknown.ACCOUNT: "robot"}
