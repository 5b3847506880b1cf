"""Limits of objects in a tenant with a network of its own (`VirtualCluster.spec.network`).

Pure. The node and its kubelet are not on the network. So a ClusterIP, a node port, an Ingress and a
probe by the network cannot reach a pod. They are refused, because the address could be that of
another pod (docs/adr/0047). Must not know how the network is made.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from syncer.model.rejections import RejectionProblem
from syncer.model.tenant_view import TenantView
from syncer.model.unstructured import as_mapping, as_mappings

SERVICE_RULE = "network-services"
PROBE_RULE = "network-probe"
_NETWORK_PROBES = ("httpGet", "tcpSocket", "grpc")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def find_service_problem(
    tenant_service: Mapping[str, Any], view: TenantView
) -> RejectionProblem | None:
    """Return why a Service cannot work on the tenant's own network, or None."""
    spec = as_mapping(tenant_service.get("spec"))
    if view.spec.network is None or spec.get("type") == "ExternalName":
        return None
    if spec.get("clusterIP") == "None":
        return None
    text = "cannot reach pods on the network of this cluster. Set clusterIP to None"
    return RejectionProblem(SERVICE_RULE, "spec.type", text)


def find_ingress_problem(view: TenantView) -> RejectionProblem | None:
    """Return why an Ingress cannot work on the tenant's own network, or None."""
    if view.spec.network is None:
        return None
    text = "cannot reach pods on the network of this cluster. Use a proxy in a pod of yours"
    return RejectionProblem(SERVICE_RULE, "spec", text)


def find_pod_problems(tenant_spec: Mapping[str, Any]) -> Iterator[RejectionProblem]:
    """Yield the probes that a kubelet cannot run on the tenant's own network."""
    for field in ("containers", "initContainers"):
        for container in as_mappings(tenant_spec.get(field)):
            for probe in _PROBES:
                said = as_mapping(container.get(probe))
                for kind in (each for each in _NETWORK_PROBES if said.get(each)):
                    where = f"spec.{field}[{container.get('name', '')}].{probe}.{kind}"
                    text = "cannot reach the pod on the network of this cluster. Use exec"
                    yield RejectionProblem(PROBE_RULE, where, text)
