"""Two tenants, a thief with the syncer's token, and what each writes before the chart's gate."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Awaitable, Callable

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import Forbidden
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import SERVICE_ACCOUNTS, Resource
from tests.support.eventually import eventually
from tests.support.helm import NAMESPACE
from tests.support.names import fresh_name

GATE = "virtual-cluster-syncer"
_CONTAINER = {"name": "main", "image": "registry.example/app:1"}
SAMPLES: dict[str, Object] = {
    "Pod": {"spec": {"containers": [_CONTAINER]}},
    "Service": {"spec": {"ports": [{"port": 80}]}},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [], "ports": []},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}},
    "NetworkPolicy": {"spec": {"podSelector": {}}},
    "PodDisruptionBudget": {"spec": {"maxUnavailable": 1}},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "PersistentVolume": {
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "nfs": {"server": "192.0.2.1", "path": "/a"},
            "claimRef": {"name": "data"},
        }
    },
}
PREFIXES = {"PersistentVolume": names.VOLUME_PREFIX}


def tenant(name: str = "") -> Tenant:
    """Return a tenant that nobody declared; the gate looks at marks only."""
    name, uid = name or fresh_name("vc"), fresh_name("uid")
    root = names.build_root_namespace("default", name, uid)
    return Tenant(name=name, namespace="default", uid=uid, root=root)


def marked(of: Tenant, namespace: str = "web", uid: str = "twin-uid") -> Object:
    """Return metadata with the marks that the syncer stamps."""
    return {
        "labels": ownership.build_owner_labels(of, namespace),
        "annotations": ownership.build_owner_annotations(of, namespace, uid),
    }


def space(of: Tenant, namespace: str = "web") -> Object:
    """Return the super namespace of a tenant namespace as the syncer makes it."""
    metadata = marked(of, namespace)
    metadata["labels"]["pod-security.kubernetes.io/enforce"] = "baseline"
    name = names.build_super_namespace(of.root, of.uid, namespace)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def root(of: Tenant) -> Object:
    """Return the root namespace of a tenant as vc-manager makes it."""
    metadata = marked(of, "")
    metadata["annotations"][wellknown.ROOT_NAMESPACE] = "true"
    metadata["labels"]["pod-security.kubernetes.io/enforce"] = "baseline"
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": of.root, **metadata}}


def sample(resource: Resource, namespace: str, metadata: Object) -> Object:
    """Return an object of a kind."""
    place = {"namespace": namespace} if resource.namespaced else {}
    body = copy.deepcopy(SAMPLES.get(resource.kind, {}))
    if resource.kind == "PersistentVolume":
        cluster = metadata.get("annotations", {}).get(wellknown.CLUSTER, "other")
        body["spec"]["claimRef"]["namespace"] = f"{cluster}-web"
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": PREFIXES.get(resource.kind, "") + fresh_name("o"),
            **place,
            **metadata,
        },
        **body,
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdmissionStage:
    """Two tenants with a namespace each, their administrator, and the syncer's stolen token."""

    admin: Client
    thief: Client
    own: Tenant
    foreign: Tenant

    def namespace(self, of: Tenant) -> str:
        """Return the name of a tenant's super namespace."""
        return names.build_super_namespace(of.root, of.uid, "web")


async def token(admin: Client, account: str = "vc-syncer") -> str:
    """Return a real token of an account of the chart."""
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    made = await admin.create(
        SERVICE_ACCOUNTS, request, namespace=NAMESPACE, name=account, subresource="token"
    )
    found: str = made["status"]["token"]
    return found


async def refused(attempt: Callable[[], Awaitable[object]], policy: str = GATE) -> str:
    """Try until the policy refuses: it counts from the moment the server has seen it."""

    async def look() -> str:
        told = ""
        try:
            await attempt()
        except Forbidden as problem:
            told = problem.server_message
        assert policy in told, told or "the server let it pass"
        return told

    return await eventually(look)
