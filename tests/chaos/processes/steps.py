"""What real servers can play of the machine's steps: edits of tenants, and faults of proxies.

Owns how each step is done with requests. Scripts and the numbers in them are those of
`tests.chaos.memory.steps`; where an edit meets nothing to act on, or a server that is down,
nothing happens. Namespaces are there from the beginning and stay, as no controller runs that could
end one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kubeio import errors
from tenancy import ownership
from tenancy.resources import PODS, SERVICES, Resource
from tests.chaos.processes.rest import FOREIGN
from tests.chaos.processes.sides import DrillTenant, Object
from tests.chaos.memory import breakdowns, steps, tenant_edits
from tests.chaos.memory.steps import MachineStep
from tests.chaos.memory.tenant_edits import PLAIN
from tests.chaos.likeness import TERMINAL

if TYPE_CHECKING:
    from tests.chaos.processes.stage import DrillStage

StepFunction = Callable[["DrillStage", Sequence[int]], Awaitable[None]]

SPACES = tenant_edits.SPACES
NAMES = tuple("abcdefgh")
"""More than the machine's three: a real server is slow enough to be caught in the middle."""


def _at(stage: DrillStage, numbers: Sequence[int]) -> tuple[DrillTenant, str, str]:
    tenant = stage.tenants[numbers[0] % len(stage.tenants)]
    return tenant, SPACES[numbers[1] % len(SPACES)], NAMES[numbers[2] % len(NAMES)]


async def make(stage: DrillStage, numbers: Sequence[int]) -> None:
    (tenant, space, name), resource = _at(stage, numbers), PLAIN[numbers[3] % len(PLAIN)]
    data = tenant_edits.data(tenant, resource, numbers[4])
    await tenant.client.create(resource, {"metadata": {"name": name}, **data}, namespace=space)


async def edit(stage: DrillStage, numbers: Sequence[int]) -> None:
    (tenant, space, name), resource = _at(stage, numbers), PLAIN[numbers[3] % len(PLAIN)]
    data = tenant_edits.data(tenant, resource, numbers[4])
    await tenant.client.patch(resource, name, data, namespace=space)


async def end(stage: DrillStage, numbers: Sequence[int]) -> None:
    (tenant, space, name), resource = _at(stage, numbers), PLAIN[numbers[3] % len(PLAIN)]
    await tenant.delete(resource, space, name)


async def make_pod(stage: DrillStage, numbers: Sequence[int]) -> None:
    tenant, space, name = _at(stage, numbers)
    body = tenant_edits.pod(tenant, name, numbers)
    await tenant.client.create(PODS, body, namespace=space)


async def edit_pod(stage: DrillStage, numbers: Sequence[int]) -> None:
    tenant, space, name = _at(stage, numbers)
    patch: Object = {"metadata": {"labels": {"app": f"{tenant.canary}-{numbers[4] % 4}"}}}
    if numbers[3] % 2:
        image = {"name": "main", "image": f"example.com/i:{numbers[4] % 3}"}
        patch = {"spec": {"containers": [image]}}
    await tenant.client.patch(PODS, name, patch, kind="strategic", namespace=space)


async def end_pod(stage: DrillStage, numbers: Sequence[int]) -> None:
    tenant, space, name = _at(stage, numbers)
    await tenant.delete(PODS, space, name, (None, None, 1, 0)[numbers[3] % 4])


async def renew_pod(stage: DrillStage, numbers: Sequence[int]) -> None:
    """The same name again at once: somebody had forced the end of what had it."""
    tenant, space, name = _at(stage, numbers)
    await tenant.delete(PODS, space, name, 0)
    await make_pod(stage, numbers)


async def phase(stage: DrillStage, numbers: Sequence[int]) -> None:
    """A kubelet has news of a pod."""
    tenant, space, name = _at(stage, numbers)
    found = await stage.below.get(PODS, name, namespace=tenant.below(space))
    status, node = found["status"], found["spec"].get("nodeName")
    is_ours = ownership.read_owner(found["metadata"]) is not None
    if not (is_ours and node and status.get("podIP")) or status.get("phase") in TERMINAL:
        return
    ready = "True" if numbers[2] % 2 else "False"
    conditions = [
        {**each, "status": ready} if each["type"] == "Ready" else each
        for each in status["conditions"]
    ]
    news = {
        "phase": ("Running", "Succeeded", "Failed")[numbers[1] % 3],
        "conditions": conditions,
    }
    patch = {"metadata": {"uid": found["metadata"]["uid"]}, "status": news}
    await stage.below.patch(PODS, name, patch, namespace=tenant.below(space), subresource="status")


