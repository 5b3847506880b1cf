"""A target that dies under load: what pods elsewhere feel of it, and what its return undoes.

Owns the second cluster and its tenant, whose pods run in both. `rest` knows one cluster, so this
tenant is out of its sight, and judged here. Hazard: a load needs the same machine as what it
measures, so only what is felt before, meanwhile and after in one turn is compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from kubeio.api.client import Client
from kubeio.errors import KubeError, NotFound
from tenancy import wellknown
from tenancy.resources import NODES, PODS
from tests.chaos.oracles import Object, Violation
from tests.chaos.processes.following import KindWatch
from tests.chaos.processes.judge import AuditLogTail
from tests.chaos.processes.kubelet import DrillKubelet
from tests.chaos.processes.sides import DrillTenant
from tests.chaos.processes.tasks import ended
from tests.integration.syncer.objects import pod
from tests.integration.syncer.target_world import NODE, TargetWorld, has_node, plane_of
from tests.integration.syncer.world import SYNCER
from tests.support.doubles import ObservedDoubles, observe
from tests.support.grants import grant_target

if TYPE_CHECKING:
    from tests.chaos.processes.stage import DrillStage
    from tests.chaos.processes.turn import DrillTurn

GOAL = 1.2
"""What p99 elsewhere may be while it is away, to that before or after, whichever is less: a cluster
that is dead leaves its share of the machine to the others, and one that works off what it missed
takes more."""
SLOWER = "slower"
"""The rule of who felt it all the same."""
THERE = {"type": "virtual-kubelet"}
RATE = 10.0
"""Pods a second, of all tenants together, that are made at home."""
LIFE_SECONDS = 3.0
FELT_SECONDS = 20.0
"""Of load before, and after."""
STAYING, LEAVING, COMING = 12, 4, 4
"""Pods that run there all the time, that are deleted while it is away, that are created then."""
NOTICED_SECONDS = 45.0
"""From the kill until its node is not ready, which is said 40 s after its last answer."""
ROUNDS = 20
"""Looks at both clusters that a turn needs to prove that no pod was in both."""
_SPACE = "default"


@dataclass(kw_only=True)
class OutageTarget:
    """The target, and the tenant that is granted it beside home."""

    target_world: TargetWorld
    tenant: DrillTenant
    owners: dict[str, str] = field(default_factory=dict)
    """By UID of each twin ever seen there: the UID that it records."""

    def __post_init__(self) -> None:
        """Judge what the syncer deletes there from the beginning."""
        self._audit = AuditLogTail(self.target_world.plane.audit_log, SYNCER)

    @property
    def super_space(self) -> str:
        """Where the tenant's pods are, in both clusters."""
        return self.tenant.below(_SPACE)

    def heard(self, kind: str, body: Object) -> None:
        """Take note of a pod there."""
        del kind
        owner = (body["metadata"].get("annotations") or {}).get(wellknown.UID, "")
        self.owners[body["metadata"]["uid"]] = owner

    def wrong_deletes(self) -> list[Violation]:
        """Return what the syncer deleted there, or tried to, that no one had asked for."""
        found = []
        for event in self._audit.writes():
            if event["verb"] != "delete" or event["objectRef"]["resource"] != PODS.plural:
                continue
            told = ((event.get("requestObject") or {}).get("preconditions") or {}).get("uid", "")
            if self.owners.get(told, told) not in self.tenant.asked:
                title = f"Pod {event['objectRef']['name']} in {self.target_world.name}"
                found.append(Violation("wrong delete", f"{title}: nobody asked for it"))
        return found

    async def list_twin_uids(self) -> dict[str, str]:
        """Return the UIDs of the twins in the target, by name."""
        found = await self.target_world.target_client.list(PODS, namespace=self.super_space)
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found["items"] or ()}


