"""Steps of the machine on real servers: edits of tenants, and faults of proxies.

Owns how each step is done with requests. Scripts are those of `tests.chaos.scripts`. Where an edit
meets nothing to act on, or a server that is down, nothing happens. Namespaces are there from the
beginning and stay, as no controller runs that could end one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kubeio import errors
from tenancy import ownership
from tenancy.resources import PODS, SERVICES, Resource
from tests.chaos import edits, faults
from tests.chaos.edits import PLAIN, SPACES
from tests.chaos.oracles import Object
from tests.chaos.processes.relay import WatchRelay
from tests.chaos.processes.rest import FOREIGN
from tests.chaos.processes.sides import DrillTenant
from tests.chaos.scripts import ScriptStep, build_script

if TYPE_CHECKING:
    from tests.chaos.processes.stage import DrillStage

StepFunction = Callable[["DrillStage", Sequence[int]], Awaitable[None]]

NAMES = tuple("abcdefgh")
"""More than the machine's three: a real server is slow enough to be caught in the middle."""


def _at(stage: DrillStage, numbers: Sequence[int]) -> tuple[DrillTenant, str, str]:
    tenant = stage.tenants[numbers[0] % len(stage.tenants)]
    return tenant, SPACES[numbers[1] % len(SPACES)], NAMES[numbers[2] % len(NAMES)]


async def make(stage: DrillStage, numbers: Sequence[int]) -> None:
    (tenant, space, name), resource = _at(stage, numbers), PLAIN[numbers[3] % len(PLAIN)]
    data = edits.data(tenant, resource, numbers[4])
    await tenant.client.create(resource, {"metadata": {"name": name}, **data}, namespace=space)


async def edit(stage: DrillStage, numbers: Sequence[int]) -> None:
    (tenant, space, name), resource = _at(stage, numbers), PLAIN[numbers[3] % len(PLAIN)]
    data = edits.data(tenant, resource, numbers[4])
    await tenant.client.patch(resource, name, data, namespace=space)


async def end(stage: DrillStage, numbers: Sequence[int]) -> None:
    (tenant, space, name), resource = _at(stage, numbers), PLAIN[numbers[3] % len(PLAIN)]
    await tenant.delete(resource, space, name)


async def make_pod(stage: DrillStage, numbers: Sequence[int]) -> None:
    tenant, space, name = _at(stage, numbers)
    body = edits.pod(tenant, name, numbers)
    await tenant.client.create(PODS, body, namespace=space)


async def edit_pod(stage: DrillStage, numbers: Sequence[int]) -> None:
    tenant, space, name = _at(stage, numbers)
    patch: Object = {"metadata": {"labels": {"app": edits.value(tenant, numbers[4])}}}
    if numbers[3] % 2:
        image = {"name": "main", "image": edits.image(numbers[4])}
        patch = {"spec": {"containers": [image]}}
    await tenant.client.patch(PODS, name, patch, kind="strategic", namespace=space)


async def end_pod(stage: DrillStage, numbers: Sequence[int]) -> None:
    tenant, space, name = _at(stage, numbers)
    await tenant.delete(PODS, space, name, edits.grace(numbers))


async def renew_pod(stage: DrillStage, numbers: Sequence[int]) -> None:
    """The same name again at once: someone had forced the end of what had it."""
    tenant, space, name = _at(stage, numbers)
    await tenant.delete(PODS, space, name, 0)
    await make_pod(stage, numbers)


async def phase(stage: DrillStage, numbers: Sequence[int]) -> None:
    """A kubelet has news of a pod."""
    tenant, space, name = _at(stage, numbers)
    found = await stage.below.get(PODS, name, namespace=tenant.below(space))
    status, node = found["status"], found["spec"].get("nodeName")
    is_ours = ownership.read_owner(found["metadata"]) is not None
    news = edits.news(status, numbers)
    if not (is_ours and node and status.get("podIP")) or news is None:
        return
    patch = {"metadata": {"uid": found["metadata"]["uid"]}, "status": news}
    await stage.below.patch(PODS, name, patch, namespace=tenant.below(space), subresource="status")


