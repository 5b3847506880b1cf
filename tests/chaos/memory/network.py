"""Requests and watches between a replica of the syncer and a cluster, with faults.

Owns latencies and the faults that a script has armed. Every request comes by here when it is sent,
so that the one that judges sees it first. Must not know what is right.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kubeio.http.transport_protocol import HttpRequest
from tests.chaos import faults
from tests.chaos.faults import ANY, WRITES, ArmedFault, take_strike
from tests.support.memapi.direct import RequestFate, WatchTap
from tests.support.memapi.refusals import StatusError

FaultCondition = Callable[[HttpRequest], bool]
NetworkFault = tuple[FaultCondition, Callable[[float], RequestFate]]
"""Which requests a fault befalls, and what it does to one, given some seconds."""


def _is_for(kind: str) -> FaultCondition:
    return _by(faults.METHODS[kind])


def _by(methods: frozenset[str]) -> FaultCondition:
    return lambda request: request.method in methods


def _begins_with_list(request: HttpRequest) -> bool:
    """Return whether a list may be of the past: what a watch begins with comes of a server's cache.

    One that goes on names its version, and all other reads name none, which asks for the newest.
    """
    return request.method == "GET" and "sendInitialEvents=true" in request.target


def _refuse(kind: str, *, takes_effect: bool = False) -> NetworkFault:
    code, reason, after = faults.ANSWERS[kind]
    refusal = StatusError(code, reason, f"injected: {reason}", retry_after=after or 0)
    told = "" if after is None else str(after)
    fate = RequestFate(refusal=refusal, retry_after=told, takes_effect=takes_effect)
    return _is_for(kind), lambda _: fate


FAULTS: Mapping[str, NetworkFault] = {
    "lost": (_is_for("lost"), lambda seconds: RequestFate(is_lost=True, after=seconds)),
    "unanswered": (_by(WRITES), lambda seconds: RequestFate(is_unanswered=True, after=seconds)),
    "swallowed": (_by(ANY), lambda _: RequestFate(is_swallowed=True)),
    "late": (_is_for("late"), lambda seconds: RequestFate(before=10 * seconds)),
    "slow": (_by(ANY), lambda seconds: RequestFate(before=seconds / 2, after=seconds / 2)),
    "409": _refuse("409"),
    "410": _refuse("410"),
    "429": _refuse("429"),
    "500": _refuse("500"),
    "503": _refuse("503"),
    "504": _refuse("504"),
    "504 done": _refuse("504 done", takes_effect=True),
    "stale": (_begins_with_list, lambda seconds: RequestFate(behind=1 + int(10 * seconds))),
}
"""Each fault by its name. The order counts: the numbers of a step choose by it."""


class NetworkSender(Protocol):
    """A sender: a process that may be dead or cut off."""

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
        struck = take_strike(self.armed, side, lambda kind: FAULTS[kind][0](request))
        if struck is not None:
            self.befallen += 1
            return FAULTS[struck.kind][1](struck.seconds)
        return RequestFate(before=there, after=back)

    def opened(self, side: str, tap: WatchTap) -> None:
        """Take note of a watch."""
        self.taps = [(where, each) for where, each in self.taps if each.is_open]
        self.taps.append((side, tap))

    def of(self, side: str) -> Sequence[WatchTap]:
        """Return the open watches of a side."""
        return [tap for where, tap in self.taps if where == side and tap.is_open]

    def clear(self) -> None:
        """Have no faults any longer."""
        self.armed.clear()
        for _, tap in self.taps:
            tap.release()
