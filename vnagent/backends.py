"""Connections to the pods that an agent serves: those of its node, or those of a target.

The module builds each connection from the settings. It must not know the caller. Hazard: an agent
that serves a target holds two credentials, its own for the home cluster and another for the target.
Each must go to its own server only, otherwise one cluster gets the credential of the other.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from vnagent.authz.metrics import Mode, Why, show_upstream
from vnagent.authz.pod_authorizer import Gate
from vnagent.client.https_client import Origin
from vnagent.nodeapi.node_reads import Reads
from vnagent.nodeapi.target_pods import Target
from vnagent.server.request import Gatekeeper, Opener, Reader
from vnagent.settings import Settings, TargetCluster
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.tls_stream import ReceiveBuffer
from vnagent.upstream.apiserver import ApiServer
from vnagent.upstream.node_upstream import Upstream
from vnagent.upstream.target_kubelets import Kubelets
from vnagent.upstream.upstream_events import Notices, Subject
from vnagent.upstream.upstream_mode import Wish


class Way(Protocol):
    """Connection to the pods of a node or of a target."""

    @property
    def gate(self) -> Gatekeeper:
        """Authorizer that decides which tenant a pod belongs to."""

    @property
    def upstream(self) -> Opener:
        """Opener of streams."""

    @property
    def reads(self) -> Reader:
        """Reader that answers the calls about the whole node."""

    @property
    def needed(self) -> Sequence[WatchedFile]:
        """Files that must exist before the agent starts to serve."""

    @property
    def awaited(self) -> Sequence[WatchedFile]:
        """Files that may appear later. Until then calls are refused with a message."""

    def changed(self, file: WatchedFile) -> None:
        """Apply the new content of a file."""

    def jobs(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Return the jobs that run for as long as the agent."""

    def close(self) -> None:
        """Release the connections that were kept for later use."""


def of(settings: Settings, api: Origin, token: WatchedFile, buffer: ReceiveBuffer) -> Way:
    """Return the connection that the settings name. `api` is the home cluster's API server."""
    if settings.target is not None:
        return TargetWay(settings.target, buffer)
    return NodeWay(settings, api, token, buffer)


class NodeWay:
    """Connection to the pods of the agent's own node."""

    def __init__(
        self, settings: Settings, api: Origin, token: WatchedFile, buffer: ReceiveBuffer
    ) -> None:
        self._wish = settings.upstream
        self._authorities = WatchedFile(settings.kubelet_authorities_file)
        self._notices = Notices(api, _subject(settings))
        kubelet = Origin(
            settings.kubelet, authorities=self._authorities, token=token, buffer=buffer
        )
        self.upstream = Upstream(
            settings.upstream,
            kubelet=kubelet,
            api=ApiServer(api, settings.node),
            tell=self._notices.hear,
        )
        self.gate = Gate(self.upstream.fetch_pods, self.upstream.turn)
        self.reads = Reads(self.gate, self.upstream)
        self.needed = () if self._wish is Wish.APISERVER else (self._authorities,)
        self.awaited: Sequence[WatchedFile] = ()

    def changed(self, file: WatchedFile) -> None:
        """Check the kubelet's certificate again when its authorities have changed."""
        if file is self._authorities:
            self.upstream.look_again()

    def jobs(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Return the jobs that keep connections warm, choose the upstream and write Events."""
        found = [self.upstream.kubelet.keep_warm(), self.upstream.keep_choosing()]
        if self._wish is not Wish.KUBELET:  # the usual upstream needs no Event
            found.append(self._notices.keep())
        return found

    def close(self) -> None:
        """Close connections that were opened in advance."""
        self.upstream.kubelet.drop_warm()


class TargetWay:
    """Connection to the pods of tenants in a target."""

    def __init__(self, told: TargetCluster, buffer: ReceiveBuffer) -> None:
        authorities, token = WatchedFile(told.authorities_file), WatchedFile(told.token_file)
        origin = Origin(told.server, authorities=authorities, token=token, buffer=buffer)
        self.needed: Sequence[WatchedFile] = ()
        # vc-manager creates the credential. It may have to wait for an administrator.
        self.awaited: Sequence[WatchedFile] = (authorities, token)
        kubelets = None
        if told.mode is Mode.KUBELET:
            vouching = WatchedFile(told.kubelet_authorities_file)
            self.awaited = (*self.awaited, vouching)
            kubelets = Kubelets(
                port=told.kubelet_port, authorities=vouching, token=token, buffer=buffer
            )
        self.gate = self.upstream = self.reads = Target(origin, told.registration, kubelets)
        show_upstream(told.mode, Why.CONFIGURED)

    def changed(self, file: WatchedFile) -> None:
        """Do nothing, because each call reads the present content of the files."""

    def jobs(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Return no jobs."""
        return ()

    def close(self) -> None:
        """Do nothing, because no connection is kept."""


def _subject(settings: Settings) -> Subject:
    return Subject(
        name=settings.pod_name,
        namespace=settings.pod_namespace,
        uid=settings.pod_uid,
        node=settings.node,
    )
