"""A tenant and its session without any network: real caches, and clients of servers in memory."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import orjson

from kubeio.api.client import Client
from kubeio.cache.crd_reflector import CrdReflector
from kubeio.cache.reflector import Reflector
from kubeio.cache.store import Entry, Store, parse_entry
from kubeio.config.endpoint import Endpoint
from kubeio.controller.fair_queue import FairQueue, QueueOptions
from kubeio.http.rest import ClientOptions
from kubeio.http.transport_protocol import HttpRequest, HttpResponse
from syncer.clusters.home_cluster import HomeCluster
from syncer.clusters.super_cluster import BY_TENANT_INDEX, index_by_tenant
from syncer.model.keys import Key, build_group
from syncer.model.tenant_view import API_SERVICE
from syncer.rules import namespaces
from syncer.rules.configuration import service_variables
from syncer.rules.network import default_policies
from syncer.safety.circuit_breaker import CircuitBreaker, RefusedWrites
from syncer.safety.hot_loop_guard import WRITES_PER_WINDOW
from syncer.safety.store_guard import StoreObservation
from syncer.tenants.connection import TenantConnection
from syncer.tenants.session import Session
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec, get_namespace_level
from tenancy.resources import NAMESPACES, Resource
from tenancy.specs import parse_virtual_cluster
from tenancy.sync_rules.specs import SyncRule
from tests.support.memapi import api as memapi
from tests.support.memapi import clusters, direct, patches
from tests.support.memapi.cluster import Collection
from tests.support.memapi.defaults import AdmissionDefaults

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
_VERBS = {"GET": "get", "POST": "create", "PUT": "replace", "PATCH": "patch", "DELETE": "delete"}
_METADATA = {"resourceVersion": "1"}


class RecordingClient(Client):
    """A client of an API server in memory. It records every call, and a test may refuse it.

    The server has the contents of the caches, and all that a test adds. It does not notify the
    caches of writes. A test that continues after a write calls `catch_up`, as a watch would do.
    """

    def __init__(self) -> None:
        super().__init__(Endpoint(server="http://127.0.0.1:6443"), ClientOptions(user_agent="unit"))
        self.cluster = clusters.empty("unit", "10.96.0.0/16", crds=True, keeps_events=True)
        self.cluster.admission = AsPlanted(service_range="10.96.0.0/16", accounts=False)
        self.space = "web"
        self.server = memapi.MemoryApi(self.cluster)
        self.asked: list[tuple[str, str, str]] = []
        self.bodies: list[Any] = []
        self.refusals: dict[str, Exception] = {}
        """Errors that a method raises, by its name or its name and kind."""
        self.answers: dict[str, dict[str, Any]] = {}
        """Answers by a method and its kind."""
        self.caches: dict[str, list[Store]] = defaultdict(list)
        self.refused_writes = RefusedWrites()
        self.breaker = CircuitBreaker()
        self._transport._transport = MemoryWire(self.server)
        for space in ("default", "kube-node-lease", "kube-system"):
            self.has("Namespace", space, {})

    @property
    def revision(self) -> int:
        """The highest revision that there is."""
        return self.cluster.revision

    def writes(self, kind: str = "") -> list[tuple[str, str, str]]:
        """Return the requests that change something."""
        return [asked for asked in self.asked if asked[0] not in _READS and kind in ("", asked[1])]

    async def _object(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        body = options.get("body")
        verb = _VERBS[method]
        if options.get("content") == patches.APPLY:
            verb = "apply"
        place = self.server.place(path)
        assert place is not None, path
        kind, name = place.collection.resource.kind, place.name
        if verb == "create":
            kind = f"{kind}/{place.subresource}".rstrip("/")
            name = name or body.get("metadata", {}).get("name", "")
        self._record(verb, kind, name, None if verb == "delete" else body)
        answer = self.answers.get(f"{verb} {kind}")
        return answer or await super()._object(method, path, **options)

    async def list_encoded(self, resource: Resource, **options: Any) -> bytes:
        self._record("list", resource.kind, "")
        return await super().list_encoded(resource, **options)

    def _record(self, verb: str, kind: str, name: str, body: Any = None) -> None:
        self.asked.append((verb, kind, name))
        if verb not in _READS:
            self.bodies.append(body)
        problem = self.refusals.get(f"{verb} {kind}") or self.refusals.get(verb)
        if problem is not None:
            raise problem

    def has(self, kind: str, name: str, body: dict[str, Any]) -> None:
        """Add an object. Its namespace is `space`, unless it has another one."""
        collection = self._collection(kind)
        resource = collection.resource
        metadata = {**_METADATA, "uid": f"{name}-uid", "name": name, **body.get("metadata", {})}
        if resource.namespaced:
            namespace = metadata.setdefault("namespace", self.space)
            if self.cluster.of(NAMESPACES).get("", namespace) is None:
                self.has("Namespace", namespace, {})
        head = {"kind": kind, "apiVersion": resource.api_version}
        collection.plant({**head, **body, "metadata": metadata})

    def lacks(self, kind: str, name: str, namespace: str | None = None) -> None:
        """Have no such object there."""
        collection = self._collection(kind)
        namespace = self.space if namespace is None else namespace
        collection.uproot(namespace if collection.resource.namespaced else "", name)

    def object(self, kind: str, name: str) -> dict[str, Any]:
        """Return an object that is there."""
        collection = self._collection(kind)
        found = collection.get(self.space if collection.resource.namespaced else "", name)
        assert found is not None
        return found.decode()

    def _collection(self, kind: str) -> Collection:
        found = self.cluster.collections.values()
        return next(each for each in found if each.resource.kind == kind)

    def mirror(self, caches: Iterable[Reflector | CrdReflector]) -> None:
        """Add the contents of caches, until a test replaces them."""
        for each in caches:
            kind = each.resource.kind
            self.caches[kind].append(each.store)
            each.store.subscribe(partial(self._changed, kind), replay=True)

    def catch_up(self, kind: str) -> None:
        """Have the caches show each object as it is there by now."""
        for store in self.caches[kind]:
            for entry in store.list():
                stored = self._collection(kind).get(entry.namespace, entry.name)
                if stored is not None:
                    store.put(parse_entry(stored.body), live=True)

    def _changed(self, kind: str, old: Entry | None, new: Entry | None, _: bool) -> None:
        if new is not None:
            self.has(kind, new.name, orjson.loads(new.body))
        elif old is not None:
            self.lacks(kind, old.name, old.namespace)


class AsPlanted(AdmissionDefaults):
    """Fills new objects in, and leaves the others as tests write them: without any default."""

    def mend(self, kind: str, body: dict[str, Any], there: dict[str, Any]) -> None:
        """Change nothing."""


class MemoryWire:
    """The way to an API server of this process."""

    def __init__(self, server: memapi.MemoryApi) -> None:
        self._server = server

    async def exchange(self, request: HttpRequest, *, timeout_seconds: float) -> HttpResponse:  # noqa: ARG002
        """Ask at once."""
        status, content = self._server.answer(direct.asked(request))
        return HttpResponse(status, "", content)

    async def close(self) -> None:
        """Have nothing to close."""


def put(store: Store, body: dict[str, Any]) -> Entry:
    """Put an object into a cache."""
    entry = parse_entry(orjson.dumps(body))
    store.put(entry, live=True)
    return entry


def use_tenant_client(session: Session, client: Any) -> None:
    """Have a session read and write its tenant through a client."""
    session.tenant_client = client
    session.proven_deletes._tenant_client = client
    session.writer._tenant_client = client


class SessionWorld:
    """One link with one session, its two clusters, and short ways to fill the caches."""

    def __init__(
        self,
        policy: TenantPolicySpec = BASELINE_POLICY,
        *,
        is_split: bool = False,
        rules: Sequence[SyncRule] = (),
    ) -> None:
        """`rules` are SyncRules, whose kinds both clusters serve."""
        self.above, self.below = RecordingClient(), RecordingClient()
        self.declarations = 0
        queue: FairQueue[Key] = FairQueue(
            QueueOptions(name="test", max_in_flight=8), group=build_group
        )
        self.super_cluster = HomeCluster(self.below, namespace="vc-manager")  # type: ignore[arg-type]
        self.link = TenantConnection(
            CLUSTER,
            Endpoint(server="http://127.0.0.1:6443"),  # https would load the trust store, 65 ms
            home=self.super_cluster,
            queue=queue,
            loop_budget=asyncio.Semaphore(),
            is_split=is_split,
            rules=rules,
        )
        for rule in rules:
            self._serve(rule)
        self.session = Session(
            self.link,
            self.super_cluster,
            tenant_slice=ipaddress.ip_network("10.96.8.0/22"),
            policy=policy,
        )
        session, link = self.session, self.link
        link.add_session(session)
        link.client = self.above  # type: ignore[assignment]
        use_tenant_client(session, self.above)
        session.event_recorder._client = self.above  # type: ignore[assignment]
        session.store_guard._tenant_client = self.above  # type: ignore[assignment]
        session.store_guard._observation = StoreObservation(
            uid=STORE_UID, revision=1, epoch=1, epoch_revision=10**9
        )
        session.store_guard._first_uid = STORE_UID
        session.store_guard._root_uid = f"{TENANT.root}-uid"
        session.work.is_ready = link.is_ready = True
        self.above.has("Namespace", "kube-system", {"metadata": {"uid": STORE_UID}})
        self.below.space = session.view.get_super_namespace("web")
        self.above.mirror(link._reflectors)
        self.below.mirror(self.super_cluster.reflectors)

    def _serve(self, rule: SyncRule) -> None:
        for client in (self.above, self.below):
            clusters.define(client.cluster, rule.resource)
        store = Store({BY_TENANT_INDEX: index_by_tenant})
        self.super_cluster.stores[rule.resource.kind] = store
        for each in (store, self.link.stores[rule.resource.kind]):
            each.synced = True

    def key(self, kind: str, namespace: str, name: str) -> Key:
        """Return a key of the tenant."""
        return self.session.build_key(kind, namespace, name)

    def tenant_has(self, kind: str, name: str, namespace: str = "web", **fields: Any) -> Entry:
        """Put a tenant object into its cache."""
        metadata = {"name": name, "uid": f"{name}-uid", "resourceVersion": "50"}
        if namespace:
            metadata["namespace"] = namespace
        metadata |= fields.pop("metadata", {})
        entry = parse_entry(orjson.dumps({"kind": kind, "metadata": metadata, **fields}))
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
            "namespace": self.session.view.get_super_namespace(namespace),
            "uid": f"{name}-below",
            "resourceVersion": "60",
            "labels": ownership.build_owner_labels(TENANT, namespace),
            "annotations": ownership.build_owner_annotations(TENANT, namespace, of),
        }
        if kind == "Namespace":
            metadata |= {"name": metadata.pop("namespace")}
            level = get_namespace_level(self.session.view.policy)
            metadata["labels"] = {**metadata["labels"], namespaces.POD_SECURITY: level}
        extra = fields.pop("metadata", {})
        annotations = {**metadata["annotations"], **extra.pop("annotations", {})}
        metadata |= {**extra, "annotations": annotations}
        entry = parse_entry(orjson.dumps({"kind": kind, "metadata": metadata, **fields}))
        self.super_cluster.stores[kind].put(entry, live=True)
        return entry

    def ready(self, namespace: str = "web") -> None:
        """Have a namespace and its account there on both sides."""
        self.tenant_has("Namespace", namespace, namespace="")
        self.super_has("Namespace", namespace, namespace)
        self.super_has("ServiceAccount", "vc-workload", namespace)
        self.has_default_policies(namespace)
        if self.session.stores["Service"].get(*API_SERVICE) is None:
            spec = {"clusterIP": "10.96.8.1", "ports": [{"name": "https", "port": 443}]}
            self.tenant_has("Service", API_SERVICE[1], API_SERVICE[0], spec=spec)
        self.has_service_variables(namespace)

    def has_default_policies(self, namespace: str = "web") -> None:
        """Have the default network policies of a namespace."""
        space = self.session.stores["Namespace"].get("", namespace)
        assert space is not None
        view = self.session.view
        for each in default_policies.build_default_policies(space, view):
            name, spec = each["metadata"]["name"], each["spec"]
            marks = {wellknown.SYNCED_KEYS: each["metadata"]["annotations"][wellknown.SYNCED_KEYS]}
            metadata = {"annotations": marks}
            self.super_has(
                "NetworkPolicy", name, namespace, uid=space.uid, metadata=metadata, spec=spec
            )

    def has_service_variables(self, namespace: str = "web") -> None:
        """Have the ConfigMaps with the variables of the Services that the tenant has now."""
        session = self.session
        for name in service_variables.NAMES:
            variables = service_variables.list_tenant_variables(
                session.view,
                namespace,
                links=name == names.SERVICE_VARIABLES,
                cache=session.service_variables,
            )
            fields = {"data": variables} if variables else {}
            self.super_has("ConfigMap", name, namespace, uid=f"{namespace}-uid", **fields)

    def declared(self, conditions: list[dict[str, Any]] | None = None) -> Entry:
        """Put the VirtualCluster into the cache."""
        status = {**BODY["status"], "conditions": conditions or []}  # type: ignore[dict-item]
        self.declarations += 1
        metadata = {**BODY["metadata"], "resourceVersion": str(self.declarations)}  # type: ignore[dict-item]
        entry = parse_entry(orjson.dumps({**BODY, "metadata": metadata, "status": status}))
        self.super_cluster.virtual_clusters.put(entry, live=True)
        return entry

    def told(self) -> list[str]:
        """Return the reasons of the Events in the tenant."""
        return [body["reason"] for body in self.above.bodies if (body or {}).get("reason")]


def is_counted(world: SessionWorld, key: Key, times: int) -> bool:
    """Return whether exactly so many writes of a key were counted."""
    for _ in range(WRITES_PER_WINDOW - times):
        world.session.hot_loop_guard.count_write(key)
    before = world.session.hot_loop_guard.get_pause(key)
    world.session.hot_loop_guard.count_write(key)
    return before == 0 and world.session.hot_loop_guard.get_pause(key) > 0


TOKEN_MARKS = {wellknown.TOKEN_SECONDS: "7200", wellknown.ACCOUNT: "robot"}
