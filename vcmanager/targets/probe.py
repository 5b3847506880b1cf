"""Probe of a cluster: reachability, identity, permissions and inventory.

Owns the requests. Must not judge: `vcmanager.targets.super_cluster_conditions` does. Hazard: the
probed cluster may be hostile and arbitrarily slow. Every request has the client's short deadline,
lists are read in pages, and the number of pages is limited.
"""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import addresses
from tenancy.resources import (
    NAMESPACES,
    NODES,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    SERVICE_CIDRS,
)
from tenancy.super_clusters import ClusterRanges
from vcmanager.targets import node_inventory, required_permissions
from vcmanager.targets.required_permissions import RequiredPermission

DEADLINE_SECONDS = 5.0
"""Deadline of one request."""
RESOLVE_SECONDS = 3.0
SYSTEM_NAMESPACE = "kube-system"
ABSENT_NAMESPACE = "virtual-cluster-no-such-namespace"
"""Name of a namespace that does not exist. Rights in it are rights in every namespace."""
PAGE_SIZE, MAX_PAGES = 500, 40
PAGE_SECONDS = 15.0
"""Deadline of one page of nodes, which may have megabytes."""
MAX_IDENTITY_LENGTH = 64
_MAX_CONCURRENT_REVIEWS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """Result of a probe. Fields that the cluster forbids to read are empty."""

    version: str
    identity: str
    missing_permissions: tuple[RequiredPermission, ...]
    nodes: int
    capacity: dict[str, str]
    ranges: ClusterRanges


async def check_server_is_remote(server: str) -> str:
    """Return why a server's name is a local address. Empty if it is not, or is unknown."""
    url = urlsplit(server)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await loop.getaddrinfo(url.hostname, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return ""  # the request itself reports it better
    for *_, address in found:
        problem = addresses.check_remote_address(ipaddress.ip_address(address[0]))
        if problem:
            return f"resolves to {address[0]}, which {problem}"
    return ""


async def fetch_version(client: Client) -> str:
    """Return the version of a cluster that accepts the credential. Raises KubeError."""
    return await client.version()


async def fetch_identity(client: Client) -> str:
    """Return the UID of the cluster's kube-system. Empty if it may not be read."""
    try:
        found = await client.get(NAMESPACES, SYSTEM_NAMESPACE, metadata_only=True)
    except (errors.Forbidden, errors.NotFound):
        return ""
    return str((found.get("metadata") or {}).get("uid") or "")[:MAX_IDENTITY_LENGTH]


async def probe_target(client: Client, *, version: str, identity: str) -> ProbeResult:
    """Probe rights, nodes and ranges. Raises KubeError if the cluster stops answering."""
    found = await list_missing_permissions(client, required_permissions.list_required())
    counted = await _count_nodes(client)
    services = await _fetch_service_ranges(client)
    return ProbeResult(
        version=version,
        identity=identity,
        missing_permissions=tuple(found),
        nodes=counted.nodes,
        capacity=counted.format_capacity(),
        ranges=ClusterRanges(pods=counted.collapse_pod_ranges(), services=services),
    )


async def probe_home(client: Client) -> ProbeResult:
    """Probe the home cluster, without rights, because the chart grants them."""
    counted = await _count_nodes(client)
    try:
        services = node_inventory.list_service_ranges(
            [await client.get(SERVICE_CIDRS, "kubernetes")]
        )
    except (errors.NotFound, errors.Forbidden):
        services = ()
    return ProbeResult(
        version=await client.version(),
        identity=await fetch_identity(client),
        missing_permissions=(),
        nodes=counted.nodes,
        capacity=counted.format_capacity(),
        ranges=ClusterRanges(pods=counted.collapse_pod_ranges(), services=services),
    )


async def list_missing_permissions(
    client: Client, wanted: Iterable[RequiredPermission]
) -> list[RequiredPermission]:
    """Return the rights that a credential lacks in some namespace. Raises KubeError."""
    review = await client.create(
        SELF_SUBJECT_RULES_REVIEWS, {"spec": {"namespace": ABSENT_NAMESPACE}}
    )
    rules = (review.get("status") or {}).get("resourceRules") or ()
    doubtful = required_permissions.list_missing(wanted, rules)
    gate = asyncio.Semaphore(_MAX_CONCURRENT_REVIEWS)
    answers = await asyncio.gather(*(_is_allowed(client, right, gate) for right in doubtful))
    return [right for right, may in zip(doubtful, answers, strict=True) if not may]


async def _is_allowed(client: Client, right: RequiredPermission, gate: asyncio.Semaphore) -> bool:
    """Check one right, because not every authorizer lists what it allows."""
    async with gate:
        review = await client.create(SELF_SUBJECT_ACCESS_REVIEWS, right.build_review())
    return (review.get("status") or {}).get("allowed") is True


async def _count_nodes(client: Client) -> node_inventory.NodeInventory:
    counted = node_inventory.NodeInventory()
    try:
        async for page in _iterate_node_pages(client):
            counted.add_nodes(page)
    except errors.Forbidden:
        return node_inventory.NodeInventory()
    return counted


async def _iterate_node_pages(client: Client) -> AsyncIterator[Sequence[Object]]:
    token = ""
    for _ in range(MAX_PAGES):
        page: dict[str, Any] = await client.list(
            NODES, limit=PAGE_SIZE, continue_token=token, deadline=PAGE_SECONDS
        )
        yield page.get("items") or ()
        token = str((page.get("metadata") or {}).get("continue") or "")
        if not token:
            return


async def _fetch_service_ranges(client: Client) -> tuple[str, ...]:
    try:
        found = await client.list(SERVICE_CIDRS, limit=PAGE_SIZE)
    except (errors.Forbidden, errors.NotFound):
        return ()  # the kind is missing before Kubernetes 1.33
    return node_inventory.list_service_ranges(found.get("items") or ())
