"""What can happen: the table of steps, how a script is made from a seed, and how each is done.

Owns scripts: lists of plain steps that mean something whatever was left out before them, so that a
failing one can be cut down. A step names things by small numbers; one that finds nothing to act on
does nothing. Must not judge.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.memapi.cluster import Collection, Object, Stored
from bench.memapi.refusals import RefusedError
from tenancy import names, ownership
from tenancy.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICES, Resource
from tests.properties.machine.network import FAULTS, Armed

if TYPE_CHECKING:
    from tests.properties.machine.world import TenantSide, World

PLAIN = (CONFIG_MAPS, SECRETS, SERVICES)
SPACES = ("default", "web", "db")
NAMES = ("a", "b", "c")
PAUSES = (0.0, 0.002, 0.01, 0.05, 0.3, 2.0, 10.0)
"""Seconds between two steps: in the middle of a request, of a reconcile, or after everything."""
_TASTES = (0, 0.3, 1, 1, 4)


class Step(NamedTuple):
    """One thing that happens, and how long the world then runs."""

    name: str
    numbers: tuple[int, ...]
    pause: float


Do = Callable[["World", Sequence[int]], None]


def script(seed: int, length: int) -> list[Step]:
    """Return the script of a seed.

    Each seed has its own taste: some steps come often in it and some never, and it may keep to a
    few objects, so that much happens to each of them.
    """
    chance = random.Random(seed)  # noqa: S311 - the same at each run
    tastes = {name: weight * chance.choice(_TASTES) for name, (weight, _) in STEPS.items()}
    tastes |= {"make pod": STEPS["make pod"][0], "make space": STEPS["make space"][0]}
    few = chance.choice((3, 6, 40))
    numbers = [[chance.randrange(1000) for _ in range(few)] for _ in range(3)]
    pauses = chance.sample(PAUSES, 3)
    steps = [Step("wait", (0,), 12.0)] if chance.random() < 0.7 else []
    while len(steps) < length:
        name = chance.choices(tuple(tastes), tuple(tastes.values()))[0]
        where = (chance.choice(found) for found in numbers)
        how = (chance.randrange(1000) for _ in range(2))
        steps.append(Step(name, (*where, *how), chance.choice(pauses)))
    return steps


def do(world: World, step: Step) -> None:
    """Have one step happen."""
    STEPS[step.name][1](world, step.numbers)


# --- the tenants' ---------------------------------------------------------------------------------


def _tenant(world: World, numbers: Sequence[int]) -> TenantSide:
    return world.tenants[numbers[0] % len(world.tenants)]


def _space(numbers: Sequence[int]) -> str:
    return SPACES[numbers[1] % len(SPACES)]


def _name(numbers: Sequence[int]) -> str:
    return NAMES[numbers[2] % len(NAMES)]


def _try(world: World, tenant: TenantSide, resource: Resource, space: str, body: Object) -> None:
    try:
        world.make(tenant.cluster, resource, space, body)
    except RefusedError:
        return


def _make_space(world: World, numbers: Sequence[int]) -> None:
    tenant = _tenant(world, numbers)
    _try(world, tenant, NAMESPACES, "", {"metadata": {"name": _space(numbers)}})


def _end_space(world: World, numbers: Sequence[int]) -> None:
    tenant = _tenant(world, numbers)
    world.remove(tenant.cluster.of(NAMESPACES), "", _space(numbers))


def _value(tenant: TenantSide, number: int) -> str:
    return f"{tenant.canary}-{number % 4}"


def _data(tenant: TenantSide, resource: Resource, number: int) -> Object:
    value = _value(tenant, number)
    if resource is CONFIG_MAPS:
        return {"data": {"k": value}}
    if resource is SECRETS:
        return {"data": {"k": base64.b64encode(value.encode()).decode()}}
    return {"spec": {"ports": [{"port": 80 + number % 3}], "selector": {"app": value}}}


def _make(world: World, numbers: Sequence[int]) -> None:
    tenant, resource = _tenant(world, numbers), PLAIN[numbers[3] % len(PLAIN)]
    body = {"metadata": {"name": _name(numbers)}, **_data(tenant, resource, numbers[4])}
    _try(world, tenant, resource, _space(numbers), body)


def _edit(world: World, numbers: Sequence[int]) -> None:
    tenant, resource = _tenant(world, numbers), PLAIN[numbers[3] % len(PLAIN)]

    def edited(found: Object) -> Object:
        data = _data(tenant, resource, numbers[4])
        spec = {**found["spec"], **data["spec"]} if "spec" in data else None
        return {**found, **data, **({"spec": spec} if spec else {})}

    world.change(tenant.cluster.of(resource), _space(numbers), _name(numbers), edited)


def _end(world: World, numbers: Sequence[int]) -> None:
    tenant, resource = _tenant(world, numbers), PLAIN[numbers[3] % len(PLAIN)]
    world.remove(tenant.cluster.of(resource), _space(numbers), _name(numbers))


def pod(tenant: TenantSide, name: str, numbers: Sequence[int]) -> Object:
    """Return a pod that needs some of the tenant's configuration."""
    volumes: list[Object] = []
    if numbers[3] & 1:
        needed = NAMES[numbers[4] % len(NAMES)]
        volumes.append({"name": "cm", "configMap": {"name": needed, "optional": True}})
    if numbers[3] & 2:
        needed = NAMES[numbers[4] // 7 % len(NAMES)]
        volumes.append({"name": "secret", "secret": {"secretName": needed, "optional": True}})
    metadata: Object = {"name": name, "labels": {"app": _value(tenant, numbers[4])}}
    if numbers[3] % 5 == 0:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}
        metadata["ownerReferences"] = [{**owner, "uid": "5b1b6f0c-5d0f-4d7c-8b0a-0a7f6a7c1f11"}]
    return {
        "metadata": metadata,
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": f"example.com/i:{numbers[4] % 3}"}],
            "volumes": volumes,
        },
    }


