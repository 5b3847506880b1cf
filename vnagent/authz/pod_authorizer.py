"""Authorization of a caller for a pod, by the owner that is recorded on the pod.

The module owns the table of the tenants' pods on this node. The table comes from the kubelet's own
list, or from the super API server's (`vnagent.upstream.node_upstream`). The module must not know
HTTP. Hazard: names prove nothing, so a pod must be found by the recorded UID of the VirtualCluster,
tenant namespace and name. Otherwise a caller could reach another tenant's pod. Records can be
copied, so the pod must also be in the super namespace of the caller. Otherwise a copy elsewhere
would make the pod unavailable. A pod whose record is incomplete or exists twice belongs to no
tenant.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenancy import wellknown
from tenancy.names import build_super_namespace
from tenancy.ownership import read_owner
from vnagent.authz import pod_list_parser
from vnagent.authz.client_identity import ClientIdentity
from vnagent.authz.pod_list_parser import PodListError
from vnagent.authz.thread_offload import run_in_thread_if_large
from vnagent.limits.rate_limiter import RateLimiter
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.protocol.routes import Route, RouteVerb

MAX_LIST_AGE_SECONDS = 5.0
"""Maximum age in seconds of the list that a decision uses."""
MIN_LIST_INTERVAL_SECONDS = 0.5
"""Interval in seconds between two lists. It limits callers that request pods that do not exist."""

PodKey = tuple[str, str, str]
"""UID of the VirtualCluster, tenant namespace, name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPod:
    """A tenant's pod on this node."""

    vc_uid: str
    tenant_namespace: str
    tenant_uid: str
    name: str
    super_namespace: str
    super_uid: str
    containers: frozenset[str]
    """Containers that the tenant wrote. The tenant must not see containers that the super cluster
    added.
    """
    is_on_host_network: bool
    host: str = ""
    """Address of the pod's node from the pod's status. It is empty until there is one."""

    @property
    def key(self) -> PodKey:
        """Key of the pod in the table."""
        return (self.vc_uid, self.tenant_namespace, self.name)

    def belongs_to(self, caller: ClientIdentity) -> bool:
        """Return whether the pod records the caller and is in the caller's super namespace.

        The root namespace in the caller's certificate is written by the platform's authority.
        """
        return self.vc_uid == caller.vc_uid and self.super_namespace == build_super_namespace(
            caller.key, caller.vc_uid, self.tenant_namespace
        )

    def is_super_pod(self, super_namespace: object, name: object) -> bool:
        """Return whether a namespace and a name of the kubelet mean this pod."""
        return (super_namespace, name) == (self.super_namespace, self.name)


PodTable = Mapping[PodKey, Sequence[OwnedPod]]


def read_pods(document: bytes, registration: str = "") -> PodTable:
    """Return the tenants' pods of a list. Raises PodListError.

    `registration` is the UID of the SuperCluster that they must be created for, empty in the home
    cluster.
    """
    table: dict[PodKey, list[OwnedPod]] = defaultdict(list)
    for _, pod in iterate_owned(document, registration):
        table[pod.key].append(pod)
    return table


def iterate_owned(
    document: bytes, registration: str = ""
) -> Iterator[tuple[Mapping[str, Any], OwnedPod]]:
    """Yield the pods of a list that a tenant owns, as listed and as OwnedPod.

    Raises PodListError, possibly after some pods.
    """
    for item in pod_list_parser.iterate_items(document):
        try:
            pod = _read_owned_pod(item, registration)
        except (LookupError, TypeError, AttributeError) as error:
            raise PodListError("the kubelet's list contains an object that is not a pod") from error
        if pod is not None:
            yield item, pod


def find_pod(table: PodTable, caller: ClientIdentity, route: Route) -> OwnedPod:
    """Return the one pod that a route means for a caller, or raise RefusedError."""
    recorded = table.get((caller.vc_uid, route.tenant_namespace, route.pod), ())
    found = [pod for pod in recorded if pod.belongs_to(caller)]
    if not found:
        raise RequestRefusedError(
            404, RefusalReason.NOT_FOUND, f"pod {route.pod!r} is not on this node"
        )
    if len(found) > 1:
        raise RequestRefusedError(
            409,
            RefusalReason.AMBIGUOUS,
            f"pod {route.pod!r} is being replaced on this node. Try again",
        )
    (pod,) = found
    if route.tenant_uid and route.tenant_uid != pod.tenant_uid:
        raise RequestRefusedError(
            404, RefusalReason.NOT_FOUND, f"pod {route.pod!r} with this UID is not on this node"
        )
    if route.verb is RouteVerb.PORT_FORWARD:
        if pod.is_on_host_network:
            raise RequestRefusedError(
                403,
                RefusalReason.HOST_NETWORK,
                "ports of a pod on the host's network are not forwarded",
            )
    elif route.container not in pod.containers:
        raise RequestRefusedError(
            403, RefusalReason.CONTAINER, f"pod {route.pod!r} has no container {route.container!r}"
        )
    return pod


