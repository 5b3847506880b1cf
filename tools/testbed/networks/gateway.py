"""Traefik for Gateway API and Ingresses: its image, its definitions, and its objects.

Traefik has its data plane in Go, and its Go module is served. Envoy Gateway is a Go module, but
Envoy itself is not one.

Hazard: a Gateway must have the port of the entry point. Otherwise Traefik accepts no listener.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from tools.testbed import versions
from tools.testbed.artifacts import binaries, debian, images
from tools.testbed.artifacts.oci import Image
from tools.testbed.cluster.api import Object
from tools.testbed.progress import StepPrinter

CONTROLLER = "traefik.io/gateway-controller"
INGRESS_CONTROLLER = "traefik.io/ingress-controller"
PORT = 8080
_NAME = "traefik"
_API = "sigs.k8s.io/gateway-api"
_GROUP = "gateway.networking.k8s.io"


def build(progress: StepPrinter) -> list[Image]:
    """Build the image. Quick if it is in the cache."""
    base = debian.root(progress)
    binaries.build(binaries.programs([_NAME]), progress)
    return [images.of_programs(_get_image(), _NAME, _NAME).make(base)]


def list_definitions() -> list[Path]:
    """Return the files of the CRDs of the standard channel."""
    folder = binaries.source(_NAME, _API) / "config" / "crd" / "standard"
    return sorted(folder.glob(f"{_GROUP}_*.yaml"))


def build_objects(namespace: str) -> list[Object]:
    """Return Traefik's objects in a namespace of the super cluster."""
    labels = {"app": _NAME}
    account = {"name": _NAME, "namespace": namespace}
    container = {
        "name": _NAME,
        "image": _get_image(),
        "args": [
            "--providers.kubernetesgateway",
            f"--providers.kubernetesgateway.statusaddress.hostname={_NAME}.{namespace}",
            "--providers.kubernetesingress",
            f"--providers.kubernetesingress.ingressendpoint.hostname={_NAME}.{namespace}",
            f"--entrypoints.web.address=:{PORT}",
            "--global.checknewversion=false",
            "--log.level=INFO",
        ],
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    pod = {
        "metadata": {"labels": labels},
        "spec": {"serviceAccountName": _NAME, "containers": [container]},
    }
    role = {"name": f"{_NAME}-gateway"}
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": role,
            "rules": yaml.safe_load(_RULES),
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": role,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", **role},
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": account,
            "spec": {"selector": {"matchLabels": labels}, "template": pod},
        },
    ]


def _get_image() -> str:
    version = versions.module_version(_NAME, "github.com/traefik/traefik/v3")
    return f"{images.PREFIX}/{_NAME}:v{version}"


# As in Traefik's documentation of both providers, with the kinds of the standard channel.
_RULES = """
- {apiGroups: [""], resources: [namespaces, services, secrets, configmaps, nodes],
   verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
- {apiGroups: [gateway.networking.k8s.io], resources: ["*"], verbs: [get, list, watch]}
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses/status, gateways/status, httproutes/status, grpcroutes/status,
    tcproutes/status, tlsroutes/status, referencegrants/status, backendtlspolicies/status]
  verbs: [update]
- {apiGroups: [networking.k8s.io], resources: [ingresses, ingressclasses],
   verbs: [get, list, watch]}
- {apiGroups: [networking.k8s.io], resources: [ingresses/status], verbs: [update]}
"""
