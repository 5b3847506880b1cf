"""MachineDeployments of a cluster, in the version of Cluster API that it serves.

Owns the reads. Must not know what is wrong with a MachineDeployment. Hazard: an object that may not
be read must never count as absent.
"""

import json
from collections.abc import Mapping
from typing import Any

from kubectl_vc.target.check_results import CheckResult
from kubectl_vc.target.node_groups import CHECK, NodeGroups
from kubeio import errors
from kubeio.api.client import Client
from tenancy.resources import DEPLOYMENTS, Resource

_GROUP = "cluster.x-k8s.io"
_REFUSED_TEXT = (
    "MachineDeployments may not be read with this kubeconfig, so node groups were not checked. Ask"
    f" for the right to list machinedeployments.{_GROUP}."
)
_ABSENT_TEXT = (
    "this cluster serves no MachineDeployments, so node groups were not checked. Use a kubeconfig"
    " of Cluster API's management cluster."
)


async def fetch_node_groups(client: Client) -> NodeGroups | None:
    """Return the node groups of a cluster, or None without Cluster API. Raises Forbidden."""
    resource = await _fetch_resource(client)
    if resource is None:
        return None
    try:
        found = await client.list(resource)
    except errors.NotFound:  # a part of Cluster API, without this kind
        return None
    return NodeGroups(tuple(found.get("items") or ()), await _fetch_images(client))


def describe_refused(target: str) -> CheckResult:
    """Return the note about MachineDeployments that may not be read."""
    return CheckResult(target, CHECK, "note", _REFUSED_TEXT)


def describe_absent(target: str) -> CheckResult:
    """Return the note about a cluster without MachineDeployments."""
    return CheckResult(target, CHECK, "note", _ABSENT_TEXT)


async def _fetch_resource(client: Client) -> Resource | None:
    try:
        group = json.loads(await client.raw("GET", f"/apis/{_GROUP}"))
    except errors.NotFound:
        return None
    version = str(group["preferredVersion"]["version"])
    return Resource(_GROUP, version, "machinedeployments", "MachineDeployment")


async def _fetch_images(client: Client) -> tuple[str, ...]:
    """Return the images of all Deployments, sorted. Empty if they may not be read."""
    try:
        found = await client.list(DEPLOYMENTS)
    except errors.Forbidden:
        return ()
    return tuple(sorted({image for item in found.get("items") or () for image in _images(item)}))


def _images(deployment: Mapping[str, Any]) -> list[str]:
    containers = deployment["spec"]["template"]["spec"].get("containers") or ()
    return [str(container.get("image") or "") for container in containers]
