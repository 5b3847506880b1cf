"""TenantPolicies that the chart installs, for decisions without a cluster.

Pure data. A contract test compares it with `charts/virtual-cluster/values.yaml`.
"""

from collections.abc import Mapping
from typing import Any

_OPEN_SYNC: Mapping[str, Any] = {
    "configMaps": "All",
    "secrets": "All",
    "blockingDisruptionBudgets": "Allow",
    "priorityClasses": {"names": ["*"]},
    "runtimeClasses": {"names": ["*"]},
}
_OPEN_NETWORK: Mapping[str, Any] = {
    "hostPorts": "Allow",
    "catchAllIngresses": "Allow",
    "implementationSpecificPaths": "Allow",
    "externalNameBackends": "Allow",
}

BUILTIN_POLICIES: Mapping[str, Mapping[str, Any]] = {
    "baseline": {},
    "restricted": {
        "security": {"level": "restricted"},
        "images": {"pullPolicy": "Always"},
        "nodes": {"view": "Minimal"},
        "network": {"serviceTypes": ["ClusterIP", "LoadBalancer"]},
        "quota": {
            "pods": 100,
            "count/pods": 500,
            "requests.cpu": 20,
            "requests.memory": "40Gi",
            "limits.memory": "80Gi",
            "requests.storage": "500Gi",
            "persistentvolumeclaims": 50,
            "services": 100,
            "services.loadbalancers": 2,
            "services.nodeports": 10,
            "count/ingresses.networking.k8s.io": 50,
            "count/namespaces": 50,
            "bytes/configmaps": "64Mi",
            "bytes/secrets": "64Mi",
        },
    },
    "trusted": {
        "sync": _OPEN_SYNC,
        "nodes": {"view": "Full"},
        "network": {**_OPEN_NETWORK, "ingressAnnotations": ["nginx", "traefik", "cert-manager"]},
        "pods": {
            "reservedContainerNames": [],
            "autoscaling": {"blockingAnnotations": "Allow"},
        },
        "storage": {"imageVolumes": "Allow"},
    },
    "conformance": {
        "security": {"level": "privileged"},
        "sync": _OPEN_SYNC,
        "nodes": {"view": "Full", "expose": "all"},
        "network": {**_OPEN_NETWORK, "nodeDns": "Allow"},
        "pods": {
            "reservedContainerNames": [],
            "autoscaling": {"blockingAnnotations": "Allow"},
        },
        "storage": {"imageVolumes": "Allow"},
    },
}
"""Specs by the name of the policy."""
