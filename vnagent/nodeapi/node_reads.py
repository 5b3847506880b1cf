"""What a tenant reads of the node: figures and lists of its own pods.

Owns which question each route asks the kubelet, and what makes an answer the tenant's. Who asks is
settled before, by certificate (`vnagent.authz.client_identity`): a tenant's API server through its
node proxy, or a metrics-server with a certificate of the same kind. Must not know channels. Hazard:
nothing of the kubelet's answer is passed on that a filter has not written anew.
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
"""Answers that are filtered at the same time."""
READS_PER_TENANT = 4
MAX_FIGURES_BYTES = 16 * 1024 * 1024
"""Some 5 KB for each of the containers of a node."""
MAX_LIST_BYTES = 32 * 1024 * 1024
"""Less than the gate takes: nobody needs a list as much as the gate."""

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
"""What can be told without the kubelet; the figures cannot, they need `nodes/proxy`."""


class Reads:
    """Answers reads, a few at a time."""

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
        """Hold a tenant's place from question to answer; raises RefusedError when it has none."""
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
        """Return what a read says to a caller, or raise RefusedError."""
        if self._upstream.mode is Mode.KUBELET:
            try:
                return await self._ask(caller, route)
            except RefusedError:
                if self._upstream.mode is Mode.KUBELET:
                    raise
        return await self._tell(caller, route)

    async def _tell(self, caller: Caller, route: Route) -> Document:
        """Answer out of the gate's own list, so that reads cost the API server nothing."""
        answer = _FROM_LIST.get(route.verb)
        if answer is None:
            raise not_offered(route)
        await self._gate.owned(caller)
        async with self._filtering:
            if not self._upstream.listed:  # the gate's is the kubelet's still, or is being renewed
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
        # The list of pods is its own proof; the other answers do not say whose a pod is.
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