def _make_pod(world: World, numbers: Sequence[int]) -> None:
    tenant = _tenant(world, numbers)
    _try(world, tenant, PODS, _space(numbers), pod(tenant, _name(numbers), numbers))


def _edit_pod(world: World, numbers: Sequence[int]) -> None:
    tenant = _tenant(world, numbers)

    def edited(found: Object) -> Object:
        if numbers[3] % 2:
            metadata = {**found["metadata"], "labels": {"app": _value(tenant, numbers[4])}}
            return {**found, "metadata": metadata}
        first = {**found["spec"]["containers"][0], "image": f"example.com/i:{numbers[4] % 3}"}
        return {**found, "spec": {**found["spec"], "containers": [first]}}

    world.change(tenant.cluster.of(PODS), _space(numbers), _name(numbers), edited)


def _end_pod(world: World, numbers: Sequence[int]) -> None:
    tenant = _tenant(world, numbers)
    grace = (None, None, 1, 0)[numbers[3] % 4]
    world.remove(tenant.cluster.of(PODS), _space(numbers), _name(numbers), grace)


def _renew_pod(world: World, numbers: Sequence[int]) -> None:
    """A StatefulSet's: the same name again as soon as it is free."""
    _end_pod(world, numbers)
    _make_pod(world, numbers)


# --- the super cluster's admin and its nodes ------------------------------------------------------


def _twins(world: World, *resources: Resource) -> list[tuple[Collection, Stored]]:
    return [
        (world.below.of(resource), stored)
        for resource in resources
        for stored in world.below.of(resource).all()
        if ownership.owner_of(stored.decode()["metadata"]) is not None
    ]


def _picked(
    world: World, number: int, *resources: Resource
) -> tuple[Collection, Stored] | tuple[None, None]:
    found = _twins(world, *resources)
    return found[number % len(found)] if found else (None, None)


def _edit_below(world: World, numbers: Sequence[int]) -> None:
    collection, stored = _picked(world, numbers[0], PODS, *PLAIN)
    if collection is None or stored is None:
        return

    def edited(found: Object) -> Object:
        metadata = found["metadata"]
        match numbers[1] % 4:
            case 0:
                return {**found, "metadata": {**metadata, "labels": {"app": "admin"}}}
            case 1:
                labels = {**metadata["labels"], "app": "admin"}
                return {**found, "metadata": {**metadata, "labels": labels}}
            case 2 if "data" in found:
                return {**found, "data": {"k": "YWRtaW4="}}
            case _ if "selector" in (found.get("spec") or {}):
                return {**found, "spec": {**found["spec"], "selector": {"app": "admin"}}}
        return found

    world.change(collection, stored.namespace, stored.name, edited)


