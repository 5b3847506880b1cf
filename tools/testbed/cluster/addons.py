"""Add-ons of a usable cluster: DNS, and a default StorageClass.

Hazard: the caller must wait for the account `default` before it uses the cluster. The API server
refuses pods without it, and a controller creates it only after the namespace.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path

import yaml

from tools.testbed.artifacts import images
from tools.testbed.cluster.api import KubeApi, Object, wait_for
from tools.testbed.cluster.topology import Topology

MANIFESTS = Path(__file__).resolve().parent / "manifests"


def documents(topology: Topology) -> list[Object]:
    """Return the objects of all add-ons."""
    values = {
        "coredns": images.name_of("coredns"),
        "dns_ip": str(topology.dns_ip),
        "busybox": images.BUSYBOX,
        "provisioner": images.name_of("local-path-provisioner"),
    }
    found: list[Object] = []
    for file in sorted(MANIFESTS.glob("*.yaml")):
        text = string.Template(file.read_text()).substitute(values)
        found += [document for document in yaml.safe_load_all(text) if document]
    return found


def install(api: KubeApi, topology: Topology) -> None:
    """Apply all add-ons."""
    for document in documents(topology):
        api.apply(document)


def wait(api: KubeApi, hint: Callable[[], str]) -> None:
    """Wait until the cluster accepts pods, resolves names and creates volumes."""

    def ready() -> bool:
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        return api.exists(account) and all(
            _is_available(api, deployment)
            for deployment in ("kube-system/coredns", "local-path-storage/local-path-provisioner")
        )

    wait_for("the add-ons are not ready", ready, seconds=90, hint=hint)


def _is_available(api: KubeApi, deployment: str) -> bool:
    namespace, name = deployment.split("/")
    found = api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    return int(found.get("status", {}).get("availableReplicas", 0)) > 0
