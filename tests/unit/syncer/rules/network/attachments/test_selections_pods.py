"""Additional networks of a pod: translated in a new twin, and kept in a running one."""

from __future__ import annotations

import json

import pytest

from syncer.model.rejections import RejectedError
from syncer.rules.network.attachments import selections
from syncer.rules.network.attachments.selections import DEFAULT_NETWORK, NETWORKS, SelectionContext
from syncer.rules.placement import cluster_scheduler
from syncer.rules.pods import pod_build, pod_patch
from tenancy.policies import SecuritySpec, TenantPolicySpec
from tests.support.syncer.attachments import offered
from tests.support.syncer.pods import FACTS, TENANT, below, pod
from tests.support.syncer.tenant_views import as_live


def context(primary: str = "") -> SelectionContext:
    return SelectionContext(
        attachments=offered().network.attachments,
        get_super_namespace=below,
        find_segment=lambda *_: None,
        primary=primary,
    )


def build(tenant_pod, networks):
    return pod_build.build_super_pod(tenant_pod, FACTS._replace(networks=networks))


def asking(**spec):
    return pod({"annotations": {NETWORKS: "lab", "note": "n"}}, **spec)


def test_a_twin_names_the_networks_of_the_super_namespace():
    found = build(asking(), context()).pod["metadata"]["annotations"]
    assert json.loads(found[NETWORKS]) == [{"name": "lab", "namespace": below("web")}]


def test_where_networks_are_not_offered_the_annotation_is_left_out_with_a_notice():
    built = build(asking(), None)
    assert NETWORKS not in built.pod["metadata"]["annotations"]
    assert [each.rule for each in built.adjustments] == [selections.RULE]


def test_problems_of_networks_are_reported_with_all_others():
    bad = pod({"annotations": {NETWORKS: "a/b/c"}}, hostPID=True)
    with pytest.raises(RejectedError):
        build(bad, context())
    with pytest.raises(RejectedError, match="must list networks"):
        build(pod({"annotations": {NETWORKS: "a/b/c"}}), context())


def test_a_network_of_the_tenants_own_refuses_probes_by_the_network():
    own = context(selections.build_default(below("web"), "vc-network"))
    probe = {"name": "c", "image": "i", "readinessProbe": {"tcpSocket": {"port": 80}}}
    with pytest.raises(RejectedError, match="Use exec"):
        build(pod(containers=[probe]), own)
    assert DEFAULT_NETWORK in build(pod(), own).pod["metadata"]["annotations"]
    assert build(pod(containers=[probe]), context()).pod["spec"]["containers"]


def test_a_pod_on_the_network_of_its_node_has_no_additional_network():
    policy = TenantPolicySpec(security=SecuritySpec(level="privileged"))
    facts = FACTS._replace(networks=context(), policy=policy)
    made = pod_build.build_super_pod(asking(hostNetwork=True), facts).pod
    assert NETWORKS not in made["metadata"]["annotations"]


def test_a_running_twin_keeps_the_networks_that_it_was_created_with():
    twin = as_live(build(asking(), context()).pod, status={})
    changed = pod({"annotations": {NETWORKS: "other", "note": "n"}})
    assert pod_patch.build_running_patch(asking(), twin, TENANT) is None
    assert pod_patch.build_running_patch(changed, twin, TENANT) is None
    gone = pod({"annotations": {"note": "n"}})
    assert pod_patch.build_running_patch(gone, twin, TENANT) is None


def test_a_pod_with_networks_runs_in_the_home_cluster_only():
    assert cluster_scheduler.build_requirements(asking(), {}).home_only_reason
    assert not cluster_scheduler.build_requirements(pod(), {}).home_only_reason
