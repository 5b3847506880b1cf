"""Node pools: forced on every pod, and the only nodes that a tenant sees (issue 30, item 7)."""

import pytest

from syncer.model.rejections import RejectedError, RejectionProblem
from syncer.rules.nodes import node_pool, tenant_node_changes, virtual_nodes
from syncer.rules.nodes.tenant_node_changes import NO_CHANGES, NodeAdditions
from syncer.rules.pods import pod_build, security_levels
from tenancy.policies import (
    BASELINE_POLICY,
    NodesSpec,
    PoolToleration,
    SecuritySpec,
    TenantPolicySpec,
)
from tests.support.syncer.pods import FACTS, pod

POOL = NodesSpec(
    selector={"pool.example.com/tenant": "a"},
    tolerations=(
        PoolToleration(key="dedicated", value="a", effect="NoSchedule"),
        PoolToleration(key="sandbox", operator="Exists"),
    ),
)
FORCED = [
    {"key": "dedicated", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
    {"key": "sandbox", "operator": "Exists"},
]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def build(*, nodes=POOL, security=BASELINE_POLICY.security, changes=NO_CHANGES, **spec):
    policy = TenantPolicySpec(nodes=nodes, security=security)
    scheduling = FACTS.scheduling._replace(
        pool=nodes,
        runtime_class=security.runtime_class_name,
        node_view=nodes.view,
        tenant_changes=changes,
    )
    facts = FACTS._replace(policy=policy, scheduling=scheduling)
    return pod_build.build_super_pod(pod(**spec), facts)


def refused(**spec):
    with pytest.raises(RejectedError) as raised:
        build(**spec)
    return [(each.rule, each.path, each.text) for each in raised.value.problems]


def daemon_pod_affinity():
    field = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"nodeSelector": {"disk": "ssd"}},
        {"nodeName": "node-1"},
        {"affinity": daemon_pod_affinity()},
        {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    ],
)
def test_every_pod_gets_the_pool_beside_its_own_terms(spec):
    """SEC-81."""
    made = build(**spec).pod["spec"]
    assert made["nodeSelector"] == {**spec.get("nodeSelector", {}), **POOL.selector}
    assert made["tolerations"][-2:] == FORCED
    assert "nodeName" not in made


def test_a_toleration_of_the_pool_is_no_reason_for_a_notice():
    made = build(tolerations=[{"key": "dedicated", "operator": "Exists"}])
    assert not [each for each in made.adjustments if each.rule == "toleration"]
    assert made.pod["spec"]["tolerations"] == FORCED


@pytest.mark.parametrize("view", ["Full", "Standard", "Minimal"])
@pytest.mark.parametrize("key", ["pool", "pool.example.com/tenant"])
@pytest.mark.parametrize("own", [False, True], ids=["", "own label"])
def test_a_selector_against_the_pool_is_rejected_with_the_field_of_the_policy(view, key, own):
    """SEC-81: also if the tenant's nodes hide the label, or have the tenant's own instead."""
    pool = NodesSpec(selector={key: "a"}, view=view)
    changes = NO_CHANGES
    if own:
        node = NodeAdditions(frozenset({key}), {key: "b"}, (), is_cordoned=False)
        changes = tenant_node_changes.combine_additions({"node-1": node})
    ((rule, path, text),) = refused(nodes=pool, changes=changes, nodeSelector={key: "b"})
    assert (rule, path) == ("node-pool", f"spec.nodeSelector[{key}]")
    assert text == (
        "must be 'a', which the TenantPolicy sets in nodes.selector. Use that value, or leave it"
        " out"
    )
    same = build(nodes=pool, changes=changes, nodeSelector={key: "a"})
    assert same.pod["spec"]["nodeSelector"] == {key: "a"}


def test_without_a_pool_pods_stay_as_they_are():
    made = build(nodes=NodesSpec()).pod["spec"]
    assert "nodeSelector" not in made
    assert "tolerations" not in made


