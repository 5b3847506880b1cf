"""`kubectl vc connect` through a real kubelet: a forwarded port, and logs of a control plane."""

from __future__ import annotations

from tests.node.conftest import SuperClusterAdmin, TenantAdmin


def test_a_command_reaches_the_tenant_through_a_forwarded_port(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin
):
    shown = super_cluster.kubectl.run(
        *("vc", "connect", tenant_a.name, "--forward", "always"),
        *("--", "kubectl", "get", "--raw", "/api/v1/namespaces/kube-system"),
        timeout=60,
    )
    own = tenant_a.kubectl.run("get", "--raw", "/api/v1/namespaces/kube-system")
    assert shown == own
    failed = super_cluster.kubectl.call(
        "vc", "exec", tenant_a.name, "--", "kubectl", "get", "pod", "nothing"
    )
    assert (failed.code, 'pods "nothing" not found' in failed.err) == (1, True)


def test_logs_are_those_of_the_components(super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin):
    for component, pod in (
        *((each, each) for each in ("etcd", "apiserver", "controller-manager")),
        ("dns", "coredns"),
    ):
        words = ("vc", "logs", tenant_a.name, "--component", component, "--tail", "1")
        assert f"/{pod}-" in super_cluster.kubectl.run(*words)
    lines = super_cluster.kubectl.run("vc", "logs", tenant_a.name, "--component", "syncer")
    assert all(tenant_a.name in line for line in lines.splitlines())