def _end_below(world: World, numbers: Sequence[int]) -> None:
    collection, stored = _picked(world, numbers[0], PODS, PODS, *PLAIN)
    if collection is not None and stored is not None:
        world.remove(collection, stored.namespace, stored.name, (None, 0)[numbers[1] % 2])


def _end_space_below(world: World, numbers: Sequence[int]) -> None:
    collection, stored = _picked(world, numbers[0], NAMESPACES)
    if collection is not None and stored is not None:
        world.remove(collection, "", stored.name)


def _stranger(world: World, numbers: Sequence[int]) -> None:
    """Somebody puts an object of their own where a twin would stand."""
    tenant = _tenant(world, numbers)
    space = names.super_namespace(tenant.tenant.root, tenant.tenant.uid, _space(numbers))
    resource = (CONFIG_MAPS, SECRETS)[numbers[3] % 2]
    try:
        world.make(world.below, resource, space, {"metadata": {"name": _name(numbers)}})
    except RefusedError:
        return


def _stranger_leaves(world: World, _: Sequence[int]) -> None:
    for resource in (CONFIG_MAPS, SECRETS):
        for stored in world.below.of(resource).all():
            metadata = stored.decode()["metadata"]
            if ownership.owner_of(metadata) is None and stored.name in NAMES:
                world.remove(world.below.of(resource), stored.namespace, stored.name)


def _phase(world: World, numbers: Sequence[int]) -> None:
    """A kubelet has news of a pod."""
    collection, stored = _picked(world, numbers[0], PODS)
    if collection is None or stored is None:
        return
    body = stored.decode()
    if not body["spec"].get("nodeName"):
        return
    status = body["status"]
    phase = ("Running", "Succeeded", "Failed")[numbers[1] % 3]
    if status.get("phase") in ("Succeeded", "Failed"):
        return
    ready = "True" if phase == "Running" and numbers[2] % 2 else "False"
    conditions = [
        {**each, "status": ready} if each["type"] == "Ready" else each
        for each in status.get("conditions") or ()
    ]
    body["status"] = {**status, "phase": phase, "conditions": conditions}
    collection.put(body)


# --- faults ---------------------------------------------------------------------------------------


def _side(world: World, number: int) -> str:
    sides = ["super", *(tenant.side for tenant in world.tenants)]
    return sides[number % len(sides)]


def _fault(world: World, numbers: Sequence[int]) -> None:
    kind = tuple(FAULTS)[numbers[1] % len(FAULTS)]
    world.faults.armed.append(
        Armed(
            side=_side(world, numbers[0]),
            kind=kind,
            seconds=(0.01, 0.2, 1.0, 4.0)[numbers[2] % 4],
            skip=(0, 0, 1, 3, 8)[numbers[3] % 5],
            count=(1, 1, 2, 5, 20)[numbers[4] % 5],
        )
    )


def _cut(world: World, numbers: Sequence[int]) -> None:
    """Watches break; what happens before they are back is learnt of when they are."""
    taps = world.faults.of(_side(world, numbers[0]))
    for number, tap in enumerate(taps):
        if numbers[1] % 2 or number % 3 == numbers[2] % 3:
            tap.cut()


def _compact(world: World, numbers: Sequence[int]) -> None:
    """What happened so far cannot be told any more: with a cut, events are missed."""
    world.at(_side(world, numbers[0])).compact()
    if numbers[1] % 2:
        _cut(world, numbers)


def _hold(world: World, numbers: Sequence[int]) -> None:
    """Watches fall behind, and what they then tell may come twice or in another order."""
    taps = [tap for tap in world.faults.of(_side(world, numbers[0])) if numbers[1] % 3]
    taps = taps or list(world.faults.of(_side(world, numbers[0])))[: 1 + numbers[2] % 4]
    for tap in taps:
        tap.hold()
    order = _ORDERS[numbers[3] % len(_ORDERS)]
    seconds = (0.05, 1.0, 8.0, 40.0)[numbers[4] % 4]

    def release() -> None:
        for tap in taps:
            tap.release(order)

    world.loop.call_later(seconds, release)


