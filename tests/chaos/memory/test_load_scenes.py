"""Rows of reliability as scenes: much of the same in a short time."""

from __future__ import annotations

import random
from collections.abc import Callable

from tenancy.resources import PODS
from tests.chaos.memory import tenant_edits as edits
from tests.chaos.memory.happenings import T0, WEB, asked, config_map, holds, pod, space
from tests.chaos.memory.scenes import play
from tests.chaos.memory.world import MachineWorld


def test_a_name_is_used_again_and_again():
    """REL-07: a thousand lives of pods under one name, some of them within one request."""
    chance = random.Random(7)  # noqa: S311 - the same at each run
    turns = [(chance.randrange(4), chance.choice((0.0, 0.002, 0.01, 0.1))) for _ in range(1000)]

    def again(grace: int) -> Callable[[MachineWorld], None]:
        def renewed(world: MachineWorld) -> None:
            if grace == 3:
                edits.end_pod(world, (0, 1, 0, grace))
            else:
                edits.renew_pod(world, (0, 1, 0, 0, 0))

        return renewed

    outcome = play((pod(), 4.0), *((again(grace), pause) for grace, pause in turns))
    holds(outcome)


def test_a_map_that_fifty_pods_use_is_written_once():
    """REL-81: no pod is written for it."""

    def pods(world: MachineWorld) -> None:
        for number in range(50):
            body = edits.pod(world.tenants[0], f"p{number}", (0, 1, 0, 1, 0))
            world.make(world.tenants[0].cluster, PODS, WEB, body)

    began = T0 + 20
    outcome = play((space, 1.0), (config_map(0), 0.0), (pods, 19.0), (config_map(1), 10.0))
    holds(outcome)
    writes = ("POST", "PUT", "PATCH", "DELETE")
    maps = asked(outcome, "super", *writes, path="/configmaps")
    assert len([at for at in maps if at >= began]) == 1
    assert [at for at in asked(outcome, "super", *writes, path="/pods") if at >= began] == []


def test_readiness_that_flips_twenty_times_a_second():
    """REL-82: the tenant is told the latest, and no oftener than once a second."""

    def flip(number: int) -> Callable[[MachineWorld], None]:
        def flipped(world: MachineWorld) -> None:
            collection = world.below.of(PODS)
            stored = collection.get(world.tenants[0].below(WEB), "a")
            assert stored is not None
            body = stored.decode()
            ready = ("True", "False")[number % 2]
            body["status"]["conditions"] = [
                {**each, "status": ready} if each["type"] == "Ready" else each
                for each in body["status"]["conditions"]
            ]
            collection.put(body)

        return flipped

    began = T0 + 5
    outcome = play((pod(), 5.0), *((flip(number), 0.05) for number in range(2401)))
    holds(outcome)
    writes = [at for at in asked(outcome, "tenant0", "PATCH", "PUT", path="/status") if at >= began]
    assert 2 < len(writes) <= 120
