"""A tenant that is granted two super clusters, home and c2, without any network."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kubeio.cache.store import Entry
from syncer.clusters.super_cluster import SuperCluster
from syncer.controllers.pods import assign_cluster, candidates
from syncer.handlers.split_tenant_events import SplitTenantEvents, TargetTenantEvents
from syncer.model.keys import ASSIGNMENT, HOME, Key
from syncer.rules import registry
from syncer.safety.pod_loss_guard import PodLossGuard
from syncer.tenants.session import Session
from syncer.tenants.target_session import TargetSession
from tenancy import ownership, wellknown
from tenancy.specs import TargetGrant
from tenancy.super_clusters import NetworkFacts, SuperClusterSpec
from tenancy.sync_rules.specs import SyncRule
from tests.support.memapi import clusters
from tests.support.syncer.sessions import (
    CONTAINERS,
    RecordingClient,
    SessionWorld,
    put,
    use_tenant_client,
)

READY = {
    "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
POD = registry.KINDS_BY_NAME["Pod"]


def pod_loss_guard_of(name: str) -> PodLossGuard:
    """Return a pod loss guard that misses no pod."""
    return PodLossGuard(name=name, identity="i", count_present=lambda: 0, on_changed=lambda: None)


class SplitWorld(SessionWorld):
    """A tenant that is granted home and c2."""

    def __init__(self, rules: Sequence[SyncRule] = ()) -> None:
        """`rules` are SyncRules, whose kinds all three clusters serve."""
        super().__init__(is_split=True, rules=rules)
        self.there = RecordingClient()
        self.link.grants.update_granted(
            {HOME: TargetGrant(name=HOME), "c2": TargetGrant(name="c2")}
        )
        self.link.grants.update_known({"c2"}, {"c2"})
        below = SuperCluster(self.there, name="c2", registration="r1")  # type: ignore[arg-type]
        target: Any = SimpleNamespace(
            name="c2",
            registration="r1",
            cluster=below,
            problem="",
            pod_loss_guard=pod_loss_guard_of("c2"),
            spec=SuperClusterSpec(network=NetworkFacts(resolvers=("10.98.0.10",))),
        )
        self.far = TargetSession(
            self.link, below, tenant_slice=ipaddress.ip_network("10.96.8.0/22"), target=target
        )
        self.link.add_session(self.far)
        for rule in rules:
            clusters.define(self.there.cluster, rule.resource)
            if rule.follows_pods:
                below.stores[rule.resource.kind].synced = True
        use_tenant_client(self.far, self.above)
        self.far.work.is_ready = True
        self.there.space = self.far.view.get_super_namespace("web")
        self.there.mirror(below.reflectors)
        SplitTenantEvents(self.session).subscribe()
        self.far_events = TargetTenantEvents(self.far)
        self.far_events.subscribe()
        for session in (self.session, self.far):
            put(session.super_cluster.nodes, READY)

    def pod(self, name: str = "p", *, record: str = "", version: int = 50, **spec: Any) -> Entry:
        """Put a tenant pod into the cache."""
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": "web",
            "uid": f"{name}-uid",
            "resourceVersion": str(version),
            **spec.pop("metadata", {}),
        }
        if record:
            metadata["annotations"] = {wellknown.ASSIGNED_CLUSTER: record}
        body = {"kind": "Pod", "metadata": metadata, "spec": {"containers": CONTAINERS, **spec}}
        return put(self.link.stores["Pod"], body)

    def twin(self, session: Session, name: str = "p", **spec: Any) -> Entry:
        """Put the twin of a pod into a super cluster's cache."""
        metadata = {
            "name": name,
            "namespace": session.view.get_super_namespace("web"),
            "uid": f"{name}-below",
            "resourceVersion": "60",
            "labels": ownership.build_owner_labels(session.tenant, "web"),
            "annotations": ownership.build_owner_annotations(session.tenant, "web", f"{name}-uid"),
        }
        return put(session.twins.get_store("Pod"), {"metadata": metadata, "spec": spec})

    def taken(self) -> set[Key]:
        """Return what the queue gives out."""
        found = set(iter(self.link.queue.take, None))
        for key in found:
            self.link.queue.done(key)
        return found

    async def place(self, name: str = "p") -> Any:
        """Have a pod placed."""
        return await assign_cluster.reconcile_assignment(
            self.session.build_key(ASSIGNMENT, "web", name), self.session
        )

    def record(self) -> str:
        """Return the record that was written last."""
        body = self.above.bodies[-1]
        return str(body["metadata"]["annotations"][wellknown.ASSIGNED_CLUSTER])


def key_of(session: Session, name: str = "p") -> Key:
    return session.build_key("Pod", "web", name)


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> SplitWorld:
    monkeypatch.setattr(candidates, "_find_refusal", lambda *_: "")
    return SplitWorld()
