"""Which way leads to the node's pods: straight to the kubelet, or by the super API server. Pure.

Owns the rule of `auto`: a kubelet whose certificate does not verify is left at once, and taken up
again when it has verified for a while. Must not know sockets. Hazard: a kubelet that is merely down
proves nothing about its certificate, so it changes nothing; or every restart of a kubelet would
send the whole node's streams through the API server.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from vnagent.authz.metrics import Mode, Why

HOLD_SECONDS = 10.0
"""How long a certificate must verify before its kubelet is taken up again."""
LONGEST_HOLD_SECONDS = 60.0
RELAPSE_SECONDS = 300.0
"""A kubelet that is left again sooner than this has to prove itself for twice as long."""


class Wish(StrEnum):
    """What the chart's value `agent.upstream` says."""

    AUTO = "auto"
    KUBELET = "kubelet"
    APISERVER = "apiserver"


class Sight(StrEnum):
    """What one attempt to connect to the kubelet has shown."""

    VERIFIED = "verified"
    UNTRUSTED = "untrusted"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The present way; times are the loop's, in seconds."""

    mode: Mode
    why: Why
    is_free: bool = False
    """Whether what is seen may change it."""
    since: float = float("-inf")
    """When the mode began."""
    verifies_since: float | None = None
    """Since when the kubelet that was left verifies again; None when it does not."""
    hold_seconds: float = HOLD_SECONDS


def at_start(wish: Wish) -> Choice:
    """Return the way before anything has been seen."""
    if wish is Wish.AUTO:
        return Choice(mode=Mode.KUBELET, why=Why.UNSEEN, is_free=True)
    return Choice(mode=Mode(wish.value), why=Why.CONFIGURED)


def after(choice: Choice, sight: Sight, now: float) -> Choice:
    """Return the way after an attempt to connect to the kubelet."""
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
