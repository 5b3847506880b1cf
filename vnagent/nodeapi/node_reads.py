"""Node API for tenants: metrics and lists of a tenant's own pods.

The module owns the kubelet request of each route, and the filter that makes an answer the tenant's.
The caller was identified before by certificate (`vnagent.authz.client_identity`). It is a tenant's
API server through its node proxy, or a metrics-server with a certificate of the same kind. The
module must not know channels. Hazard: a filter must rewrite every byte of the kubelet's answer.
Otherwise a tenant could read about other tenants.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import structlog

from vnagent.authz.client_identity import ClientIdentity
from vnagent.authz.metrics import UpstreamMode
from vnagent.authz.pod_authorizer import OwnedPod, PodAuthorizer
from vnagent.authz.pod_list_parser import PodListError
from vnagent.authz.thread_offload import run_in_thread_if_large
from vnagent.limits.concurrency import count_place
from vnagent.nodeapi import pod_lists, resource_metrics, stats_summary
from vnagent.nodeapi.cpu_counters import CpuCounters
from vnagent.nodeapi.singleflight import KubeletQuery, SingleFlight
from vnagent.protocol import routes
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.protocol.http_heads import InvalidResponseError
from vnagent.protocol.routes import Route, RouteVerb
from vnagent.upstream.node_upstream import NodeUpstream, build_not_offered

MAX_CONCURRENT_FILTERS = 2
"""Limit of answers that are filtered at the same time."""
MAX_READS_PER_TENANT = 4
MAX_METRICS_BYTES = 16 * 1024 * 1024
"""Limit in bytes, about 5 KB for each container of a node."""
MAX_LIST_BYTES = 32 * 1024 * 1024
"""Limit in bytes. It is below the authorizer's, because no tenant needs a list as much as the
authorizer.
"""

_JSON = b"application/json"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NodeDocument:
    """An answer for a tenant."""

    content_type: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class _ReadRoute:
    path: str
    content_type: bytes
    limit: int


_READ_ROUTES = {
    RouteVerb.STATS: _ReadRoute("/stats/summary", _JSON, MAX_METRICS_BYTES),
    RouteVerb.METRICS: _ReadRoute(
        "/metrics/resource", resource_metrics.CONTENT_TYPE, MAX_METRICS_BYTES
    ),
    RouteVerb.PODS: _ReadRoute("/pods", _JSON, MAX_LIST_BYTES),
    RouteVerb.RUNNING_PODS: _ReadRoute("/runningpods/", _JSON, MAX_METRICS_BYTES),
}

_LIST_FILTERS = {
    RouteVerb.PODS: pod_lists.filter_pods,
    RouteVerb.RUNNING_PODS: pod_lists.build_running_pods,
}
"""Reads that work without the kubelet. Metrics do not, because they need `nodes/proxy`."""


class NodeReads:
    """Server of reads with limited concurrency."""

    def __init__(
        self, gate: PodAuthorizer, upstream: NodeUpstream, *, per_tenant: int = MAX_READS_PER_TENANT
    ) -> None:
        self._gate = gate
        self._upstream = upstream
        self._answers = SingleFlight(upstream.kubelet)
        self._per_tenant = per_tenant
        self._open: Counter[str] = Counter()
        self._filtering = asyncio.Semaphore(MAX_CONCURRENT_FILTERS)
        self._cpu_counters = CpuCounters()

    @contextmanager
    def hold_read(self, vc_uid: str) -> Iterator[None]:
        """Reserve a tenant's place from request to answer. Raises RefusedError without a free
        place.
        """
        if self._open[vc_uid] >= self._per_tenant:
            raise RequestRefusedError(
                429,
                RefusalReason.READS_FULL,
                f"this cluster has {self._per_tenant} reads of the node open, which is the limit."
                " Try again",
            )
        with count_place(self._open, vc_uid):
            yield

    async def read(self, caller: ClientIdentity, route: Route) -> NodeDocument:
        """Return the answer of a read for a caller, or raise RefusedError."""
        if self._upstream.mode is UpstreamMode.KUBELET:
            try:
                return await self._read_from_kubelet(caller, route)
            except RequestRefusedError:
                if self._upstream.mode is UpstreamMode.KUBELET:
                    raise
        return await self._read_from_list(caller, route)

    async def _read_from_list(self, caller: ClientIdentity, route: Route) -> NodeDocument:
        """Answer from the authorizer's own list, so that reads cost the API server nothing."""
        answer = _LIST_FILTERS.get(route.verb)
        if answer is None:
            raise build_not_offered(route)
        await self._gate.list_owned(caller)
        async with self._filtering:
            # The authorizer's list is still the kubelet's, or it is being renewed.
            if not self._upstream.last_list:
                await self._gate.refresh_now()
            document = self._upstream.last_list
            try:
                body = await run_in_thread_if_large(len(document), answer, document, caller)
            except PodListError as problem:
                raise RequestRefusedError(
                    502, RefusalReason.API_ODD, "the node's pods cannot be listed now"
                ) from problem
        return NodeDocument(_JSON, body)

    async def _read_from_kubelet(self, caller: ClientIdentity, route: Route) -> NodeDocument:
        row = _READ_ROUTES[route.verb]
        # The list of pods records the owners. The other answers do not.
        pods = {} if route.verb is RouteVerb.PODS else await self._gate.list_owned(caller)
        question = KubeletQuery(routes.append_query(row.path, route), row.content_type, row.limit)
        async with self._answers.share_response(question) as document, self._filtering:
            body = await self._filter(route.verb, document, caller, pods)
        return NodeDocument(row.content_type, body)

    async def _filter(
        self,
        verb: RouteVerb,
        document: bytes,
        caller: ClientIdentity,
        pods: Mapping[str, OwnedPod],
    ) -> bytes:
        total = partial(self._cpu_counters.update_total, caller.vc_uid, pods.keys())
        size = len(document)
        try:
            match verb:
                case RouteVerb.STATS:
                    return await run_in_thread_if_large(
                        size, stats_summary.filter_summary, document, pods, total
                    )
                case RouteVerb.METRICS:
                    own = pods.values()
                    return await run_in_thread_if_large(
                        size, resource_metrics.filter_metrics, document, own, total
                    )
                case RouteVerb.RUNNING_PODS:
                    return await run_in_thread_if_large(
                        size, pod_lists.filter_running_pods, document, pods
                    )
                case _:
                    return await run_in_thread_if_large(
                        size, pod_lists.filter_pods, document, caller
                    )
        except (PodListError, InvalidResponseError) as problem:
            _log.warning("the kubelet's answer is malformed", verb=verb.value, error=str(problem))
            raise RequestRefusedError(
                502, RefusalReason.KUBELET_ODD, "the node's kubelet returned no usable answer"
            ) from problem
