"""Super cluster of a large installation without nodes: tenants, copies of pods, and Events.

Owns the objects that `bench.pages` and `bench.verbs` read. Must not know how they are read. The
objects have the labels and annotations that the syncer writes. One tenant has a kubeconfig. Its own
objects are in the same API server.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kubectl_vc.ui.object_kinds import KINDS
from kubeio import Object
from kubeio.api.client import Client
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    EVENTS,
    INGRESSES,
    NAMESPACES,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.support.controlplane import LocalControlPlane
from tests.support.declared_tenants import install_crds
from tests.support.eventually import eventually

PLACE = "tenants"
"""Namespace of the VirtualClusters."""
SPACE = "shop"
"""The tenants' namespace with all pods."""
EVENTS_PER_NAMESPACE = 200
OBJECTS_PER_KIND = 30
"""Objects of each other kind in the shown namespace, and their copies. More than a page shows."""
_CERTIFICATES = 20
_CONDITIONS = ("Ready", "Synced", "PolicyReady", "NetworkPoliciesEnforced")
_WRITERS = 16
_SELECTOR = {"matchLabels": {"app": "a"}}
_CONTENTS: Mapping[Resource, Object] = {
    SERVICES: {"spec": {"clusterIP": "None", "selector": {"app": "a"}}},
    PERSISTENT_VOLUME_CLAIMS: {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
    },
    CONFIG_MAPS: {"data": {"key": "value" * 100}},
    SECRETS: {"stringData": {"key": "value" * 100}},
    INGRESSES: {"spec": {"defaultBackend": {"service": {"name": "o-000", "port": {"number": 80}}}}},
    NETWORK_POLICIES: {"spec": {"podSelector": _SELECTOR}},
    POD_DISRUPTION_BUDGETS: {"spec": {"minAvailable": 1, "selector": _SELECTOR}},
    ENDPOINT_SLICES: {"addressType": "IPv4", "endpoints": [], "ports": []},
}
"""The fields of objects besides pods, by kind."""


async def furnish(plane: LocalControlPlane, tenants: int, pods: int) -> Tenant:
    """Create everything, and return the tenant that has a kubeconfig."""
    async with Client(plane.endpoint) as client:
        await install_crds(client)
        await eventually(lambda: client.list(VIRTUAL_CLUSTERS))
        await _create_all(client, NAMESPACES, [_namespace(PLACE), _namespace(SPACE)])
        found = await _create_tenants(client, tenants)
        first, share = found[0], pods // tenants
        originals = await _create_all(
            client, PODS, (_pod(f"p-{n:05d}", SPACE) for n in range(share))
        )
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in originals}
        copies = (_copy(tenant, name, uid) for tenant in found for name, uid in uids.items())
        await _create_all(client, PODS, copies)
        await _create_other_kinds(client, first)
        for namespace in (SPACE, super_space(first)):
            await _run_pods(client, namespace, uids)
        for namespace in (SPACE, super_space(first), first.root):
            events = (_event(n, namespace, originals) for n in range(EVENTS_PER_NAMESPACE))
            await _create_all(client, EVENTS, events)
        await client.create(SECRETS, _secret(first, plane.kubeconfig()))
        return first


def super_space(tenant: Tenant) -> str:
    """Return the super namespace of a tenant's pods."""
    return names.build_super_namespace(tenant.root, tenant.uid, SPACE)


async def _create_tenants(client: Client, count: int) -> list[Tenant]:
    """Create VirtualClusters with a status, their namespaces and their tables of certificates."""
    wanted = (_virtual_cluster(f"tenant-{each:03d}") for each in range(count))
    found = [_identify(each) for each in await _create_all(client, VIRTUAL_CLUSTERS, wanted)]
    await _patch_all(client, VIRTUAL_CLUSTERS, PLACE, {each.name: _status(each) for each in found})
    roots = (_namespace(each.root, labels=ownership.build_owner_labels(each, "")) for each in found)
    await _create_all(client, NAMESPACES, roots)
    await _create_all(client, CONFIG_MAPS, map(_certificates, found))
    spaces = (
        _namespace(
            super_space(each),
            labels=ownership.build_owner_labels(each, SPACE),
            annotations=ownership.build_owner_annotations(each, SPACE, "u"),
        )
        for each in found
    )
    await _create_all(client, NAMESPACES, spaces)
    return found


async def _create_other_kinds(client: Client, tenant: Tenant) -> None:
    """Create objects of all other kinds of the pages, with their copies."""
    numbers = range(OBJECTS_PER_KIND)
    for kind in KINDS.values():
        if kind.resource is not PODS:
            bodies = [_other(kind.resource, f"o-{n:03d}", SPACE) for n in numbers]
            found = await _create_all(client, kind.resource, bodies)
            copies = (_other_copy(tenant, kind.resource, each) for each in found)
            await _create_all(client, kind.resource, copies)


async def _create_all(client: Client, resource: Resource, bodies: Iterable[Object]) -> list[Object]:
    """Create objects, some at a time. Returns them in the order of the bodies."""
    left, found = enumerate(bodies), dict[int, Object]()

    async def write() -> None:
        for number, body in left:
            found[number] = await client.create(resource, body)

    await asyncio.gather(*(write() for _ in range(_WRITERS)))
    return [found[number] for number in sorted(found)]


