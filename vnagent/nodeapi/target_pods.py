"""Another super cluster as the place of the tenants' pods that are seated there.

Owns the gate of a target: each call asks its API server for the one pod that is meant, as a whole
cluster's list would be asked for again and again. What then opens the stream is that server, or the
kubelet that runs the pod. Must not know the home cluster. Hazard: the credential reaches every pod
of that cluster, those of other home clusters among them. So a pod counts by its record alone, and
only when that names the tenant of the certificate and the registration that we serve.
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
"""Of the answer about one pod: some objects as large as an API server takes them."""

QUESTIONS_AT_ONCE = 8
"""Answers that are held and read at a time, of all tenants together: memory is shared by all."""

WORDS = Words(
    name="the API server of the cluster behind this node",
    down=Reason.API_DOWN,
    untrusted=Reason.API_UNTRUSTED,
    denies=Reason.API_DENIES,
    odd=Reason.API_ODD,
    large=Reason.API_LARGE,
)


class Target:
    """Decides whose a pod in a target is, and opens streams to it."""

    def __init__(self, origin: Origin, registration: str, kubelets: Kubelets | None = None) -> None:
        """`registration` is the UID of the SuperCluster, which is on all that is made there.

        Without kubelets the API server opens streams; with them nothing else does.
        """
        self._origin = origin
        self._server = Subresources(origin, WORDS)
        self._registration = registration
        self._kubelets = kubelets
        self._questions = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    async def admit(self, caller: Caller, route: Route) -> OwnedPod:
        """Return the pod of a route, as it is now, or raise RefusedError."""
        if not subresources.offers(route.verb):  # a kubelet would have more
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
        """Send a stream request for a pod that was let through; raises RefusedError."""
        if self._kubelets is not None:
            return await self._kubelets.open(route, pod, headers)
        target = api_target(route, pod)
        self._server.pace(pod.vc_uid)
        return await self._server.open(route.method, target, headers)

    @contextmanager
    def one(self, vc_uid: str) -> Iterator[None]:  # noqa: ARG002 - of a read, and there are none
        """Hold no place: what is read of a node is refused at once."""
        yield

    async def answer(self, caller: Caller, route: Route) -> Document:  # noqa: ARG002 - refused
        """Refuse figures and lists: nobody has those of a whole cluster. Raises RefusedError."""
        raise _not_offered(route)


def _not_offered(route: Route) -> RefusedError:
    return RefusedError(
        501,
        Reason.NOT_OFFERED,
        f"{route.verb.value} is not to be had of this node, which stands for a whole cluster",
    )
