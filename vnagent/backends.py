"""Connections to the pods that an agent serves: those of its node, or those of a target.

The module builds each connection from the settings. It must not know the caller. Hazard: an agent
that serves a target holds two credentials, its own for the home cluster and another for the target.
Each must go to its own server only, otherwise one cluster gets the credential of the other.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from vnagent.authz.metrics import ModeReason, UpstreamMode, set_upstream
from vnagent.authz.pod_authorizer import PodAuthorizer
from vnagent.client.https_client import HttpsClient
from vnagent.nodeapi.node_reads import NodeReads
from vnagent.nodeapi.target_pods import TargetPods
from vnagent.server.request import Authorizer, NodeReader, StreamOpener
from vnagent.settings import AgentSettings, TargetSettings
from vnagent.stream.file_watch import WatchedFile
from vnagent.stream.receive_buffer import ReceiveBuffer
from vnagent.upstream.apiserver import ApiServerUpstream
from vnagent.upstream.node_upstream import NodeUpstream
from vnagent.upstream.target_kubelets import TargetKubelets
from vnagent.upstream.upstream_events import EventSubject, UpstreamEvents
from vnagent.upstream.upstream_mode import UpstreamSetting


class Backend(Protocol):
    """Connection to the pods of a node or of a target."""

    @property
    def authorizer(self) -> Authorizer:
        """Authorizer that decides which tenant a pod belongs to."""

    @property
    def upstream(self) -> StreamOpener:
        """Opener of streams."""

    @property
    def reads(self) -> NodeReader:
        """Reader that answers the calls about the whole node."""

    @property
    def required_files(self) -> Sequence[WatchedFile]:
        """Files that must exist before the agent starts to serve."""

    @property
    def optional_files(self) -> Sequence[WatchedFile]:
        """Files that may appear later. Until then calls are refused with a message."""

    def handle_file_changed(self, file: WatchedFile) -> None:
        """Apply the new content of a file."""

    def create_jobs(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Return the jobs that run for as long as the agent."""

    def close(self) -> None:
        """Release the connections that were kept for later use."""


def create_backend(
    settings: AgentSettings, api: HttpsClient, token: WatchedFile, buffer: ReceiveBuffer
) -> Backend:
    """Return the connection that the settings name. `api` is the home cluster's API server."""
    if settings.target is not None:
        return TargetBackend(settings.target, buffer)
    return NodeBackend(settings, api, token, buffer)


class NodeBackend:
    """Connection to the pods of the agent's own node."""

    def __init__(
        self, settings: AgentSettings, api: HttpsClient, token: WatchedFile, buffer: ReceiveBuffer
    ) -> None:
        self._setting = settings.upstream
        self._authorities = WatchedFile(settings.kubelet_authorities_file)
        self._upstream_events = UpstreamEvents(api, _build_subject(settings))
        kubelet = HttpsClient(
            settings.kubelet, authorities=self._authorities, token=token, buffer=buffer
        )
        self.upstream = NodeUpstream(
            settings.upstream,
            kubelet=kubelet,
            api=ApiServerUpstream(api, settings.node),
            on_changed=self._upstream_events.update,
        )
        self.authorizer = PodAuthorizer(self.upstream.fetch_pods, self.upstream.wait_for_list)
        self.reads = NodeReads(self.authorizer, self.upstream)
        self.required_files = (
            () if self._setting is UpstreamSetting.APISERVER else (self._authorities,)
        )
        self.optional_files: Sequence[WatchedFile] = ()

    def handle_file_changed(self, file: WatchedFile) -> None:
        """Check the kubelet's certificate again when its authorities have changed."""
        if file is self._authorities:
            self.upstream.probe_soon()

    def create_jobs(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Return the jobs that keep connections warm, choose the upstream and write Events."""
        found = [self.upstream.kubelet.keep_warm(), self.upstream.run()]
        if self._setting is not UpstreamSetting.KUBELET:  # the usual upstream needs no Event
            found.append(self._upstream_events.run())
        return found

    def close(self) -> None:
        """Close connections that were opened in advance."""
        self.upstream.kubelet.drop_warm()


class TargetBackend:
    """Connection to the pods of tenants in a target."""

    def __init__(self, told: TargetSettings, buffer: ReceiveBuffer) -> None:
        authorities, token = WatchedFile(told.authorities_file), WatchedFile(told.token_file)
        origin = HttpsClient(told.server, authorities=authorities, token=token, buffer=buffer)
        self.required_files: Sequence[WatchedFile] = ()
        # vc-manager creates the credential. It may have to wait for an administrator.
        self.optional_files: Sequence[WatchedFile] = (authorities, token)
        kubelets = None
        if told.mode is UpstreamMode.KUBELET:
            vouching = WatchedFile(told.kubelet_authorities_file)
            self.optional_files = (*self.optional_files, vouching)
            kubelets = TargetKubelets(
                port=told.kubelet_port, authorities=vouching, token=token, buffer=buffer
            )
        self.authorizer = self.upstream = self.reads = TargetPods(
            origin, told.registration, kubelets
        )
        set_upstream(told.mode, ModeReason.CONFIGURED)

    def handle_file_changed(self, file: WatchedFile) -> None:
        """Do nothing, because each call reads the present content of the files."""

    def create_jobs(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Return no jobs."""
        return ()

    def close(self) -> None:
        """Do nothing, because no connection is kept."""


def _build_subject(settings: AgentSettings) -> EventSubject:
    return EventSubject(
        name=settings.pod_name,
        namespace=settings.pod_namespace,
        uid=settings.pod_uid,
        node=settings.node,
    )
