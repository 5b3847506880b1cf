"""A Service with pods in several super clusters: told once, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.cache.store import Entry
from syncer.controllers.pods import split_services
from syncer.model.keys import HOME
from syncer.placement.service_clusters import AssignedService
from tests.support.syncer.sessions import SessionWorld
from tests.support.syncer.two_clusters import SplitWorld


@pytest.fixture
def split() -> SplitWorld:
    made = SplitWorld()
    made.above.refusals["get Event"] = errors.NotFound("none")
    return made


def pod(split: SplitWorld, name: str, node: str, app: str = "web") -> Entry:
    return split.pod(name, nodeName=node, metadata={"labels": {"app": app}})


def service(world: SessionWorld, name: str = "web", **selector: str) -> None:
    world.tenant_has("Service", name, spec={"selector": selector} if selector else {})


async def test_it_is_reported_with_the_first_that_is_elsewhere_and_not_again(split: SplitWorld):
    service(split, app="web")
    service(split, "other", app="other")
    service(split, "headless")
    await split_services.report_split_services(pod(split, "a", "n"), split.session)
    await split_services.report_split_services(pod(split, "b", "n"), split.session)
    assert split.told() == []
    for name in ("c", "d"):
        await split_services.report_split_services(pod(split, name, "target-c2"), split.far)
    await split_services.report_split_services(pod(split, "e", "n"), split.session)
    assert split.told() == [split_services.PODS_IN_SEVERAL_CLUSTERS]
    assert split.link.service_clusters.is_split("web-uid"), "and it is not looked at again"
    about: Any = split.above.bodies[-1]
    assert (about["involvedObject"]["kind"], about["involvedObject"]["name"]) == ("Service", "web")
    assert "c2" not in about["message"], "the same words whoever comes next, and one Event"


async def test_the_pods_of_a_namespace_are_looked_at_once_and_not_with_each(
    split: SplitWorld, monkeypatch: pytest.MonkeyPatch
):
    service(split, app="web")
    pod(split, "far", "target-c2", app="other")
    looked: list[str] = []
    seat_of = split.link.assignments.get_cluster
    found = [pod(split, f"p{number}", "n") for number in range(20)]
    monkeypatch.setattr(
        split.link.assignments, "get_cluster", lambda each: looked.append("") or seat_of(each)
    )
    get_selector = split_services._get_selector
    monkeypatch.setattr(
        split_services,
        "_get_selector",
        lambda each: (looked.append("selector"), get_selector(each))[1],
    )
    for each in found:
        await split_services.report_split_services(each, split.session)
    assert looked.count("selector") == 1
    assert len(looked) <= 1 + len(found)
    await split_services.report_split_services(pod(split, "c", "target-c2"), split.far)
    assert split.told() == [split_services.PODS_IN_SEVERAL_CLUSTERS]


async def test_where_nothing_is_elsewhere_no_service_is_looked_at(split: SplitWorld):
    service(split, app="web")
    found = pod(split, "a", "n")
    split.session.stores.pop("Service")  # type: ignore[attr-defined]
    await split_services.report_split_services(found, split.session)


async def test_what_could_not_be_reported_is_reported_with_the_next_pod(split: SplitWorld):
    service(split, app="web")
    pod(split, "a", "n")
    split.above.refusals["create Event"] = errors.Unavailable("silent")
    with pytest.raises(errors.Unavailable):
        await split_services.report_split_services(pod(split, "c", "target-c2"), split.far)
    split.above.refusals.pop("create Event")
    before = len(split.above.asked)
    await split_services.report_split_services(pod(split, "b", "n"), split.session)
    assert [each[:2] for each in split.above.asked[before:]][-1:] == [("create", "Event")]
    assert split.link.service_clusters.is_split("web-uid")


@pytest.mark.parametrize("is_live", [True, False])
async def test_a_service_that_is_gone_is_remembered_no_more(split: SplitWorld, is_live: bool):
    service(split, app="web")
    service(split, "kept", app="web")
    known = split.link.service_clusters
    known._services["web-uid"] = AssignedService("1", {}, HOME)
    known._split |= {"web-uid", "kept-uid"}
    store = split.link.stores["Service"]
    store.discard(next(each for each in store.list() if each.name == "web"), live=is_live)
    assert (known._split, known._services) == ({"kept-uid"}, {})


async def test_pods_without_a_cluster_or_of_another_service_do_not_count(split: SplitWorld):
    service(split, app="web")
    pod(split, "o", "target-c2", app="other")
    split.pod("waits", metadata={"labels": {"app": "web"}})
    await split_services.report_split_services(pod(split, "a", "n"), split.session)
    assert split.told() == []


async def test_without_targets_no_one_looks():
    world = SessionWorld()
    service(world, app="web")
    entry = world.tenant_has("Pod", "a", metadata={"labels": {"app": "web"}}, spec={})
    world.session.stores.pop("Service")  # type: ignore[attr-defined]
    await split_services.report_split_services(entry, world.session)
