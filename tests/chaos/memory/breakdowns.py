"""Faults: requests, watches, processes of the syncer, and stores of tenants.

Each function is one step, as in `tenant_edits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.chaos import faults
from tests.chaos.memory.network import FAULTS
from tests.chaos.memory.tenant_edits import tenant_of

if TYPE_CHECKING:
    from tests.chaos.memory.world import MachineWorld


def _side(world: MachineWorld, number: int) -> str:
    sides = ["super", *(tenant.side for tenant in world.tenants)]
    return sides[number % len(sides)]


def fault(world: MachineWorld, numbers: Sequence[int]) -> None:
    world.faults.armed.append(faults.arm(_side(world, numbers[0]), tuple(FAULTS), numbers))


def cut(world: MachineWorld, numbers: Sequence[int]) -> None:
    """Watches break. What happens before they are back is learnt of when they are."""
    for tap in faults.select_cut(world.faults.of(_side(world, numbers[0])), numbers):
        tap.cut()


def compact(world: MachineWorld, numbers: Sequence[int]) -> None:
    """The history is unknown after a cut, because events are missed."""
    world.at(_side(world, numbers[0])).compact()
    if numbers[1] % 2:
        cut(world, numbers)


def hold(world: MachineWorld, numbers: Sequence[int]) -> None:
    """Watches fall behind, and what they then tell may come twice or in another order."""
    taps = faults.select_held(world.faults.of(_side(world, numbers[0])), numbers)
    for tap in taps:
        tap.hold()
    order = faults.get_order(numbers)
    seconds = (0.05, 1.0, 8.0, 40.0)[numbers[4] % 4]

    def release() -> None:
        for tap in taps:
            tap.release(order)

    world.loop.call_later(seconds, release)


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
