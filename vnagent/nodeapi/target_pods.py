"""Authorization and streams for tenants' pods in a target.

The module owns the authorizer of a target. Each call requests only the one pod from the target's
API server, because the list of a whole cluster would be requested again and again. The stream is
opened by that server, or by the kubelet that runs the pod. The module must not know the home
cluster. Hazard: a pod must have a record with the tenant of the certificate and the registration of
this agent. Otherwise the credential, which reaches every pod of the target, could open pods of
other home clusters.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from vnagent.authz.client_identity import ClientIdentity
from vnagent.authz.pod_authorizer import OwnedPod, find_pod, read_pods
from vnagent.authz.pod_list_parser import PodListError
from vnagent.authz.thread_offload import run_in_thread_if_large
from vnagent.client.https_client import HttpsClient
from vnagent.client.upstream_server import OpenedStream, UpstreamLabels
from vnagent.nodeapi.node_reads import NodeDocument
from vnagent.protocol import subresources
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.protocol.routes import Route
from vnagent.upstream.apiserver import SubresourceUpstream
from vnagent.upstream.node_upstream import HeaderList, build_api_target
from vnagent.upstream.target_kubelets import TargetKubelets

MAX_POD_BYTES = 8 * 1024 * 1024
"""Limit in bytes of the answer about one pod. It has room for some objects of an API server's
maximum size.
"""

MAX_CONCURRENT_QUERIES = 8
"""Limit of answers in memory at a time, of all tenants together, because they share the memory."""

TARGET_API_LABELS = UpstreamLabels(
    name="the API server of the cluster behind this node",
    unreachable=RefusalReason.API_DOWN,
    untrusted=RefusalReason.API_UNTRUSTED,
    denied=RefusalReason.API_DENIES,
    invalid=RefusalReason.API_ODD,
    too_large=RefusalReason.API_LARGE,
)


class TargetPods:
    """Authorizer of pods in a target, which opens streams to them as well."""

    def __init__(
        self, origin: HttpsClient, registration: str, kubelets: TargetKubelets | None = None
    ) -> None:
        """Store the settings. `registration` is the UID of the SuperCluster, which marks its
        objects.

        Without `kubelets` the API server opens streams. With them only the kubelets do.
        """
        self._origin = origin
        self._server = SubresourceUpstream(origin, TARGET_API_LABELS)
        self._registration = registration
        self._kubelets = kubelets
        self._query_slots = asyncio.Semaphore(MAX_CONCURRENT_QUERIES)

    async def authorize(self, caller: ClientIdentity, route: Route) -> OwnedPod:
        """Return the pod of a route, as it is now, or raise RefusedError."""
        if not subresources.is_offered(route.verb):  # a kubelet would offer more calls
            raise _build_not_offered(route)
        self._server.check_rate(caller.vc_uid)
        if not self._origin.has_credential:
            raise RequestRefusedError(
                502,
                RefusalReason.API_DENIES,
                f"the node agent has no credential for {TARGET_API_LABELS.name}. The platform"
                " administrator can find the reason with `kubectl vc target doctor`",
            )
        question = subresources.build_pod_list_target(self._registration, caller.vc_uid, route)
        async with self._query_slots:
            document = await self._server.fetch(question, limit=MAX_POD_BYTES)
            try:
                table = await run_in_thread_if_large(
                    len(document), read_pods, document, self._registration
                )
            except PodListError as error:
                raise RequestRefusedError(
                    502,
                    RefusalReason.API_ODD,
                    f"{TARGET_API_LABELS.name} returned no usable answer",
                ) from error
        return find_pod(table, caller, route)

    async def open(self, route: Route, pod: OwnedPod, headers: HeaderList) -> OpenedStream:
        """Send a stream request for an admitted pod. Raises RefusedError."""
        if self._kubelets is not None:
            return await self._kubelets.open(route, pod, headers)
        target = build_api_target(route, pod)
        self._server.check_rate(pod.vc_uid)
        return await self._server.open(route.method, target, headers)

    @contextmanager
    def hold_read(self, vc_uid: str) -> Iterator[None]:  # noqa: ARG002 - of a read, and there are none
        """Reserve no place, because reads of a node are refused at once."""
        yield

    async def read(self, caller: ClientIdentity, route: Route) -> NodeDocument:  # noqa: ARG002 - refused
        """Refuse metrics and lists, which do not exist for a whole cluster. Raises RefusedError."""
        raise _build_not_offered(route)


def _build_not_offered(route: Route) -> RequestRefusedError:
    return RequestRefusedError(
        501,
        RefusalReason.NOT_OFFERED,
        f"{route.verb.value} is not available on this node, which represents a whole cluster",
    )
