"""Things that many unit tests of the manager need."""

from datetime import UTC, datetime
from typing import Any

from tenancy import names
from tenancy.ownership import Tenant
from tenancy.specs import ClusterVersionSpec, VirtualClusterSpec, parse_cluster_version
from vcmanager.controlplane import Settings, Wish
from vcmanager.pki.inventory import Facts

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
UID = "d64ea0c0-91f8-46f5-8643-c0cab32ab0cd"
TENANT = Tenant(
    name="vc-1",
    namespace="default",
    uid=UID,
    root=names.root_namespace("default", "vc-1", UID),
)
FACTS = Facts(
    root=TENANT.root,
    uid=UID,
    name=TENANT.name,
    domain="cluster.local",
    api_address="10.96.4.1",
    service_address="10.111.2.3",
    external_domain="vc.example.org",
)


def wish(
    *,
    version: ClusterVersionSpec | None = None,
    external_domain: str = "",
    registry: str = "registry.example/vc",
    **spec: Any,
) -> Wish:
    """Return a wish for a tenant; keywords are fields of the VirtualCluster's spec."""
    return Wish(
        tenant=TENANT,
        spec=VirtualClusterSpec(cluster_version_name="v1.36", **spec),
        version_name="v1.36",
        version=version or ClusterVersionSpec(kubernetes_version="1.36"),
        external_domain=external_domain,
        settings=Settings(registry=registry),
    )


def bundled(sample: dict[str, Any]) -> Wish:
    """Return a wish for a ClusterVersion object of upstream's shape."""
    return wish(version=parse_cluster_version(sample))


def workload(
    name: str = "etcd", *, replicas: int = 1, ready: int = 0, kind: str = "StatefulSet", **more: Any
) -> dict[str, Any]:
    """Return a workload as the API server shows it."""
    status = {
        "observedGeneration": 1,
        "replicas": replicas,
        "readyReplicas": ready,
        "updatedReplicas": replicas,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": TENANT.root, "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "replicas": replicas,
            "template": {"metadata": {"labels": {"component-name": name}}},
        },
        "status": {**status, **more},
    }


def pod(name: str, component: str, **status: Any) -> dict[str, Any]:
    """Return a pod as the API server shows it."""
    return {
        "metadata": {
            "name": name,
            "namespace": TENANT.root,
            "uid": f"uid-{name}",
            "labels": {"component-name": component},
            "annotations": {},
        },
        "spec": {},
        "status": status,
    }