async def edit_below(stage: DrillStage, numbers: Sequence[int]) -> None:
    """The super cluster's admin changes what is a tenant's."""
    tenant, space, name = _at(stage, numbers)
    resource = (PODS, *PLAIN)[numbers[3] % 4]
    found = await stage.below.get(resource, name, namespace=tenant.below(space))
    if ownership.read_owner(found["metadata"]) is None:
        return
    patch: Object = {"metadata": {"labels": edits.ADMIN_LABELS}}
    if "data" in found:
        patch = {"data": edits.ADMIN_DATA}
    elif resource is SERVICES:
        patch = {"spec": {"selector": edits.ADMIN_LABELS}}
    await stage.below.patch(resource, name, patch, namespace=tenant.below(space))


async def fault(stage: DrillStage, numbers: Sequence[int]) -> None:
    stage.script.arm(_side(stage, numbers), numbers)


async def cut(stage: DrillStage, numbers: Sequence[int]) -> None:
    """Watches break. What happens before they are back is learnt of when they are."""
    for relay in faults.select_cut(_relays(stage, numbers), numbers):
        relay.cut()


async def hold(stage: DrillStage, numbers: Sequence[int]) -> None:
    """Watches fall behind, and what they then tell may come twice or in another order."""
    relays = faults.select_held(_relays(stage, numbers), numbers)
    for relay in relays:
        relay.hold()
    order = faults.get_order(numbers)
    seconds = (0.05, 0.3, 1.0, 2.0)[numbers[4] % 4]

    async def release() -> None:
        await asyncio.sleep(seconds)
        for relay in relays:
            with contextlib.suppress(OSError):
                await relay.release(order)

    task = asyncio.create_task(release())
    stage.held.add(task)
    task.add_done_callback(stage.held.discard)


def _relays(stage: DrillStage, numbers: Sequence[int]) -> list[WatchRelay]:
    return list(stage.proxies[_side(stage, numbers)].relays)


def _side(stage: DrillStage, numbers: Sequence[int]) -> str:
    sides = list(stage.proxies)
    return sides[numbers[0] % len(sides)]


EDITS: Mapping[str, tuple[int, StepFunction]] = {
    "make": (10, make),
    "edit": (8, edit),
    "end": (5, end),
    "make pod": (16, make_pod),
    "edit pod": (5, edit_pod),
    "end pod": (7, end_pod),
    "renew pod": (4, renew_pod),
    "phase": (5, phase),
    "edit below": (3, edit_below),
}
FAULTS: Mapping[str, tuple[int, StepFunction]] = {
    "fault": (12, fault),
    "cut": (1, cut),
    "hold": (1, hold),
}
STEPS = {**EDITS, **FAULTS}
"""Each step: how often it comes, and what it does."""


async def play(stage: DrillStage, script: Sequence[ScriptStep], *, longest: float) -> None:
    """Do one step after the other, with pauses of at most so many seconds."""
    for step in script:
        with contextlib.suppress(errors.KubeError):
            await STEPS[step.name][1](stage, step.numbers)
        await asyncio.sleep(min(step.pause, longest))


def script(seed: int, length: int) -> list[ScriptStep]:
    """Return the tenants' edits of a seed."""
    return _of(EDITS, seed, length)


def breakdown(seed: int, length: int) -> list[ScriptStep]:
    """Return the faults of a seed."""
    return _of(FAULTS, seed, length)


def _of(table: Mapping[str, tuple[int, StepFunction]], seed: int, length: int) -> list[ScriptStep]:
    weights = {name: weight for name, (weight, _) in table.items()}
    return [step for step in build_script(seed, length, weights) if step.name in table]


async def sentinel(stage: DrillStage, number: int) -> None:
    """Have each tenant make something new, so that calm means that someone works."""
    for tenant in stage.tenants:
        await tenant.delete(SERVICES, "default", f"sentinel-{number - 1}")
        body = {
            "metadata": {"name": f"sentinel-{number}"},
            "spec": {"ports": [{"port": 80}], "selector": {"app": tenant.canary}},
        }
        with contextlib.suppress(errors.AlreadyExists):
            await tenant.client.create(SERVICES, body, namespace="default")


def bystanders(space: str) -> list[tuple[Resource, Object]]:
    """Return foreign objects of a super namespace. One has a name that a tenant wants."""
    ports = {"ports": [{"port": 80}], "selector": {"app": "nobody"}}
    return [
        (SERVICES, {"metadata": {"name": FOREIGN, "namespace": space}, "spec": ports}),
        *(
            (resource, {"metadata": {"name": "bystander", "namespace": space}, "data": {}})
            for resource in PLAIN
            if resource is not SERVICES
        ),
    ]
