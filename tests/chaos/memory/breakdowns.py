"""What goes wrong: requests, watches, processes of the syncer, and stores of tenants.

Each function is one step, as in `tenant_edits`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.chaos.memory.network import FAULTS, ArmedFault
from tests.chaos.memory.tenant_edits import tenant_of

if TYPE_CHECKING:
    from tests.chaos.memory.world import MachineWorld


def _side(world: MachineWorld, number: int) -> str:
    sides = ["super", *(tenant.side for tenant in world.tenants)]
    return sides[number % len(sides)]


def fault(world: MachineWorld, numbers: Sequence[int]) -> None:
    kind = tuple(FAULTS)[numbers[1] % len(FAULTS)]
    world.faults.armed.append(
        ArmedFault(
            side=_side(world, numbers[0]),
            kind=kind,
            seconds=(0.01, 0.2, 1.0, 4.0)[numbers[2] % 4],
            skip=(0, 0, 1, 3, 8)[numbers[3] % 5],
            count=(1, 1, 2, 5, 20)[numbers[4] % 5],
        )
    )


def cut(world: MachineWorld, numbers: Sequence[int]) -> None:
    """Watches break; what happens before they are back is learnt of when they are."""
    taps = world.faults.of(_side(world, numbers[0]))
    for number, tap in enumerate(taps):
        if numbers[1] % 2 or number % 3 == numbers[2] % 3:
            tap.cut()


def compact(world: MachineWorld, numbers: Sequence[int]) -> None:
    """What happened so far cannot be told any more: with a cut, events are missed."""
    world.at(_side(world, numbers[0])).compact()
    if numbers[1] % 2:
        cut(world, numbers)


def hold(world: MachineWorld, numbers: Sequence[int]) -> None:
    """Watches fall behind, and what they then tell may come twice or in another order."""
    taps = [tap for tap in world.faults.of(_side(world, numbers[0])) if numbers[1] % 3]
    taps = taps or list(world.faults.of(_side(world, numbers[0])))[: 1 + numbers[2] % 4]
    for tap in taps:
        tap.hold()
    order = ORDERS[numbers[3] % len(ORDERS)]
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


ORDERS: tuple[Callable[[list[bytes]], Sequence[bytes]], ...] = (
    list,
    list,
    _twice,
    _backwards,
    _again,
    _garbled,
)


def kill(world: MachineWorld, numbers: Sequence[int]) -> None:
    replica = world.replicas[numbers[0] % len(world.replicas)]
    if not replica.is_dead:
        replica.kill()
        world.loop.call_later((0.0, 1.0, 5.0, 30.0)[numbers[1] % 4], replica.start)


def stop(world: MachineWorld, numbers: Sequence[int]) -> None:
    world.replicas[numbers[0] % len(world.replicas)].stop()


def freeze(world: MachineWorld, numbers: Sequence[int]) -> None:
    """A process stands still, in the middle of whatever it does, and then goes on."""
    replica = world.replicas[numbers[0] % len(world.replicas)]
    if not replica.is_dead:
        world.loop.freeze(replica)
        seconds = (1.0, 8.0, 20.0, 45.0)[numbers[1] % 4]
        world.loop.call_later(seconds, world.loop.thaw, replica)


def partition(world: MachineWorld, numbers: Sequence[int]) -> None:
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


def snapshot(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant = tenant_of(world, numbers)
    if tenant.newer is None:
        tenant.snapshots = [*tenant.snapshots[-2:], tenant.cluster.save()]


def restore(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant = tenant_of(world, numbers)
    if not tenant.snapshots or world.is_confirming(tenant):
        return
    state = tenant.snapshots[numbers[1] % len(tenant.snapshots)]
    if world.settled(tenant, state):
        world.restore(tenant, state, bump=(0, 0, 100_000)[numbers[2] % 3])


def bring_back(world: MachineWorld, numbers: Sequence[int]) -> None:
    world.bring_back(tenant_of(world, numbers))


def confirm(world: MachineWorld, numbers: Sequence[int]) -> None:
    tenant = tenant_of(world, numbers)
    if tenant.newer is not None and world.holds(tenant):
        world.confirm(tenant)
