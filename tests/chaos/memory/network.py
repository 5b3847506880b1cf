"""What becomes of requests and watches between a replica of the syncer and a cluster.

Owns latencies and the faults that a script has armed. Every request comes by here when it is sent,
so that whoever judges sees it first. Must not know what is right.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kubeio.http.transport_protocol import HttpRequest
from tests.support.memapi.direct import RequestFate, WatchTap
from tests.support.memapi.refusals import StatusError

_CONFLICT = StatusError(409, "Conflict", "injected: the object has been modified")
_EXPIRED = StatusError(410, "Expired", "injected: too old resource version")
_BUSY = StatusError(429, "TooManyRequests", "injected: too many requests", retry_after=1)
_BROKEN = StatusError(500, "InternalError", "injected: an error on the server")
_AWAY = StatusError(503, "ServiceUnavailable", "injected: not now")
_LATE = StatusError(504, "Timeout", "injected: request did not complete within the time")

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
CHANGES = WRITES - {"POST"}
READS = frozenset({"GET"})
ANY = WRITES | READS

FaultCondition = Callable[[HttpRequest], bool]


def _by(methods: frozenset[str]) -> FaultCondition:
    return lambda request: request.method in methods


def _begins_with_list(request: HttpRequest) -> bool:
    """Tell whether a list may be of the past: what a watch begins with comes of a server's cache.

    One that goes on names its version, and all other reads name none, which asks for the newest.
    """
    return request.method == "GET" and "sendInitialEvents=true" in request.target


FAULTS: Mapping[str, tuple[FaultCondition, Callable[[float], RequestFate]]] = {
    "lost": (_by(ANY), lambda seconds: RequestFate(is_lost=True, after=seconds)),
    "unanswered": (_by(WRITES), lambda seconds: RequestFate(is_unanswered=True, after=seconds)),
    "swallowed": (_by(ANY), lambda _: RequestFate(is_swallowed=True)),
    "late": (_by(WRITES), lambda seconds: RequestFate(before=10 * seconds)),
    "slow": (_by(ANY), lambda seconds: RequestFate(before=seconds / 2, after=seconds / 2)),
    "409": (_by(CHANGES), lambda _: RequestFate(refusal=_CONFLICT)),
    "410": (_by(READS), lambda _: RequestFate(refusal=_EXPIRED)),
    "429": (_by(ANY), lambda _: RequestFate(refusal=_BUSY, retry_after="1")),
    "500": (_by(ANY), lambda _: RequestFate(refusal=_BROKEN)),
    "503": (_by(ANY), lambda _: RequestFate(refusal=_AWAY, retry_after="1")),
    "504": (_by(WRITES), lambda _: RequestFate(refusal=_LATE)),
    "504 done": (_by(WRITES), lambda _: RequestFate(refusal=_LATE, takes_effect=True)),
    "stale": (_begins_with_list, lambda seconds: RequestFate(behind=1 + int(10 * seconds))),
}
"""Each fault: which requests it befalls, and what it does to one, given some seconds."""


@dataclass
class ArmedFault:
    """A fault that waits for its requests."""

    side: str
    kind: str
    seconds: float
    skip: int
    """Requests that it lets through first."""
    count: int
    """Requests that it befalls then."""


class NetworkSender(Protocol):
    """Who sends: a process that may be dead or cut off."""

    name: str
    is_dead: bool
    cut_off: set[str]


@dataclass
class NetworkFaults:
    """All faults of a run, and all watches that are open."""

    chance: random.Random
    armed: list[ArmedFault] = field(default_factory=list)
    taps: list[tuple[str, WatchTap]] = field(default_factory=list)
    befallen: int = 0

    def fate(self, side: str, request: HttpRequest, sender: NetworkSender) -> RequestFate:
        """Return what becomes of a request."""
        there, back = (self.chance.expovariate(200.0) for _ in range(2))
        if sender.is_dead or side in sender.cut_off:
            return RequestFate(is_lost=True, after=there)
        for fault in self.armed:
            befalls, make = FAULTS[fault.kind]
            if fault.side != side or not befalls(request):
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            fault.count -= 1
            if not fault.count:
                self.armed.remove(fault)
            self.befallen += 1
            return make(fault.seconds)
        return RequestFate(before=there, after=back)

    def opened(self, side: str, tap: WatchTap) -> None:
        """Take note of a watch."""
        self.taps = [(where, each) for where, each in self.taps if each.is_open]
        self.taps.append((side, tap))

    def of(self, side: str) -> Sequence[WatchTap]:
        """Return the open watches of a side."""
        return [tap for where, tap in self.taps if where == side and tap.is_open]

    def clear(self) -> None:
        """Have no faults any more."""
        self.armed.clear()
        for _, tap in self.taps:
            tap.release()