async def join(stage: DrillStage, stack: AsyncExitStack) -> OutageTarget:
    """Start a target and grant it to the last tenant. Its load is no one else's from here on."""
    tenant = stage.tenants.pop()
    plane = plane_of(stage.folder / "target")
    stack.push_async_callback(plane.stop)
    await plane.start()
    there = await stack.enter_async_context(Client(plane.endpoint))
    await grant_target(there, SYNCER)
    await has_node(there)
    world = SimpleNamespace(
        super_client=stage.below, tenant_client=tenant.client, tenant=tenant.tenant
    )
    target_world = TargetWorld(world=cast(Any, world), plane=plane, target_client=there, name="c2")
    found = OutageTarget(target_world=target_world, tenant=tenant)
    background = await stack.enter_async_context(ended())
    background.create_task(DrillKubelet(there, (NODE,)).run())
    background.create_task(KindWatch(there, PODS, found.heard).run())
    # So much that nothing goes there unasked.
    await target_world.granted(
        {"name": "home", "weight": 1000}, {"name": target_world.name, "weight": 1}
    )
    return found


class OutageLoad:
    """Pods that are made at home at a rate, and how long each takes to be Ready for its tenant."""

    def __init__(self, sides: Sequence[DrillTenant]) -> None:
        self._sides = sides
        self._ready: dict[str, float] = {}
        self._names = itertools.count()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """See pods become Ready for the length of a block."""
        tasks = [
            asyncio.create_task(KindWatch(side.client, PODS, self._heard).run())
            for side in self._sides
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _heard(self, kind: str, body: Object) -> None:
        del kind
        if is_ready(body):
            now = asyncio.get_running_loop().time()
            self._ready.setdefault(body["metadata"]["uid"], now)

    async def felt(self, turn: DrillTurn, seconds: float) -> list[float]:
        """Return how many milliseconds each pod took. All end a moment later."""
        tasks: list[asyncio.Task[float | None]] = []
        async with asyncio.TaskGroup() as group:
            for number in range(int(seconds * RATE)):
                side = self._sides[number % len(self._sides)]
                tasks.append(group.create_task(self._lived(side, turn)))
                await asyncio.sleep(1 / RATE)
        return [took for task in tasks if (took := task.result()) is not None]

    async def _lived(self, side: DrillTenant, turn: DrillTurn) -> float | None:
        loop, name = asyncio.get_running_loop(), f"felt-{turn.number}-{next(self._names)}"
        sent = loop.time()
        made = await side.client.create(PODS, pod(name), namespace=_SPACE)
        uid = made["metadata"]["uid"]

        async def is_seen() -> bool:
            return uid in self._ready

        if not await turn.until(is_seen, f"{side.side}: {name} is Ready"):
            return None
        await asyncio.sleep(max(0.0, sent + LIFE_SECONDS - loop.time()))
        await side.delete(PODS, _SPACE, name, 0)
        return 1e3 * (self._ready[uid] - sent)


def is_ready(body: Object) -> bool:
    """Return whether a pod says that it is Ready."""
    found = (body.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in found)


async def target(turn: DrillTurn) -> None:
    """The API server of a target is killed under load, and comes back. Home hardly feels it."""
    outage_target = turn.stage.outage_target
    assert outage_target is not None
    load, seen = OutageLoad([outage_target.tenant, *turn.stage.tenants]), ObservedDoubles()
    clients = turn.stage.below, outage_target.target_world.target_client
    watching = asyncio.create_task(observe(clients, outage_target.super_space, seen))
    try:
        async with load.watched():
            await _die_and_return(turn, outage_target, load)
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    turn.findings += [
        Violation("duplicate", f"{uid} was in both") for uid in sorted(set(seen.twice))
    ]
    if seen.rounds < ROUNDS:
        turn.findings.append(Violation("unseen", f"both were looked at {seen.rounds} times only"))
    turn.findings += outage_target.wrong_deletes()


async def _die_and_return(turn: DrillTurn, outage_target: OutageTarget, load: OutageLoad) -> None:
    tenant, target_world = outage_target.tenant, outage_target.target_world
    staying, leaving, coming = (
        [f"{word}-{turn.number}-{number}" for number in range(count)]
        for word, count in (("stays", STAYING), ("leaves", LEAVING), ("comes", COMING))
    )
    for name in (*staying, *leaving):
        await tenant.client.create(PODS, pod(name, nodeSelector=THERE), namespace=_SPACE)
    if not await turn.until(lambda: _are_ready(tenant, (*staying, *leaving)), "they run there"):
        return
    twins = await outage_target.list_twin_uids()
    before = await load.felt(turn, FELT_SECONDS)

    loop = asyncio.get_running_loop()
    killed = loop.time()
    target_world.plane.kill_apiserver()
    async with asyncio.TaskGroup() as group:
        touching = group.create_task(_touched(turn, outage_target, leaving, coming, killed))
        meanwhile = await load.felt(turn, turn.seconds)
    await target_world.plane.start()

    back = loop.time()
    await turn.until(
        lambda: _is_in_step(outage_target, staying, leaving, coming),
        "in step again",
        turn.stage.calm_seconds,
    )
    took = loop.time() - back
    after = await load.felt(turn, FELT_SECONDS)
    now = await outage_target.list_twin_uids()
    turn.findings += [
        Violation("double run", f"{name} in {target_world.name} was replaced")
        for name in staying
        if now.get(name) != twins[name]
    ]
    for name in (*staying, *coming):
        await tenant.delete(PODS, _SPACE, name)

    async def is_empty() -> bool:
        return not await outage_target.list_twin_uids()

    await turn.until(is_empty, "all have ended there")
    p99 = [_get_p99(each) for each in (before, meanwhile, after)]
    turn.ratio = ratio(*p99)
    turn.findings += slower(turn.ratio, p99)
    noticed = touching.result()
    turn.told = (
        f"{target_world.name} away for {turn.seconds:.0f} s: elsewhere p99 {p99[0]:.0f} ms before,"
        f" {p99[1]:.0f} meanwhile ({turn.ratio:.2f}), {p99[2]:.0f} after, of"
        f" {len(before)}, {len(meanwhile)} and {len(after)} pods; "
        + ("" if noticed is None else f"its node not ready {noticed:.1f} s after the kill; ")
        + f"in step {took:.1f} s after its return"
    )


def ratio(before: float, meanwhile: float, after: float) -> float:
    """Return what p99 elsewhere was while a target was away, to the less of before and after."""
    return meanwhile / min(before, after)


def _get_p99(values: Sequence[float]) -> float:
    """Return the smallest value that at least 99 % of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(0.99 * len(ordered)) - 1, 0)] if ordered else math.nan


def slower(found: float, p99: Sequence[float]) -> list[Violation]:
    """Return that others felt it, if they did. What was not measured is none of the goal."""
    if found <= GOAL:
        return []
    before, meanwhile, after = p99
    title = f"p99 elsewhere {before:.0f} ms before, {meanwhile:.0f} meanwhile, {after:.0f} after"
    return [Violation(SLOWER, f"{title}: {found:.2f} is above the goal of {GOAL}")]


async def _touched(
    turn: DrillTurn,
    outage_target: OutageTarget,
    leaving: Sequence[str],
    coming: Sequence[str],
    killed: float,
) -> float | None:
    """Delete and make pods there while it is away, and see that its node is not ready.

    Returns how long after the kill that was, None when the outage is too short to see it.
    """
    tenant = outage_target.tenant
    await asyncio.sleep(min(2.0, turn.seconds / 4))
    for name in leaving:
        await tenant.delete(PODS, _SPACE, name)
    for name in coming:
        await tenant.client.create(PODS, pod(name, nodeSelector=THERE), namespace=_SPACE)

    async def is_said() -> bool:
        return not is_ready(await tenant.client.get(NODES, outage_target.target_world.node))

    if turn.seconds < NOTICED_SECONDS:
        return None
    loop = asyncio.get_running_loop()
    left = killed + NOTICED_SECONDS - loop.time()
    if not await turn.until(is_said, f"{outage_target.target_world.node} is not ready", left):
        return None
    return loop.time() - killed


async def _are_ready(tenant: DrillTenant, names: Sequence[str]) -> bool:
    found = await tenant.client.list(PODS, namespace=_SPACE)
    ready = {each["metadata"]["name"] for each in found["items"] or () if is_ready(each)}
    return set(names) <= ready


async def _is_in_step(
    outage_target: OutageTarget,
    staying: Sequence[str],
    leaving: Sequence[str],
    coming: Sequence[str],
) -> bool:
    """Return whether what was deleted is gone, what was made runs, and the node is ready."""
    try:
        there = set(await outage_target.list_twin_uids())
        node = await outage_target.tenant.client.get(NODES, outage_target.target_world.node)
    except (NotFound, KubeError):
        return False
    is_there = {*staying, *coming} <= there and not there & set(leaving)
    return (
        is_there and is_ready(node) and await _are_ready(outage_target.tenant, (*staying, *coming))
    )
