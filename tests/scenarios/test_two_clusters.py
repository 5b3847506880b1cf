"""The whole syncer between a tenant and two super clusters, all of them in memory.

What real servers do that these do not is in `tests/integration/syncer/test_withdrawn_grants.py`.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import trustme

from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from kubeio.http.rest import ClientOptions
from syncer.app import Syncer, SyncerOptions
from syncer.clusters import target_cluster
from syncer.controllers.nodes import drain, target_lease
from syncer.controllers.pods import split_services
from syncer.lifecycle import target_sessions, target_statuses
from syncer.lifecycle.tenant_manager import KUBECONFIG_NAME
from syncer.safety import pod_loss_guard
from syncer.tenants.memory import grace_timers
from tenancy import conditions, names, ownership, resources, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import NAMESPACES, NODES, PODS, SECRETS, SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from tests.chaos.memory.controllers import NamespaceControllers, furnish
from tests.support import kwok_nodes
from tests.support.directed import directed
from tests.support.eventually import eventually
from tests.support.memapi import clusters, verbs
from tests.support.memapi.api import ApiAnswer, MemoryApi, RequestTarget
from tests.support.memapi.cluster import MemoryCluster
from tests.support.memapi.direct import DirectTransport, RequestFate
from tests.support.memapi.kubelet import MemoryKubelet
from tests.support.memapi.refusals import StatusError

SUPER, ABOVE, FAR = "http://127.0.0.1:9000", "http://127.0.0.1:9001", "https://192.0.2.9:6443"
COUNT = 6
THERE = {"type": "virtual-kubelet"}
OWNER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs"}]


class EvictingApi(MemoryApi):
    """An API that evicts as well, unless a budget says no."""

    blocked = False

    def _post_to(self, place: RequestTarget, body: Any) -> ApiAnswer:
        if place.subresource != "eviction":
            return super()._post_to(place, body)
        if self.blocked:
            raise StatusError(429, "TooManyRequests", "Cannot evict pod: a budget says no")
        verbs.delete(
            place.collection, verbs.found(place.collection, place.namespace, place.name), {}
        )
        return 201, b'{"kind":"Status","status":"Success"}'


class QuietNetwork:
    """A network on which nothing happens, unless it is cut."""

    is_cut = False

    def fate(self, _: object) -> RequestFate:
        return RequestFate(is_lost=self.is_cut)

    def opened(self, _: object) -> None:
        return


class ThreeClusters:
    """The three clusters."""

    def __init__(self) -> None:
        self.below, self.above, self.there = (
            clusters.fresh(name, slice_, accounts=False, keeps_events=True)
            for name, slice_ in (
                ("super", "10.96.0.0/12"), ("above", "10.96.8.0/22"), ("there", "10.98.0.0/16"),
            )
        )  # fmt: skip
        for each in (self.below, self.above, self.there):
            for space in ("default", "kube-system"):
                furnish(each, space)
            NamespaceControllers(each)
        self.api = EvictingApi(self.above)
        self.apis = {SUPER: MemoryApi(self.below), ABOVE: self.api, FAR: MemoryApi(self.there)}
        self.network = QuietNetwork()
        for node in kwok_nodes.nodes(1):
            self.make(self.there, NODES, node)
            self.make(self.below, NODES, node)
        for each in (self.below, self.there):
            MemoryKubelet(each, clusters.NODE_NAMES[:1], step=0.02, staged=False, events=False)
        self._declare()

    def make(self, cluster: MemoryCluster, kind: Any, body: Any, namespace: str = "") -> Any:
        return verbs.create(
            cluster, cluster.of(kind), namespace, copy.deepcopy(body), "test"
        ).decode()

    def get(self, cluster: MemoryCluster, kind: Any, name: str, namespace: str = "") -> Any:
        stored = cluster.of(kind).get(namespace, name)
        return stored.decode() if stored is not None else None

    def change(
        self, cluster: MemoryCluster, kind: Any, name: str, namespace: str = "", **parts: Any
    ) -> None:
        collection, subresource = cluster.of(kind), "status" if "status" in parts else ""
        verbs.patch(
            collection,
            verbs.found(collection, namespace, name),
            lambda found: {**found, **parts},
            parts,
            "test",
            subresource=subresource,
        )

    def _declare(self) -> None:
        body = {"metadata": {"name": "vc"}, "spec": {"clusterVersionName": "v1.36"}}
        uid = self.make(self.below, VIRTUAL_CLUSTERS, body, "default")["metadata"]["uid"]
        status = {"serviceCidr": "10.96.8.0/22", "endpoint": "https://192.0.2.8:6443"}
        self.change(self.below, VIRTUAL_CLUSTERS, "vc", "default", status=status)
        root = names.build_root_namespace("default", "vc", uid)
        self.tenant = Tenant(name="vc", namespace="default", uid=uid, root=root)
        labels = ownership.build_owner_labels(self.tenant, "")
        self.make(self.below, NAMESPACES, {"metadata": {"name": root, "labels": labels}})
        self.make(self.below, NAMESPACES, {"metadata": {"name": "vc-manager"}})
        marked = {**labels, wellknown.CREDENTIAL: wellknown.CREDENTIAL_SYNCER}
        secret = {
            "metadata": {"name": KUBECONFIG_NAME, "labels": marked},
            "data": {KUBECONFIG_NAME: _config()},
        }
        self.make(self.below, SECRETS, secret, root)
        ca = trustme.CA().cert_pem.bytes()
        data = {"server": FAR.encode(), "ca.crt": ca, "token": b"t"}
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        self.make(self.below, SECRETS, {"metadata": {"name": "c2"}, "data": encoded}, "vc-manager")
        network = {"resolvers": ["10.98.0.10"]}
        spec = {"secretRef": {"name": "c2"}, "network": network}
        self.make(self.below, SUPER_CLUSTERS, {"metadata": {"name": "c2"}, "spec": spec})
        identity = self.get(self.there, NAMESPACES, "kube-system")["metadata"]["uid"]
        ready = {"type": "Ready", "status": "True", "reason": "Usable", "message": ""}
        found = {"identity": identity, "conditions": [ready]}
        self.change(self.below, SUPER_CLUSTERS, "c2", status=found)

    def grant(self, *targets: str) -> None:
        listed = [{"name": each} for each in targets]
        spec = {"clusterVersionName": "v1.36", "targets": listed}
        self.change(self.below, VIRTUAL_CLUSTERS, "vc", "default", spec=spec)

    def pod(self, name: str, *, is_owned: bool = False, cluster: str = "") -> None:
        owner = {"ownerReferences": [{**OWNER[0], "controller": True}]} if is_owned else {}
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "nodeSelector": {} if cluster else THERE,
        }
        metadata = {"name": name, "labels": {"app": "web"}, **owner}
        if cluster:
            metadata["annotations"] = {wellknown.ASSIGNED_CLUSTER: cluster}
        self.make(self.above, PODS, {"metadata": metadata, "spec": spec}, "default")

    def phase(self, name: str) -> str:
        found = self.get(self.above, PODS, name, "default")
        return found["status"].get("phase", "") if found is not None else "gone"

    async def run_pods(self, *found: str, is_owned: bool = False) -> None:
        for name in found:
            self.pod(name, is_owned=is_owned)
        await eventually(lambda: {self.phase(name) for name in found} == {"Running"})
        nodes = {self.get(self.above, PODS, n, "default")["spec"]["nodeName"] for n in found}
        assert nodes == {"target-c2"}

    def said(self, kind: str) -> Any:
        body = self.get(self.below, SUPER_CLUSTERS, "c2")
        return conditions.find_condition(body["status"]["conditions"], kind) or {}

    def losses(self) -> Any:
        """Return `status.losses` of the SuperCluster, empty when the field is absent."""
        return self.get(self.below, SUPER_CLUSTERS, "c2")["status"].get("losses", {})

    def listed(self) -> Any:
        body = self.get(self.below, VIRTUAL_CLUSTERS, "vc", "default")
        found = (body.get("status") or {}).get("targets") or [{}]
        return found[0]

    def reasons(self) -> list[str]:
        return [each.decode()["reason"] for each in self.above.of(resources.EVENTS).all()]


def _config() -> str:
    cluster = {"server": ABOVE, "certificate-authority-data": base64.b64encode(b"n").decode()}
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": "none"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }  # fmt: skip
    return base64.b64encode(json.dumps(document).encode()).decode()


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ThreeClusters]:
    for module, field, seconds in (
        (target_cluster, "HEALTH_CHECK_SECONDS", 0.1), (target_sessions, "RETRY_SECONDS", 0.2),
        (target_statuses, "STATUS_INTERVAL_SECONDS", 0.1), (drain, "BUDGET_RETRY_SECONDS", 0.1),
        (target_lease, "RENEW_SECONDS", 0.1), (pod_loss_guard, "HELD_RETRY_SECONDS", 0.2),
        (grace_timers, "GRACE_PERIOD_SECONDS", 0.2),
    ):  # fmt: skip
        monkeypatch.setattr(module, field, seconds)
    made = ThreeClusters()

    def wire(endpoint: Endpoint, fence: Any) -> DirectTransport:
        network = made.network if endpoint.server == FAR else QuietNetwork()
        return DirectTransport(made.apis[endpoint.server], network, fence)

    options = SyncerOptions(namespace="vc-manager", port=0, identity="s", version="0")
    stop = asyncio.Event()
    with directed(wire):
        async with Client(Endpoint(server=SUPER), ClientOptions(user_agent="vc-syncer")) as client:
            running = asyncio.ensure_future(Syncer(client, options).run(stop))
            made.grant("home", "c2")
            await eventually(lambda: made.get(made.above, NODES, "target-c2"))
            yield made
            stop.set()
            await running


async def test_a_cluster_that_was_set_back_loses_nothing_without_a_persons_word(
    stage: ThreeClusters,
):
    """X-38, X-19."""
    found = [f"p{number}" for number in range(COUNT)]
    empty = stage.there.save()
    await stage.run_pods(*found)
    newest = stage.there.save()
    stage.there.restore(empty, bump=1000)
    held = await eventually(
        lambda: stage.said("LossesHeld"), until=lambda c: c.get("status") == "True"
    )
    assert f"{COUNT} of the {COUNT} pods" in held["message"]
    first = stage.losses()
    assert (first["missing"], first["total"]) == (COUNT, COUNT)
    verbs.delete(stage.above.of(PODS), verbs.found(stage.above.of(PODS), "default", "p0"), {})
    await asyncio.sleep(0.5)
    assert {stage.phase(name) for name in found} == {"Running"}
    stage.there.restore(newest, bump=2000)
    await eventually(lambda: stage.said("LossesHeld")["status"] == "False")
    await eventually(lambda: stage.phase("p0") == "gone")
    assert {stage.phase(name) for name in found[1:]} == {"Running"}
    stage.there.restore(empty, bump=3000)
    await eventually(lambda: stage.said("LossesHeld")["status"] == "True")
    for word in (first["state"], stage.losses()["state"]):
        assert {stage.phase(name) for name in found[1:]} == {"Running"}
        body = stage.get(stage.below, SUPER_CLUSTERS, "c2")
        metadata = {**body["metadata"], "annotations": {wellknown.CONFIRM_LOSSES: word}}
        stage.change(stage.below, SUPER_CLUSTERS, "c2", metadata=metadata)
        await eventually(
            lambda: (
                wellknown.CONFIRM_LOSSES
                not in stage.get(stage.below, SUPER_CLUSTERS, "c2")["metadata"].get(
                    "annotations", {}
                )
            )
        )
    await eventually(lambda: {stage.phase(name) for name in found[1:]} == {"Failed"})
    assert stage.said("LossesHeld")["status"] == "False"
    assert stage.losses() == {}


async def test_a_few_that_are_missing_are_lost_as_ever(stage: ThreeClusters):
    empty = stage.there.save()
    await stage.run_pods("a", "b")
    stage.there.restore(empty, bump=1000)
    await eventually(lambda: {stage.phase("a"), stage.phase("b")} == {"Failed"})
    assert stage.said("LossesHeld") == {}


async def test_a_grant_that_goes_drains_its_target(stage: ThreeClusters):
    """X-02."""
    await stage.run_pods("owned", is_owned=True)
    await stage.run_pods("bare")
    await eventually(lambda: stage.listed() == {"name": "c2", "phase": "Granted", "pods": 2})
    stage.api.blocked = True
    stage.grant("home")
    await eventually(lambda: stage.listed().get("phase") == "Draining")
    await eventually(
        lambda: stage.get(stage.above, NODES, "target-c2")["spec"].get("unschedulable")
    )
    await eventually(lambda: {drain.EVICTION_BLOCKED, drain.TARGET_WITHDRAWN} <= {*stage.reasons()})
    assert stage.phase("owned") == "Running"
    stage.api.blocked = False
    await eventually(lambda: stage.phase("owned") == "gone")
    await eventually(lambda: stage.listed().get("pods") == 1)
    assert (stage.phase("bare"), stage.reasons().count(drain.TARGET_WITHDRAWN)) == ("Running", 1)
    pods = stage.above.of(PODS)
    verbs.delete(pods, verbs.found(pods, "default", "bare"), {})
    await eventually(lambda: stage.get(stage.above, NODES, "target-c2") is None)
    await eventually(lambda: stage.listed() == {})
    assert list(stage.there.of(PODS).all()) == []


async def test_a_grant_that_comes_back_opens_the_node_again(stage: ThreeClusters):
    await stage.run_pods("bare")
    stage.grant("home")
    await eventually(
        lambda: stage.get(stage.above, NODES, "target-c2")["spec"].get("unschedulable")
    )
    stage.grant("home", "c2")
    await eventually(
        lambda: not stage.get(stage.above, NODES, "target-c2")["spec"].get("unschedulable")
    )
    await stage.run_pods("another")


async def test_the_nodes_lease_is_renewed_by_answers_alone(
    stage: ThreeClusters, monkeypatch: pytest.MonkeyPatch
):
    """V-01, V-02."""
    for module in ("target_outages", "target_statuses"):
        monkeypatch.setattr(f"syncer.lifecycle.{module}.UNREACHABLE_SECONDS", 0.1)

    def renewed() -> str:
        lease = stage.get(stage.above, resources.LEASES, "target-c2", "kube-node-lease")
        return str(lease["spec"]["renewTime"]) if lease is not None else ""

    first = await eventually(renewed)
    await eventually(lambda: renewed() != first)
    stage.network.is_cut = True
    await eventually(lambda: stage.listed().get("phase") == "Away")
    last = renewed()
    await asyncio.sleep(0.5)
    assert renewed() == last
    stage.network.is_cut = False
    await eventually(lambda: renewed() != last)


async def test_a_target_that_lost_them_while_no_one_followed_it_loses_nothing(stage: ThreeClusters):
    """As after a restart of the syncer: what tenants have bound there is looked for."""
    found = [f"p{number}" for number in range(COUNT)]
    empty = stage.there.save()
    await stage.run_pods(*found)
    secrets = stage.below.of(SECRETS)
    kept = verbs.found(secrets, "vc-manager", "c2").decode()
    verbs.delete(secrets, verbs.found(secrets, "vc-manager", "c2"), {})
    await eventually(lambda: stage.said("Followed").get("status") == "False")
    assert "c2" in stage.said("Followed")["message"]
    stage.there.restore(empty, bump=1000)
    body = {"metadata": {"name": "c2"}, "data": kept["data"]}
    stage.make(stage.below, SECRETS, body, "vc-manager")
    await eventually(lambda: stage.said("LossesHeld").get("status") == "True")
    await asyncio.sleep(0.5)
    assert {stage.phase(name) for name in found} == {"Running"}
    assert stage.said("Followed")["status"] == "True"


async def test_a_service_with_pods_in_two_clusters_is_reported_once(stage: ThreeClusters):
    ports = [{"port": 80}]
    service = {"metadata": {"name": "s"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
    stage.make(stage.above, resources.SERVICES, service, "default")
    await stage.run_pods("there", "there-too")
    assert split_services.PODS_IN_SEVERAL_CLUSTERS not in stage.reasons()
    for name in ("here", "here-too"):
        stage.pod(name, cluster="home/0")
        await eventually(lambda name=name: stage.phase(name) == "Running")
    await eventually(lambda: split_services.PODS_IN_SEVERAL_CLUSTERS in stage.reasons())
    await stage.run_pods("there-as-well")
    assert stage.reasons().count(split_services.PODS_IN_SEVERAL_CLUSTERS) == 1


async def test_it_is_reported_that_it_is_followed(stage: ThreeClusters):
    assert (await eventually(lambda: stage.said("Followed")))["status"] == "True"
    assert orjson.dumps(stage.said("Ready")), "what vc-manager says stays"
    assert stage.said("Ready")["reason"] == "Usable"
