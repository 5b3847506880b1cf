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
from tenancy.super_clusters import Ranges
from vcmanager.targets import node_inventory, required_permissions
from vcmanager.targets.required_permissions import Right

DEADLINE_SECONDS = 5.0
"""Deadline of one request."""
RESOLVE_SECONDS = 3.0
SYSTEM_NAMESPACE = "kube-system"
NOBODYS_NAMESPACE = "virtual-cluster-no-such-namespace"
"""Name of a namespace that does not exist. Rights in it are rights in every namespace."""
PAGE, MOST_PAGES = 500, 40
PAGE_SECONDS = 15.0
"""Deadline of one page of nodes, which may have megabytes."""
LONGEST_IDENTITY = 64
_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Result of a probe. Fields that the cluster forbids to read are empty."""

    version: str
    identity: str
    lacking: tuple[Right, ...]
    nodes: int
    capacity: dict[str, str]
    ranges: Ranges


async def local_problem(server: str) -> str:
    """Return why a server's name is a local address. Empty if it is not, or is unknown."""
    url = urlsplit(server)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await loop.getaddrinfo(url.hostname, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return ""  # the request itself reports it better
    for *_, address in found:
        problem = addresses.local_problem(ipaddress.ip_address(address[0]))
        if problem:
            return f"leads to {address[0]}, which {problem}"
    return ""


async def alive(client: Client) -> str:
    """Return the version of a cluster that accepts the credential. Raises KubeError."""
    return await client.version()


async def identity(client: Client) -> str:
    """Return the UID of the cluster's kube-system. Empty if it may not be read."""
    try:
        found = await client.get(NAMESPACES, SYSTEM_NAMESPACE, metadata_only=True)
    except (errors.Forbidden, errors.NotFound):
        return ""
    return str((found.get("metadata") or {}).get("uid") or "")[:LONGEST_IDENTITY]


async def sight(client: Client, *, version: str, identity: str) -> Sight:
    """Probe rights, nodes and ranges. Raises KubeError if the cluster stops answering."""
    found = await lacking(client, required_permissions.needed())
    counted = await _census(client)
    services = await _service_ranges(client)
    return Sight(
        version=version,
        identity=identity,
        lacking=tuple(found),
        nodes=counted.nodes,
        capacity=counted.capacity(),
        ranges=Ranges(pods=counted.ranges(), services=services),
    )


async def home_sight(client: Client) -> Sight:
    """Probe the home cluster, without rights, because the chart grants them."""
    counted = await _census(client)
    try:
        services = node_inventory.service_ranges([await client.get(SERVICE_CIDRS, "kubernetes")])
    except (errors.NotFound, errors.Forbidden):
        services = ()
    return Sight(
        version=await client.version(),
        identity=await identity(client),
        lacking=(),
        nodes=counted.nodes,
        capacity=counted.capacity(),
        ranges=Ranges(pods=counted.ranges(), services=services),
    )


async def lacking(client: Client, wanted: Iterable[Right]) -> list[Right]:
    """Return the rights that a credential lacks in some namespace. Raises KubeError."""
    review = await client.create(
        SELF_SUBJECT_RULES_REVIEWS, {"spec": {"namespace": NOBODYS_NAMESPACE}}
    )
    rules = (review.get("status") or {}).get("resourceRules") or ()
    doubtful = required_permissions.missing(wanted, rules)
    gate = asyncio.Semaphore(_AT_ONCE)
    answers = await asyncio.gather(*(_may(client, right, gate) for right in doubtful))
    return [right for right, may in zip(doubtful, answers, strict=True) if not may]


async def _may(client: Client, right: Right, gate: asyncio.Semaphore) -> bool:
    """Check one right, because not every authorizer lists what it allows."""
    async with gate:
        review = await client.create(SELF_SUBJECT_ACCESS_REVIEWS, right.review())
    return (review.get("status") or {}).get("allowed") is True


async def _census(client: Client) -> node_inventory.Census:
    counted = node_inventory.Census()
    try:
        async for page in _pages(client):
            counted.add(page)
    except errors.Forbidden:
        return node_inventory.Census()
    return counted


async def _pages(client: Client) -> AsyncIterator[Sequence[Object]]:
    token = ""
    for _ in range(MOST_PAGES):
        page: dict[str, Any] = await client.list(
            NODES, limit=PAGE, continue_token=token, deadline=PAGE_SECONDS
        )
        yield page.get("items") or ()
        token = str((page.get("metadata") or {}).get("continue") or "")
        if not token:
            return


async def _service_ranges(client: Client) -> tuple[str, ...]:
    try:
        found = await client.list(SERVICE_CIDRS, limit=PAGE)
    except (errors.Forbidden, errors.NotFound):
        return ()  # the kind is missing before Kubernetes 1.33
    return node_inventory.service_ranges(found.get("items") or ())