async def _patch_all(
    client: Client, resource: Resource, namespace: str, statuses: dict[str, Object]
) -> None:
    """Write the statuses of objects by their names, some at a time."""
    left: Iterator[tuple[str, Object]] = iter(statuses.items())

    async def write() -> None:
        for name, status in left:
            body = {"status": status}
            await client.patch(resource, name, body, namespace=namespace, subresource="status")

    await asyncio.gather(*(write() for _ in range(_WRITERS)))


async def _run_pods(client: Client, namespace: str, pods: Iterable[str]) -> None:
    """Write the status of running pods."""
    now = _format(datetime.now(UTC))
    kinds = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    state = {"running": {"startedAt": now}}
    status: Object = {
        "phase": "Running",
        "startTime": now,
        "conditions": [
            {"type": each, "status": "True", "lastTransitionTime": now} for each in kinds
        ],
        "containerStatuses": [
            {
                "name": "a",
                "ready": True,
                "restartCount": 0,
                "image": "a",
                "imageID": "a",
                "state": state,
            }
        ],
    }
    await _patch_all(client, PODS, namespace, dict.fromkeys(pods, status))


def _namespace(name: str, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def _pod(name: str, namespace: str, **metadata: Any) -> Object:
    """Return a pod on a node."""
    spec = {"nodeName": "node-1", "containers": [{"name": "a", "image": "a"}]}
    head = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": spec}


def _copy(tenant: Tenant, name: str, uid: str) -> Object:
    """Return the copy of a tenant's pod as the syncer writes it."""
    return _pod(
        name,
        super_space(tenant),
        labels=ownership.build_owner_labels(tenant, SPACE),
        annotations=ownership.build_owner_annotations(tenant, SPACE, uid),
    )


def _other(resource: Resource, name: str, namespace: str, **metadata: Any) -> Object:
    """Return a small object of a kind that the pages show."""
    head = {"name": name, "namespace": namespace, **metadata}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": head}
    return {**body, **_CONTENTS[resource]}


def _other_copy(tenant: Tenant, resource: Resource, original: Object) -> Object:
    """Return the copy of an object as the syncer writes it."""
    metadata = original["metadata"]
    return _other(
        resource,
        metadata["name"],
        super_space(tenant),
        labels=ownership.build_owner_labels(tenant, SPACE),
        annotations=ownership.build_owner_annotations(tenant, SPACE, metadata["uid"]),
    )


def _event(number: int, namespace: str, pods: list[Object]) -> Object:
    """Return an Event about one of the pods."""
    metadata = pods[number % len(pods)]["metadata"]
    now = _format(datetime.now(UTC))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"event-{number:05d}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": namespace,
            "uid": metadata["uid"],
        },
        "type": "Normal",
        "reason": "Pulled",
        "message": "Container image is already present on machine",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "source": {"component": "kubelet"},
    }


def _virtual_cluster(name: str) -> Object:
    return {
        "apiVersion": VIRTUAL_CLUSTERS.api_version,
        "kind": "VirtualCluster",
        "metadata": {"name": name, "namespace": PLACE},
        "spec": {"clusterVersionName": "v1.36"},
    }


def _identify(body: Object) -> Tenant:
    """Return the identity of a created VirtualCluster."""
    name, uid = body["metadata"]["name"], body["metadata"]["uid"]
    root = names.build_root_namespace(PLACE, name, uid)
    return Tenant(name=name, namespace=PLACE, uid=uid, root=root)


def _status(tenant: Tenant) -> Object:
    """Return the status of a tenant that runs."""
    now = _format(datetime.now(UTC))
    return {
        "phase": "Running",
        "clusterNamespace": tenant.root,
        "endpoint": "https://192.0.2.1:30443",
        "serviceCidr": "10.96.0.0/16",
        "version": "v1.36.0",
        "conditions": [
            {
                "type": each,
                "status": "True",
                "reason": "AsExpected",
                "message": "All parts work.",
                "lastTransitionTime": now,
            }
            for each in _CONDITIONS
        ],
    }


def _certificates(tenant: Tenant) -> Object:
    """Return the table of certificates of a tenant."""
    now = datetime.now(UTC)
    rows = [
        {
            "name": f"certificate-{each}",
            "kind": "certificate",
            "issued": now.isoformat(),
            "expires": (now + timedelta(days=90)).isoformat(),
            "renewal": (now + timedelta(days=60)).isoformat(),
        }
        for each in range(_CERTIFICATES)
    ]
    metadata = {"name": wellknown.CERTIFICATES, "namespace": tenant.root}
    data = {wellknown.CERTIFICATES_KEY: json.dumps(rows)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _secret(tenant: Tenant, kubeconfig: bytes) -> Object:
    """Return the Secret with the kubeconfig of a tenant."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "admin-kubeconfig", "namespace": tenant.root},
        "stringData": {"admin-kubeconfig": kubeconfig.decode()},
    }


def _format(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
