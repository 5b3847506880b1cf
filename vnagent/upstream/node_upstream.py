"""Upstream of this node's pods after authorization: the kubelet, or the super API server.

The module owns the present choice and its subscriber. It must not know callers' rights, because the
authorizer has decided before. Hazard: only a call whose connection was refused for its certificate,
before a byte was sent, may be repeated on the other upstream. Otherwise a command could run twice.
"""

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from vnagent.authz import metrics
from vnagent.authz.metrics import UpstreamMode
from vnagent.authz.pod_authorizer import OwnedPod
from vnagent.client.https_client import HttpsClient
from vnagent.client.upstream_server import OpenedStream
from vnagent.protocol import routes, subresources
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.protocol.routes import Route
from vnagent.stream.tls_contexts import InvalidTrustError
from vnagent.upstream import upstream_mode as choices
from vnagent.upstream.apiserver import ApiServerUpstream
from vnagent.upstream.kubelet import KubeletUpstream
from vnagent.upstream.upstream_mode import ConnectResult, UpstreamSetting, UpstreamState

PROBE_SECONDS = {UpstreamMode.KUBELET: 60.0, UpstreamMode.APISERVER: 5.0}
"""Interval in seconds between two checks of the kubelet's certificate when no call verifies it."""

HeaderList = list[tuple[bytes, bytes]]

_log = structlog.get_logger(__name__)


class NodeUpstream:
    """Upstream that lists pods and opens streams."""

    def __init__(
        self,
        setting: UpstreamSetting,
        *,
        kubelet: HttpsClient,
        api: ApiServerUpstream,
        on_changed: Callable[[UpstreamState], None] = lambda _: None,
    ) -> None:
        """Apply the first choice. `on_changed` receives each change of mode or reason."""
        self._state = choices.initial_state(setting)
        self._origin = kubelet
        self._kubelet = KubeletUpstream(kubelet)
        self._api = api
        self._on_changed = on_changed
        self._probe_event = asyncio.Event()
        self._last_list = b""
        kubelet.on_dialed = self.record_connect
        self._announce()

    @property
    def mode(self) -> UpstreamMode:
        """The present mode."""
        return self._state.mode

    @property
    def kubelet(self) -> KubeletUpstream:
        """The kubelet, for calls that only it answers."""
        return self._kubelet

    @property
    def last_list(self) -> bytes:
        """The list of pods that was last fetched from the API server."""
        return self._last_list

    def record_connect(self, error: Exception | None) -> None:
        """Record the result of an attempt to connect to the kubelet, None for success."""
        before = self._state
        now = asyncio.get_running_loop().time()
        self._state = choices.next_state(before, _get_connect_result(error), now)
        if (self._state.mode, self._state.reason) != (before.mode, before.reason):
            self._announce()

    def probe_soon(self) -> None:
        """Check the kubelet's certificate soon, because its authorities have changed."""
        self._kubelet.drop_warm()
        self._probe_event.set()

    async def run(self) -> None:
        """Check the kubelet's certificate at intervals, for ever. Ends if the choice is fixed."""
        while self._state.is_automatic:
            with contextlib.suppress(OSError, InvalidTrustError):
                (await self._origin.connect(is_probe=True)).close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBE_SECONDS[self.mode]):
                    await self._probe_event.wait()
            self._probe_event.clear()

    async def wait_for_list(self) -> None:
        """Wait until pods may be listed."""
        if self.mode is UpstreamMode.APISERVER:
            await self._api.wait_for_list()

    async def fetch_pods(self) -> bytes:
        """Return the list of this node's pods. Raises RefusedError."""
        if self.mode is UpstreamMode.KUBELET:
            try:
                return await self._kubelet.fetch_pods()
            except RequestRefusedError as refusal:
                if not self._is_kubelet_left(refusal):
                    raise
        # The next list is held twice in memory, so a third copy would be too much.
        self._last_list = b""
        self._last_list = await self._api.fetch_pods()
        return self._last_list

    async def open(self, route: Route, pod: OwnedPod, headers: HeaderList) -> OpenedStream:
        """Send a stream request for an admitted pod. Raises RefusedError."""
        if self.mode is UpstreamMode.KUBELET:
            try:
                return await self._kubelet.open(
                    route.method, build_kubelet_target(route, pod), headers
                )
            except RequestRefusedError as refusal:
                if not self._is_kubelet_left(refusal):
                    raise
        target = build_api_target(route, pod)
        self._api.check_rate(pod.vc_uid)
        return await self._api.open(route.method, target, headers)

    def _is_kubelet_left(self, refusal: RequestRefusedError) -> bool:
        """Return whether a call was not sent because the upstream has just left its kubelet."""
        return (
            refusal.reason is RefusalReason.KUBELET_UNTRUSTED
            and self.mode is UpstreamMode.APISERVER
        )

    def _announce(self) -> None:
        mode, why = self._state.mode, self._state.reason
        _log.info("upstream", mode=mode.value, reason=why.value)
        metrics.set_upstream(mode, why)
        self._last_list = b""  # the list is from the other upstream, or old
        if mode is UpstreamMode.APISERVER:
            self._kubelet.drop_warm()
        self._on_changed(self._state)


def _get_connect_result(trouble: Exception | None) -> ConnectResult:
    if trouble is None:
        return ConnectResult.VERIFIED
    is_untrusted = isinstance(trouble, InvalidTrustError) or getattr(trouble, "is_untrusted", False)
    return ConnectResult.UNTRUSTED if is_untrusted else ConnectResult.DOWN


def build_kubelet_target(route: Route, pod: OwnedPod) -> str:
    """Return the kubelet's request target of a stream. Raises RefusedError."""
    try:
        return routes.render_kubelet_target(
            route, super_namespace=pod.super_namespace, super_uid=pod.super_uid
        )
    except ValueError as error:
        raise _build_invalid_list(RefusalReason.KUBELET_ODD) from error


def build_api_target(route: Route, pod: OwnedPod) -> str:
    """Return the API server's request target of a stream. Raises RefusedError."""
    try:
        target = subresources.render_api_target(route, pod.super_namespace)
    except ValueError as error:
        raise _build_invalid_list(RefusalReason.API_ODD) from error
    if target is None:
        raise build_not_offered(route)
    return target


def build_not_offered(route: Route) -> RequestRefusedError:
    """Return the refusal of a call that only a kubelet answers."""
    return RequestRefusedError(
        501,
        RefusalReason.NOT_OFFERED,
        f"{route.verb.value} is not available on this node, because the node agent uses the super"
        " cluster's API server, which has no such call",
    )


def _build_invalid_list(reason: RefusalReason) -> RequestRefusedError:
    return RequestRefusedError(
        502, reason, "the node's list of pods has the pod in an unexpected form"
    )
