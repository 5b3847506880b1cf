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
from vnagent.authz.metrics import Mode
from vnagent.authz.pod_authorizer import OwnedPod
from vnagent.client.https_client import Origin
from vnagent.client.upstream_server import Opened
from vnagent.protocol import routes, subresources
from vnagent.protocol.errors import Reason, RefusedError
from vnagent.protocol.routes import Route
from vnagent.stream.tls_contexts import TrustProblemError
from vnagent.upstream import upstream_mode as choices
from vnagent.upstream.apiserver import ApiServer
from vnagent.upstream.kubelet import Kubelet
from vnagent.upstream.upstream_mode import Choice, Sight, Wish

LOOK_SECONDS = {Mode.KUBELET: 60.0, Mode.APISERVER: 5.0}
"""Interval in seconds between two checks of the kubelet's certificate when no call verifies it."""

Headers = list[tuple[bytes, bytes]]

_log = structlog.get_logger(__name__)


class Upstream:
    """Upstream that lists pods and opens streams."""

    def __init__(
        self,
        wish: Wish,
        *,
        kubelet: Origin,
        api: ApiServer,
        tell: Callable[[Choice], None] = lambda _: None,
    ) -> None:
        """Apply the first choice. `tell` receives each change of mode or reason."""
        self._choice = choices.at_start(wish)
        self._origin = kubelet
        self._kubelet = Kubelet(kubelet)
        self._api = api
        self._tell = tell
        self._look = asyncio.Event()
        self._listed = b""
        kubelet.dialled = self.saw
        self._announce()

    @property
    def mode(self) -> Mode:
        """The present mode."""
        return self._choice.mode

    @property
    def kubelet(self) -> Kubelet:
        """The kubelet, for calls that only it answers."""
        return self._kubelet

    @property
    def listed(self) -> bytes:
        """The list of pods that was last fetched from the API server."""
        return self._listed

    def saw(self, trouble: Exception | None) -> None:
        """Record the result of an attempt to connect to the kubelet, None for success."""
        before = self._choice
        now = asyncio.get_running_loop().time()
        self._choice = choices.after(before, _sight(trouble), now)
        if (self._choice.mode, self._choice.why) != (before.mode, before.why):
            self._announce()

    def look_again(self) -> None:
        """Check the kubelet's certificate soon, because its authorities have changed."""
        self._kubelet.drop_warm()
        self._look.set()

    async def keep_choosing(self) -> None:
        """Check the kubelet's certificate at intervals, for ever. Ends if the choice is fixed."""
        while self._choice.is_free:
            with contextlib.suppress(OSError, TrustProblemError):
                (await self._origin.dial(is_look=True)).close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS[self.mode]):
                    await self._look.wait()
            self._look.clear()

    async def turn(self) -> None:
        """Wait until pods may be listed."""
        if self.mode is Mode.APISERVER:
            await self._api.turn()

    async def fetch_pods(self) -> bytes:
        """Return the list of this node's pods. Raises RefusedError."""
        if self.mode is Mode.KUBELET:
            try:
                return await self._kubelet.fetch_pods()
            except RefusedError as refusal:
                if not self._is_left(refusal):
                    raise
        # The next list is held twice in memory, so a third copy would be too much.
        self._listed = b""
        self._listed = await self._api.fetch_pods()
        return self._listed

    async def open(self, route: Route, pod: OwnedPod, headers: Headers) -> Opened:
        """Send a stream request for an admitted pod. Raises RefusedError."""
        if self.mode is Mode.KUBELET:
            try:
                return await self._kubelet.open(route.method, kubelet_target(route, pod), headers)
            except RefusedError as refusal:
                if not self._is_left(refusal):
                    raise
        target = api_target(route, pod)
        self._api.pace(pod.vc_uid)
        return await self._api.open(route.method, target, headers)

    def _is_left(self, refusal: RefusedError) -> bool:
        """Return whether a call was not sent because the upstream has just left its kubelet."""
        return refusal.reason is Reason.KUBELET_UNTRUSTED and self.mode is Mode.APISERVER

    def _announce(self) -> None:
        mode, why = self._choice.mode, self._choice.why
        _log.info("upstream", mode=mode.value, reason=why.value)
        metrics.show_upstream(mode, why)
        self._listed = b""  # the list is from the other upstream, or old
        if mode is Mode.APISERVER:
            self._kubelet.drop_warm()
        self._tell(self._choice)


def _sight(trouble: Exception | None) -> Sight:
    if trouble is None:
        return Sight.VERIFIED
    is_untrusted = isinstance(trouble, TrustProblemError) or getattr(trouble, "is_untrusted", False)
    return Sight.UNTRUSTED if is_untrusted else Sight.DOWN


def kubelet_target(route: Route, pod: OwnedPod) -> str:
    """Return the kubelet's request target of a stream. Raises RefusedError."""
    try:
        return routes.render(route, super_namespace=pod.super_namespace, super_uid=pod.super_uid)
    except ValueError as error:
        raise _odd_list(Reason.KUBELET_ODD) from error


def api_target(route: Route, pod: OwnedPod) -> str:
    """Return the API server's request target of a stream. Raises RefusedError."""
    try:
        target = subresources.render(route, pod.super_namespace)
    except ValueError as error:
        raise _odd_list(Reason.API_ODD) from error
    if target is None:
        raise not_offered(route)
    return target


def not_offered(route: Route) -> RefusedError:
    """Return the refusal of a call that only a kubelet answers."""
    return RefusedError(
        501,
        Reason.NOT_OFFERED,
        f"{route.verb.value} is not to be had on this node: the node agent reaches it through the"
        " super cluster's API server, which has no such call",
    )


def _odd_list(reason: Reason) -> RefusedError:
    return RefusedError(502, reason, "the node's list of pods shows the pod in an odd way")
