"""What joining writes, and what is told of targets."""

import pytest

from kubectl_vc.target import manifests
from kubectl_vc.target.manifests import There
from kubeio.config import secret_kubeconfig
from tenancy import super_clusters
from tests.support.kubectl_vc.super_clusters import HOME_UID
from vcmanager.targets import required_permissions

PLAN = There(HOME_UID)


def test_the_role_that_is_written_is_the_one_that_is_checked():
    made = [body for _, body in PLAN.objects(lasting=False) if body["kind"] == "ClusterRole"]
    roles = {each["metadata"]["name"]: each["rules"] for each in made}
    assert set(roles) == {PLAN.role, PLAN.agent_role}
    assert required_permissions.missing(required_permissions.needed(), roles[PLAN.role]) == []
    assert (
        required_permissions.missing(
            required_permissions.needed_by_agent("apiserver"), roles[PLAN.agent_role]
        )
        == []
    )


@pytest.mark.parametrize(("mode", "other"), [("apiserver", "agent"), ("agent", "apiserver")])
def test_the_agents_role_is_that_of_the_mode(mode, other):
    """nodes/proxy, the broadest right that there is, is granted where a kubelet is asked."""
    made = There(HOME_UID, mode).objects(lasting=False)
    (role,) = (
        body for _, body in made if body["metadata"]["name"] == PLAN.agent_role and "rules" in body
    )
    assert (
        required_permissions.missing(required_permissions.needed_by_agent(mode), role["rules"])
        == []
    )
    assert (
        required_permissions.missing(required_permissions.needed_by_agent(other), role["rules"])
        != []
    )
    titles = {each.title for each in required_permissions.rights_of(role["rules"])}
    assert ("nodes/proxy" in titles) is (mode == "agent")


def test_the_agents_account_has_the_agents_rights_alone():
    """Logs and streams; and vc-manager may make tokens for that account and for no other."""
    made = PLAN.objects(lasting=False)
    bound = {
        body["roleRef"]["name"]: [each["name"] for each in body["subjects"]]
        for _, body in made
        if body["kind"].endswith("Binding")
    }
    assert bound == {
        PLAN.role: ["vc-syncer"],
        PLAN.agent_role: ["vn-agent"],
        "vn-agent-tokens": ["vc-syncer"],
    }
    (rule,) = next(body["rules"] for _, body in made if body["kind"] == "Role")
    assert rule["resources"] == ["serviceaccounts/token"]
    assert (rule["resourceNames"], rule["verbs"]) == (["vn-agent"], ["create"])
    needed = required_permissions.needed_by_agent("apiserver")
    granted = {each.title for each in needed}
    assert granted == {"pods", "pods/log", "pods/attach", "pods/exec", "pods/portforward"}
    assert {each.verb for each in needed if each.title == "pods"} == {"list"}


def test_what_is_made_there_bears_the_home_cluster():
    made = PLAN.objects(lasting=True)
    assert [body["kind"] for _, body in made] == [
        *("Namespace", "ServiceAccount", "ServiceAccount"),
        *("ClusterRole", "ClusterRoleBinding") * 2,
        *("Role", "RoleBinding", "Secret"),
    ]
    for resource, body in made:
        assert PLAN.is_ours(body["metadata"])
        assert not There("other").is_ours(body["metadata"])
        assert ("namespace" in body["metadata"]) is resource.namespaced
    assert {body["metadata"]["name"] for _, body in made} >= {"virtual-cluster-d64ea0c0"}
    assert PLAN.namespace == super_clusters.accounts_namespace(HOME_UID)
    assert There("another-uid").role != PLAN.role


def test_the_secret_holds_a_kubeconfig_that_vc_manager_takes():
    content = manifests.kubeconfig(
        "c2", server="https://10.0.0.5:6443", ca=b"CA", token="tok", tls_server_name="kubernetes"
    )
    endpoint = secret_kubeconfig.endpoint({manifests.KEY: content}, name="c2", key=manifests.KEY)
    assert (endpoint.server, endpoint.ca, endpoint.token, endpoint.tls_server_name) == (
        *("https://10.0.0.5:6443", b"CA", "tok", "kubernetes"),
    )


def test_the_super_cluster_is_one_that_can_be_read():
    taints = manifests.taints(["alibabacloud.com/eci:NoSchedule", "a=b:NoExecute"])
    made = manifests.super_cluster(
        "c2",
        mode="agent",
        labels=manifests.labels(["zone=z1", "e="]),
        taints=taints,
        resolvers=manifests.resolvers(["10.98.0.10", "fd00::a"]),
    )
    spec = super_clusters.parse_spec(made)
    assert spec.network.resolvers == ("10.98.0.10", "fd00::a")
    assert (spec.labels, spec.mode) == ({"zone": "z1", "e": ""}, "agent")
    assert [(each.key, each.value, each.effect) for each in spec.taints] == [
        ("alibabacloud.com/eci", "", "NoSchedule"),
        ("a", "b", "NoExecute"),
    ]
    assert spec.secret_ref is not None
    assert spec.secret_ref.name == manifests.secret_name("c2")
