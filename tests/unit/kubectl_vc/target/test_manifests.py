"""Objects that `join` writes, and messages about targets."""

import pytest

from kubectl_vc.target import manifests
from kubectl_vc.target.manifests import TargetObjects
from kubeio.config import secret_kubeconfig
from tenancy import super_clusters, wellknown
from tests.support.kubectl_vc.super_clusters import HOME_UID
from vcmanager.targets import required_permissions

PLAN = TargetObjects(HOME_UID)


def test_the_role_that_is_written_is_the_one_that_is_checked():
    made = [body for _, body in PLAN.build_objects() if body["kind"] == "ClusterRole"]
    roles = {each["metadata"]["name"]: each["rules"] for each in made if "rules" in each}
    assert set(roles) == {PLAN.role_name, PLAN.agent_role_name, PLAN.namespace_role_name}
    assert [rule["resources"] for rule in roles[PLAN.namespace_role_name]] == [["secrets"]]
    assert "secrets" not in {each for rule in roles[PLAN.role_name] for each in rule["resources"]}
    (bind,) = (rule for rule in roles[PLAN.role_name] if rule["verbs"] == ["bind"])
    assert bind["resourceNames"] == [PLAN.namespace_role_name]
    assert (
        required_permissions.list_missing(
            required_permissions.list_required(), roles[PLAN.role_name]
        )
        == []
    )
    assert (
        required_permissions.list_missing(
            required_permissions.list_required_by_agent("apiserver"), roles[PLAN.agent_role_name]
        )
        == []
    )


@pytest.mark.parametrize(("mode", "other"), [("apiserver", "agent"), ("agent", "apiserver")])
def test_the_agents_role_is_that_of_the_mode(mode, other):
    """nodes/proxy, the broadest right that there is, is granted where a kubelet is asked."""
    made = TargetObjects(HOME_UID, mode).build_objects()
    (role,) = (
        body
        for _, body in made
        if body["metadata"]["name"] == PLAN.agent_role_name and "rules" in body
    )
    assert (
        required_permissions.list_missing(
            required_permissions.list_required_by_agent(mode), role["rules"]
        )
        == []
    )
    assert (
        required_permissions.list_missing(
            required_permissions.list_required_by_agent(other), role["rules"]
        )
        != []
    )
    titles = {each.kubectl_name for each in required_permissions.list_granted(role["rules"])}
    assert ("nodes/proxy" in titles) is (mode == "agent")


def test_the_agents_account_has_the_agents_rights_alone():
    """Logs and streams. vc-manager may create tokens for these two accounts and for no other."""
    made = PLAN.build_objects()
    bound = {
        body["roleRef"]["name"]: [each["name"] for each in body["subjects"]]
        for _, body in made
        if body["kind"].endswith("RoleBinding")
    }
    assert bound == {
        PLAN.role_name: ["vc-syncer"],
        PLAN.agent_role_name: ["vn-agent"],
        "vn-agent-tokens": ["vc-syncer"],
        PLAN.rules_role_name: ["vc-syncer"],
    }
    (rule,) = next(body["rules"] for _, body in made if body["kind"] == "Role")
    assert rule["resources"] == ["serviceaccounts/token"]
    assert (rule["resourceNames"], rule["verbs"]) == (["vn-agent", "vc-syncer"], ["create"])
    needed = required_permissions.list_required_by_agent("apiserver")
    granted = {each.kubectl_name for each in needed}
    assert granted == {"pods", "pods/log", "pods/attach", "pods/exec", "pods/portforward"}
    assert {each.verb for each in needed if each.kubectl_name == "pods"} == {"list"}


def test_the_rights_to_kinds_of_sync_rules_are_those_of_labelled_roles():
    """They are no part of the role that vc-manager checks, so a target works without them."""
    role, binding = (body for _, body in PLAN.build_rules_objects())
    (selector,) = role["aggregationRule"]["clusterRoleSelectors"]
    assert selector == {"matchLabels": {wellknown.AGGREGATE_TO_SYNCER: "true"}}
    assert "rules" not in role, "a controller of the target writes them"
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == PLAN.rules_role_name


def test_what_is_made_there_bears_the_home_cluster():
    made = PLAN.build_objects()
    assert [body["kind"] for _, body in made] == [
        *("Namespace", "ServiceAccount", "ServiceAccount"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") * 2,
        "ClusterRole",
        *("ClusterRole", "ClusterRoleBinding") * 2,
        *("Role", "RoleBinding"),
        *("ClusterRole", "ClusterRoleBinding"),
    ]
    for resource, body in made:
        assert PLAN.is_own_object(body["metadata"])
        assert not TargetObjects("other").is_own_object(body["metadata"])
        assert ("namespace" in body["metadata"]) is resource.namespaced
    assert {body["metadata"]["name"] for _, body in made} >= {"virtual-cluster-d64ea0c0"}
    assert PLAN.namespace == super_clusters.build_accounts_namespace(HOME_UID)
    assert TargetObjects("another-uid").role_name != PLAN.role_name


def test_the_policy_is_for_the_account_of_this_home_cluster_and_its_role():
    made = [body for _, body in PLAN.build_policies()]
    rows = (("vc-syncer", PLAN.policy_name), ("vn-agent", PLAN.agent_policy_name))
    for (account, name), policy, binding in zip(rows, made[::2], made[1::2], strict=True):
        text = str(policy["spec"])
        assert f"system:serviceaccount:{PLAN.namespace}:{account}" in text
        assert "ACCOUNTS_NAMESPACE" not in text
        assert "{{" not in text
        assert binding["spec"]["policyName"] == policy["metadata"]["name"] == name
    assert f"'{PLAN.namespace_role_name}'" in str(made[0])


def test_the_policy_of_the_agent_differs_from_the_charts_in_the_writes_at_home_alone():
    agent = next(body for _, body in PLAN.build_policies() if "agent" in body["metadata"]["name"])
    variables = {each["name"]: each["expression"] for each in agent["spec"]["variables"]}
    assert variables["isHome"] == "false"
    assert variables["isOwn"].startswith("variables.isHome && ")


def test_the_secret_holds_a_kubeconfig_that_vc_manager_takes():
    content = manifests.build_kubeconfig(
        "c2", server="https://10.0.0.5:6443", ca=b"CA", token="tok", tls_server_name="kubernetes"
    )
    endpoint = secret_kubeconfig.parse_endpoint(
        {manifests.KUBECONFIG_KEY: content}, name="c2", key=manifests.KUBECONFIG_KEY
    )
    assert (endpoint.server, endpoint.ca, endpoint.token, endpoint.tls_server_name) == (
        *("https://10.0.0.5:6443", b"CA", "tok", "kubernetes"),
    )


def test_the_super_cluster_is_one_that_can_be_read():
    taints = manifests.parse_taints(["alibabacloud.com/eci:NoSchedule", "a=b:NoExecute"])
    made = manifests.build_super_cluster(
        "c2",
        mode="agent",
        labels=manifests.parse_labels(["zone=z1", "e="]),
        taints=taints,
        resolvers=manifests.parse_resolvers(["10.98.0.10", "fd00::a"]),
    )
    spec = super_clusters.parse_spec(made)
    assert spec.network.resolvers == ("10.98.0.10", "fd00::a")
    assert (spec.labels, spec.mode) == ({"zone": "z1", "e": ""}, "agent")
    assert [(each.key, each.value, each.effect) for each in spec.taints] == [
        ("alibabacloud.com/eci", "", "NoSchedule"),
        ("a", "b", "NoExecute"),
    ]
    assert spec.secret_ref is not None
    assert spec.secret_ref.name == manifests.build_secret_name("c2")
