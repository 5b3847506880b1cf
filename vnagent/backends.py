"""What leads to the pods that an agent serves: those of its node, or those of a target.

Owns how each is put together of what the agent was told. Must not know who calls. Hazard: an agent
that serves a target holds two credentials, its own for the home cluster and one for the target;
each goes to its own server alone.
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
    """One of them."""

    @property
    def gate(self) -> Gatekeeper:
        """Who decides whose a pod is."""

    @property
    def upstream(self) -> Opener:
        """Who opens streams."""

    @property
    def reads(self) -> Reader:
        """Who answers what is read of the node."""

    @property
    def needed(self) -> Sequence[WatchedFile]:
        """Files without which nothing can begin."""

    @property
    def awaited(self) -> Sequence[WatchedFile]:
        """Files that may come later; until then calls are refused with a sentence."""

    def changed(self, file: WatchedFile) -> None:
        """Take in that a file has other content."""

    def jobs(self) -> Sequence[Coroutine[Any, Any, None]]:
        """What has to run for as long as the agent does."""

    def close(self) -> None:
        """Let go of what was kept for later use."""


def of(settings: Settings, api: Origin, token: WatchedFile, buffer: ReceiveBuffer) -> Way:
    """Return the way that the settings name; `api` is the home cluster's API server."""
    if settings.target is not None:
        return TargetWay(settings.target, buffer)
    return NodeWay(settings, api, token, buffer)


class NodeWay:
    """To the pods of the agent's own node."""

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
        """Look at the kubelet anew when those change who vouch for it."""
        if file is self._authorities:
            self.upstream.look_again()

    def jobs(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Keep connections and the choice, and tell of it."""
        found = [self.upstream.kubelet.keep_warm(), self.upstream.keep_choosing()]
        if self._wish is not Wish.KUBELET:  # the usual way is no news
            found.append(self._notices.keep())
        return found

    def close(self) -> None:
        """Close connections that were made ahead."""
        self.upstream.kubelet.drop_warm()


class TargetWay:
    """To the pods of tenants in a target."""

    def __init__(self, told: TargetCluster, buffer: ReceiveBuffer) -> None:
        authorities, token = WatchedFile(told.authorities_file), WatchedFile(told.token_file)
        origin = Origin(told.server, authorities=authorities, token=token, buffer=buffer)
        self.needed: Sequence[WatchedFile] = ()
        # vc-manager makes the credential, and what is in its way may take an administrator.
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
        """Do nothing: each call takes all of them as they are."""

    def jobs(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Need nothing."""
        return ()

    def close(self) -> None:
        """Keep nothing."""


def _subject(settings: Settings) -> Subject:
    return Subject(
        name=settings.pod_name,
        namespace=settings.pod_namespace,
        uid=settings.pod_uid,
        node=settings.node,
    )
