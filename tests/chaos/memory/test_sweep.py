"""One scenario, and one thing that goes wrong in it: at each request in turn.

The scenario has an object of each kind made, changed, deleted and recreated under its name, and a
namespace that goes. What must hold at each request and at rest is the machine's to judge: nothing
is lost, doubled, left behind or deleted by mistake.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kubeio.http.transport_protocol import HttpRequest
from tenancy.resources import EVENTS
from tests.chaos.memory import scenes
from tests.chaos.memory import tenant_edits as edits
from tests.chaos.memory.network import ANY, FAULTS, WRITES
from tests.chaos.memory.replica import SimulatedReplica
from tests.chaos.memory.world import MachineWorld
from tests.support.memapi.direct import RequestFate

STRIDE = 5
"""Every so manieth request in a run that is not thorough."""
WEB, A = 1, 0
CONFIG_MAP, SECRET, SERVICE = range(3)


def _each(edit: Callable[..., None], value: int) -> Callable[[MachineWorld], None]:
    def each(world: MachineWorld) -> None:
        for kind in (CONFIG_MAP, SECRET, SERVICE):
            edit(world, (0, WEB, A, kind, value))

    return each


def _one(edit: Callable[..., None], *numbers: int) -> Callable[[MachineWorld], None]:
    return lambda world: edit(world, (0, WEB, A, *numbers))


SCENARIO = (
    (_one(edits.make_space, 0, 0), 0.3),
    (_each(edits.make, 0), 0.0),
    (_one(edits.make_pod, 3, 0), 4.0),
    (_each(edits.edit, 1), 0.5),
    (_one(edits.edit_pod, 1, 1), 0.5),
    (_one(edits.renew_pod, 3, 0), 3.0),
    (_each(edits.end, 0), 0.0),
    (_each(edits.make, 2), 2.0),
    (_one(edits.end_pod, 2, 0), 3.0),
    (_one(edits.end_space, 0, 0), 3.0),
)


class RequestIndex:
    """Does something to one request: the one with this index among those that it is about."""

    def __init__(self, index: int, methods: frozenset[str], strike: Callable[..., Any]) -> None:
        self.index = index
        self.methods = methods
        self.strike = strike
        self.seen = 0
        self.past = 0
        """Reads that are answered from the past, from the strike on."""

    def __call__(self, side: str, request: HttpRequest, sender: Any) -> RequestFate | None:
        if asyncio.get_running_loop().time() < 12.0:
            return None
        if "/leases/" in request.target:
            return None
        if request.method == "GET" and self.past and side != "super":
            self.past -= 1
            if not self.past:
                _stall(sender.world, side)
            return RequestFate(behind=7)
        if request.method not in self.methods:
            return None
        self.seen += 1
        if self.seen != self.index + 1:
            return None
        found = self.strike(self, sender)
        return found if isinstance(found, RequestFate) else None


def _stall(world: MachineWorld, side: str) -> None:
    """Have what was just shown stay the latest for a while."""

    def stall() -> None:
        for tap in world.faults.of(side):
            tap.hold()
            world.loop.call_later(5.0, tap.release)

    world.loop.call_later(0.05, stall)


def _killed(fate: RequestFate, past: int = 0) -> Callable[..., RequestFate]:
    def strike(at: RequestIndex, replica: SimulatedReplica) -> RequestFate:
        replica.kill()
        asyncio.get_running_loop().call_later(1.0, replica.start)
        at.past = past
        return fate

    return strike


def _fault(name: str) -> Callable[..., RequestFate]:
    return lambda *_: FAULTS[name][1](1.0)


STRIKES: Mapping[str, tuple[frozenset[str], Callable[..., RequestFate]]] = {
    "killed before": (ANY, _killed(RequestFate(is_lost=True))),
    "killed after": (WRITES, _killed(RequestFate(is_unanswered=True))),
    "killed, then shown the past": (WRITES, _killed(RequestFate(is_unanswered=True), past=25)),
    "answer lost": (WRITES, _fault("unanswered")),
    "done and 504": (WRITES, _fault("504 done")),
    "504": (WRITES, _fault("504")),
    "500": (ANY, _fault("500")),
    "503": (ANY, _fault("503")),
    "429": (ANY, _fault("429")),
    "409": (frozenset({"PUT", "PATCH", "DELETE"}), _fault("409")),
    "never arrives": (ANY, _fault("swallowed")),
}


def _played(at: RequestIndex) -> str:
    """Play the scenario. Returns what was broken, and what the tenant was told without need."""
    told: list[str] = []

    def listen(world: MachineWorld) -> None:
        events = world.tenants[0].cluster.of(EVENTS)
        events.listeners.append(lambda _, body: told.append(body["reason"]))

    outcome = scenes.play((listen, 0.0), *SCENARIO, rule=at)
    needless = [reason for reason in told if reason in ("NameTaken", "SyncFailed")]
    return scenes.told(outcome) or ", ".join(needless)


def swept(name: str, stride: int) -> list[str]:
    """Return what was broken, with the index of the request that was struck."""
    methods, strike = STRIKES[name]
    calm = RequestIndex(-1, methods, strike)
    assert _played(calm) == ""
    assert calm.seen > len(SCENARIO)
    broken = {
        index: _played(RequestIndex(index, methods, strike))
        for index in range(0, calm.seen, stride)
    }
    return [f"{name} at request {index}: {text}" for index, text in broken.items() if text]


@pytest.mark.parametrize("name", STRIKES)
def test_a_fault_at_any_request_breaks_nothing(name):
    """REL-01, REL-02, REL-03, REL-09, REL-10, REL-34: crashes, lost answers, codes, the past."""
    assert swept(name, STRIDE) == []


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", STRIKES)
def test_a_fault_at_every_request_breaks_nothing(name):
    """REL-01, REL-02, REL-03, REL-09, REL-10, REL-34: at each one, none left out."""
    assert swept(name, 1) == []
