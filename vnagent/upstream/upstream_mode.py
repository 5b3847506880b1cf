"""Choice of the upstream of the node's pods: the kubelet, or the super API server. Pure.

The module owns the rule of `auto`. It leaves a kubelet at once if its certificate does not verify,
and uses it again after the certificate has verified for a while. It must not know sockets. Hazard:
a kubelet that is merely down must not change the choice, because it proves nothing about its
certificate. Otherwise every restart of a kubelet would send all streams of the node through the API
server.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from vnagent.authz.metrics import Mode, Why

HOLD_SECONDS = 10.0
"""Time in seconds for which a certificate must verify before its kubelet is used again."""
LONGEST_HOLD_SECONDS = 60.0
RELAPSE_SECONDS = 300.0
"""Relapse window in seconds. A kubelet that fails again within it must verify for twice as long."""


class Wish(StrEnum):
    """Values of the chart's `agent.upstream`."""

    AUTO = "auto"
    KUBELET = "kubelet"
    APISERVER = "apiserver"


class Sight(StrEnum):
    """Result of one attempt to connect to the kubelet."""

    VERIFIED = "verified"
    UNTRUSTED = "untrusted"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The present upstream. Times are the loop's, in seconds."""

    mode: Mode
    why: Why
    is_free: bool = False
    """Whether results of connections may change it."""
    since: float = float("-inf")
    """Time at which the mode began."""
    verifies_since: float | None = None
    """Time since which the kubelet verifies again, None if it does not."""
    hold_seconds: float = HOLD_SECONDS


def at_start(wish: Wish) -> Choice:
    """Return the upstream before any connection."""
    if wish is Wish.AUTO:
        return Choice(mode=Mode.KUBELET, why=Why.UNSEEN, is_free=True)
    return Choice(mode=Mode(wish.value), why=Why.CONFIGURED)


def after(choice: Choice, sight: Sight, now: float) -> Choice:
    """Return the upstream after an attempt to connect to the kubelet."""
    if not choice.is_free:
        return choice
    match choice.mode, sight:
        case Mode.KUBELET, Sight.UNTRUSTED:
            return _left(choice, now)
        case Mode.KUBELET, Sight.VERIFIED:
            return replace(choice, why=Why.VERIFIED)
        case Mode.APISERVER, Sight.VERIFIED:
            return _proven(choice, now)
        case _:
            return replace(choice, verifies_since=None)


def _left(choice: Choice, now: float) -> Choice:
    has_relapsed = now - choice.since < RELAPSE_SECONDS
    longer = min(2 * choice.hold_seconds, LONGEST_HOLD_SECONDS)
    return replace(
        choice,
        mode=Mode.APISERVER,
        why=Why.UNTRUSTED,
        since=now,
        verifies_since=None,
        hold_seconds=longer if has_relapsed else HOLD_SECONDS,
    )


def _proven(choice: Choice, now: float) -> Choice:
    since = now if choice.verifies_since is None else choice.verifies_since
    if now - since < choice.hold_seconds:
        return replace(choice, verifies_since=since)
    return replace(choice, mode=Mode.KUBELET, why=Why.VERIFIED, since=now, verifies_since=None)
