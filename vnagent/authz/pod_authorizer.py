"""Whether a caller may touch a pod: decided by the owner that is recorded on it.

Owns the table of the tenants' pods on this node, read from the kubelet's own list, or from the
super API server's where that is the way to the node (`vnagent.upstream.node_upstream`). Must not
know HTTP. Hazard: names prove nothing. Super namespaces are never spelled here: a pod is found by
the recorded UID of the VirtualCluster, tenant namespace and name, and whatever is not recorded in
full, or recorded twice, is nobody's.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenancy import wellknown
from tenancy.ownership import owner_of
from vnagent.authz import pod_list_parser
from vnagent.authz.client_identity import Caller
from vnagent.authz.pod_list_parser import PodListError
from vnagent.authz.thread_offload import beside
from vnagent.limits.rate_limiter import Turns
from vnagent.protocol.errors import Reason, RefusedError
from vnagent.protocol.routes import Route, Verb

FRESH_SECONDS = 5.0
"""A decision rests on a list that is not older."""
SPACING_SECONDS = 0.5
"""Between two lists, however many callers ask for pods that are not there."""

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
    """Those that the tenant wrote; what the super cluster added is not the tenant's to see."""
    is_on_host_network: bool
    host: str = ""
    """Address of the node that it is bound to, as its status has it; empty: there is none yet."""

    @property
    def key(self) -> PodKey:
        """Under which a tenant's pod is looked up."""
        return (self.vc_uid, self.tenant_namespace, self.name)

    def is_at(self, super_namespace: object, name: object) -> bool:
        """Tell whether the kubelet means this pod by a namespace and a name."""
        return (super_namespace, name) == (self.super_namespace, self.name)


PodTable = Mapping[PodKey, Sequence[OwnedPod]]


def read_pods(document: bytes, registration: str = "") -> PodTable:
    """Return the tenants' pods of a list; raises PodListError.

    `registration` is the UID of the SuperCluster that they must be made for, empty at home.
    """
    table: dict[PodKey, list[OwnedPod]] = defaultdict(list)
    for _, pod in owned_items(document, registration):
        table[pod.key].append(pod)
    return table


def owned_items(
    document: bytes, registration: str = ""
) -> Iterator[tuple[Mapping[str, Any], OwnedPod]]:
    """Yield the pods of a list that some tenant owns, as listed and as we see them.

    Raises PodListError, maybe after some.
    """
    for item in pod_list_parser.items(document):
        try:
            pod = _owned_pod(item, registration)
        except (LookupError, TypeError, AttributeError) as error:
            raise PodListError("the kubelet lists what is no pod") from error
        if pod is not None:
            yield item, pod


def decide(table: PodTable, caller: Caller, route: Route) -> OwnedPod:
    """Return the one pod that a route means to a caller, or raise RefusedError."""
    found = table.get((caller.vc_uid, route.tenant_namespace, route.pod), ())
    if not found:
        raise RefusedError(404, Reason.NOT_FOUND, f"pod {route.pod!r} is not on this node")
    if len(found) > 1:
        raise RefusedError(
            409, Reason.AMBIGUOUS, f"pod {route.pod!r} is being replaced on this node; try again"
        )
    (pod,) = found
    if route.tenant_uid and route.tenant_uid != pod.tenant_uid:
        raise RefusedError(
            404, Reason.NOT_FOUND, f"pod {route.pod!r} with this UID is not on this node"
        )
    if route.verb is Verb.PORT_FORWARD:
        if pod.is_on_host_network:
            raise RefusedError(
                403, Reason.HOST_NETWORK, "ports of a pod on the host's network are not forwarded"
            )
    elif route.container not in pod.containers:
        raise RefusedError(
            403, Reason.CONTAINER, f"pod {route.pod!r} has no container {route.container!r}"
        )
    return pod


async def _at_once() -> None:
    """Let every list be asked for as soon as it is wanted."""


class Gate:
    """Decides on a fresh enough list; asks for another before it says no."""

    def __init__(
        self,
        fetch_pods: Callable[[], Awaitable[bytes]],
        turn: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        """Decide on what `fetch_pods` lists; `turn` is waited for before each list."""
        self._fetch_pods = fetch_pods
        self._turn = turn
        self._spacing = Turns(1, SPACING_SECONDS)
        self._table: PodTable = {}
        self._asked_at = float("-inf")
        """When the table was asked for."""
        self._attempts = 0
        self._failure: RefusedError | None = None
        self._one_at_a_time = asyncio.Lock()

    async def admit(self, caller: Caller, route: Route) -> OwnedPod:
        """Return the pod of a route, or raise RefusedError."""
        now = asyncio.get_running_loop().time()
        await self._refresh(not_before=now - FRESH_SECONDS)
        try:
            return decide(self._table, caller, route)
        except RefusedError:
            if self._asked_at >= now:
                raise
        await self._refresh(not_before=now)
        return decide(self._table, caller, route)

    async def owned(self, caller: Caller) -> Mapping[str, OwnedPod]:
        """Return a caller's pods by super UID, less those recorded twice; raises RefusedError."""
        now = asyncio.get_running_loop().time()
        await self._refresh(not_before=now - FRESH_SECONDS)
        own = [pods for (vc_uid, _, _), pods in self._table.items() if vc_uid == caller.vc_uid]
        return {pods[0].super_uid: pods[0] for pods in own if len(pods) == 1}

    async def renew(self) -> None:
        """Have a list that is asked for from now on; raises RefusedError."""
        await self._refresh(not_before=asyncio.get_running_loop().time())

    async def _refresh(self, *, not_before: float) -> None:
        """Have a list that was asked for at `not_before` or later; concurrent callers share it."""
        if self._asked_at >= not_before:
            return
        seen = self._attempts
        async with self._one_at_a_time:
            if self._asked_at >= not_before:
                return
            # Those who queued behind a kubelet that is down share its failure: one after the
            # other they would wait for hours.
            if self._attempts > seen and self._failure is not None:
                raise self._failure
            self._failure = None  # or one who waits would have it, when this caller goes away
            try:
                await self._fetch()
            finally:
                self._attempts += 1

    async def _fetch(self) -> None:
        await self._spacing.wait()
        await self._turn()
        asked_at = self._spacing.take()
        try:
            document = await self._fetch_pods()
            self._table = await beside(len(document), read_pods, document)
        except RefusedError as error:
            self._failure = error
            raise
        except PodListError as error:
            self._failure = RefusedError(502, Reason.KUBELET_ODD, "the node did not list its pods")
            raise self._failure from error
        self._asked_at, self._failure = asked_at, None


def _owned_pod(item: Mapping[str, Any], registration: str) -> OwnedPod | None:
    metadata, spec = item["metadata"], item["spec"]
    owner = owner_of(metadata, registration)
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
        host=_host(item) if spec.get("nodeName") else "",
    )


def _host(item: Mapping[str, Any]) -> str:
    status = item.get("status")
    found = status.get("hostIP") if isinstance(status, Mapping) else ""
    return found if isinstance(found, str) else ""  # a number would be read as an address, too
