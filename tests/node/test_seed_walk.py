"""The walk of the post that the project came from, step by step (rows A3-02 to A3-11)."""

import re
import stat

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import KubectlRunner, until

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

OWN_NAMESPACES = ["default", "kube-node-lease", "kube-public", "kube-system"]

ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "my-role", "namespace": "default"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
}
ROLE_BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "my-rolebinding", "namespace": "default"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "my-role"},
    "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.walk.example.com"},
    "spec": {
        "group": "walk.example.com",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


def test_the_walk(super_cluster: SuperClusterAdmin, tmp_path):
    super_kubectl = super_cluster.kubectl
    assert re.match(r"kubectl-vc version \S+", super_kubectl.run("vc", "--version"))

    manifest = tmp_path / "vc.yaml"
    manifest.write_text(
        "apiVersion: tenancy.x-k8s.io/v1alpha1\nkind: VirtualCluster\n"
        "metadata: {name: vc-sample-1, namespace: default}\n"
        "spec: {clusterVersionName: v1.36}\n"
    )
    kubeconfig = tmp_path / "vc-1.kubeconfig"
    output = super_kubectl.run(
        "vc", "create", "-f", str(manifest), "-o", str(kubeconfig), timeout=300
    )
    milestones = [
        "etcd is ready",
        "apiserver is ready",
        "controller-manager is ready",
        "VirtualCluster default/vc-sample-1 setup successfully",
    ]
    positions = [output.find(line) for line in milestones]
    assert -1 not in positions, output
    assert positions == sorted(positions), output
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    assert "insecure-skip-tls-verify" not in kubeconfig.read_text()
    assert "certificate-authority-data" in kubeconfig.read_text()

    tenant_kubectl = KubectlRunner(kubeconfig=kubeconfig, path=super_kubectl.path)
    root = super_cluster.virtual_cluster("vc-sample-1")["status"]["clusterNamespace"]
    assert re.fullmatch(r"default-[0-9a-f]{6}-vc-sample-1", root)
    expected = sorted([root, *(f"{root}-{name}" for name in OWN_NAMESPACES)])
    until(
        lambda: [n for n in super_kubectl.names("namespaces") if n.startswith(root)] == expected,
        f"super namespaces {expected}",
    )
    ready = {
        item["metadata"]["name"]: (item["status"].get("readyReplicas"), item["spec"]["replicas"])
        for item in super_kubectl.items("statefulsets", "-n", root)
    }
    assert ready == {"etcd": (1, 1), "apiserver": (1, 1), "controller-manager": (1, 1)}

    assert tenant_kubectl.names("namespaces") == OWN_NAMESPACES
    assert tenant_kubectl.names("nodes") == []

    tenant_kubectl.apply(ROLE, ROLE_BINDING, CRD)
    tenant_kubectl.run(
        "wait", "--for=condition=Established", "crd/widgets.walk.example.com", "--timeout=30s"
    )
    assert not super_kubectl.exists("crd", "widgets.walk.example.com")
    for kind, name in (("role", "my-role"), ("rolebinding", "my-rolebinding")):
        assert name not in super_kubectl.names(kind, "-A")

    tenant_kubectl.apply(node_objects.sleeper("first"))
    tenant_kubectl.run("wait", "--for=condition=Ready", "pod/first", "--timeout=60s")
    assert tenant_kubectl.names("nodes") == super_kubectl.names("nodes")
    tenant_kubectl.run("wait", "--for=condition=Ready", "node", "--all", "--timeout=10s")
    assert tenant_kubectl.run("logs", "first").strip() == "ready"

    super_kubectl.run("vc", "delete", "vc-sample-1", timeout=180)
    assert not [n for n in super_kubectl.names("namespaces") if n.startswith(root)]
    assert not [
        volume
        for volume in super_kubectl.items("persistentvolumes")
        if volume["spec"].get("claimRef", {}).get("namespace", "").startswith(root)
    ]


def test_a_tenant_has_a_front_door_that_verifies(tenant_a: TenantAdmin):
    assert "Kubernetes control plane is running" in tenant_a.kubectl.run("cluster-info")
    assert tenant_a.kubectl.run("auth", "can-i", "*", "*").strip() == "yes"