async def _wait_for_nothing() -> None:
    """Return at once, so that lists are not paced."""


class PodAuthorizer:
    """Authorizer on a fresh list. It fetches another list before it refuses."""

    def __init__(
        self,
        fetch_pods: Callable[[], Awaitable[bytes]],
        wait_for_turn: Callable[[], Awaitable[None]] = _wait_for_nothing,
    ) -> None:
        """Decide on the list of `fetch_pods`. `wait_for_turn` is awaited before each list."""
        self._fetch_pods = fetch_pods
        self._wait_for_turn = wait_for_turn
        self._spacing = RateLimiter(1, MIN_LIST_INTERVAL_SECONDS)
        self._table: PodTable = {}
        self._asked_at = float("-inf")
        """Time at which the table's list was requested."""
        self._attempts = 0
        self._failure: RequestRefusedError | None = None
        self._lock = asyncio.Lock()

    async def authorize(self, caller: ClientIdentity, route: Route) -> OwnedPod:
        """Return the pod of a route, or raise RefusedError."""
        now = asyncio.get_running_loop().time()
        await self._refresh_if_older(not_before=now - MAX_LIST_AGE_SECONDS)
        try:
            return find_pod(self._table, caller, route)
        except RequestRefusedError:
            if self._asked_at >= now:
                raise
        await self._refresh_if_older(not_before=now)
        return find_pod(self._table, caller, route)

    async def list_owned(self, caller: ClientIdentity) -> Mapping[str, OwnedPod]:
        """Return a caller's pods by super UID. Raises RefusedError.

        Pods that are recorded twice are left out.
        """
        now = asyncio.get_running_loop().time()
        await self._refresh_if_older(not_before=now - MAX_LIST_AGE_SECONDS)
        own = [
            [pod for pod in pods if pod.belongs_to(caller)]
            for (vc_uid, _, _), pods in self._table.items()
            if vc_uid == caller.vc_uid
        ]
        return {pods[0].super_uid: pods[0] for pods in own if len(pods) == 1}

    async def refresh_now(self) -> None:
        """Fetch a list that is requested from now on. Raises RefusedError."""
        await self._refresh_if_older(not_before=asyncio.get_running_loop().time())

    async def _refresh_if_older(self, *, not_before: float) -> None:
        """Fetch a list unless the present one was requested at `not_before` or later.

        Concurrent callers share one list.
        """
        if self._asked_at >= not_before:
            return
        seen = self._attempts
        async with self._lock:
            if self._asked_at >= not_before:
                return
            # Callers that wait behind a failed kubelet share its failure. Otherwise each would wait
            # for its own, for hours in all.
            if self._attempts > seen and self._failure is not None:
                raise self._failure
            # otherwise a waiting caller would get the old failure when this caller is cancelled
            self._failure = None
            try:
                await self._fetch_table()
            finally:
                self._attempts += 1

    async def _fetch_table(self) -> None:
        await self._spacing.wait()
        await self._wait_for_turn()
        asked_at = self._spacing.take()
        try:
            document = await self._fetch_pods()
            self._table = await run_in_thread_if_large(len(document), read_pods, document)
        except RequestRefusedError as error:
            self._failure = error
            raise
        except PodListError as error:
            self._failure = RequestRefusedError(
                502, RefusalReason.KUBELET_ODD, "the node did not list its pods"
            )
            raise self._failure from error
        self._asked_at, self._failure = asked_at, None


def _read_owned_pod(item: Mapping[str, Any], registration: str) -> OwnedPod | None:
    metadata, spec = item["metadata"], item["spec"]
    owner = read_owner(metadata, registration)
    if owner is None or not owner.namespace:
        return None
    containers = metadata["annotations"].get(wellknown.CONTAINERS, "")
    return OwnedPod(
        vc_uid=owner.vc_uid,
        tenant_namespace=owner.namespace,
        tenant_uid=owner.uid,
        name=metadata["name"],
        super_namespace=metadata["namespace"],
        super_uid=metadata["uid"],
        containers=frozenset(filter(None, containers.split(","))),
        is_on_host_network=bool(spec.get("hostNetwork")),
        host=_read_host_address(item) if spec.get("nodeName") else "",
    )


def _read_host_address(item: Mapping[str, Any]) -> str:
    status = item.get("status")
    found = status.get("hostIP") if isinstance(status, Mapping) else ""
    return found if isinstance(found, str) else ""  # a number would be parsed as an address, too