@pytest.mark.parametrize(
    ("labels", "expected"),
    [({"pool.example.com/tenant": "a", "other": "x"}, True), ({"other": "x"}, False), ({}, False)],
)
def test_a_node_belongs_to_the_pool_by_all_labels(labels, expected):
    assert node_pool.is_in_pool(labels, POOL) is expected
    assert node_pool.is_in_pool(labels, NodesSpec())


def test_a_virtual_node_hides_the_taints_that_every_pod_tolerates():
    """A DaemonSet of the tenant does not tolerate them, and would have no pod on the pool."""
    taints = [
        {"key": "dedicated", "value": "a", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "b", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "a", "effect": "NoExecute"},
        {"key": "sandbox", "effect": "NoExecute"},
        {"key": "gpu", "effect": "NoSchedule"},
    ]
    node = {"metadata": {"name": "node-1", "uid": "u"}, "spec": {"taints": taints}}
    assert virtual_nodes.build_node(node)["spec"]["taints"] == taints
    shown = virtual_nodes.build_node(node, pool=POOL)["spec"]["taints"]
    assert shown == [taints[1], taints[2], taints[4]]
    everything = NodesSpec(tolerations=(PoolToleration(operator="Exists"),))
    assert virtual_nodes.build_node(node, pool=everything)["spec"]["taints"] == []


# --- sandbox --------------------------------------------------------------------------------------

SANDBOX = SecuritySpec(runtime_class_name="gvisor", host_users="Forbid")


@pytest.mark.parametrize("spec", [{}, {"runtimeClassName": "gvisor"}, {"hostUsers": False}])
def test_every_pod_gets_the_runtime_class_and_a_user_namespace(spec):
    """SEC-82."""
    made = build(security=SANDBOX, **spec).pod["spec"]
    assert (made["runtimeClassName"], made["hostUsers"]) == ("gvisor", False)


def test_another_runtime_class_is_rejected_with_the_field_of_the_policy():
    ((rule, path, text),) = refused(security=SANDBOX, runtimeClassName="runc")
    assert (rule, path) == ("runtime-class", "spec.runtimeClassName")
    assert text == (
        "must be gvisor, which the TenantPolicy sets in security.runtimeClassName. Use that class,"
        " or leave it out"
    )


@pytest.mark.parametrize("field", ["hostUsers", "hostNetwork", "hostPID", "hostIPC"])
def test_what_the_api_server_refuses_with_user_namespaces_is_rejected_first(field):
    """SEC-82."""
    level = SecuritySpec(level="privileged", host_users="Forbid")
    ((rule, path, text),) = refused(security=level, **{field: True})
    assert (rule, path) == ("host-users", f"spec.{field}")
    assert text == (
        "must not be true, because the TenantPolicy forbids host users in security.hostUsers. Leave"
        " it out"
    )


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("named", [{"name": "c"}, {}], ids=["named", "unnamed"])
def test_refusal_of_block_devices_names_the_container_and_the_remedy(kind, named):
    policy = TenantPolicySpec(security=SANDBOX)
    spec = {kind: [{"name": "other"}, {**named, "volumeDevices": [{"name": "disk"}]}]}
    path = f"spec.{kind}[{named.get('name', '')}].volumeDevices"
    text = (
        "must be empty, because the TenantPolicy forbids host users in security.hostUsers. Mount"
        " the volume with a file system"
    )
    found = security_levels.write_user_namespace(spec, policy)
    assert found == [RejectionProblem("host-users", path, text)]


def test_block_devices_are_rejected_with_user_namespaces():
    containers = [
        {
            "name": "c",
            "image": "i",
            "volumeDevices": [{"name": "disk", "devicePath": "/dev/xvda"}],
        }
    ]
    volumes = [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]
    ((rule, path, _),) = refused(security=SANDBOX, containers=containers, volumes=volumes)
    assert (rule, path) == ("host-users", "spec.containers[c].volumeDevices")


def test_without_the_field_a_pod_chooses_its_user_namespace():
    assert "hostUsers" not in build().pod["spec"]
    assert build(hostUsers=False).pod["spec"]["hostUsers"] is False
