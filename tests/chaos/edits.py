"""Objects of tenants in chaos: what each step writes, chosen by the numbers of the step. Pure.

Owns the bodies. Each driver writes them in its own way: into a store in memory, or by requests.
Every body has its tenant's canary, so that a copy in another tenant is noticed.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from tenancy import names
from tenancy.ownership import Tenant
from tenancy.resources import CONFIG_MAPS, SECRETS, SERVICES, Resource
from tests.chaos.oracles import GATEWAY, TERMINAL, Object

PLAIN = (CONFIG_MAPS, SECRETS, SERVICES)
SPACES = ("default", "web", "db")
NAMES = ("a", "b", "c")
ADMIN_LABELS = {"app": "admin"}
"""Labels and selectors that the super cluster's admin writes into objects of tenants."""
ADMIN_DATA = {"k": "YWRtaW4="}


class ChaosTenant:
    """One tenant of either driver."""

    number: int
    tenant: Tenant

    @property
    def side(self) -> str:
        """Name of the tenant's API server in scripts."""
        return f"tenant{self.number}"

    @property
    def canary(self) -> str:
        """A word that stands in everything of this tenant's, and nowhere else."""
        return f"canary{self.number}"

    def below(self, space: str) -> str:
        """Return where a namespace of the tenant's is mapped to."""
        return names.build_super_namespace(self.tenant.root, self.tenant.uid, space)


def value(tenant: ChaosTenant, number: int) -> str:
    """Return the content of a field."""
    return f"{tenant.canary}-{number % 4}"


def data(tenant: ChaosTenant, resource: Resource, number: int) -> Object:
    """Return what an object of a plain kind says."""
    text = value(tenant, number)
    if resource is CONFIG_MAPS:
        return {"data": {"k": text}}
    if resource is SECRETS:
        return {"data": {"k": base64.b64encode(text.encode()).decode()}}
    return {"spec": {"ports": [{"port": 80 + number % 3}], "selector": {"app": text}}}


def labels(tenant: ChaosTenant, number: int) -> dict[str, str]:
    """Return a pod's labels: its own key, and one that has another key in the super cluster."""
    return dict.fromkeys(("app", GATEWAY), value(tenant, number))


def image(number: int) -> str:
    """Return the image of a container."""
    return f"example.com/i:{number % 3}"


def pod(tenant: ChaosTenant, name: str, numbers: Sequence[int]) -> Object:
    """Return a pod that needs some of the tenant's configuration."""
    volumes: list[Object] = []
    if numbers[3] & 1:
        needed = NAMES[numbers[4] % len(NAMES)]
        volumes.append({"name": "cm", "configMap": {"name": needed, "optional": True}})
    if numbers[3] & 2:
        needed = NAMES[numbers[4] // 7 % len(NAMES)]
        volumes.append({"name": "secret", "secret": {"secretName": needed, "optional": True}})
    metadata: Object = {"name": name, "labels": labels(tenant, numbers[4])}
    if numbers[3] % 5 == 0:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}
        metadata["ownerReferences"] = [{**owner, "uid": "5b1b6f0c-5d0f-4d7c-8b0a-0a7f6a7c1f11"}]
    return {
        "metadata": metadata,
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": image(numbers[4])}],
            "volumes": volumes,
        },
    }


def grace(numbers: Sequence[int]) -> int | None:
    """Return the grace period in seconds of a pod's deletion. None for the pod's own."""
    return (None, None, 1, 0)[numbers[3] % 4]


def news(status: Object, numbers: Sequence[int]) -> dict[str, Any] | None:
    """Return what a kubelet reports of a pod that runs. None for a pod that has ended."""
    if status.get("phase") in TERMINAL:
        return None
    phase = ("Running", "Succeeded", "Failed")[numbers[1] % 3]
    ready = "True" if phase == "Running" and numbers[2] % 2 else "False"
    conditions = [
        {**each, "status": ready} if each["type"] == "Ready" else each
        for each in status.get("conditions") or ()
    ]
    return {"phase": phase, "conditions": conditions}