async def edit_below(stage: DrillStage, numbers: Sequence[int]) -> None:
    """The super cluster's admin changes what is a tenant's."""
    tenant, space, name = _at(stage, numbers)
    resource = (PODS, *PLAIN)[numbers[3] % 4]
    found = await stage.below.get(resource, name, namespace=tenant.below(space))
    if ownership.read_owner(found["metadata"]) is None:
        return
    patch: Object = {"metadata": {"labels": {"app": "admin"}}}
    if "data" in found:
        patch = {"data": {"k": "YWRtaW4="}}
    elif resource is SERVICES:
        patch = {"spec": {"selector": {"app": "admin"}}}
    await stage.below.patch(resource, name, patch, namespace=tenant.below(space))


async def fault(stage: DrillStage, numbers: Sequence[int]) -> None:
    stage.script.arm(_side(stage, numbers), numbers)


async def cut(stage: DrillStage, numbers: Sequence[int]) -> None:
    """Watches break; what happens before they are back is learnt of when they are."""
    for number, relay in enumerate(list(stage.proxies[_side(stage, numbers)].relays)):
        if numbers[1] % 2 or number % 3 == numbers[2] % 3:
            relay.cut()


async def hold(stage: DrillStage, numbers: Sequence[int]) -> None:
    """Watches fall behind, and what they then tell may come twice or in another order."""
    relays = list(stage.proxies[_side(stage, numbers)].relays)
    if not numbers[1] % 3:
        relays = relays[: 1 + numbers[2] % 4]
    for relay in relays:
        relay.hold()
    order = breakdowns.ORDERS[numbers[3] % len(breakdowns.ORDERS)]
    seconds = (0.05, 0.3, 1.0, 2.0)[numbers[4] % 4]

    async def release() -> None:
        await asyncio.sleep(seconds)
        for relay in relays:
            with contextlib.suppress(OSError):
                await relay.release(order)

    task = asyncio.create_task(release())
    stage.held.add(task)
    task.add_done_callback(stage.held.discard)


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


async def play(stage: DrillStage, script: Sequence[MachineStep], *, longest: float) -> None:
    """Do one step after the other, with pauses of at most so many seconds."""
    for step in script:
        with contextlib.suppress(errors.KubeError):
            await STEPS[step.name][1](stage, step.numbers)
        await asyncio.sleep(min(step.pause, longest))


def script(seed: int, length: int) -> list[MachineStep]:
    """Return the tenants' edits of a seed."""
    return _of(EDITS, seed, length)


def breakdown(seed: int, length: int) -> list[MachineStep]:
    """Return the faults of a seed."""
    return _of(FAULTS, seed, length)


def _of(table: Mapping[str, tuple[int, StepFunction]], seed: int, length: int) -> list[MachineStep]:
    weights = {name: weight for name, (weight, _) in table.items()}
    return [step for step in steps.script(seed, length, weights) if step.name in table]


async def sentinel(stage: DrillStage, number: int) -> None:
    """Have each tenant make something new, so that calm means that somebody works."""
    for tenant in stage.tenants:
        await tenant.delete(SERVICES, "default", f"sentinel-{number - 1}")
        body = {
            "metadata": {"name": f"sentinel-{number}"},
            "spec": {"ports": [{"port": 80}], "selector": {"app": tenant.canary}},
        }
        with contextlib.suppress(errors.AlreadyExists):
            await tenant.client.create(SERVICES, body, namespace="default")


def bystanders(space: str) -> list[tuple[Resource, Object]]:
    """Return what strangers have in a super namespace; one has a name that a tenant wants."""
    ports = {"ports": [{"port": 80}], "selector": {"app": "nobody"}}
    return [
        (SERVICES, {"metadata": {"name": FOREIGN, "namespace": space}, "spec": ports}),
        *(
            (resource, {"metadata": {"name": "bystander", "namespace": space}, "data": {}})
            for resource in PLAIN
            if resource is not SERVICES
        ),
    ]
