"""Events in scenes, and the questions at their end.

Times are seconds of the virtual clock, from the moment at which a scene begins.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from tenancy.resources import PODS, Resource
from tests.chaos.memory import scenes
from tests.chaos.memory import tenant_edits as edits
from tests.chaos.memory.run import RunOutcome
from tests.chaos.memory.scenes import SceneRule
from tests.chaos.memory.world import MachineWorld
from tests.support.memapi.direct import RequestFate
from tests.support.memapi.refusals import StatusError
from tests.support.memapi.watches import Object

T0 = 12.0
"""When a scene begins, in seconds: the tenants are engaged by then."""
WEB = "web"
_LINE = re.compile(r"(?P<at>[\d.]+) (?P<side>\w+) (?P<method>[A-Z]+) (?P<path>\S+) \d+")
FULL = StatusError(500, "InternalError", "etcdserver: mvcc: database space exceeded")


def now() -> float:
    return asyncio.get_running_loop().time()


def nothing(_: MachineWorld) -> None:
    """Let time go by."""


def space(world: MachineWorld) -> None:
    edits.make_space(world, (0, 1, 0, 0, 0))


def pod(name: int = 0, tenant: int = 0, needs: int = 0) -> Callable[[MachineWorld], None]:
    """Have a tenant make a pod: `a` for 0, `b` for 1. It needs a ConfigMap for 1."""

    def made(world: MachineWorld) -> None:
        edits.make_space(world, (tenant, 1, 0, 0, 0))
        edits.make_pod(world, (tenant, 1, name, needs, 0))

    return made


def config_map(value: int) -> Callable[[MachineWorld], None]:
    def written(world: MachineWorld) -> None:
        edits.make(world, (0, 1, 0, 0, value))
        edits.edit(world, (0, 1, 0, 0, value))

    return written


def label(value: int) -> Callable[[MachineWorld], None]:
    return lambda world: edits.edit_pod(world, (0, 1, 0, 1, value))


def twin(
    world: MachineWorld, resource: Resource, name: str = "a", tenant: int = 0
) -> Object | None:
    """Return what is below of an object in the tenant's namespace `web`."""
    stored = world.below.of(resource).get(world.tenants[tenant].below(WEB), name)
    return None if stored is None else stored.decode()


def own(world: MachineWorld, resource: Resource, name: str = "a", tenant: int = 0) -> Object | None:
    """Return a tenant's object in its namespace `web`."""
    stored = world.tenants[tenant].cluster.of(resource).get(WEB, name)
    return None if stored is None else stored.decode()


def is_running(world: MachineWorld, name: str = "a", tenant: int = 0) -> bool:
    """Return whether a tenant reads of its pod that it runs."""
    found = own(world, PODS, name, tenant)
    return found is not None and found["status"].get("phase") == "Running"


class SceneFacts:
    """Facts that scenes check while they run, by their names."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}

    def that(
        self, name: str, look: Callable[[MachineWorld], Any]
    ) -> Callable[[MachineWorld], None]:
        """Look at something when the scene comes to it."""

        def looked(world: MachineWorld) -> None:
            self.facts[name] = look(world)

        return looked

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]


def asked(outcome: RunOutcome, side: str, *methods: str, path: str = "") -> list[float]:
    """Return when requests were sent to a side, those about Leases apart."""
    found = [match for line in outcome.trace if (match := _LINE.fullmatch(line))]
    return [
        float(match["at"])
        for match in found
        if match["side"] == side
        and match["method"] in methods
        and path in match["path"]
        and "/leases/" not in match["path"]
    ]


def holds(outcome: RunOutcome) -> None:
    assert not outcome.breaks, scenes.told(outcome)


def between(first: float, last: float, fate: Callable[[], RequestFate], *sides: str) -> SceneRule:
    """Have every request of some seconds of a scene meet the same."""

    def rule(side: str, *_: Any) -> RequestFate | None:
        return fate() if first <= now() - T0 < last and side in sides else None

    return rule


def refusing(
    problem: StatusError, first: float, last: float, side: str, where: str = ""
) -> SceneRule:
    """Have a side refuse writes whose target has these words in it."""

    def rule(to: str, request: Any, _: Any) -> RequestFate | None:
        is_hit = request.method != "GET" and to == side and where in request.target
        return RequestFate(refusal=problem) if is_hit and first <= now() - T0 < last else None

    return rule


def silent(side: str) -> Callable[[MachineWorld], None]:
    """Have a firewall forget a side's connections: what is said on them arrives nowhere."""

    def forgotten(world: MachineWorld) -> None:
        for tap in world.faults.of(side):
            tap.hold()

    return forgotten
