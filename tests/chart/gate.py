"""Two tenants, a thief with the syncer's token, and what each writes before the chart's gate."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Awaitable, Callable, Mapping

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import Forbidden
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import NAMESPACES, ROLE_BINDINGS, ROLES, Resource
from tests.support.account_tokens import request_account_token
from tests.support.eventually import eventually
from tests.support.helm import NAMESPACE
from tests.support.names import fresh_name
from vcmanager.reconcilers import syncer_access

GATE = "'virtual-cluster-syncer'"
LEVELS = "'virtual-cluster-syncer-levels'"
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
    "RoleBinding": {
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": wellknown.SYNCER_NAMESPACE_ROLE,
        },
        "subjects": [{"kind": "ServiceAccount", "name": "vc-syncer", "namespace": NAMESPACE}],
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
NAMES = {"RoleBinding": wellknown.SYNCER}


def tenant(name: str = "") -> Tenant:
    """Return a tenant that no one declared. The gate looks at marks only."""
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


async def record_levels(admin: Client, levels: Mapping[str, str]) -> None:
    """Record levels of tenants for the gate, as vc-manager does from their policies."""
    found = await admin.get(ROLES, wellknown.SYNCER_LEVELS_ROLE, namespace=NAMESPACE)
    for uid, pair in levels.items():
        wanted = syncer_access.TenantLevels(*pair.split())
        made = syncer_access.build_levels_role({uid: wanted}, NAMESPACE)
        found["rules"] = [*(found.get("rules") or ()), *made["rules"]]
    await write_rules(admin, found["rules"])


async def write_rules(admin: Client, rules: list[Object]) -> None:
    """Replace the record of levels."""
    name = wellknown.SYNCER_LEVELS_ROLE
    await admin.patch(ROLES, name, {"rules": rules}, namespace=NAMESPACE)


async def bind(admin: Client, namespace: str, role: str, *, name: str = "granted") -> None:
    """Bind the syncer's account to a role in a namespace."""
    await admin.create(ROLE_BINDINGS, binding(namespace, role, name=name))


def binding(namespace: str, role: str, **metadata: object) -> Object:
    """Return a binding of the syncer's account to a ClusterRole in a namespace."""
    return {
        "apiVersion": ROLE_BINDINGS.api_version,
        "kind": ROLE_BINDINGS.kind,
        "metadata": {"name": "granted", "namespace": namespace, **metadata},
        "roleRef": {"apiGroup": ROLE_BINDINGS.group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "vc-syncer", "namespace": NAMESPACE}],
    }


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
            "name": NAMES.get(resource.kind) or PREFIXES.get(resource.kind, "") + fresh_name("o"),
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

    async def declare(self, levels: str = "baseline baseline") -> Tenant:
        """Return another tenant without objects, once the gate knows its levels."""
        made = tenant()
        await record_levels(self.admin, {made.uid: levels})
        await self.wait_known(made)
        return made

    async def wait_known(self, of: Tenant) -> None:
        """Wait until the gate knows the levels of a tenant, which it watches."""
        body = space(of, "restricted")
        body["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "restricted"
        await eventually(lambda: self.thief.create(NAMESPACES, body, dry_run=True))


async def token(admin: Client, account: str = "vc-syncer") -> str:
    """Return a real token of an account of the chart."""
    return await request_account_token(admin, NAMESPACE, account)


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
