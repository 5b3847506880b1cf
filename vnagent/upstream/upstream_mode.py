"""Choice of the upstream of the node's pods: the kubelet, or the super API server. Pure.

The module owns the rule of `auto`. It leaves a kubelet at once if its certificate does not verify,
and uses it again after the certificate has verified for a while. It must not know sockets. Hazard:
a kubelet that is merely down must not change the choice, because it proves nothing about its
certificate. Otherwise every restart of a kubelet would send all streams of the node through the API
server.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from vnagent.authz.metrics import ModeReason, UpstreamMode

VERIFY_HOLD_SECONDS = 10.0
"""Time in seconds for which a certificate must verify before its kubelet is used again."""
MAX_VERIFY_HOLD_SECONDS = 60.0
RELAPSE_SECONDS = 300.0
"""Relapse window in seconds. A kubelet that fails again within it must verify for twice as long."""


class UpstreamSetting(StrEnum):
    """Values of the chart's `agent.upstream`."""

    AUTO = "auto"
    KUBELET = "kubelet"
    APISERVER = "apiserver"


class ConnectResult(StrEnum):
    """Result of one attempt to connect to the kubelet."""

    VERIFIED = "verified"
    UNTRUSTED = "untrusted"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamState:
    """The present upstream. Times are the loop's, in seconds."""

    mode: UpstreamMode
    reason: ModeReason
    is_automatic: bool = False
    """Whether results of connections may change it."""
    since: float = float("-inf")
    """Time at which the mode began."""
    verifies_since: float | None = None
    """Time since which the kubelet verifies again, None if it does not."""
    hold_seconds: float = VERIFY_HOLD_SECONDS


def initial_state(wish: UpstreamSetting) -> UpstreamState:
    """Return the upstream before any connection."""
    if wish is UpstreamSetting.AUTO:
        return UpstreamState(
            mode=UpstreamMode.KUBELET, reason=ModeReason.NOT_CONNECTED, is_automatic=True
        )
    return UpstreamState(mode=UpstreamMode(wish.value), reason=ModeReason.CONFIGURED)


def next_state(choice: UpstreamState, result: ConnectResult, now: float) -> UpstreamState:
    """Return the upstream after an attempt to connect to the kubelet."""
    if not choice.is_automatic:
        return choice
    match choice.mode, result:
        case UpstreamMode.KUBELET, ConnectResult.UNTRUSTED:
            return _leave_kubelet(choice, now)
        case UpstreamMode.KUBELET, ConnectResult.VERIFIED:
            return replace(choice, reason=ModeReason.VERIFIED)
        case UpstreamMode.APISERVER, ConnectResult.VERIFIED:
            return _return_to_kubelet(choice, now)
        case _:
            return replace(choice, verifies_since=None)


def _leave_kubelet(choice: UpstreamState, now: float) -> UpstreamState:
    has_relapsed = now - choice.since < RELAPSE_SECONDS
    longer = min(2 * choice.hold_seconds, MAX_VERIFY_HOLD_SECONDS)
    return replace(
        choice,
        mode=UpstreamMode.APISERVER,
        reason=ModeReason.UNTRUSTED,
        since=now,
        verifies_since=None,
        hold_seconds=longer if has_relapsed else VERIFY_HOLD_SECONDS,
    )


def _return_to_kubelet(choice: UpstreamState, now: float) -> UpstreamState:
    since = now if choice.verifies_since is None else choice.verifies_since
    if now - since < choice.hold_seconds:
        return replace(choice, verifies_since=since)
    return replace(
        choice,
        mode=UpstreamMode.KUBELET,
        reason=ModeReason.VERIFIED,
        since=now,
        verifies_since=None,
    )
