"""Effects of a TenantPolicy: configuration, namespaces, nodes, metadata, messages."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import NotReadyYet, RequeueAfter
from syncer.controllers.nodes import node_reconciler as node_flow
from syncer.controllers.pods import pod_reconciler
from syncer.handlers import home_events
from syncer.model import rejections
from syncer.model.keys import NODE
from syncer.rules import registry
from syncer.rules.namespaces import POD_SECURITY
from syncer.rules.pods import dns, pod_patch, pod_status
from tenancy import wellknown
from tenancy.policies import BASELINE_POLICY, TenantPolicySpec, parse_tenant_policy
from tests.support.kubeio.described_requests import REQUEST
from tests.support.syncer.sessions import TENANT, SessionWorld, put
from tests.unit.syncer.rules.nodes.test_virtual_nodes import super_node

CONTAINERS = [{"name": "main", "image": "i"}]


def policy(**spec: Any) -> TenantPolicySpec:
    return parse_tenant_policy({"metadata": {"name": "own"}, "spec": spec})


def test_no_pod_is_made_before_its_namespace_is_held_to_the_level():
    world = SessionWorld(policy(security={"level": "restricted"}))
    world.ready()
    key = world.key("Pod", "web", "p")
    assert world.session.namespaces.get_ready(key)
    entry = world.super_has("Namespace", "web", "web")
    labels = {**entry.labels, POD_SECURITY: "baseline"}
    weaker = {"labels": labels, "resourceVersion": "61"}
    world.super_has("Namespace", "web", "web", metadata=weaker)
    with pytest.raises(NotReadyYet):
        world.session.namespaces.get_ready(key)


REFUSAL = (
    'pods "p" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or'
    ' container "main" must set securityContext.runAsNonRoot=true)'
)


async def test_what_pod_security_reports_is_reported_in_its_words_and_not_asked_in_a_circle():
    world = SessionWorld(policy(security={"level": "restricted"}))
    world.ready()
    world.tenant_has("Pod", "p", spec={"containers": CONTAINERS}, status={})
    world.below.refusals["create Pod"] = errors.Forbidden(REFUSAL, request=REQUEST)
    verdict = await pod_reconciler.reconcile_pod(
        registry.KINDS_BY_NAME["Pod"], world.key("Pod", "web", "p"), world.session
    )
    assert isinstance(verdict, RequeueAfter)
    assert verdict.after >= 60
    assert world.told() == [rejections.SYNC_REJECTED]
    (told,) = [body["message"] for body in world.above.bodies if body and body.get("reason")]
    assert told == (
        "spec violates the level restricted of pod security: runAsNonRoot != true (pod or container"
        ' "main" must set securityContext.runAsNonRoot=true). Change that (rule pod-security).'
    )


@pytest.mark.parametrize("verdict", ["Allow", "Refuse"])
def test_the_resolver_of_a_node_is_the_policys_to_give(verdict):
    world = SessionWorld(policy(network={"nodeDns": verdict}))
    assert dns.resolver_of(world.session.view).allows_node_dns is (verdict == "Allow")


@pytest.mark.parametrize(("view", "hidden"), [("Standard", False), ("Minimal", True)])
def test_the_address_of_its_node_stays_in_the_super_cluster_with_a_minimal_view(view, hidden):
    below = {"metadata": {}, "status": {"hostIP": "a", "hostIPs": [{"ip": "a"}], "podIP": "b"}}
    pod = {"metadata": {}, "spec": {"containers": CONTAINERS}}
    fields = pod_status.list_hidden_status_fields(policy(nodes={"view": view}))
    status = pod_status.build_status(pod, below, (), hidden=fields)
    assert ("hostIP" in status, "hostIPs" in status) == (not hidden, not hidden)
    assert status["podIP"] == "b"


@pytest.mark.parametrize("expose", ["onDemand", "all"])
async def test_every_node_is_shown_from_the_start_where_the_policy_exposes_all(expose):
    world = SessionWorld(policy(nodes={"expose": expose}))
    super_x = super_node()
    super_x["metadata"]["resourceVersion"] = "7"
    wired = home_events.HomeEvents(world.super_cluster, {TENANT.uid: world.session})
    wired.subscribe()
    put(world.super_cluster.nodes, {"kind": "Node", **super_x})
    key = world.key(NODE, "", "n1")
    is_all = expose == "all"
    assert (key in set(world.session.all_keys.list_keys())) is is_all
    assert len(world.session.queue) == (1 if is_all else 0)
    await node_flow.reconcile_node(key, world.session)
    assert bool(world.above.writes("Node")) is is_all


@pytest.mark.parametrize(("labels", "shown"), [({"pool": "a"}, True), ({"pool": "b"}, False)])
async def test_only_nodes_of_the_pool_are_shown(labels, shown):
    """SEC-81."""
    world = SessionWorld(policy(nodes={"expose": "all", "selector": {"pool": "a"}}))
    super_x = super_node()
    super_x["metadata"] |= {"resourceVersion": "7", "labels": labels}
    put(world.super_cluster.nodes, {"kind": "Node", **super_x})
    await node_flow.reconcile_node(world.key(NODE, "", "n1"), world.session)
    assert bool(world.above.writes("Node")) is shown


CARRIED: dict[str, dict[str, Any]] = {
    "ConfigMap": {},
    "Secret": {},
    "Service": {
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.8.7",
            "ports": [{"port": 80}],
            "selector": {"istio.io/rev": "1"},
        }
    },
    "PersistentVolumeClaim": {"spec": {"resources": {"requests": {"storage": "1Gi"}}}},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [], "ports": []},
    "Ingress": {"spec": {}},
    "NetworkPolicy": {
        "spec": {
            "podSelector": {"matchLabels": {"istio.io/rev": "1"}},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"istio.io/rev": "1"}}}]}],
        }
    },
    "PodDisruptionBudget": {
        "spec": {"selector": {"matchLabels": {"istio.io/rev": "1"}}},
        "status": {"desiredHealthy": 1, "observedGeneration": 1},
    },
}


def test_all_kinds_are_asked():
    special = {registry.KeyReconciler.NAMESPACE, registry.KeyReconciler.POD}
    assert {row.resource.kind for row in registry.KINDS if row.reconciler not in special} == set(
        CARRIED
    )


@pytest.mark.parametrize("kind", CARRIED)
def test_each_kind_asks_the_policy_what_passes(kind):
    passing = {"annotations": {"*": ["own.example/a"]}, "labelDomains": ["istio.io"]}
    world = SessionWorld(policy(metadata=passing))
    metadata = {
        "annotations": {"own.example/a": "1"},
        "labels": {"istio.io/rev": "1", "kubernetes.io/service-name": "s"},
    }
    own = world.tenant_has(kind, "o", metadata=metadata, **CARRIED[kind]).decode()
    build = registry.KINDS_BY_NAME[kind].build
    assert build is not None
    twin = build(own, world.session.view)["metadata"]
    assert twin["annotations"]["own.example/a"] == "1"
    assert twin["labels"]["istio.io/rev"] == "1"


async def test_a_pods_listed_labels_go_down_and_stay():
    world = SessionWorld(policy(metadata={"labelDomains": ["istio.io"]}))
    world.ready()
    labels = {"istio.io/rev": "1"}
    world.tenant_has("Pod", "p", metadata={"labels": labels}, spec={"containers": CONTAINERS})
    key = world.key("Pod", "web", "p")
    await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    (made,) = world.below.bodies
    assert made["metadata"]["labels"]["istio.io/rev"] == "1"
    live = {**made, "metadata": {**made["metadata"], "uid": "below"}}
    own = world.session.stores["Pod"].get("web", "p")
    assert own is not None
    listed = world.session.view.policy
    assert pod_patch.build_running_patch(own.decode(), live, TENANT, policy=listed) is None
    narrowed = pod_patch.build_running_patch(own.decode(), live, TENANT, policy=BASELINE_POLICY)
    assert narrowed is not None
    translated = wellknown.translate_label_key("istio.io/rev")
    assert narrowed["metadata"]["labels"] == {"istio.io/rev": None, translated: "1"}


async def test_a_listed_label_that_its_tenant_takes_off_goes_below_too():
    world = SessionWorld(policy(metadata={"labelDomains": ["istio.io"]}))
    world.ready()
    labels = {"istio.io/rev": "1"}
    world.tenant_has("Pod", "p", metadata={"labels": labels}, spec={"containers": CONTAINERS})
    key = world.key("Pod", "web", "p")
    await pod_reconciler.reconcile_pod(registry.KINDS_BY_NAME["Pod"], key, world.session)
    (made,) = world.below.bodies
    live = {**made, "metadata": {**made["metadata"], "uid": "below"}}
    live["metadata"]["labels"]["istio.io/injected"] = "by-a-webhook"
    changed = {"labels": {}, "resourceVersion": "51"}
    own = world.tenant_has("Pod", "p", metadata=changed, spec={"containers": CONTAINERS})
    listed = world.session.view.policy
    patch = pod_patch.build_running_patch(own.decode(), live, TENANT, policy=listed)
    assert patch is not None
    assert patch["metadata"]["labels"] == {"istio.io/rev": None}
