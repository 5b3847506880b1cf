"""A Service with pods in several super clusters: told once, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.store import Entry
from syncer.flows import spread
from tests.unit.syncer.sessions import World
from tests.unit.syncer.test_seats import Split


@pytest.fixture
def split() -> Split:
    made = Split()
    made.above.refusals["get Event"] = errors.NotFound("none")
    return made


def pod(split: Split, name: str, node: str, app: str = "web") -> Entry:
    return split.pod(name, nodeName=node, metadata={"labels": {"app": app}})


def service(world: World, name: str = "web", **selector: str) -> None:
    world.tenant_has("Service", name, spec={"selector": selector} if selector else {})


async def test_it_is_told_with_the_first_that_is_elsewhere_and_not_again(split: Split):
    service(split, app="web")
    service(split, "other", app="other")
    service(split, "headless")
    await spread.look(pod(split, "a", "n"), split.session)
    await spread.look(pod(split, "b", "n"), split.session)
    assert split.told() == []
    for name in ("c", "d"):
        await spread.look(pod(split, name, "target-c2"), split.far)
    await spread.look(pod(split, "e", "n"), split.session)
    assert split.told() == [spread.REASON]
    assert split.link.seats.spread == {"web-uid"}, "and it is not looked at again"
    about: Any = split.above.bodies[-1]
    assert (about["involvedObject"]["kind"], about["involvedObject"]["name"]) == ("Service", "web")
    assert "c2" not in about["message"], "the same words whoever comes next, and one Event"


async def test_pods_without_a_seat_or_of_another_service_do_not_count(split: Split):
    service(split, app="web")
    pod(split, "o", "target-c2", app="other")
    split.pod("waits", metadata={"labels": {"app": "web"}})
    await spread.look(pod(split, "a", "n"), split.session)
    assert split.told() == []


async def test_without_targets_nobody_looks():
    world = World()
    service(world, app="web")
    entry = world.tenant_has("Pod", "a", metadata={"labels": {"app": "web"}}, spec={})
    world.session.stores.pop("Service")  # type: ignore[attr-defined]
    await spread.look(entry, world.session)