def _twice(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines for _ in range(2)]


def _backwards(lines: list[bytes]) -> list[bytes]:
    return lines[::-1]


def _again(lines: list[bytes]) -> list[bytes]:
    return [*lines, *lines]


def _garbled(lines: list[bytes]) -> list[bytes]:
    return [*lines[:-1], *(line[: len(line) // 2] + b"\n" for line in lines[-1:])]


_ORDERS: tuple[Callable[[list[bytes]], Sequence[bytes]], ...] = (
    list,
    list,
    _twice,
    _backwards,
    _again,
    _garbled,
)


def _kill(world: World, numbers: Sequence[int]) -> None:
    replica = world.replicas[numbers[0] % len(world.replicas)]
    if not replica.is_dead:
        replica.kill()
        world.loop.call_later((0.0, 1.0, 5.0, 30.0)[numbers[1] % 4], replica.start)


def _stop(world: World, numbers: Sequence[int]) -> None:
    world.replicas[numbers[0] % len(world.replicas)].stop()


def _partition(world: World, numbers: Sequence[int]) -> None:
    replica = world.replicas[numbers[0] % len(world.replicas)]
    side = _side(world, numbers[1])
    replica.cut_off.add(side)
    for tap in world.faults.of(side):
        tap.hold()
    seconds = (0.5, 3.0, 12.0, 40.0)[numbers[2] % 4]

    def heal() -> None:
        replica.cut_off.discard(side)
        for tap in world.faults.of(side):
            tap.cut()

    world.loop.call_later(seconds, heal)


def _snapshot(world: World, numbers: Sequence[int]) -> None:
    tenant = _tenant(world, numbers)
    if tenant.newer is None:
        tenant.snapshots = [*tenant.snapshots[-2:], tenant.cluster.save()]


def _restore(world: World, numbers: Sequence[int]) -> None:
    tenant = _tenant(world, numbers)
    if not tenant.snapshots or tenant.newer is not None:
        return
    state = tenant.snapshots[numbers[1] % len(tenant.snapshots)]
    if world.settled(tenant, state):
        world.restore(tenant, state, bump=(0, 0, 100_000)[numbers[2] % 3])


def _bring_back(world: World, numbers: Sequence[int]) -> None:
    world.bring_back(_tenant(world, numbers))


def _confirm(world: World, numbers: Sequence[int]) -> None:
    tenant = _tenant(world, numbers)
    if tenant.newer is not None and world.holds(tenant):
        world.confirm(tenant)


def _wait(_: World, __: Sequence[int]) -> None:
    """Let time go by."""


STEPS: Mapping[str, tuple[int, Do]] = {
    "make space": (6, _make_space),
    "end space": (2, _end_space),
    "make": (10, _make),
    "edit": (8, _edit),
    "end": (5, _end),
    "make pod": (16, _make_pod),
    "edit pod": (5, _edit_pod),
    "end pod": (7, _end_pod),
    "renew pod": (4, _renew_pod),
    "edit below": (5, _edit_below),
    "end below": (4, _end_below),
    "end space below": (1, _end_space_below),
    "stranger": (2, _stranger),
    "stranger leaves": (1, _stranger_leaves),
    "phase": (5, _phase),
    "fault": (12, _fault),
    "cut": (3, _cut),
    "compact": (2, _compact),
    "hold": (4, _hold),
    "kill": (3, _kill),
    "stop": (1, _stop),
    "partition": (1, _partition),
    "snapshot": (3, _snapshot),
    "restore": (2, _restore),
    "bring back": (1, _bring_back),
    "confirm": (1, _confirm),
    "wait": (3, _wait),
}
"""Each step: how often it comes, and what it does."""


def written(steps: Sequence[Step]) -> list[list[Any]]:
    """Return a script as JSON has it."""
    return [[step.name, list(step.numbers), step.pause] for step in steps]


def read(found: Sequence[Sequence[Any]]) -> list[Step]:
    """Return the script of such JSON."""
    return [Step(name, tuple(numbers), pause) for name, numbers, pause in found]
