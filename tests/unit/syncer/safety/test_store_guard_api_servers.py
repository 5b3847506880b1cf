"""The store guard and deletions between two API servers in memory: writes and requests."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from kubeio import errors
from syncer.safety import store_guard
from syncer.safety.store_guard import StoreObservation
from tenancy import wellknown
from tenancy.resources import CONFIG_MAPS, NAMESPACES
from tests.support.syncer.two_api_servers import TENANT


async def test_the_first_engagement_marks_both_sides(pair):
    found = pair.store_guard()
    await found.initialize(twin_uid="", stamps=())
    mark = pair.mark()
    (made,) = (each for each in pair.wired["above"].asked if each.method == "POST")
    assert orjson.loads(made.body) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": store_guard.CONFIG_MAP, "namespace": "kube-system"},
        "data": {store_guard.EPOCH_KEY: "1"},
    }
    assert mark["data"] == {store_guard.EPOCH_KEY: "1"}
    assert {each["manager"] for each in mark["metadata"]["managedFields"]} == {wellknown.SYNCER}
    assert pair.remembered() == {
        wellknown.STORE_UID: pair.system(),
        wellknown.STORE_REVISION: mark["metadata"]["resourceVersion"],
        wellknown.STORE_EPOCH: "1",
    }
    root = pair.below.of(NAMESPACES).get("", TENANT.root).decode()
    assert wellknown.SYNCER in {each["manager"] for each in root["metadata"]["managedFields"]}
    assert not found.is_count_due
    assert not found.is_replaced


async def test_a_count_goes_up_on_both_sides_and_a_restart_finds_it_so(pair):
    found = pair.store_guard()
    await found.initialize(twin_uid="", stamps=())
    pair.make(pair.above, CONFIG_MAPS, "default", {"metadata": {"name": "newer"}})
    newer = str(pair.above.revision)
    found.record_write(newer)
    assert found.is_count_due
    await found.advance_epoch()
    assert not found.is_count_due
    mark = pair.mark()
    assert mark["data"] == {store_guard.EPOCH_KEY: "2"}
    assert {each["manager"] for each in mark["metadata"]["managedFields"]} == {wellknown.SYNCER}
    assert pair.remembered()[wellknown.STORE_EPOCH] == "2"
    assert pair.remembered()[wellknown.STORE_REVISION] == mark["metadata"]["resourceVersion"]
    before = [len(pair.writes(side)) for side in ("above", "below")]
    again = pair.store_guard()
    await again.initialize(twin_uid=pair.system(), stamps=(int(newer),))
    await again.advance_epoch() if again.is_count_due else None
    assert [len(pair.writes(side)) for side in ("above", "below")] == before


@pytest.mark.parametrize("side", ["above", "below"])
async def test_a_count_that_arrives_late_puts_nothing_older_in_place_of_a_newer(pair, side):
    """Seed 30004619: an older copy passed for intact, and what it lacked was deleted below."""
    found = pair.store_guard()
    await found.initialize(twin_uid="", stamps=())
    for _ in range(2):
        found.record_write(str(pair.above.revision + 1))
        await found.advance_epoch()
    late = [each for each in pair.wired[side].asked if each.method == "PATCH"][-2]
    remembered, mark = pair.remembered(), pair.mark()
    client = pair.tenant_client if side == "above" else pair.super_client
    content = dict(late.headers)["Content-Type"]
    with pytest.raises(errors.Conflict):
        await client.raw("PATCH", late.target, body=orjson.loads(late.body), content=content)
    assert (pair.remembered(), pair.mark()) == (remembered, mark)
    assert remembered[wellknown.STORE_EPOCH] == mark["data"][store_guard.EPOCH_KEY] == "3"


async def test_a_count_whose_mirror_was_refused_stays_due_until_it_is_there(pair):
    found = pair.store_guard()
    await found.initialize(twin_uid="", stamps=())
    found.record_write(str(pair.above.revision + 1))
    pair.wired["below"].refuses = True
    with pytest.raises(errors.ApiError):
        await found.advance_epoch()
    assert found.is_count_due, "a restart would take a copy from before it for intact"
    pair.wired["below"].refuses = False
    await found.advance_epoch()
    assert (
        pair.remembered()[wellknown.STORE_EPOCH]
        == pair.mark()["data"][store_guard.EPOCH_KEY]
        == "2"
    )
    assert not found.is_count_due


async def test_others_may_write_the_root_namespace_while_it_is_marked(pair):
    found, spaces = pair.store_guard(), pair.below.of(NAMESPACES)
    await found.initialize(twin_uid="", stamps=())
    got, left = pair.super_client.get, [1, 1]

    async def get(*args: Any, **options: Any) -> Any:
        answer = await got(*args, **options)
        if left and left.pop():
            there = spaces.get("", TENANT.root).decode()
            spaces.put({**there, "metadata": {**there["metadata"], "labels": {"n": str(left)}}})
        return answer

    pair.super_client.get = get
    found.record_write(str(pair.above.revision + 1))
    await found.advance_epoch()
    assert pair.remembered()[wellknown.STORE_EPOCH] == "2"
    left[:] = [1, 1, 1]
    found.record_write(str(pair.above.revision + 1))
    with pytest.raises(errors.Conflict):
        await found.advance_epoch()
    assert pair.remembered()[wellknown.STORE_EPOCH] == "2"


async def test_a_root_namespace_that_was_recreated_remembers_nothing_of_the_old_one(pair):
    found = pair.store_guard()
    await found.initialize(twin_uid="", stamps=())
    spaces = pair.below.of(NAMESPACES)
    spaces.remove(spaces.get("", TENANT.root).decode())
    pair.make(pair.below, NAMESPACES, "", {"metadata": {"name": TENANT.root}})
    found.record_write(str(pair.above.revision + 1))
    with pytest.raises(errors.ApiError):
        await found.advance_epoch()
    assert pair.remembered() == {}


async def test_a_look_asks_for_two_things_alone(pair):
    for name in ("aaa", "zzz"):
        body = {"metadata": {"name": name}, "data": {store_guard.EPOCH_KEY: "7"}}
        pair.make(pair.above, CONFIG_MAPS, "kube-system", body)
    found = await store_guard.observe_store(pair.tenant_client)
    assert found == StoreObservation(
        uid=pair.system(), revision=pair.above.revision, epoch=0, epoch_revision=0
    )
    system, mark = pair.wired["above"].asked
    assert system.target == "/api/v1/namespaces/kube-system"
    assert "PartialObjectMetadata" in dict(system.headers)["Accept"]
    assert mark.target == (
        "/api/v1/namespaces/kube-system/configmaps"
        f"?fieldSelector=metadata.name%3D{store_guard.CONFIG_MAP}"
    )


async def test_a_store_without_its_system_namespace_belongs_to_no_tenant(pair):
    spaces = pair.above.of(NAMESPACES)
    spaces.remove(spaces.get("", "kube-system").decode())
    found = await store_guard.observe_store(pair.tenant_client)
    assert (found.uid, found.epoch, found.epoch_revision) == ("", 0, 0)


async def test_one_look_serves_all_that_waited_for_it(pair):
    found = pair.store_guard()
    await found.initialize(twin_uid="", stamps=())
    before = time.monotonic()
    await found.refresh()
    asked = len(pair.wired["above"].asked)
    await found.verify_store(before)
    assert len(pair.wired["above"].asked) == asked
    await found.verify_store(time.monotonic())
    assert len(pair.wired["above"].asked) == asked + 2


async def test_what_came_down_before_the_mark_is_counted_and_needs_no_other(pair):
    found = pair.store_guard()
    await found.initialize(twin_uid="", stamps=())
    revision = pair.mark()["metadata"]["resourceVersion"]
    found.record_write(revision)
    assert not found.is_count_due
    await found.advance_epoch()
    assert pair.mark()["data"] == {store_guard.EPOCH_KEY: "1"}
    found.record_write(str(int(revision) + 1))
    assert found.is_count_due


async def test_a_confirmed_store_is_the_tenants_own_from_then_on(pair):
    found = pair.store_guard()
    await found.initialize(twin_uid="", stamps=())
    old = pair.system()
    pair.replace()
    await found.refresh()
    assert found.is_held
    assert not await found.accept_store(old)
    assert await found.accept_store(pair.system())
    assert (found.problem, found.is_held) == (None, False)
    assert pair.mark()["data"] == {store_guard.EPOCH_KEY: "2"}
    assert pair.remembered() == {
        wellknown.STORE_UID: pair.system(),
        wellknown.STORE_REVISION: pair.mark()["metadata"]["resourceVersion"],
        wellknown.STORE_EPOCH: "2",
    }
    assert not found.is_count_due
    await found.refresh()
    assert not found.is_held
    found.record_write(str(pair.above.revision + 1))
    assert found.is_count_due


async def test_a_confirmation_that_could_not_be_written_is_for_that_store_alone(pair):
    found = pair.store_guard()
    await found.initialize(twin_uid="", stamps=())
    pair.replace()
    await found.refresh()
    younger = pair.above.save()
    pair.make(pair.above, CONFIG_MAPS, "default", {"metadata": {"name": "newer"}})
    pair.wired["above"].refuses = True
    with pytest.raises(errors.Forbidden):
        await found.accept_store(pair.system())
    assert found.is_held
    pair.wired["above"].refuses = False
    meant = pair.above.save()
    pair.above.restore(younger)
    await found.refresh()
    assert str(found.problem).startswith("its revision is lower than ")
    pair.replace()
    await found.refresh()
    assert "not the etcd that was synced before" in str(found.problem)
    pair.above.restore(meant, bump=100_000)
    await found.refresh()
    assert f"{store_guard.CONFIG_MAP} is missing" in str(found.problem)
    assert await found.accept_store(pair.system())
    assert not found.is_held


async def test_a_store_is_known_by_what_was_last_written(pair):
    """The record that a count leaves is what later looks are held against."""
    found = pair.store_guard()
    await found.initialize(twin_uid="", stamps=())
    old = pair.above.save()
    for number in range(3):
        pair.make(pair.above, CONFIG_MAPS, "default", {"metadata": {"name": f"n{number}"}})
    found.record_write(str(pair.above.revision))
    await found.advance_epoch()
    newest = pair.above.save()
    pair.above.restore(old)
    await found.refresh()
    assert str(found.problem).startswith("its revision is lower than ")
    pair.above.restore(newest)
    await found.refresh()
    assert found.problem is None
    pair.above.restore(old, bump=100_000)
    await found.refresh()
    assert "epoch 1 is lower than 2" in str(found.problem)
