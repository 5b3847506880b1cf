"""Which super pods let an autoscaler remove their node, by controller, tenant and policy."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.rules.autoscaler_annotations import DAEMON_SET_POD, DO_NOT_DISRUPT, SAFE_TO_EVICT
from syncer.rules.pods import pod_build, pod_patch
from tenancy import policies
from tenancy.policies import TenantPolicySpec
from tests.support import karpenter_rules
from tests.support.cluster_autoscaler import find_blocker
from tests.support.syncer.pods import FACTS, TENANT, pod

SCRATCH = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
KEYS = (SAFE_TO_EVICT, DAEMON_SET_POD, DO_NOT_DISRUPT)
LISTED = {"annotations": {"Pod": [*KEYS]}}


def policy(metadata: dict[str, Any] | None = None, **autoscaling: str) -> TenantPolicySpec:
    spec = {"pods": {"autoscaling": autoscaling}, "metadata": metadata or {}}
    return policies.parse_tenant_policy({"metadata": {"name": "p"}, "spec": spec})


def owned(kind: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": kind, "uid": "o", "name": "o", "controller": True}
    owners = {"ownerReferences": [owner]} if kind else {}
    return pod({**owners, "annotations": annotations or {}}, **spec)


def built(tenant_pod: dict[str, Any], limits: TenantPolicySpec) -> pod_build.BuiltPod:
    return pod_build.build_super_pod(tenant_pod, FACTS._replace(policy=limits))


def marks(found: pod_build.BuiltPod) -> dict[str, str]:
    """Return the annotations for autoscalers, without their domains."""
    annotations = found.pod["metadata"]["annotations"]
    return {key.partition("/")[2]: annotations[key] for key in KEYS if key in annotations}


@pytest.mark.parametrize(
    "kind",
    ["ReplicaSet", "ReplicationController", "StatefulSet", "Job", "DaemonSet", "Rollout"],
)
@pytest.mark.parametrize("skips", [True, False], ids=["by-default", "without-the-flag"])
def test_a_pod_with_a_controller_lets_its_node_go(kind: str, skips: bool):
    found = built(owned(kind, **SCRATCH), policy()).pod
    assert find_blocker(found, skips_custom_controllers=skips) == ""
    del found["metadata"]["annotations"][SAFE_TO_EVICT]
    found["metadata"]["annotations"].pop(DAEMON_SET_POD, None)
    blocker = find_blocker(found, skips_custom_controllers=skips)
    assert blocker == ("NotReplicated" if skips else "LocalStorageRequested")


def test_a_bare_pod_keeps_its_node_until_the_tenant_or_the_policy_gives_it_up():
    bare = owned("")
    assert find_blocker(built(bare, policy()).pod) == "NotReplicated"
    assert find_blocker(built(bare, policy(safeToEvict="All")).pod) == ""
    for mode in ("Controlled", "Tenant"):
        marked = owned("", {SAFE_TO_EVICT: "true"})
        assert find_blocker(built(marked, policy(safeToEvict=mode)).pod) == ""


def test_a_pod_of_a_daemon_set_needs_no_place_elsewhere():
    assert marks(built(owned("DaemonSet"), policy())) == {
        "daemonset-pod": "true",
        "safe-to-evict": "true",
    }
    assert marks(built(owned("DaemonSet"), policy(safeToEvict="Tenant"))) == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(SAFE_TO_EVICT, "false", id="cluster-autoscaler"),
        pytest.param(DO_NOT_DISRUPT, "true", id="karpenter"),
        pytest.param(DO_NOT_DISRUPT, "1h30m", id="karpenter-for-a-time"),
    ],
)
def test_a_tenant_keeps_a_node_by_policy_only(key: str, value: str):
    own = owned("ReplicaSet", {key: value})
    refused = built(own, policy())
    assert marks(refused) == {"safe-to-evict": "true"}
    (notice,) = refused.adjustments
    assert notice.rule == "autoscaler-annotation"
    assert key in notice.path
    assert "spec.pods.autoscaling.blockingAnnotations" in str(notice)
    for limits in (policy(blockingAnnotations="Allow"), policy(LISTED)):
        allowed = built(own, limits)
        assert allowed.pod["metadata"]["annotations"][key] == value
        assert not allowed.adjustments


@pytest.mark.parametrize(
    "annotations",
    [
        {SAFE_TO_EVICT: "False"},
        {SAFE_TO_EVICT: ""},
        {DO_NOT_DISRUPT: "false"},
        {DO_NOT_DISRUPT: "for ever"},
        {DO_NOT_DISRUPT: "1h" * 100},
        {DAEMON_SET_POD: "true"},
        {f"{SAFE_TO_EVICT}-local-volumes": "scratch"},
    ],
)
def test_a_value_that_no_autoscaler_reads_changes_nothing(annotations: dict[str, str]):
    for limits in (policy(), policy(blockingAnnotations="Allow")):
        found = built(owned("ReplicaSet", annotations), limits)
        assert marks(found) == {"safe-to-evict": "true"}
        assert not found.adjustments


def test_a_running_pod_follows_the_policy_and_the_tenant():
    def change(before: Any, after: Any) -> dict[str, str | None]:
        live = built(*before).pod
        live["metadata"]["uid"] = "below"
        patch = pod_patch.build_running_patch(after[0], live, TENANT, policy=after[1])
        changed = patch["metadata"]["annotations"] if patch else {}
        return {key: changed[key] for key in KEYS if key in changed}

    bare, kept = owned(""), owned("", {SAFE_TO_EVICT: "false", DO_NOT_DISRUPT: "true"})
    both, every = policy(blockingAnnotations="Allow"), policy(safeToEvict="All")
    assert change((bare, policy()), (bare, policy())) == {}
    assert change((bare, policy()), (bare, every)) == {SAFE_TO_EVICT: "true"}
    assert change((bare, every), (bare, policy())) == {SAFE_TO_EVICT: None}
    assert change((kept, both), (kept, policy())) == {SAFE_TO_EVICT: None, DO_NOT_DISRUPT: None}
    assert change((bare, both), (kept, both)) == {SAFE_TO_EVICT: "false", DO_NOT_DISRUPT: "true"}


def test_a_mark_of_the_super_cluster_stays():
    live = built(owned(""), policy()).pod
    live["metadata"]["uid"] = "below"
    live["metadata"]["annotations"][SAFE_TO_EVICT] = "true"
    assert pod_patch.build_running_patch(owned(""), live, TENANT) is None


def test_an_opaque_prefix_hides_the_tenants_word_and_not_ours():
    opaque = policy({"opaquePrefixes": ["cluster-autoscaler.kubernetes.io/"]})
    assert marks(built(owned("ReplicaSet", {SAFE_TO_EVICT: "false"}), opaque)) == {
        "safe-to-evict": "true"
    }


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job", "Rollout", ""])
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="plain"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, id="tolerates-everything"),
        pytest.param(
            {"tolerations": [{"key": "karpenter.sh/disrupted", "operator": "Exists"}]},
            id="tolerates-its-taint",
        ),
    ],
)
def test_karpenter_makes_a_node_for_a_pod_and_evicts_it(kind: str, spec: dict[str, Any]):
    own = owned(kind, {DO_NOT_DISRUPT: "true"}, **spec)
    found = built(own, policy()).pod
    assert karpenter_rules.is_provisionable(found)
    assert karpenter_rules.is_drainable(found)
    assert karpenter_rules.is_evictable(found)
    kept = built(own, policy(blockingAnnotations="Allow")).pod
    assert not karpenter_rules.is_evictable(kept)
