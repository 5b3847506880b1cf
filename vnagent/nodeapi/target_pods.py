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

from vnagent.authz.client_identity import Caller
from vnagent.authz.pod_authorizer import OwnedPod, decide, read_pods
from vnagent.authz.pod_list_parser import PodListError
from vnagent.authz.thread_offload import beside
from vnagent.client.https_client import Origin
from vnagent.client.upstream_server import Opened, Words
from vnagent.nodeapi.node_reads import Document
from vnagent.protocol import subresources
from vnagent.protocol.errors import Reason, RefusedError
from vnagent.protocol.routes import Route
from vnagent.upstream.apiserver import Subresources
from vnagent.upstream.node_upstream import Headers, api_target
from vnagent.upstream.target_kubelets import Kubelets

MAX_POD_BYTES = 8 * 1024 * 1024
"""Limit in bytes of the answer about one pod. It has room for some objects of an API server's
maximum size.
"""

QUESTIONS_AT_ONCE = 8
"""Limit of answers in memory at a time, of all tenants together, because they share the memory."""

WORDS = Words(
    name="the API server of the cluster behind this node",
    down=Reason.API_DOWN,
    untrusted=Reason.API_UNTRUSTED,
    denies=Reason.API_DENIES,
    odd=Reason.API_ODD,
    large=Reason.API_LARGE,
)


class Target:
    """Authorizer of pods in a target, which opens streams to them as well."""

    def __init__(self, origin: Origin, registration: str, kubelets: Kubelets | None = None) -> None:
        """Store the settings. `registration` is the UID of the SuperCluster, which marks its
        objects.

        Without `kubelets` the API server opens streams. With them only the kubelets do.
        """
        self._origin = origin
        self._server = Subresources(origin, WORDS)
        self._registration = registration
        self._kubelets = kubelets
        self._questions = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    async def admit(self, caller: Caller, route: Route) -> OwnedPod:
        """Return the pod of a route, as it is now, or raise RefusedError."""
        if not subresources.offers(route.verb):  # a kubelet would offer more calls
            raise _not_offered(route)
        self._server.pace(caller.vc_uid)
        if not self._origin.has_credential:
            raise RefusedError(
                502,
                Reason.API_DENIES,
                f"the node agent has no credential for {WORDS.name}; whoever runs that cluster is"
                " told why by `kubectl vc target doctor`",
            )
        question = subresources.pod_of(self._registration, caller.vc_uid, route)
        async with self._questions:
            document = await self._server.fetch(question, limit=MAX_POD_BYTES)
            try:
                table = await beside(len(document), read_pods, document, self._registration)
            except PodListError as error:
                raise RefusedError(
                    502, Reason.API_ODD, f"{WORDS.name} gave no usable answer"
                ) from error
        return decide(table, caller, route)

    async def open(self, route: Route, pod: OwnedPod, headers: Headers) -> Opened:
        """Send a stream request for an admitted pod. Raises RefusedError."""
        if self._kubelets is not None:
            return await self._kubelets.open(route, pod, headers)
        target = api_target(route, pod)
        self._server.pace(pod.vc_uid)
        return await self._server.open(route.method, target, headers)

    @contextmanager
    def one(self, vc_uid: str) -> Iterator[None]:  # noqa: ARG002 - of a read, and there are none
        """Reserve no place, because reads of a node are refused at once."""
        yield

    async def answer(self, caller: Caller, route: Route) -> Document:  # noqa: ARG002 - refused
        """Refuse metrics and lists, which do not exist for a whole cluster. Raises RefusedError."""
        raise _not_offered(route)


def _not_offered(route: Route) -> RefusedError:
    return RefusedError(
        501,
        Reason.NOT_OFFERED,
        f"{route.verb.value} is not to be had of this node, which stands for a whole cluster",
    )
