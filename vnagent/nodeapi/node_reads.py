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

from vnagent.authz.client_identity import Caller
from vnagent.authz.metrics import Mode
from vnagent.authz.pod_authorizer import Gate, OwnedPod
from vnagent.authz.pod_list_parser import PodListError
from vnagent.authz.thread_offload import beside
from vnagent.limits.concurrency import counted
from vnagent.nodeapi import pod_lists, resource_metrics, stats_summary
from vnagent.nodeapi.cpu_counters import Totals
from vnagent.nodeapi.singleflight import Answers, Question
from vnagent.protocol import routes
from vnagent.protocol.errors import Reason, RefusedError
from vnagent.protocol.http_heads import ResponseProblemError
from vnagent.protocol.routes import Route, Verb
from vnagent.upstream.node_upstream import Upstream, not_offered

FILTERED = 2
"""Limit of answers that are filtered at the same time."""
READS_PER_TENANT = 4
MAX_FIGURES_BYTES = 16 * 1024 * 1024
"""Limit in bytes, about 5 KB for each container of a node."""
MAX_LIST_BYTES = 32 * 1024 * 1024
"""Limit in bytes. It is below the authorizer's, because no tenant needs a list as much as the
authorizer.
"""

_JSON = b"application/json"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Document:
    """An answer for a tenant."""

    content_type: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class _Row:
    path: str
    content_type: bytes
    limit: int


_ROWS = {
    Verb.STATS: _Row("/stats/summary", _JSON, MAX_FIGURES_BYTES),
    Verb.METRICS: _Row("/metrics/resource", resource_metrics.CONTENT_TYPE, MAX_FIGURES_BYTES),
    Verb.PODS: _Row("/pods", _JSON, MAX_LIST_BYTES),
    Verb.RUNNING_PODS: _Row("/runningpods/", _JSON, MAX_FIGURES_BYTES),
}

_FROM_LIST = {
    Verb.PODS: pod_lists.bound,
    Verb.RUNNING_PODS: pod_lists.bound_and_running,
}
"""Reads that work without the kubelet. Metrics do not, because they need `nodes/proxy`."""


class Reads:
    """Server of reads with limited concurrency."""

    def __init__(
        self, gate: Gate, upstream: Upstream, *, per_tenant: int = READS_PER_TENANT
    ) -> None:
        self._gate = gate
        self._upstream = upstream
        self._answers = Answers(upstream.kubelet)
        self._per_tenant = per_tenant
        self._open: Counter[str] = Counter()
        self._filtering = asyncio.Semaphore(FILTERED)
        self._totals = Totals()

    @contextmanager
    def one(self, vc_uid: str) -> Iterator[None]:
        """Reserve a tenant's place from request to answer. Raises RefusedError without a free
        place.
        """
        if self._open[vc_uid] >= self._per_tenant:
            raise RefusedError(
                429,
                Reason.READS_FULL,
                f"this cluster has {self._per_tenant} reads of the node open, which is the limit;"
                " try again",
            )
        with counted(self._open, vc_uid):
            yield

    async def answer(self, caller: Caller, route: Route) -> Document:
        """Return the answer of a read for a caller, or raise RefusedError."""
        if self._upstream.mode is Mode.KUBELET:
            try:
                return await self._ask(caller, route)
            except RefusedError:
                if self._upstream.mode is Mode.KUBELET:
                    raise
        return await self._tell(caller, route)

    async def _tell(self, caller: Caller, route: Route) -> Document:
        """Answer from the authorizer's own list, so that reads cost the API server nothing."""
        answer = _FROM_LIST.get(route.verb)
        if answer is None:
            raise not_offered(route)
        await self._gate.owned(caller)
        async with self._filtering:
            # The authorizer's list is still the kubelet's, or it is being renewed.
            if not self._upstream.listed:
                await self._gate.renew()
            document = self._upstream.listed
            try:
                body = await beside(len(document), answer, document, caller.vc_uid)
            except PodListError as problem:
                raise RefusedError(
                    502, Reason.API_ODD, "the node's pods cannot be listed just now"
                ) from problem
        return Document(_JSON, body)

    async def _ask(self, caller: Caller, route: Route) -> Document:
        row = _ROWS[route.verb]
        # The list of pods records the owners. The other answers do not.
        pods = {} if route.verb is Verb.PODS else await self._gate.owned(caller)
        question = Question(routes.with_query(row.path, route), row.content_type, row.limit)
        async with self._answers.of(question) as document, self._filtering:
            body = await self._filter(route.verb, document, caller.vc_uid, pods)
        return Document(row.content_type, body)

    async def _filter(
        self, verb: Verb, document: bytes, vc_uid: str, pods: Mapping[str, OwnedPod]
    ) -> bytes:
        total = partial(self._totals.add, vc_uid, pods.keys())
        size = len(document)
        try:
            match verb:
                case Verb.STATS:
                    return await beside(size, stats_summary.reduce, document, pods, total)
                case Verb.METRICS:
                    own = pods.values()
                    return await beside(size, resource_metrics.reduce, document, own, total)
                case Verb.RUNNING_PODS:
                    return await beside(size, pod_lists.running, document, pods)
                case _:
                    return await beside(size, pod_lists.bound, document, vc_uid)
        except (PodListError, ResponseProblemError) as problem:
            _log.warning("kubelet's answer is odd", verb=verb.value, error=str(problem))
            raise RefusedError(
                502, Reason.KUBELET_ODD, "the node's kubelet gave no usable answer"
            ) from problem
