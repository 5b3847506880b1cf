"""Tenants a minor older and a minor newer than the super cluster: pods run, logs and exec work.

Tenants of both kinds run in the session's cluster. A second cluster of another minor stands beside
it for the length of a test.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterversions import catalog
from tenancy import wellknown
from tests.node.conftest import COMPONENTS, SuperClusterAdmin, TenantAdmin, created, running
from tests.support import node_objects
from tests.support.kubectl import stays, until
from tools.testbed.cluster.handle import ClusterHandle

pytestmark = [pytest.mark.thorough, pytest.mark.node, pytest.mark.timeout(900)]

SYNCER = f"system:serviceaccount:{COMPONENTS}:{wellknown.SYNCER}"


def works(super_cluster: SuperClusterAdmin, tenant: TenantAdmin, *, minor: str) -> None:
    """Check what a tenant is for, and that it is of its minor."""
    kubectl = tenant.kubectl
    assert version(tenant.kubectl) == minor
    since = super_cluster.audit_size()
    kubectl.apply(
        node_objects.deployment("web", 1), node_objects.service("web"), node_objects.sleeper("main")
    )
    kubectl.run("wait", "--for=condition=Ready", "pod/main", "--timeout=90s")
    kubectl.run("rollout", "status", "deployment/web", "--timeout=90s")
    assert kubectl.run("logs", "main").strip() == "ready"
    assert kubectl.run("exec", "-i", "main", "--", "cat", stdin="through") == "through"
    address = kubectl.get("service", "web")["spec"]["clusterIP"]
    found = kubectl.run("exec", "main", "--", "nslookup", "web.default.svc.cluster.local")
    assert address in found
    node = kubectl.get("pod", "main")["spec"]["nodeName"]
    below = super_cluster.kubectl.get("node", node)["status"]["nodeInfo"]["kubeletVersion"]
    assert kubectl.get("node", node)["status"]["nodeInfo"]["kubeletVersion"] == below
    assert warnings(tenant) == []

    def writes() -> list[str]:
        """Return the syncer's writes about the pod, none of which comes back."""
        return [
            event["verb"]
            for event in super_cluster.audit(since)
            if event["user"]["username"] == SYNCER
            and event["objectRef"].get("name") == "main"
            and event["objectRef"].get("namespace") == tenant.super_namespace()
        ]

    assert writes() == ["create"]
    stays(lambda: writes() == ["create"], "one write of the pod", seconds=3)
    kubectl.run("delete", "pod/main", "deployment/web", "service/web", timeout=60)
    until(
        lambda: not super_cluster.kubectl.items("pods", "-n", tenant.super_namespace()),
        "the pods are gone below",
    )


def version(kubectl) -> str:
    """Return the minor of the API server."""
    said = json.loads(kubectl.run("version", "-o", "json"))["serverVersion"]
    return ".".join(said["gitVersion"].removeprefix("v").split(".")[:2])


def warnings(tenant: TenantAdmin) -> list[str]:
    """Return what the syncer complains of."""
    events = tenant.kubectl.items("events", "--field-selector", "type=Warning")
    return [
        each["message"] for each in events if each["source"].get("component") == wellknown.SYNCER
    ]


@pytest.mark.parametrize(("name", "minor"), [("older", "1.35"), ("newer", "1.37")])
def test_a_tenant_of_another_minor_than_the_super_cluster(
    super_cluster: SuperClusterAdmin, make_tenant: Callable[..., TenantAdmin], name: str, minor: str
):
    assert version(super_cluster.kubectl) == catalog.DEFAULT_MINOR
    super_cluster.publish_minors()
    tenant = make_tenant(name, cluster_version=f"v{minor}")
    works(super_cluster, tenant, minor=minor)
    super_cluster.kubectl.run("vc", "delete", name, timeout=180)


@pytest.mark.parametrize("minor", ["1.35", pytest.param("1.37", marks=pytest.mark.slow)])
def test_a_super_cluster_of_another_minor_than_the_tenant(tmp_path: Path, minor: str):
    with running(ClusterHandle("skew", minor=minor)) as other:
        assert version(other.kubectl) == minor
        tenant = created(other, tmp_path, "tenant", f"v{catalog.DEFAULT_MINOR}")
        works(other, tenant, minor=catalog.DEFAULT_MINOR)
