"""Facts of `kubectl vc doctor` for tests: an installation in which everything works."""

from dataclasses import replace
from typing import Any

from kubectl_vc.installation.check_table import CheckedLink, run_checks
from kubectl_vc.installation.installation_checks import (
    CRD_NAMES,
    DEFAULT_CLASS_KEY,
    INSTALLATION_CHECKS,
)
from kubectl_vc.installation.installation_facts import InstallationFacts
from tests.support.kubectl_vc.object_faults import NOW, condition, lease, node


def named(name: str, **metadata: Any) -> dict:
    """Return an object with a name only."""
    return {"metadata": {"name": name, **metadata}}


def resource_with(name: str, **fields: Any) -> dict:
    """Return an object with some fields."""
    return {**named(name), **fields}


def ready(name: str, kind: str = "Ready", **fields: Any) -> dict:
    """Return an object with a condition that is True."""
    return resource_with(name, status={"conditions": [condition(kind)]}, **fields)


def deployment(name: str, *, wanted: int = 1, ready: int = 1) -> dict:
    """Return a Deployment."""
    return resource_with(name, spec={"replicas": wanted}, status={"readyReplicas": ready})


def daemon_set(*, wanted: int = 1, ready: int = 1) -> dict:
    """Return the DaemonSet of the node agents."""
    status = {"desiredNumberScheduled": wanted, "numberReady": ready}
    return resource_with("vn-agent", status=status)


def agent_pod(node_name: str) -> dict:
    """Return the pod of a node agent that is ready."""
    metadata = {"ownerReferences": [{"kind": "DaemonSet", "name": "vn-agent"}]}
    return ready("vn-agent-1", spec={"nodeName": node_name}) | {
        "metadata": {"name": "vn-agent-1", **metadata}
    }


SOUND = InstallationFacts(
    now=NOW,
    manager_namespace="vc-manager",
    custom_resource_definitions=[ready(name, "Established") for name in CRD_NAMES],
    deployments=[deployment("vc-manager"), deployment("vc-syncer")],
    leases=[lease() | named(name) for name in ("vc-manager", "vc-syncer")],
    daemon_sets=[daemon_set()],
    pods=[agent_pod("node-1")],
    nodes=[node()],
    storage_classes=[named("standard", annotations={DEFAULT_CLASS_KEY: "true"})],
    service_cidrs=[ready("kubernetes", spec={"cidrs": ["10.96.0.0/12"]})],
    cluster_versions=[resource_with("v1.36", spec={"kubernetesVersion": "1.36"})],
    tenant_policies=[named("baseline")],
    super_clusters=[ready("t1"), named("home")],
)


def check(**changed: Any) -> list[CheckedLink]:
    """Return the results for an installation with some facts changed."""
    return run_checks(replace(SOUND, **changed), INSTALLATION_CHECKS)
